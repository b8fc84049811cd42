"""`rukpak render` and `rukpak capabilities`: the objects of a bundle as the controller would apply them.

A local SOURCE becomes content by the same rules as what a source fetches, without cluster and network; an OCI reference
or URL is fetched. With `-f`, the sources of a BundleDeployment are resolved and fetched, and pins in its status are
honored; its Secrets are read only with the user's consent. With `--revision`, a revision that was applied once is read
from the revision store.

Here is also the revision that another verb is about (`Reviewed`): of a BundleDeployment in a file, or of one on the
cluster. That of the cluster is read from the revision store. Users who may not read its Secrets render the pins
themselves, and get the same objects: the digest is compared.
"""

from __future__ import annotations

import argparse
import io
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

from api.errors import BundleError
from api.plugins import Capabilities, ContentTree, Credentials, Entry, Limits, LocalContent, Network, RenderRequest
from api.v1alpha2.conditions import Reason
from api.v1alpha2.reading import try_to_read
from api.v1alpha2.types import BundleDeployment, Source, Spec
from controller.build import capabilities as capabilities_file
from controller.build.builder import Builder
from controller.build.config_values import Confidential, confidential_of, merge_config
from controller.build.rendering import render
from controller.build.request import BuildContext, BuildSettings, Request, check, check_config, match_pins
from controller.build.revision import PackedRevision, Revision
from controller.cli import manifest
from controller.cli.changes import open_store, read_kept
from controller.cli.command import FailedError, MisuseError, NoConsentError, attempt, connect, read_file, tell
from controller.cli.deployments import Deployments
from controller.cli.manifest import SecretUse, find_secret_uses, is_consent_given
from controller.cli.output import list_of, name_of, to_json, to_yaml
from controller.cli.verbs import RENDERING
from controller.content.archive import write_entries
from controller.content.disk import read_folder
from controller.content.limits import Rejection
from controller.content.store import ContentStore
from controller.formats.manifests import read_documents
from controller.formats.recognition import (
    Archives,
    is_folder,
    recognize_bundle,
    recognize_chart,
    recognize_first,
    recognize_manifests,
)
from controller.kube.client import Client
from controller.kube.discovery import Discovery
from controller.settings import Settings
from controller.sources.http import read_body
from controller.sources.image.reference import parse_reference

NAME = "bundle"
_STORE_BYTES = 1 << 40
OCI = "oci://"
URLS = ("https://", "http://")
GIT = ("git@", "ssh://", "git://")
_STDIN = "stdin.yaml"


def main(options: argparse.Namespace) -> int:
    """Render a bundle; return the exit status.

    Raises: BundleError with the reason that the controller would report; MisuseError, ApiError, ConfigurationError.
    """
    _check(options)
    revision = read_kept(options) if options.revision else _render(options)
    for warning in revision.warnings:
        tell(f"warning: {warning}")
    print(_show(revision, options.output), end="")
    return 0


def _render(options: argparse.Namespace) -> Revision:
    capabilities = read_capabilities(options.capabilities)
    if options.file:
        return render_deployment(options, _read(options), capabilities, options.file)
    with new_store() as store:
        return (_render_remote if is_remote(options.source) else render_local)(options, store, capabilities)


def render_deployment(
    options: argparse.Namespace, deployment: BundleDeployment, capabilities: Capabilities, origin: str
) -> Revision:
    """Render a validated BundleDeployment.

    Args:
        options: those of `render` that rendering depends on.
        deployment: whose pins are honored.
        capabilities: of its cluster.
        origin: of the BundleDeployment, for the question.

    Raises: NoConsentError, BundleError, MisuseError, ApiError, ConfigurationError.
    """
    if not (options.use_secrets or is_consent_given(_uses(options, deployment), origin)):
        raise NoConsentError
    with new_store() as store:
        return _render_deployment(options, deployment, store, capabilities)


