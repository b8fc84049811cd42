"""The image that the Dockerfiles build on: the newest Python of the lock, by version and digest.

`ARG BASE` of Dockerfile says it, and is repeated where nothing can be included. It has no digest before it is first
renewed. Not here: when that is done (.github/workflows/lock.yaml).
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

from rukpak.api.errors import BundleError
from rukpak.api.plugins import MEBIBYTE, Access, Network
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.sources.image.manifest import Descriptor
from rukpak.controller.sources.image.reference import parse_reference
from rukpak.controller.sources.image.registry import Registry, connected

ROOT = Path(__file__).resolve().parents[2]
FILES = ("Dockerfile", "config/plugins/Dockerfile", "controller/cli/templates/all/Dockerfile.template")
"""Where it is written; the first is read."""
REPOSITORY, VARIANT = "python", "slim-bookworm"
OLDEST = timedelta(days=60)
SECONDS = 120.0
_LINE = re.compile(r"^ARG BASE=(\S+)$", re.MULTILINE)


class BaseError(Exception):
    """The image was not found, or is too old; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """An image of Python."""

    digest: str
    """Of the index of all platforms."""
    version: str
    created: datetime

    def __str__(self) -> str:
        """Return the reference that `ARG BASE` names."""
        return f"{REPOSITORY}:{self.version}-{VARIANT}@{self.digest}"


def read_base(root: Path = ROOT) -> str:
    """Return the reference that the Dockerfiles name."""
    [found] = _LINE.findall((root / FILES[0]).read_text(encoding="utf-8"))
    return str(found)


def renew_base(python: str, *, root: Path = ROOT, network: Network | None = None) -> str:
    """Write the newest image of a minor version of Python into all files; return what has moved.

    Raises: BaseError.
    """
    before, after = read_base(root), str(find_base(f"{python}-{VARIANT}", network))
    for path in (root / name for name in FILES):
        path.write_text(_LINE.sub(f"ARG BASE={after}", path.read_text(encoding="utf-8")), encoding="utf-8")
    return "the base of the images stays" if before == after else f"{before} -> {after}"


def check_base(python: str, now: datetime, *, root: Path = ROOT, network: Network | None = None) -> None:
    """Check that the image is not too old. One to which the registry has no successor is not.

    Raises: BaseError.
    """
    reference = parse_reference(read_base(root))
    remedy = 'run "hack/lock --base", and merge what it changes'
    if not reference.digest:
        raise BaseError(f"{read_base(root)} has no digest; {remedy}")
    newest = find_base(f"{python}-{VARIANT}", network)
    if newest.digest == reference.digest:
        return
    days = (now - find_base(reference.digest, network).created).days
    if days > OLDEST.days:
        raise BaseError(f"{read_base(root)} is {days} days old, of at most {OLDEST.days}; {remedy}")


def find_base(target: str, network: Network | None = None) -> Base:
    """Return the image of a tag or a digest. Raises: BaseError."""
    try:
        with _registry(network or Network()) as registry:
            digest = registry.resolve(target)
            manifest = json.loads(registry.read_manifest(digest))
            if "manifests" in manifest:
                manifest = json.loads(registry.read_manifest(_on_linux(manifest)))
            blob = registry.open_blob(Descriptor.model_validate(manifest["config"]))
            config = json.loads(blob.read_all(MEBIBYTE))
        variables = dict(each.partition("=")[::2] for each in config["config"]["Env"])
        created = datetime.fromisoformat(config["created"])
        return Base(digest=digest, version=variables["PYTHON_VERSION"], created=created)
    except BundleError as error:
        raise BaseError(error.message) from None
    except (ValueError, LookupError, TypeError):
        raise BaseError(f"{REPOSITORY}: {target} is no image of Python") from None


def _on_linux(index: dict[str, Any]) -> str:
    """Return the digest of one image of an index: all are made of one version at one time.

    Raises: LookupError if there is none.
    """
    platforms = {(each.get("platform") or {}).get("architecture"): each["digest"] for each in index["manifests"]}
    return str(platforms["amd64"])


@contextmanager
def _registry(network: Network) -> Iterator[Registry]:
    deadline = time.monotonic() + SECONDS
    with tempfile.TemporaryDirectory() as scratch:
        access = Access(path="base", deadline=deadline, cancelled=Event(), scratch=Path(scratch), network=network)
        with connected({}, parse_reference(REPOSITORY), access, missing=Reason.NOT_FOUND) as registry:
            yield registry
