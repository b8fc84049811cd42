"""`rukpak render` and `rukpak capabilities`: the objects of a bundle as the controller would apply them.

A local SOURCE becomes content by the same rules as what a source fetches, without cluster and network; any other one is
fetched. With `-f`, the sources of a BundleDeployment are resolved and fetched, and pins in its status are
honored; its Secrets are read only with the user's consent. With `--revision`, a revision that was applied once is read
from the revision store.

Here is also the revision that another verb is about (`Reviewed`): of a BundleDeployment in a file, or of one on the
cluster. That of the cluster is read from the revision store. Users who may not read its Secrets render the pins
themselves, and get the same objects: the digest is compared.
"""

from __future__ import annotations

import argparse
import secrets
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.plugins import (
    Capabilities,
    Credentials,
    Limits,
    LocalContent,
    Network,
    ReadsSecrets,
    RenderRequest,
    Trusted,
)
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.reading import try_to_read
from rukpak.api.v1alpha2.types import BundleDeployment, Source, Spec, Status
from rukpak.api.v1alpha2.verification import config_maps_of, secrets_of
from rukpak.controller.apply.targets import find_waves
from rukpak.controller.building import capabilities as capabilities_file
from rukpak.controller.building.builder import Builder
from rukpak.controller.building.config_values import (
    Confidential,
    SecretValues,
    needs_objects,
)
from rukpak.controller.building.entry_points import processor_of
from rukpak.controller.building.rendering import Task, render
from rukpak.controller.building.request import (
    BuildContext,
    BuildSettings,
    Request,
    check,
    check_config,
    find_unchecked,
    match_pins,
)
from rukpak.controller.building.revision import PackedRevision, Revision
from rukpak.controller.cli import manifest
from rukpak.controller.cli.changes import read_kept
from rukpak.controller.cli.command import NoConsentError, ask, connect, read_file, tell
from rukpak.controller.cli.content import (
    Draft,
    check_stdin,
    is_described,
    is_local,
    is_named,
    make_draft,
    read_overrides,
    recognize,
    unpack,
)
from rukpak.controller.cli.manifest import find_secret_uses
from rukpak.controller.cli.verbs import RENDERING
from rukpak.controller.content.store import ContentStore
from rukpak.controller.kube.client import Client
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.errors import attempt
from rukpak.controller.observe.following import ObjectReference
from rukpak.controller.observe.records import key_of
from rukpak.controller.revisions.references import look_up, read_config
from rukpak.controller.revisions.source_access import SecretReader, read_demanded
from rukpak.controller.settings import Settings
from rukpak.controller.sources.config_map import KEY
from rukpak.controller.untrusted import mapping
from rukpak.controller.views import FailedError, MisuseError
from rukpak.controller.views.access import Deployments, open_store
from rukpak.controller.views.comparison import mask
from rukpak.controller.views.dry_run import Reviewed
from rukpak.controller.views.texts import list_of, name_of, to_json, to_table, to_yaml

NAME = "bundle"
_STORE_BYTES = 1 << 40
_PLACEHOLDER = "plain"
"""A format, until it is recognized."""


def main(options: argparse.Namespace) -> int:
    """Render a bundle; return the exit status.

    Raises: BundleError with the reason that the controller would report; MisuseError, ApiError, ConfigurationError.
    """
    _check(options)
    deployment, revision = (
        read_kept(options) if options.revision else render_given(options, read_capabilities(options.capabilities))
    )
    for warning in revision.warnings:
        tell(f"warning: {warning}")
    if deployment and _decrypts(deployment.spec) and not options.show_secrets:
        revision = _without_values(revision)
        tell("values of Secrets are not shown, since a processor decrypts some; --show-secrets prints them")
    print(_show(revision, options.output), end="")
    return 0


def _decrypts(spec: Spec) -> bool:
    try:
        return any(isinstance(processor_of(each.kind, "spec.processors"), ReadsSecrets) for each in spec.processors)
    except BundleError:  # what is not installed here may have keys
        return True


