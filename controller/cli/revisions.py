"""The revision that a verb is about: of a BundleDeployment in a file, or of one on the cluster.

That of the cluster is read from the revision store. Users who may not read its Secrets render the pins themselves, and
get the same objects: the digest is compared.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from http import HTTPStatus

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from api.v1alpha2.reading import try_to_read
from api.v1alpha2.types import BundleDeployment
from controller.build import capabilities as capabilities_file
from controller.build.request import check
from controller.build.revision import Revision
from controller.cli import manifest
from controller.cli.command import FailedError, MisuseError, attempt, connect, read_file, tell
from controller.cli.deployments import Deployments
from controller.cli.history import open_store
from controller.cli.render import render_deployment
from controller.kube.client import Client
from controller.kube.discovery import Discovery


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """A revision, and the BundleDeployment that it is of."""

    deployment: BundleDeployment
    revision: Revision
    client: Client | None = None
    """Of its cluster; None for a file."""

    def on_cluster(self) -> Client:
        """Return the client.

        Raises: MisuseError for a file without a cluster.
        """
        if self.client is None:
            raise MisuseError("requires a cluster")
        return self.client

    def of(self, revision: Revision) -> Reviewed:
        """Return another revision of the same BundleDeployment."""
        return replace(self, revision=revision)


def find(options: argparse.Namespace) -> Reviewed:
    """Return the revision that a BundleDeployment asks for.

    Raises: FailedError if there is none to show; MisuseError, NoConsentError, BundleError, ApiError and
    ConfigurationError as `rukpak render`.
    """
    if (options.name is None) == (options.file is None):
        raise MisuseError("specify either NAME or -f FILE")
    return _in_file(options) if options.file else _on_cluster(options)


def _in_file(options: argparse.Namespace) -> Reviewed:
    if options.file == options.capabilities == "-":
        raise MisuseError("only one file can be read from stdin")
    if options.from_cluster:
        raise MisuseError("--from-cluster requires NAME")
    deployment = manifest.read(read_file(options.file), options.file, {"name": None, "spec": {}})
    check(deployment.spec)
    name = options.capabilities
    served = capabilities_file.parse(read_file(name), name) if name else capabilities_file.shipped()
    return Reviewed(deployment=deployment, revision=render_deployment(options, deployment, served, options.file))


def _on_cluster(options: argparse.Namespace) -> Reviewed:
    client = connect(options)
    value = Deployments(client).get(options.name)
    if value is None:
        raise FailedError(f'BundleDeployment "{options.name}" does not exist')
    deployment, problem = try_to_read(value)
    if deployment is None or problem:
        raise FailedError(f"{options.name}: cannot be read: {problem}")
    status = deployment.status
    digest = status.pending.revision if status.pending else status.revision or status.installed_revision
    stored = read_stored(client, options, digest)
    if stored is None and options.from_cluster:
        raise FailedError(f"{options.name}: its revision is not stored yet; wait for the controller")
    revision = stored or _render(client, options, _with_pins(deployment), digest)
    return Reviewed(deployment=deployment, revision=revision, client=client)


def find_new(options: argparse.Namespace) -> Reviewed:
    """Return the revision that a BundleDeployment in a file leads to on its cluster.

    Raises: as `find`.
    """
    if options.name is not None:
        raise MisuseError("specify either NAME or -f FILE")
    if options.from_cluster or options.capabilities:
        raise MisuseError("-f is rendered with what the cluster serves; remove --from-cluster and --capabilities")
    deployment = manifest.read(read_file(options.file), options.file, {"name": None, "spec": {}})
    return render_new(connect(options), options, deployment, options.file)


def render_new(client: Client, options: argparse.Namespace, deployment: BundleDeployment, origin: str) -> Reviewed:
    """Render a BundleDeployment as its cluster would if it was applied now.

    Pins of an existing one are honored for sources that it already has.

    Args:
        client: of the cluster.
        options: those that rendering depends on; `name` is set to that of the BundleDeployment.
        deployment: without status.
        origin: of the BundleDeployment, for questions.

    Raises: as `find`.
    """
    check(deployment.spec)
    options.name = deployment.metadata.name
    value = Deployments(client).get(options.name)
    existing, problem = try_to_read(value) if value else (None, "")
    if problem:
        tell(f"warning: {options.name}: status cannot be read: {problem}")
    if existing:
        deployment = deployment.model_copy(update={"metadata": existing.metadata, "status": existing.status})
    revision = render_deployment(options, deployment, Discovery(client).capabilities(), origin)
    return Reviewed(deployment=deployment, revision=revision, client=client)


def read_stored(client: Client, options: argparse.Namespace, digest: str, *, required: bool = False) -> Revision | None:
    """Return a revision of the store; None if it does not exist, or the user may not read it.

    Raises: ApiError; also if the user may not read it, with --from-cluster, or if it is required.
    """
    accepted = () if options.from_cluster or required else (HTTPStatus.FORBIDDEN,)
    return attempt(lambda: open_store(client, options.namespace).read(options.name, digest), *accepted)


def list_stored(client: Client, options: argparse.Namespace) -> list[str]:
    """Return the digests of the revisions in the store.

    Raises: ApiError.
    """
    return open_store(client, options.namespace).digests(options.name)


def _with_pins(deployment: BundleDeployment) -> BundleDeployment:
    """Return a BundleDeployment whose pins are those of the revision that waits for approval, if one does."""
    pending = deployment.status.pending
    if pending is None:
        return deployment
    return deployment.model_copy(update={"status": deployment.status.model_copy(update={"sources": pending.sources})})


def _render(client: Client, options: argparse.Namespace, deployment: BundleDeployment, digest: str) -> Revision:
    """Render the pins of a BundleDeployment on the cluster.

    Raises: BundleError, also if that gives another revision than the controller has.
    """
    served = Discovery(client).capabilities()
    revision = render_deployment(options, deployment, served, f"BundleDeployment {options.name}")
    if digest and revision.digest != digest:
        text = (
            f"{options.name}: rendering its sources here gives revision {revision.digest}, but the status says "
            f"{digest}; use --from-cluster, which requires permission to read the Secrets of the revision store"
        )
        raise BundleError(Reason.INVALID_BUNDLE, text)
    return revision
