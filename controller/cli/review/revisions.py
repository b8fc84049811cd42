"""The revision that a verb is about: of a BundleDeployment in a file, or of one on the cluster.

That of the cluster is read from the revision store. Users who may not read its Secrets render the pins themselves, and
get the same objects: the digest is compared.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from http import HTTPStatus

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from api.v1alpha2.reading import try_to_read
from api.v1alpha2.types import BundleDeployment
from controller.build import capabilities as capabilities_file
from controller.build.revision import Revision
from controller.build.validation import check
from controller.cli.command import MisuseError, connect, read_file, tell
from controller.cli.deployments.access import Deployments
from controller.cli.rendering import manifest
from controller.cli.rendering.render import render_deployment
from controller.kube.client import Client
from controller.kube.discovery import Discovery
from controller.kube.errors import ApiError
from controller.revisions.secrets import RevisionSecrets
from controller.revisions.store import RevisionStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """A revision, and the BundleDeployment that it is of."""

    deployment: BundleDeployment
    revision: Revision
    client: Client | None = None
    """Of its cluster; None for a file."""


def find(verb: str, options: argparse.Namespace) -> Reviewed | None:
    """Return the revision that a BundleDeployment asks for; None, after telling why, if there is none to show.

    Raises: MisuseError; BundleError, ApiError and ConfigurationError as `rukpak render`.
    """
    if (options.name is None) == (options.file is None):
        raise MisuseError("specify either NAME or -f FILE")
    return _in_file(options) if options.file else _on_cluster(verb, options)


def _in_file(options: argparse.Namespace) -> Reviewed | None:
    if options.file == options.capabilities == "-":
        raise MisuseError("only one file can be read from stdin")
    if options.from_cluster:
        raise MisuseError("--from-cluster requires NAME")
    deployment = manifest.read(read_file(options.file), options.file, {"name": None, "spec": {}})
    check(deployment.spec)
    name = options.capabilities
    served = capabilities_file.parse(read_file(name), name) if name else capabilities_file.shipped()
    revision = render_deployment(options, deployment, served, options.file)
    return Reviewed(deployment=deployment, revision=revision) if revision else None


def _on_cluster(verb: str, options: argparse.Namespace) -> Reviewed | None:
    client = connect(options)
    value = Deployments(client).get(options.name)
    if value is None:
        tell(f'rukpak {verb}: BundleDeployment "{options.name}" does not exist')
        return None
    deployment, problem = try_to_read(value)
    if deployment is None or problem:
        tell(f"rukpak {verb}: {options.name}: cannot be read: {problem}")
        return None
    status = deployment.status
    digest = status.pending.revision if status.pending else status.revision or status.installed_revision
    stored = read_stored(client, options, digest)
    if stored is None and options.from_cluster:
        tell(f"rukpak {verb}: {options.name}: its revision is not stored yet; wait for the controller")
        return None
    revision = stored or _render(client, options, deployment, digest)
    return Reviewed(deployment=deployment, revision=revision, client=client) if revision else None


def read_stored(client: Client, options: argparse.Namespace, digest: str) -> Revision | None:
    """Return a revision of the store; None if it does not exist, or the user may not read it.

    Raises: ApiError; also if the user may not read it, with --from-cluster.
    """
    secrets = RevisionSecrets(client, options.namespace, lambda _: None, lambda: None)
    try:
        return RevisionStore(client, secrets).read(options.name, digest)
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN or options.from_cluster:
            raise
        return None


def _render(client: Client, options: argparse.Namespace, deployment: BundleDeployment, digest: str) -> Revision | None:
    """Render the pins of a BundleDeployment on the cluster.

    Raises: BundleError, also if that gives another revision than the controller has.
    """
    served = Discovery(client).capabilities()
    revision = render_deployment(options, deployment, served, f"BundleDeployment {options.name}")
    if revision and digest and revision.digest != digest:
        text = (
            f"{options.name}: rendering its sources here gives revision {revision.digest}, but status.revision is "
            f"{digest}; use --from-cluster, which requires permission to read the Secrets of the revision store"
        )
        raise BundleError(Reason.INVALID_BUNDLE, text)
    return revision
