"""A revision of the revision store, for `rukpak render --revision`: what was applied once, without its sources."""

from __future__ import annotations

import argparse
import re

from api.v1alpha2.reading import try_to_read
from api.v1alpha2.types import Status
from controller.build.revision import Revision
from controller.cli.command import MisuseError, connect, tell
from controller.cli.deployments.access import Deployments
from controller.kube.client import Client
from controller.revisions.store import RevisionSecrets, RevisionStore
from controller.status.texts import short

_REVISION = re.compile(r"(?P<name>[^@]+)@(sha256:)?(?P<digest>[0-9a-f]{8,64})").fullmatch


def read(options: argparse.Namespace) -> Revision | None:
    """Return the revision that `--revision NAME@DIGEST` names; None, after telling why, if it is not kept.

    Raises: MisuseError; ApiError, also if the user may not read the Secrets of the revision store; ConfigurationError.
    """
    given = _REVISION(options.revision)
    if given is None:
        raise MisuseError(f'--revision "{options.revision}": write it like shop@sha256:1f2e3d4c5b6a')
    name, client = given["name"], connect(options)
    value = Deployments(client).get(name)
    deployment = try_to_read(value)[0] if value else None
    if deployment is None:
        tell(f'rukpak render: BundleDeployment "{name}" {"cannot be read" if value else "not found"}')
        return None
    digest = find_kept(deployment.status, given["digest"])
    found = _read(client, options.namespace, name, digest) if digest else None
    if found is None:
        kept = ", ".join(map(short, kept_revisions(deployment.status))) or "none"
        tell(f"rukpak render: {name}: revision {given['digest'][:12]} is not kept; kept revisions: {kept}")
    return found


def kept_revisions(status: Status) -> list[str]:
    """Return the digests of the revisions that status says are kept, newest first."""
    named = [*(each.revision for each in status.history), status.revision, status.installed_revision]
    pending = [status.pending.revision] if status.pending else []
    return [digest for digest in dict.fromkeys([*named, *pending]) if digest]


def find_kept(status: Status, text: str) -> str:
    """Return the digest of the one kept revision that begins so, with or without `sha256:`; empty if there is none."""
    beginning = text.removeprefix("sha256:")
    found = [each for each in kept_revisions(status) if each.removeprefix("sha256:").startswith(beginning)]
    return found[0] if len(found) == 1 else ""


def _read(client: Client, namespace: str, name: str, digest: str) -> Revision | None:
    secrets = RevisionSecrets(client, namespace, lambda _: None, lambda: None)
    return RevisionStore(client, secrets).read(name, digest)
