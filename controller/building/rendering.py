"""From a content tree to a revision: a format renders objects, processors change them, and they are made applicable.

Pure, and independent of sources and store. What is too large for this process is rendered in a child with limited
address space, so that it fails alone. The child runs the same code on the same request, and returns the revision
compressed, as the revision store keeps it, so that it uses little memory until it is unpacked. Request and response are
files in the scratch folder; an error needs no space on a disk. If the system runs out of memory, the kernel kills the
child first.

- Ownership is not for processors to change: labels and annotations of the controller are removed before the first one,
  and refused after each. So is an object without a valid identity, and more text than a revision may have.
- Names of rendered objects must not contain values of Secrets, because status, Events and logs show them to everybody;
  nor what else messages and the list of permissions quote: rules and subjects of RBAC, names in
  CustomResourceDefinitions and pod templates, and annotations for the controller. A text that is in the content itself,
  packed or not, is nobody's secret. Refusals say where it is, and not what it is.

Not here: which renderings need a child (builder.py).
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from io import BytesIO
from pathlib import Path
from threading import Event
from typing import Any, BinaryIO

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.plugins import (
    MEBIBYTE,
    Capabilities,
    ContentTree,
    Hook,
    Limits,
    Lookup,
    Means,
    PrepareRequest,
    PreparesContent,
    ProcessRequest,
    ReadsPart,
    ReadsSecrets,
    Rendering,
    RenderRequest,
)
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.processors import Processor
from rukpak.api.v1alpha2.status import BUNDLE_LENGTH
from rukpak.controller.building.config_values import (
    Confidential,
    SecretValues,
    find_key_words,
    plugins_of,
    secret_finder,
    withhold_values,
)
from rukpak.controller.building.entry_points import count_failure, format_of
from rukpak.controller.building.guarding import PluginError
from rukpak.controller.building.revision import PackedRevision, Revision, Terms, pack, pack_terms, unpack_terms
from rukpak.controller.content.disk import disk_errors_reported, walk
from rukpak.controller.content.limits import Rejection, collapse, describe_bytes, quote, read_exactly
from rukpak.controller.content.store import replace_files
from rukpak.controller.content.tar import is_compressed, read_tar
from rukpak.controller.formats.applicable import (
    custom_kinds,
    find_kinds_to_know,
    find_reserved_marks,
    make_applicable,
    revision_digest,
    scopes_of_crds,
    without_reserved_marks,
)
from rukpak.controller.formats.helm.failures import make_redactor
from rukpak.controller.formats.helm.lookups import UnansweredError
from rukpak.controller.formats.helm.values import scalars_of
from rukpak.controller.formats.manifests import TextBudget, estimate
from rukpak.controller.formats.objects import (
    Object,
    find_identity_problems,
    find_pod_template,
    group_of,
    identify,
    list_containers,
    refuse,
)
from rukpak.controller.formats.programs import scratch_of
from rukpak.controller.processes.programs import STARTING, ProcessGroup, confined
from rukpak.controller.processors import Charge, change_each
from rukpak.controller.untrusted import Steps, TooManyStepsError, mapping, text

_RBAC = "rbac.authorization.k8s.io"
_CRD = ("apiextensions.k8s.io", "CustomResourceDefinition")
_OF_RBAC = ("rules", "roleRef", "subjects", "aggregationRule")
_OF_PODS = ("serviceAccountName", "priorityClassName")
_DEPTH = 4  # archives in each other: packed charts with packed dependencies
_MOST_WORK = 2_000_000_000  # bytes that are compared, about a second; what is not found by then counts as secret
_HEAD_BYTES = 512
MOST_STEPS = 10_000_000
"""For all processors of a BundleDeployment."""
_STEP_BYTES = 32
"""Bytes of text per object, changed in one step."""
_ENCODE = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
_NOTHING = "the bundle renders no objects"
_HELM, _LOCAL = "helm", "config.kubernetes.io/local-config"


def refuse_secret_names(rendering: Rendering, confidential: Confidential, request: RenderRequest) -> None:
    """Refuse a rendering with values of Secrets in names, unless they are in the content, too.

    Raises: BundleError (InvalidConfig).
    """
    kinds = (word for kind in request.capabilities.kinds for word in kind)
    find_secrets = secret_finder(confidential, [request.name, request.install_namespace, *kinds])
    found = [(place, text) for place, name in _names_in(rendering) for text in find_secrets(name)]
    if not found:
        return
    known = _find_in_content(request.tree.root, {text for _, text in found}, request.means.limits)
    if place := next((place for place, text in found if text not in known), ""):
        problem = f"{place} contains a value of a Secret, and everybody who can read BundleDeployments can see it there"
        remedy = "take it from a ConfigMap or spec.config if it is not secret, or change the bundle"
        raise BundleError(Reason.INVALID_CONFIG, f"{confidential.place}: {problem}; {remedy}")


def without_secrets(warning: str, confidential: Confidential) -> str:
    """Return a warning of a format; without its text if it contains a value of a Secret."""
    if any(secret_finder(confidential)(warning)):
        return "a warning about the bundle is not shown, because it contains a value of a Secret"
    return warning


def _names_in(rendering: Rendering) -> Iterator[tuple[str, str]]:
    for index, item in enumerate(rendering.objects):
        yield from _names_of(item, f"objects[{index}]")
    for index, hook in enumerate(rendering.hooks):
        yield from _names_of(hook.manifest, f"hooks[{index}]")


def _names_of(item: Object, place: str) -> Iterator[tuple[str, str]]:
    metadata = mapping(item, "metadata")
    fields = {"apiVersion": item.get("apiVersion"), "kind": item.get("kind")}
    fields |= {f"metadata.{field}": metadata.get(field) for field in ("name", "namespace")}
    notes = mapping(metadata, "annotations")
    fields |= {"metadata.annotations": [note for key, note in notes.items() if str(key).startswith(names.GROUP)]}
    group, kind = group_of(item), item.get("kind")
    if group == _RBAC:
        fields |= {field: item.get(field) for field in _OF_RBAC}
    if (group, kind) == _CRD:
        spec = mapping(item, "spec")
        fields |= {"spec.group": spec.get("group"), "spec.names": spec.get("names")}
    if template := find_pod_template(item):
        pod, path = mapping(template[1], "spec"), ".".join(filter(None, (template[0], "spec")))
        fields |= {f"{path}.{field}": pod.get(field) for field in _OF_PODS}
        fields |= {f"{where}.name": container.get("name") for where, container in list_containers(pod, path)}
    yield from (
        (f"{place}.{field}", text) for field, value in fields.items() for text in scalars_of(value, with_keys=True)
    )


# the content


def _find_in_content(root: Path, wanted: Collection[str], limits: Limits) -> set[str]:
    missing, work = {text: text.encode() for text in wanted}, 0
    for data in _texts_below(root, limits):
        work += len(data) * len(missing)
        if not missing or work > _MOST_WORK:
            break
        text = data.lower()
        missing = {name: each for name, each in missing.items() if each not in text}
    return set(wanted) - missing.keys()


def _texts_below(root: Path, limits: Limits) -> Iterator[bytes]:
    for item in walk(root):
        yield item.path.encode(errors="surrogateescape")
        if not item.is_folder:
            with (root / item.path).open("rb") as file:
                yield from _texts_in(file, limits, _DEPTH)


def _texts_in(file: BinaryIO, limits: Limits, depth: int) -> Iterator[bytes]:
    head = file.read(_HEAD_BYTES)
    file.seek(0)
    if not is_compressed(head):
        yield file.read(limits.manifest_bytes)
    elif depth:
        with suppress(Rejection):  # the format has read it, or has no use for it
            for entry in read_tar(file, limits):
                yield entry.path.encode(errors="surrogateescape")
                if entry.data is not None:
                    data = read_exactly(entry.data, min(entry.size, limits.manifest_bytes))
                    yield from _texts_in(BytesIO(data), limits, depth - 1)


def prepare(
    processors: Sequence[Processor], request: RenderRequest, secrets: SecretValues, hidden: list[str]
) -> RenderRequest:
    """Return a request with the content as processors prepare it.

    Args:
        processors: `spec.processors`, checked.
        request: with a scratch folder.
        secrets: of the install namespace, as far as processors need them.
        hidden: gets the texts in the content that must not be shown, of an error neither.

    Raises: BundleError (InvalidConfig, and what the processors raise).
    """
    for index, (place, processor, plugin) in enumerate(plugins_of(processors)):
        if not isinstance(plugin, PreparesContent):
            continue
        asked = PrepareRequest(
            name=request.name,
            parameters=processor.parameters_json,
            path=f"{place}{processor.block}",
            tree=request.tree,
            secrets=_secrets_of(plugin, processor, secrets),
            means=request.means,
        )
        prepared = plugin.prepare(asked)
        hidden += prepared.secrets
        if prepared.unprepared:
            unprepared = {**request.tree.unprepared, **prepared.unprepared}
            request = replace(request, tree=replace(request.tree, unprepared=unprepared))
        if prepared.files:
            request = replace(request, tree=_replace_files(request, prepared.files, asked.path, index))
    return request


def _replace_files(request: RenderRequest, files: Mapping[str, bytes], path: str, index: int) -> ContentTree:
    limits = request.means.limits
    for name, data in files.items():
        if len(data) > limits.file_bytes:
            problem = f"{path}: {quote(name)} exceeds the limit of {describe_bytes(limits.file_bytes)} for one file"
            raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{problem}; split it")
    request.means.occupy(sum(map(len, files.values())))
    folder = scratch_of(request.means) / f"prepared-{index}"
    shutil.rmtree(folder, ignore_errors=True)  # of a rendering that was too large for this process
    with disk_errors_reported("content store"):
        return replace_files(request.tree, files, folder, path)


def _secrets_of(plugin: object, processor: Processor, secrets: SecretValues) -> SecretValues:
    names = plugin.find_secrets(processor.parameters_json) if isinstance(plugin, ReadsSecrets) else ()
    return {name: secrets[name] for name in names if name in secrets}


def process(
    processors: Sequence[Processor], rendering: Rendering, request: RenderRequest, secrets: SecretValues | None = None
) -> Rendering:
    """Return a rendering as the processors of a spec change it, in order.

    Args:
        processors: `spec.processors`, checked.
        rendering: of the format.
        request: what it was rendered from, with the install namespace.
        secrets: of the install namespace, as far as processors need them.

    Raises: BundleError (InvalidConfig, InvalidBundle, RenderLimitExceeded, UnknownProcessor); LargeTextError.
    """
    if not processors:
        return rendering
    refuse(find_identity_problems(rendering.objects))
    rendering = change_each(rendering, without_reserved_marks)
    steps = Steps(MOST_STEPS)
    for place, processor, plugin in plugins_of(processors):
        asked = ProcessRequest(
            name=request.name,
            install_namespace=request.install_namespace,
            parameters=processor.parameters_json,
            path=f"{place}{processor.block}",
            rendering=rendering,
            capabilities=request.capabilities,
            charge=_charge_to(TextBudget.of(request.means), steps, place, request.means.cancelled),
            secrets=_secrets_of(plugin, processor, secrets or {}),
            unprepared=request.tree.unprepared,
            means=request.means,
        )
        try:
            made = plugin.process(asked)
            # Most processors pass on what they were given: without duplicates, or there are twice as many each time.
            rendering = replace(made, secrets=tuple(dict.fromkeys((*rendering.secrets, *made.secrets))))
            _check(rendering, place, TextBudget.of(request.means))
        except RecursionError:
            raise BundleError(
                Reason.INVALID_CONFIG, f"{place}: makes objects too deeply nested; flatten them"
            ) from None
        except BundleError as error:
            raise _withhold(error, rendering.secrets, {}) from None
    return rendering


def _charge_to(budget: TextBudget, left: Steps, place: str, cancelled: Event) -> Charge:
    def _charge(text_bytes: int, steps: int) -> None:
        if cancelled.is_set():
            raise BundleError(Reason.RENDER_FAILED, "canceled: the result is no longer needed")
        budget.charge_text(text_bytes, place, is_manifest=False)
        try:
            left.spend(steps + text_bytes // _STEP_BYTES)
        except TooManyStepsError:
            problem = "changes too many objects in too many ways"
            raise BundleError(
                Reason.RENDER_LIMIT_EXCEEDED, f"{problem}; change more in the bundle", place=place
            ) from None

    return _charge


def _check(rendering: Rendering, place: str, budget: TextBudget) -> None:
    manifests = [*rendering.objects, *(hook.manifest for hook in rendering.hooks)]
    for problem in find_identity_problems(manifests):
        raise BundleError(Reason.INVALID_CONFIG, f"makes an invalid object: {problem}", place=place)
    for item in manifests:
        for mark in find_reserved_marks(item):
            problem = f"sets {mark} of {identify(item)}, which belongs to the controller"
            raise BundleError(Reason.INVALID_CONFIG, f"{problem}; remove it", place=place)
        budget.charge_text(len(_ENCODE(item)), place, is_manifest=False)


@dataclass(frozen=True, slots=True)
class Task:
    """What is rendered, by what, and what is secret of it."""

    format: str
    request: RenderRequest
    """Its config was checked; if its install namespace is '', the format suggests one."""
    processors: Sequence[Processor] = ()
    """Checked."""
    confidential: Confidential | None = None
    """Given if values of Secrets are in the config, or processors need some."""
    secrets: SecretValues = field(default_factory=dict, repr=False)
    """Of the install namespace, as far as processors need them."""


def render(task: Task) -> Revision:
    """Return the revision of a content tree; of its terms, only the install namespace is set.

    Raises: BundleError with a reason of Installed, or that of a path of the content that must not be read;
        LargeTextError.
    """
    request, processors, secrets = task.request, task.processors, task.secrets
    plugin = format_of(task.format)
    if not isinstance(plugin, ReadsPart):
        request.tree.check(lambda _path: True)
    content, hidden = request.tree, list[str]()
    try:
        request = prepare(processors, request, secrets, hidden)
        namespace = request.install_namespace or plugin.suggest_namespace(request.tree, request.config)
        request = replace(request, install_namespace=namespace)
        rendering = plugin.render(request)
        hidden = [*hidden, *rendering.secrets]
        rendering = replace(rendering, secrets=hidden)
        # Before anything that names an object can fail.
        rendering = _without_secrets(rendering, task.confidential, request, content)
        bundle = collapse(rendering.bundle)[:BUNDLE_LENGTH]
        if processors:
            rendering = process(processors, rendering, request, secrets)
            hidden = [*rendering.secrets]
            rendering = _without_secrets(rendering, task.confidential, request, content)
        if processors or task.format != _HELM:  # what Helm installs of a chart does not depend on it
            rendering = _without_local(rendering)
        terms = Terms(inputs="", install_namespace=namespace, bundle=bundle)
        return _revision_of(rendering, terms, request.capabilities)
    except UnansweredError:
        raise
    except BundleError as error:
        raise _withhold(error, hidden, secrets) from None


def _without_local(rendering: Rendering) -> Rendering:
    # Left out only now, as kpt and kustomize do: processors have to see these objects.
    kept = [each for each in rendering.objects if text(each, "metadata", "annotations", _LOCAL) != "true"]
    return rendering if len(kept) == len(rendering.objects) else replace(rendering, objects=kept)


def _withhold(error: BundleError, hidden: Sequence[str], secrets: SecretValues) -> BundleError:
    if not (secrets or hidden):
        return error
    values = [*hidden, *find_key_words(secrets)]
    if isinstance(error, PluginError):  # names keys of objects
        redact = make_redactor(values)
        return PluginError(error.plugin, redact(error.problem), redact(error.place))
    if hidden:
        return withhold_values(error, values)
    return error.reworded(make_redactor(values)(error.message))


def _without_secrets(
    rendering: Rendering, confidential: Confidential | None, request: RenderRequest, content: ContentTree
) -> Rendering:
    """Return a rendering without secrets in its warnings and in what the bundle calls itself.

    Args:
        rendering: with what it holds of secrets itself.
        confidential: what of the config is secret.
        request: what it was rendered from.
        content: as it was fetched: a text in it is nobody's secret.

    Raises: BundleError (InvalidConfig) if a name contains a secret.
    """
    if rendering.secrets:
        known = confidential or Confidential(secrets=(), public=f"{request.name}\n{json.dumps(request.config)}")
        confidential = replace(known, secrets=(*known.secrets, *rendering.secrets))
    if confidential is None:
        return rendering
    refuse_secret_names(rendering, confidential, replace(request, tree=content))
    warnings = [without_secrets(warning, confidential) for warning in rendering.warnings]
    bundle = "" if any(secret_finder(confidential)(rendering.bundle)) else rendering.bundle
    return replace(rendering, warnings=tuple(warnings), bundle=bundle)


def _revision_of(rendering: Rendering, terms: Terms, capabilities: Capabilities) -> Revision:
    scopes = scopes_of_crds(rendering.objects)
    custom = {**capabilities.custom, **custom_kinds(rendering.objects)}

    def _applicable(objects: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        return make_applicable(
            objects,
            install_namespace=terms.install_namespace,
            is_namespaced=lambda group, kind: scopes.get((group, kind), capabilities.is_namespaced(group, kind)),
            custom=custom,
        )

    objects = _applicable(rendering.objects)
    # One by one: two hooks may share a name, since they do not exist at the same time.
    hooks = [_hook(hook, _applicable([hook.manifest])[0]) for hook in rendering.hooks]
    manifests = [*rendering.objects, *(hook.manifest for hook in rendering.hooks)]
    needed = sorted(find_kinds_to_know(manifests, rendering.objects))
    unknown = tuple(map(_describe_unknown, (kind for kind in needed if kind not in custom)))
    is_silent = not (objects or hooks or rendering.warnings)
    return Revision(
        digest=revision_digest(objects, hooks),
        objects=tuple(objects),
        hooks=tuple(hooks),
        terms=replace(terms, custom=tuple((*kind, custom.get(kind)) for kind in needed)),
        warnings=(_NOTHING,) if is_silent else (*rendering.warnings, *unknown),
        namespace=rendering.namespace,
    )


def _describe_unknown(kind: tuple[str, str, str]) -> str:
    group, version, name = kind
    problem = "nulls and status are left out of its objects, since its CustomResourceDefinition is not known"
    remedy = (
        "put it into the bundle, or render again once the cluster has it (rukpak reconcile), or without a cluster with "
        'the file that "rukpak capabilities" has written'
    )
    return f"{name} {group}/{version}: {problem}; {remedy}"


def _hook(hook: Hook, manifest: dict[str, Any]) -> dict[str, Any]:
    return {
        "manifest": manifest,
        "events": list(hook.events),
        "weight": hook.weight,
        "deletePolicies": list(hook.delete_policies),
    }


_REQUEST, _TERMS, _OBJECTS, _STDERR = "request", "terms", "objects", "stderr"
_PROGRAM_BYTES = 160 * MEBIBYTE
"""Address space of the interpreter and our modules, which use a quarter of it."""
_STDERR_BYTES = 4096
_OUT_OF_MEMORY = 12  # exit status: ENOMEM
_OF_PROCESS = frozenset({"means", "cancelled", "occupy", "inline"})  # fields that no other process can have as they are


def address_space(limits: Limits) -> int:
    """Return the bytes of address space that a child needs for what the budgets allow."""
    return estimate(limits.text_bytes, limits) + _PROGRAM_BYTES


def render_in_child(task: Task) -> PackedRevision:
    """Return the result of `render` in a child process.

    Raises: BundleError with a reason of Installed: what `render` raises; RenderLimitExceeded over memory or time.
    """
    means = task.request.means
    folder = scratch_of(means) / "child"
    with disk_errors_reported("content store"):
        folder.mkdir()
        (folder / _REQUEST).write_bytes(_write_request(task))
        status, told = _run(folder, means)
    if told:
        error = json.loads(told)
        if error["lookup"]:
            raise UnansweredError(Lookup(*error["lookup"]))
        if plugin := error["plugin"]:
            count_failure(*plugin)
        failure = BundleError(Reason(error["reason"]), error["message"])
        failure.place = error["place"]
        raise failure
    if status == _OUT_OF_MEMORY or status < 0:
        problem = f"rendering needs more than {describe_bytes(address_space(means.limits))} of memory"
        raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{problem}; split the bundle")
    if status:
        stderr = (folder / _STDERR).read_bytes()[-_STDERR_BYTES:].decode(errors="replace")
        raise RuntimeError(f"rendering in a child failed with status {status}: {stderr}")
    digest, _, terms = (folder / _TERMS).read_bytes().partition(b"\n")
    return unpack_terms(digest.decode(), terms, (folder / _OBJECTS).read_bytes())


def _run(folder: Path, means: Means) -> tuple[int, bytes]:
    """Return the exit status of the child, and the error that it has told, which needs no space on a disk."""
    limits = {"as": address_space(means.limits), "core": 0, "cpu": int(means.seconds) + 1}
    # A processor in it may run a program, which has limits of its own.
    command = confined([sys.executable, "-P", "-m", __name__, str(folder)], raisable=True, **limits)
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "MALLOC_ARENA_MAX": "1",
        "LC_ALL": "C.UTF-8",
        # Plug-ins may have settings of their own.
        **{name: value for name, value in os.environ.items() if name.startswith("RUKPAK_")},
    }
    quiet = subprocess.DEVNULL
    with (folder / _STDERR).open("wb") as stderr, os.fdopen(os.memfd_create("error"), "w+b") as told:
        with STARTING:
            process = subprocess.Popen(
                command, stdin=quiet, stdout=told, stderr=stderr, env=environment, cwd="/", start_new_session=True
            )
        deadline = time.monotonic() + means.seconds
        with ProcessGroup(process) as group:
            status = group.wait(lambda: _check_time(deadline, means))
        return status, told.read()


def _check_time(deadline: float, means: Means) -> None:
    if means.cancelled.is_set():
        raise BundleError(Reason.RENDER_FAILED, "canceled: the result is no longer needed")
    if time.monotonic() >= deadline:
        problem = f"timed out: rendering takes more than {means.seconds:g} s"
        raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{problem}; split the bundle or raise --render-timeout")


def _write_request(task: Task) -> bytes:
    request, means = (
        {each.name: getattr(value, each.name) for each in fields(value) if each.name not in _OF_PROCESS}
        for value in (task.request, task.request.means)
    )
    return pickle.dumps((task.format, request, means, list(task.processors), task.confidential, task.secrets))


# the child


def _read_request(written: bytes) -> Task:
    # By the controller, which this process may do no more than.
    format_name, request, means, *others = pickle.loads(written)  # noqa: S301
    return Task(format_name, RenderRequest(**request, means=Means(**means)), *others)


def main(folder: Path) -> None:
    """Render the request in a folder, and write the response there."""
    with suppress(OSError):  # where procfs is read-only
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    told = os.dup(1)
    os.dup2(2, 1)  # for plug-ins that print
    try:
        with disk_errors_reported("content store"):
            revision = pack(render(_read_request((folder / _REQUEST).read_bytes())))
            (folder / _OBJECTS).write_bytes(revision.objects)
            (folder / _TERMS).write_bytes(revision.digest.encode() + b"\n" + pack_terms(revision))
    except BundleError as error:
        plugin = error.plugin if isinstance(error, PluginError) else None
        asked = error.lookup if isinstance(error, UnansweredError) else None
        problem = {"reason": error.reason.value, "message": error.message, "place": error.place, "plugin": plugin}
        problem["lookup"] = asked
        os.pwrite(told, json.dumps(problem).encode(), 0)
    except MemoryError:
        os._exit(_OUT_OF_MEMORY)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
