"""`rukpak render`: print what the controller would apply, using the controller's own code (rule 9).

A local SOURCE is treated as the content of one source, without cluster and network; an OCI reference or URL is fetched.
With `-f`, the sources of a BundleDeployment are resolved and fetched, and pins in its status are honored. Its Secrets
are read only with the user's consent (consent.py). With `--revision`, a revision that was applied once is read from the
revision store (stored.py).
"""

from __future__ import annotations

import argparse
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from api.errors import BundleError
from api.plugins import Capabilities, Credentials, Limits, LocalContent, Network, RenderRequest
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import BundleDeployment, Source, Spec
from controller.build import capabilities as capabilities_file
from controller.build.builder import Builder
from controller.build.confidential import Confidential
from controller.build.config_values import confidential_of, merge_config
from controller.build.pins import match_pins
from controller.build.rendering import render
from controller.build.request import BuildContext, BuildSettings, Request, check, check_config
from controller.build.revision import PackedRevision, Revision
from controller.cli.command import (
    FAILED,
    MisuseError,
    connect,
    read_file,
    tell,
)
from controller.cli.output import list_of, name_of, to_json, to_yaml
from controller.cli.parsing.arguments import RENDERING
from controller.cli.rendering import consent, manifest, stored
from controller.cli.rendering.content import guess_format, is_remote, make_spec, unpack
from controller.content.store import ContentStore
from controller.formats.yaml.manifests import read_documents
from controller.settings import Settings

NAME = "bundle"
_STORE_BYTES = 1 << 40


def main(options: argparse.Namespace) -> int:
    """Render a bundle; return the exit status.

    Raises: BundleError with the reason that the controller would report; MisuseError, ApiError, ConfigurationError.
    """
    _check(options)
    revision = stored.read(options) if options.revision else _render(options)
    if revision is None:
        return FAILED
    for warning in revision.warnings:
        tell(f"warning: {warning}")
    print(_show(revision, options.output), end="")
    return 0


def _render(options: argparse.Namespace) -> Revision | None:
    capabilities = read_capabilities(options.capabilities)
    if options.file:
        return render_deployment(options, _read(options), capabilities, options.file)
    with new_store() as store:
        return (_render_remote if is_remote(options.source) else render_local)(options, store, capabilities)


def render_deployment(
    options: argparse.Namespace, deployment: BundleDeployment, capabilities: Capabilities, origin: str
) -> Revision | None:
    """Render a validated BundleDeployment; None if the user does not consent to the use of its Secrets.

    Args:
        options: those of `render` that rendering depends on.
        deployment: whose pins are honored.
        capabilities: of its cluster.
        origin: of the BundleDeployment, for the question.

    Raises: BundleError, MisuseError, ApiError, ConfigurationError.
    """
    if not (options.use_secrets or consent.is_given(_uses(options, deployment), origin)):
        tell("rukpak: canceled; no Secret was read")
        return None
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


def _uses(options: argparse.Namespace, deployment: BundleDeployment) -> list[consent.SecretUse]:
    return consent.find_secret_uses(deployment, network_of(options).registry_mirrors)


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
