"""`rukpak install`, `push` and `package`: a bundle from a command line or a folder, on a cluster or in a registry.

What `install` has shown is what is installed, if approvals are required: then its revision is approved in advance.
Otherwise a tag may move between the two, which `--wait` reports.

ConfigMaps of `push` are named by the digest of the folder, so pushing it again changes nothing. Those that the
BundleDeployment does not name any more are deleted: revisions need no content once they are stored.

For a registry the folder is rendered first, so that what is pushed would render. Credentials are those of the tools for
images: from a Docker configuration, whose credential helpers are not run, or given for this call.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import io
import os
import sys
import tarfile
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from api import names
from api.errors import BundleError
from api.plugins import Access, Credentials, Entry, EntryKind, Limits
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import BundleDeployment
from controller.cli import manifest
from controller.cli.command import FailedError, MisuseError, confirm, connect, read_file, tell
from controller.cli.comparison import summarize
from controller.cli.deployments import MANAGER, Deployments, Manifest, awaits_ready, conclude, wait_if_asked
from controller.cli.diff import compare
from controller.cli.output import fit, name_of, show, to_json
from controller.cli.permissions import describe
from controller.cli.render import (
    OCI,
    Reviewed,
    network_of,
    new_store,
    read_capabilities,
    read_config,
    render_local,
    render_new,
)
from controller.content.disk import read_folder
from controller.content.limits import describe_bytes, quote
from controller.kube.client import ApiError, Client
from controller.kube.resources import CONFIG_MAPS, DEPLOYMENTS
from controller.permissions.permissions import permissions_of
from controller.permissions.statement import to_lines
from controller.sources.config_map import KEY, MOST_BYTES, Part, split
from controller.sources.credentials import DOCKER_CONFIG_JSON, parse_secret
from controller.sources.image.registry import push_image
from controller.status.report import short

_API_VERSION = f"{names.GROUP}/v1alpha2"
_DEFAULT_APPROVAL = "Automatic"
_FLAGS_OF = {
    "ref": ("git",),
    "directory": ("git",),
    "sha256": ("http", "chart"),
    "repository": ("chart",),
    "version": ("chart",),
}
_DIGITS = 12
"""Of the digest in names."""
_KIND = "configMap"
_PLACE = "image"
"""Starts the messages about the registry."""
_EXECUTABLE = 0o111


def install(options: argparse.Namespace) -> int:
    """Install a bundle; return the exit status: 1 if it is not created, or with `--wait` does not become Ready.

    Raises: MisuseError; BundleError, ApiError and ConfigurationError as `rukpak render`.
    """
    value = make_deployment(options)
    client = connect(options)
    deployments = Deployments(client)
    if deployments.get(options.name):
        remedy = 'change it, and see "rukpak diff -f FILE"'
        raise FailedError(f'BundleDeployment "{options.name}" already exists; {remedy}')
    reviewed = _render(client, options, value)
    for line in fit(_describe(reviewed, options)).splitlines():
        tell(line)
    value = _approved(value, reviewed, options)
    if options.dry_run:
        print(show([value], options.output) if options.output else f"{name_of(value)} created (dry run)\n", end="")
        return 0
    confirm(options, "nothing was created")
    values, failures = wait_if_asked(options, deployments, awaits_ready, [deployments.create(value)])
    shown = reviewed.revision.digest
    for each in values:
        found = (each.get("status") or {}).get("revision") or shown
        if found != shown:
            tell(f"warning: revision {short(found)} is installed, not {short(shown)}: the source has changed meanwhile")
    return conclude("install", options, values, failures, done="created")


def make_deployment(options: argparse.Namespace) -> Manifest:
    """Return the BundleDeployment that a command line describes.

    Raises: MisuseError; BundleError for a file of config that is not valid.
    """
    spec: dict[str, Any] = {"format": options.format, "sources": [_make_source(options)]}
    fields = {
        "installNamespace": options.install_namespace,
        "serviceAccountName": options.service_account,
        "config": read_config(options.config) if options.config else None,
        "approval": options.approval if options.approval != _DEFAULT_APPROVAL else None,
    }
    spec |= {key: value for key, value in fields.items() if value}
    return {"apiVersion": _API_VERSION, "kind": names.KIND, "metadata": {"name": options.name}, "spec": spec}


def _make_source(options: argparse.Namespace) -> dict[str, Any]:
    blocks = {
        "image": {"ref": (options.image or "").removeprefix(OCI)},
        "git": {"repository": options.git, "ref": options.ref, "directory": options.directory},
        "http": {"url": options.http, "sha256": options.sha256},
        "chart": {
            "repository": options.repository,
            "name": options.chart,
            "version": options.version,
            "sha256": options.sha256,
        },
    }
    given = [kind for kind in blocks if getattr(options, kind)]
    if len(given) != 1:
        raise MisuseError("specify one of --image, --git, --http and --chart")
    kind = given[0]
    if wrong := next((flag for flag, kinds in _FLAGS_OF.items() if kind not in kinds and getattr(options, flag)), None):
        raise MisuseError(f"--{wrong} does not apply to --{kind}")
    if kind == "chart" and not options.repository:
        raise MisuseError("--chart requires --repository")
    block: dict[str, Any] = {key: value for key, value in blocks[kind].items() if value}
    if options.secret:
        block["auth"] = {"secret": {"name": options.secret}}
    return {"kind": kind, kind: block}


def _render(client: Client, options: argparse.Namespace, value: Manifest) -> Reviewed:
    deployment: BundleDeployment = manifest.read(to_json(value).encode(), "command line", {"name": None, "spec": {}})
    try:
        return render_new(client, options, deployment, f'BundleDeployment "{options.name}"')
    except BundleError as error:
        if error.reason is not Reason.NO_CONTENT:
            raise
        raise BundleError(error.reason, f"{error.message}; here it is --format, now {options.format}") from None


def _describe(reviewed: Reviewed, options: argparse.Namespace) -> Iterator[str]:
    yield from summarize(compare(reviewed, options))
    account = reviewed.deployment.spec.service_account_name
    yield f"  Applied as: {f'ServiceAccount {account}' if account else 'the controller'}"
    lines = to_lines(permissions_of(reviewed.revision))
    yield from (f"  {line}" for line in describe(lines))


def _approved(value: Manifest, reviewed: Reviewed, options: argparse.Namespace) -> Manifest:
    """Return the BundleDeployment with the approval of exactly what was shown, if approvals are required."""
    if options.approval == _DEFAULT_APPROVAL:
        return value
    account = {"approvedServiceAccountName": options.service_account} if options.service_account else {}
    return {**value, "spec": {**value["spec"], "approvedRevision": reviewed.revision.digest, **account}}


def push(options: argparse.Namespace) -> int:
    """Push a folder; return the exit status.

    Raises: MisuseError, ApiError, ConfigurationError.
    """
    parts = split(pack(Path(options.folder), MOST_BYTES))
    client = connect(options)
    deployments = Deployments(client)
    value = deployments.get(options.name)
    if value is None:
        raise MisuseError(f'no BundleDeployment "{options.name}"; create it with a source of kind configMap first')
    namespace, index = _namespace_of(value), _index_of(value, options.source)
    pushed = [create_part(client, value, namespace, part, data) for part, data in parts]
    before = named_maps(value)
    value = _point(client, value, index, pushed)
    values, failures = wait_if_asked(options, deployments, awaits_ready, [value])
    is_installed = options.wait and not failures
    _delete_others(client, options.name, namespace, {*pushed, *([] if is_installed else before)})
    return conclude("push", options, values, failures, done=f"pushed {parts[0][0].digest}")


def _namespace_of(value: Manifest) -> str:
    namespace: str = value["spec"].get("installNamespace") or ""
    if not namespace:
        raise MisuseError("spec.installNamespace: required, since ConfigMaps are read there; set it first")
    return namespace


def _index_of(value: Manifest, given: int | None) -> int:
    sources = value["spec"]["sources"]
    if given is not None:
        if not 0 <= given < len(sources):
            raise MisuseError(f"--source: there are only the sources 0 to {len(sources) - 1}")
        return given
    found = [index for index, source in enumerate(sources) if source["kind"] == _KIND]
    if len(found) == 1:
        return found[0]
    problem = "several sources are" if found else "no source is"
    raise MisuseError(f"spec.sources: {problem} of kind configMap; say with --source which one to replace")


def name_part(name: str, part: Part) -> str:
    """Return the name of the ConfigMap of a part, for a BundleDeployment of some name."""
    return f"{name}-{part.digest.rpartition(':')[2][:_DIGITS]}-{part.number}"


def create_part(client: Client, value: Manifest, namespace: str, part: Part, data: bytes) -> str:
    """Create the ConfigMap of a part, unless it exists; return its name.

    Raises: MisuseError if it exists with other content; ApiError.
    """
    metadata = value["metadata"]
    name = name_part(metadata["name"], part)
    about = {"name": metadata["name"], "uid": metadata["uid"]}
    owner = {"apiVersion": DEPLOYMENTS.api_version, "kind": names.KIND, **about}
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {names.CONTENT_LABEL: metadata["name"]},
            "annotations": {names.PART: str(part)},
            "ownerReferences": [owner],  # deleted with the BundleDeployment
        },
        "immutable": True,
        "binaryData": {KEY: base64.b64encode(data).decode()},
    }
    try:
        client.create(CONFIG_MAPS.path(namespace), body, manager=MANAGER)
    except ApiError as error:
        if error.status != HTTPStatus.CONFLICT:
            raise
        _check_existing(client, namespace, name, part)
    return name


def _check_existing(client: Client, namespace: str, name: str, part: Part) -> None:
    found = client.get(CONFIG_MAPS.path(namespace, name), metadata=True).value
    if (found["metadata"].get("annotations") or {}).get(names.PART) != str(part):
        raise MisuseError(f'ConfigMap "{namespace}/{name}" exists with other content; delete it')


def named_maps(value: Manifest) -> list[str]:
    """Return the ConfigMaps that the sources of a BundleDeployment name."""
    blocks = [source.get(_KIND) or {} for source in value["spec"]["sources"]]
    return [name for block in blocks for name in (block.get("names") or [block.get("name")]) if name]


def _point(client: Client, value: Manifest, index: int, pushed: Collection[str]) -> Manifest:
    """Have a source name these ConfigMaps, unless the source has changed since; return the BundleDeployment."""
    source = value["spec"]["sources"][index]
    kept = {key: source[key] for key in ("destination",) if key in source}
    replaced: Mapping[str, Any] = {"kind": _KIND, **kept, _KIND: {"names": list(pushed)}}
    if replaced == source:
        return value
    operations = [
        {"op": "test", "path": f"/spec/sources/{index}", "value": source},
        {"op": "replace", "path": f"/spec/sources/{index}", "value": replaced},
    ]
    found: Manifest = client.json_patch(
        DEPLOYMENTS.path(name=value["metadata"]["name"]), operations, manager=MANAGER
    ).value
    return found


def _delete_others(client: Client, name: str, namespace: str, kept: Collection[str]) -> None:
    found = client.list(CONFIG_MAPS.path(namespace), label_selector=f"{names.CONTENT_LABEL}={name}", metadata=True)
    for each in [value["metadata"]["name"] for value in found]:
        if each not in kept:
            client.delete(CONFIG_MAPS.path(namespace, each))


def package(options: argparse.Namespace) -> int:
    """Render, pack and push a folder; return the exit status.

    Raises: BundleError with the reason that the controller would report, or that of the registry; MisuseError.
    """
    parameters, credentials = _parameters(options), _credentials(options)
    archive = pack(Path(options.source), Limits().compressed_bytes)
    with new_store() as store:
        revision = render_local(options, store, read_capabilities(options.capabilities))
        for warning in revision.warnings:
            tell(f"warning: {warning}")
        with store.scratch() as scratch:
            access = Access(
                path=_PLACE,
                deadline=time.monotonic() + options.fetch_timeout,
                cancelled=threading.Event(),
                scratch=scratch,
                network=network_of(options),
                credentials=credentials,
            )
            pushed = _push_image(parameters, archive, access)
    count = len(revision.objects)
    print(pushed if options.output == "name" else f"pushed {pushed}, which renders {count} objects")
    return 0


def _push_image(parameters: dict[str, Any], archive: bytes, access: Access) -> str:
    try:
        return push_image(parameters, archive, access)
    except ValueError as error:
        raise MisuseError(f"image reference {quote(parameters['ref'])} {error}") from None


def _parameters(options: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters of a source that would install the image."""
    certificates = read_file(options.certificate_authority).decode() if options.certificate_authority else ""
    return {
        "ref": options.reference.removeprefix(OCI),
        "insecureSkipTLSVerify": options.insecure_skip_tls_verify,
        "certificateData": certificates,
    }


