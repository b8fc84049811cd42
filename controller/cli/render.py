"""`rukpak render`: print what the controller would apply, using the controller's own code (rule 9).

A folder is treated as the content of one source, without cluster and network. With `-f`, the sources of a
BundleDeployment are resolved and fetched, and pins in its status are honored. Its Secrets are read only with the
user's consent (consent.py).
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from api.errors import BundleError
from api.plugins import Capabilities, ContentTree, Credentials, Limits, RenderRequest
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import BundleDeployment, Source
from controller.build import capabilities as capabilities_file
from controller.build.builder import Builder
from controller.build.context import BuildContext, BuildSettings
from controller.build.pins import match_pins
from controller.build.rendering import render
from controller.build.request import Request
from controller.build.revision import PackedRevision, Revision
from controller.build.validation import check, check_config
from controller.cli import consent, manifest
from controller.cli.command import (
    FAILED,
    MisuseError,
    add_cluster_options,
    add_output,
    connect,
    make_parser,
    read_file,
    tell,
)
from controller.cli.output import list_of, name_of, to_json, to_yaml
from controller.content.archive import write_entries
from controller.content.folder import read_folder
from controller.content.store import ContentStore
from controller.formats.yaml.manifests import read_documents
from controller.options import add_options
from controller.settings import Settings

OPTIONS = (
    *("registry_mirror", "denied_networks", "allowed_networks", "allowed_hosts", "allow_loopback"),
    *("fetch_timeout", "fetch_idle_timeout", "min_fetch_rate"),
    *("helm", "render_timeout", "render_mebibytes", "confinement"),
)
NAME = "bundle"
_STORE_BYTES = 1 << 40


def main(arguments: Sequence[str]) -> int:
    """Render a bundle; return the exit status.

    Raises: BundleError with the reason that the controller would report; MisuseError, ApiError, ConfigurationError.
    """
    options = _parse(arguments)
    capabilities = _capabilities(options.capabilities)
    deployment = _read(options) if options.file else None
    if deployment and not (options.use_secrets or consent.is_given(_uses(options, deployment), options.file)):
        tell("rukpak render: canceled; no Secret was read")
        return FAILED
    with tempfile.TemporaryDirectory(prefix="rukpak-") as folder, ContentStore(Path(folder)) as store:
        if deployment:
            revision = _render_deployment(options, deployment, store, capabilities)
        else:
            revision = _render_folder(options, store, capabilities)
    for warning in revision.warnings:
        tell(f"warning: {warning}")
    print(_show(revision, options.output), end="")
    return 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = make_parser("render", "Print the objects of a bundle as the controller would apply them.")
    parser.add_argument("dir", nargs="?", metavar="DIR", help="directory with the content of a bundle")
    parser.add_argument("-f", "--file", metavar="FILE", help="BundleDeployment whose sources to fetch; -: stdin")
    parser.add_argument(
        "--use-secrets", action="store_true", help="use the Secrets that FILE names without asking for consent"
    )
    parser.add_argument("--format", help="overrides spec.format [default for DIR: plain]")
    parser.add_argument("--name", help=f"overrides the name of the BundleDeployment [default for DIR: {NAME}]")
    parser.add_argument("--install-namespace", metavar="NAMESPACE", help="overrides spec.installNamespace")
    parser.add_argument("--config", metavar="FILE", help="YAML or JSON file that overrides spec.config; -: stdin")
    capabilities = 'output of "rukpak capabilities"; -: stdin; default: those of the latest Kubernetes version'
    parser.add_argument("--capabilities", metavar="FILE", help=capabilities)
    add_output(parser, ("yaml", "json", "name", "revision"), "yaml")
    add_cluster_options(parser)
    add_options(parser, os.environ, only=OPTIONS)
    options = parser.parse_args(arguments)
    if (options.dir is None) == (options.file is None):
        parser.error("specify either DIR or -f FILE")
    if [options.file, options.config, options.capabilities].count("-") > 1:
        parser.error("only one file can be read from stdin")
    if problem := _settings(options).problem():
        parser.error(problem)
    return options


def _settings(options: argparse.Namespace) -> Settings:
    return Settings(**{name: getattr(options, name) for name in OPTIONS})


def _capabilities(name: str | None) -> Capabilities:
    return capabilities_file.parse(read_file(name), name) if name else capabilities_file.shipped()


def _config(name: str) -> dict[str, Any]:
    documents = [document.value for document in read_documents(read_file(name), name)] or [{}]
    if len(documents) > 1 or not isinstance(documents[0], dict):
        raise BundleError(Reason.INVALID_CONFIG, f"{name}: must contain a single mapping, the value of spec.config")
    return documents[0]


# a folder


def _render_folder(options: argparse.Namespace, store: ContentStore, capabilities: Capabilities) -> Revision:
    folder = Path(options.dir)
    if not folder.is_dir():
        raise MisuseError(f'"{options.dir}": not a directory')
    format_name = options.format or "plain"
    config = _config(options.config) if options.config else {}
    check_config(format_name, config)
    with store.scratch() as scratch, store.scratch() as own:
        try:
            write_entries(read_folder(folder), scratch, Limits(), options.dir)
        except OSError as error:
            raise MisuseError(f'"{error.filename or options.dir}": {error.strerror or "cannot be read"}') from error
        request = RenderRequest(
            name=options.name or NAME,
            install_namespace=options.install_namespace or "",
            tree=ContentTree(root=scratch, destinations=("",)),
            config=config,
            capabilities=capabilities,
            means=replace(_settings(options).means(), scratch=own),
        )
        return render(format_name, request)


# a BundleDeployment


def _read(options: argparse.Namespace) -> BundleDeployment:
    deployment = manifest.read(read_file(options.file), options.file, _overrides(options))
    check(deployment.spec)
    return deployment


def _uses(options: argparse.Namespace, deployment: BundleDeployment) -> list[consent.SecretUse]:
    return consent.find_secret_uses(deployment, _settings(options).network(in_pod=False).registry_mirrors)


def _render_deployment(
    options: argparse.Namespace, deployment: BundleDeployment, store: ContentStore, capabilities: Capabilities
) -> Revision:
    spec, status = deployment.spec, deployment.status
    builder = Builder(
        store,
        BuildSettings(
            store_bytes=_STORE_BYTES,
            limits=Limits(),
            timeout=options.fetch_timeout,
            network=_settings(options).network(in_pod=False),
            means=_settings(options).means(),
        ),
        lambda: datetime.now(UTC),
    )
    cancelled, context = threading.Event(), BuildContext(credentials=_SecretReader(options, deployment).read)
    resolved = builder.resolve(spec, match_pins(spec, status.sources), cancelled, context)
    if resolved.failure:
        raise resolved.failure
    request = Request(
        name=deployment.metadata.name,
        spec=spec,
        pins=tuple(pin for pin in resolved.pins if pin),
        install_namespace=spec.install_namespace or status.install_namespace,
        requested_at=status.last_handled_reconcile_at,
    )
    revision = builder.build(request, capabilities, cancelled, context)
    return revision.unpacked() if isinstance(revision, PackedRevision) else revision


def _overrides(options: argparse.Namespace) -> Mapping[str, Any]:
    given = {"format": options.format, "installNamespace": options.install_namespace}
    spec = {key: value for key, value in given.items() if value}
    if options.config:
        spec["config"] = _config(options.config)
    return {"name": options.name, "spec": spec}


class _SecretReader:
    """Reads the Secrets that sources name with the user's permissions; connects only if there are any."""

    def __init__(self, options: argparse.Namespace, deployment: BundleDeployment) -> None:
        self._options, self._deployment = options, deployment
        self._lock = threading.Lock()

    def read(self, index: int, source: Source) -> Credentials | None:
        """Return the credentials of one source; None if it names none.

        Raises: BundleError as SecretReader.credentials; ConfigurationError.
        """
        if not (source.secret or (self._deployment.spec.service_account_name and source.kind == "image")):
            return None
        from controller.revisions.credentials import SecretReader  # noqa: PLC0415 - needs the cluster

        with self._lock:
            reader = SecretReader(connect(self._options), None)
            return reader.credentials(self._deployment, index, source, lambda _secret, _version: None)


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
