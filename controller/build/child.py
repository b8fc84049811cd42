"""Renders in a child process with limited address space, so that a bundle that is too large fails alone.

The child runs the same code on the same request (rendering.py) and returns the revision compressed, as the revision
store keeps it, so that it uses little memory until it is unpacked. Request and response are files in the scratch
folder. If the system runs out of memory, the kernel kills the child first.

Not here: which renderings need a child (builder.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from threading import Event
from typing import Any

from api.errors import BundleError
from api.plugins import MEBIBYTE, Capabilities, ContentTree, Limits, Means, RenderRequest
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import Processor
from controller.build.confidential import Confidential
from controller.build.rendering import render
from controller.build.revision import PackedRevision, pack, pack_terms, unpack_terms
from controller.content.disk import disk_errors_reported
from controller.content.limits import describe_bytes
from controller.content.store import refused_from_json, refused_to_json
from controller.formats.manifests import estimate
from controller.processes.programs import STARTING, ProcessGroup, confined

_REQUEST, _TERMS, _OBJECTS, _ERROR, _STDERR = "request", "terms", "objects", "error", "stderr"
_PROGRAM_BYTES = 160 * MEBIBYTE
"""Address space of the interpreter and our modules, which use a quarter of it."""
_STDERR_BYTES = 4096
_OUT_OF_MEMORY = 12  # exit status: ENOMEM


def address_space(limits: Limits) -> int:
    """Return the bytes of address space that a child needs for what the budgets allow."""
    return estimate(limits.text_bytes, limits) + _PROGRAM_BYTES


def render_in_child(
    format_name: str,
    request: RenderRequest,
    processors: Sequence[Processor] = (),
    confidential: Confidential | None = None,
) -> PackedRevision:
    """Return the result of `render` in a child process.

    Raises: BundleError with a reason of Installed: what `render` raises; RenderLimitExceeded over memory or time.
    """
    means = request.means
    if means.scratch is None:
        raise RuntimeError("rendering in a child needs a scratch folder")
    folder = means.scratch / "child"
    with disk_errors_reported("content store"):
        folder.mkdir()
        written = _write_request(format_name, request, processors)
        written["confidential"] = confidential and asdict(confidential)
        (folder / _REQUEST).write_text(json.dumps(written), encoding="utf-8")
        status = _run(folder, means)
    if (folder / _ERROR).exists():
        error = json.loads((folder / _ERROR).read_bytes())
        raise BundleError(Reason(error["reason"]), error["message"])
    if status == _OUT_OF_MEMORY or status < 0:
        problem = f"rendering needs more than {describe_bytes(address_space(means.limits))} of memory"
        raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{problem}; split the bundle")
    if status:
        stderr = (folder / _STDERR).read_bytes()[-_STDERR_BYTES:].decode(errors="replace")
        raise RuntimeError(f"rendering in a child failed with status {status}: {stderr}")
    digest, _, terms = (folder / _TERMS).read_bytes().partition(b"\n")
    return unpack_terms(digest.decode(), terms, (folder / _OBJECTS).read_bytes())


def _run(folder: Path, means: Means) -> int:
    """Run the child and return its exit status."""
    limits = {"as": address_space(means.limits), "core": 0, "cpu": int(means.seconds) + 1}
    command = confined([sys.executable, "-P", "-m", __name__, str(folder)], **limits)
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "MALLOC_ARENA_MAX": "1", "LC_ALL": "C.UTF-8"}
    quiet = subprocess.DEVNULL
    with (folder / _STDERR).open("wb") as stderr:
        with STARTING:
            process = subprocess.Popen(
                command, stdin=quiet, stdout=quiet, stderr=stderr, env=environment, cwd="/", start_new_session=True
            )
        deadline = time.monotonic() + means.seconds
        with ProcessGroup(process) as group:
            return group.wait(lambda: _check(deadline, means))


def _check(deadline: float, means: Means) -> None:
    if means.cancelled.is_set():
        raise BundleError(Reason.RENDER_FAILED, "canceled: the result is no longer needed")
    if time.monotonic() >= deadline:
        problem = f"timed out: rendering takes more than {means.seconds:g} s"
        raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{problem}; split the bundle or raise --render-timeout")


def _write_request(format_name: str, request: RenderRequest, processors: Sequence[Processor]) -> dict[str, Any]:
    """Return a request as JSON, with only those of its means that limit text: a child runs no program."""
    return {
        "format": format_name,
        "name": request.name,
        "installNamespace": request.install_namespace,
        "root": str(request.tree.root),
        "destinations": list(request.tree.destinations),
        "refused": refused_to_json(request.tree.refused),
        "config": request.config,
        "kubernetesVersion": request.capabilities.kubernetes_version,
        "kinds": [[*kind, scope] for kind, scope in request.capabilities.kinds.items()],
        "unknown": sorted(request.capabilities.unknown),
        "scratch": str(request.means.scratch),
        "limits": asdict(request.means.limits),
        "processors": [each.model_dump(mode="json", by_alias=True, exclude_unset=True) for each in processors],
    }


def _read_request(value: Mapping[str, Any]) -> RenderRequest:
    return RenderRequest(
        name=value["name"],
        install_namespace=value["installNamespace"],
        tree=ContentTree(
            root=Path(value["root"]),
            destinations=tuple(value["destinations"]),
            refused=refused_from_json(value["refused"]),
        ),
        config=value["config"],
        capabilities=Capabilities(
            kubernetes_version=value["kubernetesVersion"],
            kinds={(group, version, kind): scope for group, version, kind, scope in value["kinds"]},
            unknown=frozenset(value["unknown"]),
        ),
        means=Means(scratch=Path(value["scratch"]), cancelled=Event(), limits=Limits(**value["limits"])),
    )


def _read_confidential(value: Mapping[str, Any]) -> Confidential | None:
    found = value["confidential"]
    return Confidential(secrets=tuple(found["secrets"]), public=found["public"]) if found else None


def _read_processors(value: Mapping[str, Any]) -> list[Processor]:
    return [Processor.model_validate(each) for each in value["processors"]]


# the child


def main(folder: Path) -> None:
    """Render the request in a folder, and write the response there."""
    with suppress(OSError):  # where procfs is read-only
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    value = json.loads((folder / _REQUEST).read_bytes())
    try:
        with disk_errors_reported("content store"):
            made = render(value["format"], _read_request(value), _read_processors(value), _read_confidential(value))
            revision = pack(made)
            (folder / _OBJECTS).write_bytes(revision.objects)
            (folder / _TERMS).write_bytes(revision.digest.encode() + b"\n" + pack_terms(revision))
    except BundleError as error:
        (folder / _ERROR).write_text(json.dumps({"reason": error.reason.value, "message": error.message}), "utf-8")
    except MemoryError:
        os._exit(_OUT_OF_MEMORY)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