@contextmanager
def new_store() -> Iterator[ContentStore]:
    """Provide a content store that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="rukpak-") as folder, ContentStore(Path(folder)) as store:
        yield store


def _check(options: argparse.Namespace) -> None:
    """Refuse flags that contradict each other.

    Raises: MisuseError.
    """
    if [options.source, options.file, options.revision].count(None) != 2:  # noqa: PLR2004 - all but one
        raise MisuseError("specify either SOURCE, -f FILE or --revision")
    if [options.source, options.file, options.config, options.capabilities].count("-") > 1:
        raise MisuseError("only one file can be read from stdin")
    network_of(options)


def network_of(options: argparse.Namespace) -> Network:
    """Return what sources may connect to.

    Raises: MisuseError for an invalid option.
    """
    try:
        return settings_of(options).network(in_pod=False)
    except ValueError as error:
        raise MisuseError(str(error)) from None


def settings_of(options: argparse.Namespace) -> Settings:
    """Return the settings of the controller with the options that rendering depends on."""
    return Settings(**{name: getattr(options, name) for name in RENDERING})


def read_capabilities(name: str | None) -> Capabilities:
    """Return the capabilities in a file; those of the latest Kubernetes version without one.

    Raises: MisuseError; BundleError (InvalidConfig).
    """
    return capabilities_file.parse(read_file(name), name) if name else capabilities_file.shipped()


def read_config(name: str) -> dict[str, Any]:
    """Return the value of spec.config in a file; `-` is stdin.

    Raises: MisuseError; BundleError (InvalidConfig, InvalidBundle).
    """
    documents = [document.value for document in read_documents(read_file(name), name)] or [{}]
    if len(documents) > 1 or not isinstance(documents[0], dict):
        raise BundleError(Reason.INVALID_CONFIG, f"{name}: must contain a single mapping, the value of spec.config")
    return documents[0]


# SOURCE


def render_local(options: argparse.Namespace, store: ContentStore, capabilities: Capabilities) -> Revision:
    """Render local content.

    Args:
        options: source, and those of `render` that rendering depends on.
        store: for scratch folders.
        capabilities: of the cluster.

    Raises: BundleError, MisuseError.
    """
    config = read_config(options.config) if options.config else {}
    with store.scratch() as scratch, store.scratch() as own:
        tree = unpack(options.source, scratch)
        format_name = options.format or guess_format(scratch)
        check_config(format_name, config)
        request = RenderRequest(
            name=options.name or NAME,
            install_namespace=options.install_namespace or "",
            tree=tree,
            config=config,
            capabilities=capabilities,
            means=replace(settings_of(options).means(), scratch=own),
        )
        return render(format_name, request)


def _render_remote(options: argparse.Namespace, store: ContentStore, capabilities: Capabilities) -> Revision:
    spec = make_spec(options.source, dict(_overrides(options)["spec"]))
    builder, cancelled = _builder(options, store), threading.Event()
    resolved = builder.resolve(spec, match_pins(spec, ()), cancelled)
    if resolved.failure:
        raise resolved.failure
    request = Request(
        name=options.name or NAME,
        spec=spec,
        pins=tuple(pin for pin in resolved.pins if pin),
        install_namespace=options.install_namespace or "",
        requested_at="",
    )
    if not options.format:
        with builder.content(request, cancelled) as tree:
            spec = spec.model_copy(update={"format": guess_format(tree.root)})
    check(spec)
    return _unpacked(builder.build(replace(request, spec=spec), capabilities, cancelled))


# a BundleDeployment


def _read(options: argparse.Namespace) -> BundleDeployment:
    deployment = manifest.read(read_file(options.file), options.file, _overrides(options))
    check(deployment.spec)
    return deployment


def _uses(options: argparse.Namespace, deployment: BundleDeployment) -> list[SecretUse]:
    return find_secret_uses(deployment, network_of(options).registry_mirrors)


def _render_deployment(
    options: argparse.Namespace, deployment: BundleDeployment, store: ContentStore, capabilities: Capabilities
) -> Revision:
    (spec, confidential), status = _with_config(options, deployment), deployment.status
    builder = _builder(options, store)
    reader = _Reader(options, deployment)
    cancelled, context = threading.Event(), BuildContext(credentials=reader.read, config_map=reader.read_local)
    resolved = builder.resolve(spec, match_pins(spec, status.sources), cancelled, context)
    if resolved.failure:
        raise resolved.failure
    request = Request(
        name=deployment.metadata.name,
        spec=spec,
        pins=tuple(pin for pin in resolved.pins if pin),
        install_namespace=spec.install_namespace or status.install_namespace,
        requested_at=status.last_handled_reconcile_at,
        confidential=confidential,
    )
    return _unpacked(builder.build(request, capabilities, cancelled, context))


def _with_config(options: argparse.Namespace, deployment: BundleDeployment) -> tuple[Spec, Confidential | None]:
    """Return the spec with the config that `configFrom` leads to, read with the user's permissions, and its secrets."""
    spec = deployment.spec
    if not spec.config_from:
        return spec, None
    from controller.revisions.config_objects import read_texts  # noqa: PLC0415 - needs the cluster

    texts = read_texts(connect(options), deployment, None, lambda _object, _version: None)
    return spec.model_copy(update={"config": merge_config(spec, texts)}), confidential_of(deployment, texts)