def _without_values(revision: Revision) -> Revision:
    key = secrets.token_bytes()
    objects = (dict(mask(item, key)) for item in revision.objects)
    hooks = ({**hook, "manifest": dict(mask(hook["manifest"], key))} for hook in revision.hooks)
    return replace(revision, objects=tuple(objects), hooks=tuple(hooks))


def render_given(options: argparse.Namespace, capabilities: Capabilities) -> tuple[BundleDeployment | None, Revision]:
    """Render the content or BundleDeployment that a command line names; it needs no cluster, except for Secrets.

    Local content is rendered without a BundleDeployment.

    Args:
        options: those of `render` that rendering depends on.
        capabilities: of the cluster that it is for.

    Raises: as `main`.
    """
    if is_local(options):
        with new_store() as store:
            return None, render_local(options, store, capabilities)
    named = argparse.Namespace(**{**vars(options), "name": None if options.file else options.name or NAME})
    draft = make_draft(named)
    if options.name:
        metadata = {**mapping(draft.value, "metadata"), "name": options.name}
        draft = replace(draft, value={**draft.value, "metadata": metadata})
    return render_draft(options, draft, read_draft(draft), capabilities)


def read_draft(draft: Draft) -> BundleDeployment:
    """Return the BundleDeployment of a draft.

    Raises: BundleError for one that is not valid.
    """
    if draft.recognizes:
        spec = {"format": _PLACEHOLDER, **draft.value["spec"]}
        deployment = manifest.read(draft.with_spec(spec).value, draft.origin)
        check(deployment.spec.model_copy(update={"config": {}}))  # the config is checked once the format is known
        return deployment
    deployment = manifest.read(draft.value, draft.origin)
    check(deployment.spec)
    return deployment


def render_draft(
    options: argparse.Namespace, draft: Draft, deployment: BundleDeployment, served: Capabilities | Discovery
) -> tuple[BundleDeployment, Revision]:
    """Render a BundleDeployment that a command line describes.

    Args:
        options: those of `render` that rendering depends on.
        draft: whose ConfigMaps need not exist, and whose format may have to be recognized.
        deployment: the draft, validated; its pins are honored.
        served: the capabilities of its cluster, or the cluster to ask for them.

    Returns: the BundleDeployment with its format, and the revision.
    Raises: NoConsentError, BundleError, MisuseError, ApiError, ConfigurationError.
    """
    ask_for_consent(options, deployment, draft.origin)
    with new_store() as store:
        return _render_draft(options, draft, deployment, store, served)


