"""What other clients may do to the controller's own records: status, revision Secrets and finalizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from rukpak.api import names
from tests.support.bundles import STORE, Deployed
from tests.support.inside import ApiError

PERSON = "somebody"
NONSENSE = {
    "managedKinds": ["nonsense", "a/b/c/d", "example.com/v1/Bogus"],
    "revision": "../../x",
    "installedRevision": "a/b",
    "managedState": "great",
}


class Tampering(NamedTuple):
    """Something that another client does to the records of a BundleDeployment."""

    name: str
    act: Callable[[Deployed], object]
    loses_revision: bool = False
    """Whether objects of a superseded revision may be left, as no one knows them any more."""


def wipe_status(deployed: Deployed) -> None:
    """Remove all of the status."""
    _patch_status(deployed, [{"op": "remove", "path": "/status"}])


def garble_status(deployed: Deployed) -> None:
    """Write texts to the status that name nothing."""
    _patch_status(deployed, [{"op": "add", "path": f"/status/{key}", "value": each} for key, each in NONSENSE.items()])


def _patch_status(deployed: Deployed, operations: list[dict[str, Any]]) -> None:
    deployed.client.json_patch(f"{deployed.path}/status", operations, manager=PERSON)


def delete_revisions(deployed: Deployed) -> None:
    """Delete the Secrets of all revisions."""
    for secret in deployed.revisions():
        with _unless_changed():
            deployed.client.delete(f"{STORE}/{secret['metadata']['name']}")


def corrupt_revisions(deployed: Deployed) -> None:
    """Replace the objects in the Secrets of all revisions."""
    for secret in deployed.revisions():
        with _unless_changed():
            path = f"{STORE}/{secret['metadata']['name']}"
            deployed.client.merge_patch(path, {"data": {"objects": "AAAA"}}, manager=PERSON)


def strip_finalizers(deployed: Deployed) -> None:
    """Remove the finalizers of the BundleDeployment."""
    deployed.client.merge_patch(deployed.path, {"metadata": {"finalizers": None}}, manager=PERSON)


TAMPERINGS = [
    Tampering("status wiped", wipe_status),
    Tampering("status garbled", garble_status),
    Tampering("revisions deleted", delete_revisions, loses_revision=True),
    Tampering("revisions corrupted", corrupt_revisions, loses_revision=True),
    Tampering("finalizers stripped", strip_finalizers),
]


def is_whole(deployed: Deployed) -> bool:
    """Whether the records are as the controller leaves them at rest: one revision, and the finalizer."""
    value, secrets = deployed.read(), deployed.revisions()
    kept = {secret["metadata"]["annotations"]["core.rukpak.io/revision"] for secret in secrets}
    is_intact = all("AAAA" not in secret["data"].values() for secret in secrets)
    installed = (value.get("status") or {}).get("installedRevision")
    is_known = deployed.conditions().get("Unpacked", {}).get("status") == "True"
    has_finalizer = value["metadata"].get("finalizers") == [names.FINALIZER]
    return is_intact and is_known and kept == {installed} and has_finalizer


@contextmanager
def _unless_changed() -> Iterator[None]:
    """Ignore a Secret that the controller has deleted or written meanwhile."""
    try:
        yield
    except ApiError as error:
        if error.status not in (404, 409):
            raise