def _credentials(options: argparse.Namespace) -> Credentials | None:
    if options.username:
        password = sys.stdin.readline().rstrip("\r\n")
        if not password:
            raise MisuseError("--username: requires the password on stdin")
        return Credentials(username=options.username, password=password)
    file = Path(options.registry_config or _default_config())
    if not options.registry_config and not file.is_file():
        return None
    encoded = base64.b64encode(read_file(str(file))).decode()
    secret = {"type": DOCKER_CONFIG_JSON, "metadata": {"name": file.name}, "data": {".dockerconfigjson": encoded}}
    try:
        found = parse_secret(secret, "image", str(file))
    except BundleError:
        found = Credentials()
    if not found.registries and options.registry_config:
        problem = "has no credentials; log in, or use --username (credential helpers are not run)"
        raise MisuseError(f"--registry-config: {quote(str(file))} {problem}")
    return found


def _default_config() -> Path:
    folder = os.environ.get("DOCKER_CONFIG")
    return (Path(folder) if folder else Path.home() / ".docker") / "config.json"


def pack(folder: Path, most: int) -> bytes:
    """Return a folder as tar+gzip, without owners, times and git's own folder.

    Links remain links, which are judged by who reads the archive, as those of any other one.

    Args:
        folder: to pack.
        most: bytes of the archive.

    Raises: MisuseError if it cannot be packed, or the archive is larger.
    """
    if not folder.is_dir():
        raise MisuseError(f"{quote(str(folder))}: no such folder")
    packed = io.BytesIO()
    try:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            entries = (entry for entry in read_folder(folder) if entry.kind is not EntryKind.DIRECTORY)
            for entry in sorted(entries, key=lambda entry: entry.path):
                info, data = _member(folder / entry.path, entry)
                archive.addfile(info, io.BytesIO(data))
    except OSError as error:
        raise MisuseError(f"{quote(str(folder))}: cannot be read: {error.strerror or error}") from None
    found = gzip.compress(packed.getvalue(), mtime=0)
    if len(found) > most:
        problem = f"larger than {describe_bytes(most)} when packed; use a registry or a repository"
        raise MisuseError(f"{quote(str(folder))}: {problem}")
    return found


def _member(path: Path, entry: Entry) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(entry.path)
    if entry.kind is EntryKind.SYMBOLIC_LINK:
        if entry.target.startswith("/"):
            problem = (
                f"is a link to {quote(entry.target)} on this machine; replace it with what it leads to, or remove it"
            )
            raise MisuseError(f"{quote(str(path))}: {problem}")
        info.type, info.linkname = tarfile.SYMTYPE, entry.target
        return info, b""
    data = path.read_bytes()
    info.size, info.mode = len(data), 0o755 if path.stat().st_mode & _EXECUTABLE else 0o644
    return info, data