def _builder(options: argparse.Namespace, store: ContentStore) -> Builder:
    settings = BuildSettings(
        store_bytes=_STORE_BYTES,
        limits=Limits(),
        timeout=options.fetch_timeout,
        network=network_of(options),
        means=settings_of(options).means(),
    )
    return Builder(store, settings, lambda: datetime.now(UTC))


def _unpacked(revision: Revision | PackedRevision) -> Revision:
    return revision.unpacked() if isinstance(revision, PackedRevision) else revision


def _overrides(options: argparse.Namespace) -> Mapping[str, Any]:
    given = {"format": options.format, "installNamespace": options.install_namespace}
    spec = {key: value for key, value in given.items() if value}
    if options.config:
        spec["config"] = read_config(options.config)
    return {"name": options.name, "spec": spec}


class _Reader:
    """Reads what sources name in the cluster with the user's permissions; connects only if there is any."""

    def __init__(self, options: argparse.Namespace, deployment: BundleDeployment) -> None:
        self._options, self._deployment = options, deployment
        self._lock = threading.Lock()

    def read(self, index: int, source: Source) -> Credentials | None:
        """Return the credentials of one source; None if it names none.

        Raises: BundleError as SecretReader.credentials; ConfigurationError.
        """
        if not (source.secret or (self._deployment.spec.service_account_name and source.is_in_registry)):
            return None
        from controller.revisions.credentials import SecretReader  # noqa: PLC0415 - needs the cluster

        with self._lock:
            reader = SecretReader(connect(self._options), None)
            return reader.credentials(self._deployment, index, source, lambda _secret, _version: None)

    def read_local(self, index: int, name: str) -> LocalContent:
        """Return the content of a ConfigMap.

        Raises: BundleError as SecretReader.local_content; ConfigurationError.
        """
        from controller.revisions.credentials import SecretReader  # noqa: PLC0415 - needs the cluster

        with self._lock:
            reader = SecretReader(connect(self._options), None)
            place = f"spec.sources[{index}].configMap"
            return reader.local_content(self._deployment, name, place, lambda _object, _version: None)


# the result


def _show(revision: Revision, output: str) -> str:
    if output == "revision":
        return f"{revision.digest}\n"
    manifests = [*revision.objects, *(hook["manifest"] for hook in revision.hooks)]
    if output == "name":
        return "".join(f"{name_of(manifest)}\n" for manifest in manifests)
    if output == "json":
        return to_json(list_of(manifests))
    hooks = (f"# hook: {', '.join(hook['events'])}\n{to_yaml(hook['manifest'])}" for hook in revision.hooks)
    return "---\n".join([*map(to_yaml, revision.objects), *hooks])