@contextmanager
def new_store() -> Iterator[ContentStore]:
    """Provide a content store that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="rukpak-") as folder, ContentStore(Path(folder)) as store:
        yield store


def _check(options: argparse.Namespace) -> None:
    if [is_named(options), bool(options.file), bool(options.revision)].count(True) != 1:
        raise MisuseError("specify either SOURCE, -f FILE or --revision")
    check_stdin(options)
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


# SOURCE


def render_local(options: argparse.Namespace, store: ContentStore, capabilities: Capabilities) -> Revision:
    """Render local content.

    Args:
        options: source, and those of `render` that rendering depends on.
        store: for scratch folders.
        capabilities: of the cluster.

    Raises: BundleError, MisuseError.
    """
    spec = read_overrides(options, None)
    with store.scratch() as scratch, store.scratch() as own:
        tree = unpack(options.source, scratch)
        spec |= recognize(scratch, spec)
        format_name, config = spec["format"], spec.get("config") or {}
        check_config(format_name, config)
        request = RenderRequest(
            name=options.name or NAME,
            install_namespace=options.install_namespace or "",
            tree=tree,
            config=config,
            capabilities=capabilities,
            means=replace(settings_of(options).means(), scratch=own),
        )
        return render(Task(format_name, request))


# a BundleDeployment


def ask_for_consent(options: argparse.Namespace, deployment: BundleDeployment, origin: str) -> None:
    """Ask whether the Secrets that a BundleDeployment names may be used, unless it names none or a flag says so.

    A stranger may have written it, and may run the servers that it names. The question is asked on the terminal, since
    stdin may be the file. Without a terminal, nothing is read.

    Raises: NoConsentError; MisuseError if there is no terminal.
    """
    if options.use_secrets or not (uses := find_secret_uses(deployment, network_of(options).registry_mirrors)):
        return
    tell(f"{origin} uses your permissions to read these Secrets and send them to these servers, or print them:")
    for line in to_table(("SECRET", "SERVER"), uses).splitlines():
        tell(f"  {line}")
    if not ask(f"{origin}: no terminal to ask for consent; pass --use-secrets to use its Secrets"):
        raise NoConsentError


def _render_draft(
    options: argparse.Namespace,
    draft: Draft,
    deployment: BundleDeployment,
    store: ContentStore,
    served: Capabilities | Discovery,
) -> tuple[BundleDeployment, Revision]:
    (spec, confidential, secrets), status = _with_config(options, deployment), deployment.status
    builder = make_builder(options, store)
    cancelled = threading.Event()
    context = replace(make_context(options, draft, deployment), unchecked=find_unchecked(spec, status.sources))
    if isinstance(served, Discovery):
        as_user = partial(look_up, connect(options), served.resource, None)
        context = replace(context, custom_kinds=served.custom_kinds, look_up=as_user)
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
        secrets=secrets,
    )
    if draft.recognizes:
        with builder.content(request, cancelled, context) as tree:
            said = recognize(tree.root, {"config": deployment.spec.config})
        deployment = deployment.model_copy(update={"spec": deployment.spec.model_copy(update=said)})
        spec = spec.model_copy(update={**said, "config": {**spec.config, **said.get("config", {})}})
        check(spec)
        request = replace(request, spec=spec)
    capabilities = served.capabilities() if isinstance(served, Discovery) else served
    built = builder.build(request, capabilities, cancelled, context, kept=_kept(options, status, served))
    revision = built.unpacked() if isinstance(built, PackedRevision) else built
    if revision.terms.looked_up:
        account = spec.service_account_name
        whose = f'ServiceAccount "{request.install_namespace}/{account}"' if account else "itself"
        tell(
            f"the chart looks up {len(revision.terms.looked_up)} objects or lists, which were read as you; the "
            f"controller reads them as {whose}, and its revision counts"
        )
    return deployment, revision


def _kept(options: argparse.Namespace, status: Status, served: Capabilities | Discovery) -> Sequence[Revision]:
    """Return the installed revision, if the user may read it: what it has generated, the next one keeps or loses."""
    if not (status.installed_revision and isinstance(served, Discovery)):
        return ()
    found = read_stored(connect(options), options, status.installed_revision)
    return (found,) if found else ()


def _with_config(
    options: argparse.Namespace, deployment: BundleDeployment
) -> tuple[Spec, Confidential | None, SecretValues]:
    """Return the spec with its merged config, what is secret of it, and the Secrets of processors.

    They are read with the user's permissions.
    """
    spec = deployment.spec
    if not needs_objects(spec):
        return spec, None, {}
    found = read_config(connect(options), deployment, None, _forget)
    return spec.model_copy(update={"config": found.config}), found.confidential, found.secrets


def make_context(options: argparse.Namespace, draft: Draft, deployment: BundleDeployment) -> BuildContext:
    """Return what the sources of a BundleDeployment may use, read with the user's permissions.

    It connects only if a source names something in the cluster. A ConfigMap of the draft need not exist.
    """
    connecting, readers = threading.Lock(), list[SecretReader]()
    maps = {
        name: LocalContent(files={KEY: data}, annotations={names.PART: str(part)}) for name, part, data in draft.parts
    }

    def connected() -> SecretReader:
        with connecting:  # sources are read on several threads, and a plug-in of the kubeconfig may ask the user
            if not readers:
                readers.append(SecretReader(connect(options), None))
            return readers[0]

    def _read_credentials(index: int, source: Source) -> Credentials | None:
        if not (source.secret or (deployment.spec.service_account_name and source.is_in_registry)):
            return None
        return connected().credentials(deployment, index, source, _forget)

    def _read_trusted(index: int, source: Source) -> Trusted:
        verification = source.verification
        if verification is None or not any((*secrets_of(verification), *config_maps_of(verification))):
            return Trusted()
        return connected().trusted(deployment, index, source, _forget)

    def _read_local(index: int, name: str) -> LocalContent:
        place = f"spec.sources[{index}].configMap"
        return maps.get(name) or connected().local_content(deployment, name, place, _forget)

    return BuildContext(
        credentials=_read_credentials,
        trusted=_read_trusted,
        demanded=lambda index, source: read_demanded(
            index, source, lambda *secret: connected().read_unfollowed(*secret)
        ),
        config_map=_read_local,
    )


def _forget(_object: ObjectReference, _version: str | None) -> None:
    """Take note of nothing: the command line waits for no change."""


def make_builder(options: argparse.Namespace, store: ContentStore) -> Builder:
    """Return what resolves sources and renders as the controller does, with the options that it has in common."""
    settings = BuildSettings(
        store_bytes=_STORE_BYTES,
        limits=Limits(),
        timeout=options.fetch_timeout,
        network=network_of(options),
        means=settings_of(options).means(),
    )
    return Builder(store, settings, lambda: datetime.now(UTC))


# the result


def _show(revision: Revision, output: str) -> str:
    if output == "revision":
        return f"{revision.digest}\n"
    waves = find_waves(revision.objects)
    objects = sorted(revision.objects, key=lambda manifest: waves[key_of(manifest)])
    manifests = [*objects, *(hook["manifest"] for hook in revision.hooks)]
    if output == "name":
        return "".join(f"{name_of(manifest)}\n" for manifest in manifests)
    if output == "json":
        return to_json(list_of(manifests))
    hooks = (f"# hook: {', '.join(hook['events'])}\n{to_yaml(hook['manifest'])}" for hook in revision.hooks)
    has_waves = len(set(waves.values())) > 1
    heads = [f"# wave: {waves[key_of(each)]}\n" if has_waves else "" for each in objects]
    return "---\n".join([*(f"{head}{to_yaml(each)}" for head, each in zip(heads, objects, strict=True)), *hooks])


def show_capabilities(options: argparse.Namespace) -> int:
    """Print the capabilities of the cluster; return the exit status.

    Raises: ApiError, ConfigurationError.
    """
    discovery = Discovery(connect(options))
    served = discovery.capabilities()
    found = attempt(lambda: discovery.with_custom_kinds(served), HTTPStatus.FORBIDDEN) or served
    if found is served:
        tell(
            "warning: you may not list customresourcedefinitions, so what custom resources store of null and status is "
            "missing"
        )
    for group in sorted(found.unknown):
        tell(
            f'warning: API group "{group}": discovery failed, so its kinds are missing; repair or delete its APIService'
        )
    print(
        to_json(capabilities_file.dump(found)) if options.output == "json" else capabilities_file.write(found), end=""
    )
    return 0


def find(options: argparse.Namespace) -> Reviewed:
    """Return the revision that a BundleDeployment asks for: one on the cluster, or one that flags or a file describe.

    Raises: FailedError if there is none to show; MisuseError, NoConsentError, BundleError, ApiError and
    ConfigurationError as `rukpak render`.
    """
    if not is_described(options):
        return _on_cluster(options)
    if options.from_cluster:
        raise MisuseError("--from-cluster requires NAME alone")
    if not (options.file or is_named(options)):
        return find_new(options)
    draft, served = make_draft(options), read_capabilities(options.capabilities)
    deployment, revision = render_draft(options, draft, read_draft(draft), served)
    return Reviewed(deployment=deployment, revision=revision)


def _on_cluster(options: argparse.Namespace) -> Reviewed:
    if options.name is None:
        raise MisuseError("specify NAME or -f FILE")
    client = connect(options)
    missing = f'BundleDeployment "{options.name}" does not exist'
    _, deployment = Deployments(client).read(options.name, missing)
    if deployment.problem:
        raise FailedError(f"{options.name}: cannot be read: {deployment.problem}")
    status = deployment.status
    digest = status.pending.revision if status.pending else status.revision or status.installed_revision
    stored = read_stored(client, options, digest)
    if stored is None and options.from_cluster:
        raise FailedError(f"{options.name}: its revision is not stored yet; wait for the controller")
    revision = stored or _render_pins(client, options, _with_pins(deployment), digest)
    return Reviewed(deployment=deployment, revision=revision, client=client)


def find_new(options: argparse.Namespace) -> Reviewed:
    """Return the revision that a BundleDeployment leads to on its cluster that flags or a file describe.

    Raises: as `find`.
    """
    if options.from_cluster:
        raise MisuseError("--from-cluster requires NAME alone")
    client = connect(options)
    found = Deployments(client).get(options.name) if options.name and not options.file else None
    return render_new(client, options, make_draft(options, found))[1]


def render_new(client: Client, options: argparse.Namespace, draft: Draft) -> tuple[Draft, Reviewed]:
    """Render a BundleDeployment as its cluster would if it was applied now.

    Pins of an existing one are honored for sources that it already has.

    Args:
        client: of the cluster.
        options: those that rendering depends on; `name` is set to that of the BundleDeployment.
        draft: of the BundleDeployment.

    Returns: the draft with its format, and the revision, whose warnings are shown.
    Raises: as `find`.
    """
    deployment = read_draft(draft)
    options.name = deployment.metadata.name
    value = Deployments(client).get(options.name)
    existing, problem = try_to_read(value) if value else (None, "")
    if problem:
        tell(f"warning: {options.name}: status cannot be read: {problem}")
    if existing:
        deployment = deployment.model_copy(update={"metadata": existing.metadata, "status": existing.status})
    deployment, revision = render_draft(options, draft, deployment, Discovery(client))
    for warning in revision.warnings:
        tell(f"warning: {warning}")
    if draft.recognizes:
        said = {"format": deployment.spec.format, "config": deployment.spec.config}
        draft = draft.with_spec(draft.value["spec"] | {key: value for key, value in said.items() if value})
    return draft, Reviewed(deployment=deployment, revision=revision, client=client)


def read_stored(client: Client, options: argparse.Namespace, digest: str, *, required: bool = False) -> Revision | None:
    """Return a revision of the store; None if it does not exist, or the user may not read it.

    Raises: ApiError; also if the user may not read it, with --from-cluster, or if it is required.
    """
    accepted = () if options.from_cluster or required else (HTTPStatus.FORBIDDEN,)
    return attempt(lambda: open_store(client, options.namespace).read(options.name, digest), *accepted)


def _with_pins(deployment: BundleDeployment) -> BundleDeployment:
    pending = deployment.status.pending
    if pending is None:
        return deployment
    return deployment.model_copy(update={"status": deployment.status.model_copy(update={"sources": pending.sources})})


def _render_pins(client: Client, options: argparse.Namespace, deployment: BundleDeployment, digest: str) -> Revision:
    """Render the pins of a BundleDeployment on the cluster.

    Raises: BundleError, also if that gives another revision than the controller has.
    """
    draft = Draft(value={}, origin=f'BundleDeployment "{options.name}"')
    _, revision = render_draft(options, draft, deployment, Discovery(client))
    if digest and revision.digest != digest:
        text = (
            f"{options.name}: rendering its sources here gives revision {revision.digest}, but the status says "
            f"{digest}; use --from-cluster, which requires permission to read the Secrets of the revision store"
        )
        raise BundleError(Reason.INVALID_BUNDLE, text)
    return revision