def is_remote(source: str) -> bool:
    """Return whether a source has to be fetched.

    Raises: MisuseError for a git repository, which needs more than an address.
    """
    if source.startswith(GIT) or source.endswith(".git"):
        raise MisuseError(f'"{source}": a git repository is rendered from a BundleDeployment; use -f FILE')
    return source.startswith((OCI, *URLS))


def make_spec(source: str, overrides: dict[str, Any]) -> Spec:
    """Return a spec with one source, an OCI reference or a URL; overrides are fields of the spec."""
    if source.startswith(OCI):
        block: dict[str, Any] = {"kind": "image", "image": {"ref": source.removeprefix(OCI)}}
    else:
        block = {"kind": "http", "http": {"url": source}}
    return Spec.model_validate({"format": "plain", "sources": [block], **overrides})


def unpack(source: str, folder: Path) -> ContentTree:
    """Write a local directory, archive or file of manifests into an empty folder; `-` is stdin.

    Returns: the folder, with what must not be read.
    Raises: MisuseError if it cannot be read; BundleError (ContentRejected, UnsupportedContent, StorageFull).
    """
    try:
        refused = write_entries(_read_local(source), folder, Limits(), source, records=True)
    except OSError as error:
        raise MisuseError(f'"{error.filename or source}": {error.strerror or "cannot be read"}') from error
    except MisuseError as error:
        if Path(source).exists() or not _looks_like_image(source):
            raise
        raise MisuseError(f"{error}; for an image or chart in a registry: {OCI}{source}") from None
    named = {path: replace(each, problem=f"{source}: {each.problem}") for path, each in refused.items()}
    return ContentTree(root=folder, destinations=("",), refused=named)


def _looks_like_image(source: str) -> bool:
    """Return whether a text is an image reference that names its registry, which a path hardly ever is."""
    try:
        reference = parse_reference(source)
    except ValueError:
        return False
    return source.startswith(f"{reference.registry}/")


def _read_local(source: str) -> Iterator[Entry]:
    if source != "-" and Path(source).is_dir():
        yield from read_folder(Path(source))
        return
    data = read_file(source)
    name = _STDIN if source == "-" else Path(source).name
    try:
        yield from read_body(io.BytesIO(data), len(data), name, 0, Limits())
    except Rejection as rejection:
        raise rejection.at(source) from None


def guess_format(root: Path) -> str:
    """Return the format of content that says what it is; `plain` for all other content."""
    if recognize_bundle(root, ""):
        return "registry-v1"
    return "helm" if not is_folder(root / "manifests") and _is_chart(root) else "plain"


def _is_chart(root: Path) -> bool:
    """Return whether content is a chart: a folder of one, or packed, as `helm push` stores it, without manifests."""
    if recognize_first(root, recognize_chart):
        return True
    return bool(recognize_first(root, Archives().recognize)) and not recognize_first(root, recognize_manifests)


def show_capabilities(options: argparse.Namespace) -> int:
    """Print the capabilities of the cluster; return the exit status.

    Raises: ApiError, ConfigurationError.
    """
    found = Discovery(connect(options)).capabilities()
    for group in sorted(found.unknown):
        tell(
            f'warning: API group "{group}": discovery failed, so its kinds are missing; repair or delete its APIService'
        )
    print(
        to_json(capabilities_file.dump(found)) if options.output == "json" else capabilities_file.write(found), end=""
    )
    return 0


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
    served = read_capabilities(options.capabilities)
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
    revision = stored or _render_pins(client, options, _with_pins(deployment), digest)
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


def _render_pins(client: Client, options: argparse.Namespace, deployment: BundleDeployment, digest: str) -> Revision:
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
