"""`rukpak install`, `push` and `package`: a bundle from a command line or a folder, on a cluster or in a registry.

`install` creates a BundleDeployment or changes the one that exists, as `kubectl apply` does. What it has shown is what
is installed, if approvals are required: then its revision is approved in advance. Otherwise a tag may move between the
two, which `--wait` reports.

Content of this machine is written before a BundleDeployment that does not exist yet, which would look broken without
it. ConfigMaps that it does not name any more are deleted: revisions need no content once they are stored.

For a registry the folder is rendered first, so that what is pushed would render. Credentials are those of the tools for
images: from a Docker configuration, whose credential helpers are not run, or given for this call.
"""

from __future__ import annotations

import argparse
import base64
import os
import secrets
import shlex
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Credentials, Limits
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.building.revision import Revision
from rukpak.controller.cli.command import confirm, connect, explain, read_file, tell, tell_all
from rukpak.controller.cli.content import (
    LOCAL,
    OCI,
    Draft,
    delete_parts,
    is_local,
    is_named,
    make_draft,
    maps_of,
    pack,
    parts_of,
    poll_each,
    read_trust,
    repeat,
    write_parts,
    write_with_content,
)
from rukpak.controller.cli.deployments import awaits_ready, conclude, wait_if_asked
from rukpak.controller.cli.diff import compare
from rukpak.controller.cli.other_tools import check_origin, choose_origin, name_origin
from rukpak.controller.cli.permissions import describe
from rukpak.controller.cli.render import network_of, new_store, read_capabilities, render_local, render_new
from rukpak.controller.content.limits import quote
from rukpak.controller.formats.recognition import NoContentError
from rukpak.controller.kube.client import ApiError, Client
from rukpak.controller.kube.resources import DEPLOYMENTS
from rukpak.controller.permissions import permissions_of
from rukpak.controller.permissions.statement import is_kind, to_lines
from rukpak.controller.sources.config_map import MOST_BYTES
from rukpak.controller.sources.credentials import DOCKER_CONFIG_JSON, parse_secret
from rukpak.controller.status.report import short
from rukpak.controller.untrusted import is_object_name, mapping, mappings
from rukpak.controller.views import FailedError, MisuseError
from rukpak.controller.views.access import MANAGER, Deployments, Manifest
from rukpak.controller.views.comparison import Change, Comparison, outline, summarize, write
from rukpak.controller.views.dry_run import Reviewed
from rukpak.controller.views.texts import name_of, show

_AUTOMATIC = "Automatic"
_PLACE = "image"
"""Starts the messages about the registry."""
_GZIP = b"\x1f\x8b"


def install(options: argparse.Namespace) -> int:
    """Install a bundle; return the exit status: 1 if it is refused, or with `--wait` does not become Ready.

    Raises: MisuseError; BundleError, ApiError and ConfigurationError as `rukpak render`.
    """
    _check(options)
    if options.registry:
        options.image, options.source = _push_to_registry(options, options.registry), None
    client = connect(options)
    deployments = Deployments(client)
    draft, found = _draft(deployments, options)
    try:
        draft, reviewed = _review(client, options, draft, found)
    except NoContentError as error:
        raise error.with_flag("--format") from None
    comparison = compare(reviewed, options)
    tell_all(_describe(draft, reviewed, comparison, options))
    if found and (pinned := found["spec"].get("pinnedRevision")) and not draft.value["spec"].get("pinnedRevision"):
        tell(f"  Rollback: to {short(pinned)}, is undone")
    declined = f"nothing was {'changed' if found else 'created'}"
    if comparison.is_refused and not options.force:
        advice = _advise_adoption(client, reviewed, comparison, options)
        remedy = f"{f'{advice}; ' if advice else ''}--force writes it all the same"
        raise FailedError(f"{declined}: some of it would be refused; {remedy}")
    if options.dry_run:
        spec = _merged_spec(deployments, draft, found) if options.file else draft.value["spec"]
        done = "created" if not found else "unchanged" if found["spec"] == spec else "configured"
        text = show([draft.value], options.output) if options.output else f"{name_of(draft.value)} {done} (dry run)\n"
        print(text, end="")
        return 0
    confirm(options, declined)
    value, done = _write(client, options, draft, found)
    values, failures = wait_if_asked(options, deployments, awaits_ready, [value])
    _tidy(client, value, found, is_installed=options.wait and not failures)
    if options.wait and not failures:
        _tell_moved(values[0], reviewed.revision)
    return conclude(options, values, failures, done=done)


def _tell_moved(value: Manifest, shown: Revision) -> None:
    status = mapping(value, "status")
    installed = status.get("installedRevision")
    if not installed or installed == shown.digest:
        return
    if [pin["digest"] for pin in mappings(status, "installedSources")] != [pin["digest"] for pin in shown.terms.pins]:
        why = "the source has changed meanwhile"
    else:
        why = (
            "the source is the same, but the bundle generates other values each time, such as passwords, or what it "
            "reads from the cluster has changed"
        )
    tell(f"warning: revision {short(installed)} is installed, not {short(shown.digest)}: {why}")


def _check(options: argparse.Namespace) -> None:
    if options.name is None and options.file is None:
        raise MisuseError("specify NAME and SOURCE, or -f FILE")
    is_packed = is_local(options)  # without --registry, too: flags that contradict each other are refused
    if options.registry and not is_packed:
        raise MisuseError("--registry requires a folder or packed chart as SOURCE")
    if options.registry and options.dry_run:
        raise MisuseError("--dry-run pushes nothing; leave out --registry to see what the folder would change")


def _draft(deployments: Deployments, options: argparse.Namespace) -> tuple[Draft, Manifest | None]:
    draft = make_draft(options) if options.file else None
    name = mapping(draft.value, "metadata").get("name") if draft else options.name
    if not is_object_name(str(name)):
        raise BundleError(Reason.INVALID_CONFIG, f"{options.file}: metadata.name: must be the name of an object")
    found = deployments.get(str(name))
    if found and found["metadata"].get("deletionTimestamp"):
        raise FailedError(f"{found['metadata']['name']}: is being deleted; run the command again when it is gone")
    if not (draft or found or is_named(options)):
        raise MisuseError("specify SOURCE, one of --image, --git, --http and --chart, or -f FILE")
    return draft or make_draft(options, found), found


def _review(
    client: Client, options: argparse.Namespace, draft: Draft, found: Manifest | None
) -> tuple[Draft, Reviewed]:
    if options.file:
        merged = _merged_spec(Deployments(client), draft, found)
        _, reviewed = render_new(client, options, draft.with_spec(merged))
    else:
        draft, reviewed = render_new(client, options, draft)
        merged = draft.value["spec"]
    spec, digest = dict(draft.value["spec"]), reviewed.revision.digest
    if merged.get("approval", _AUTOMATIC) != _AUTOMATIC:
        spec |= {"approvedRevision": digest, "approvedServiceAccountName": spec.get("serviceAccountName")}
    dropped = {"deniedRevision"} if spec.get("deniedRevision") == digest else set()
    if not options.file:  # what is installed now replaces what was rolled back to
        dropped.add("pinnedRevision")
    kept = {key: value for key, value in spec.items() if value is not None and key not in dropped}
    return draft.with_spec(kept), reviewed


def _merged_spec(deployments: Deployments, draft: Draft, found: Manifest | None) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = (deployments.apply(draft.value, dry_run=True) if found else draft.value)["spec"]
    return spec


def _describe(draft: Draft, reviewed: Reviewed, comparison: Comparison, options: argparse.Namespace) -> Iterator[str]:
    spec, key = draft.value["spec"], secrets.token_bytes()
    if options.diff:
        yield from write(comparison, key, colors=False)
    else:
        yield from _summarize(comparison, key)
    is_recursive = mapping(spec, "config").get("recursive")
    place = ", with manifests in subdirectories (spec.config.recursive)" if is_recursive else ""
    yield f"  Format: {spec['format']}{place}"
    if bundle := reviewed.revision.terms.bundle:
        yield f"  Bundle: {bundle}"
    yield f"  Namespace: {reviewed.revision.terms.install_namespace}"
    account = spec.get("serviceAccountName")
    yield f"  Applied as: {f'ServiceAccount {account}' if account else 'the controller'}"
    if spec.get("paused"):
        yield f'  Paused: nothing changes on the cluster before "rukpak resume {reviewed.deployment.metadata.name}"'
    has_secrets = any(is_kind(each, "", "Secret") for each in reviewed.revision.objects)
    yield from (f"  Warning: {line}" for line in draft.describe_exposed(has_secrets=has_secrets))
    yield from (f"  {line}" for line in describe(to_lines(permissions_of(reviewed.revision))))


def _summarize(comparison: Comparison, key: bytes) -> Iterator[str]:
    yield from summarize(comparison)
    for each in comparison.objects:
        if each.change in (Change.CHANGED, Change.RECREATED):
            yield f"  {each.change.value.capitalize()}: {each.key}"
            yield from outline(each, key)
        elif each.change is Change.DELETED:
            yield f"  Deleted: {each.key}"


def _advise_adoption(client: Client, reviewed: Reviewed, comparison: Comparison, options: argparse.Namespace) -> str:
    """Return how to take over what is refused; empty if anything is refused that an adoption would not help with."""
    namespace = reviewed.revision.terms.install_namespace
    refused = [each.holder for each in comparison.objects if each.change is Change.REFUSED]
    holders = [each for each in refused if each]
    if comparison.refusals or not holders or len(holders) < len(refused) or not (options.file or is_named(options)):
        return ""
    origins = {name_origin(each, namespace, Deployments(client).exists) for each in holders}
    if origin := choose_origin(origins):
        try:
            check_origin(client, origin, namespace)
        except (FailedError, ApiError) as error:
            return f"it cannot be taken over from {origin}: {explain(error)}"
        words = ["rukpak", "adopt", reviewed.deployment.metadata.name, *repeat(options), "--from", origin]
        return f'"{shlex.join(words)}" takes over what {origin} has installed'
    if None not in origins and len(origins - {""}) > 1:
        found = ", ".join(sorted(each for each in origins if each))
        return f"it was installed by {found}: divide it into bundles that each take over from one of them"
    return ""


def _write(client: Client, options: argparse.Namespace, draft: Draft, found: Manifest | None) -> tuple[Manifest, str]:
    deployments = Deployments(client)

    def _write_deployment() -> Manifest:
        if options.file:
            return deployments.apply(draft.value)
        return _replace_spec(client, found, draft.value["spec"]) if found else deployments.create(draft.value)

    value = write_with_content(client, draft, found, _write_deployment)
    if not found:
        return value, "created"
    return value, "unchanged" if value["metadata"]["generation"] == found["metadata"]["generation"] else "configured"


def _replace_spec(client: Client, found: Manifest, spec: Mapping[str, Any]) -> Manifest:
    # A new status alone changes nothing.
    metadata = found["metadata"]
    operations = [
        {"op": "test", "path": "/metadata/uid", "value": metadata["uid"]},
        {"op": "test", "path": "/metadata/generation", "value": metadata["generation"]},
        {"op": "replace", "path": "/spec", "value": spec},
    ]
    try:
        value: Manifest = client.json_patch(DEPLOYMENTS.path(name=metadata["name"]), operations, manager=MANAGER).value
    except ApiError as error:
        again = Deployments(client).get(metadata["name"]) if error.status == HTTPStatus.UNPROCESSABLE_ENTITY else found
        if again is None or again["metadata"]["generation"] != metadata["generation"]:
            raise FailedError(f"{metadata['name']}: changed meanwhile; run the command again") from None
        raise
    return value


def _tidy(client: Client, value: Manifest, found: Manifest | None, *, is_installed: bool) -> None:
    before = maps_of(found) if found else []
    if before or (found and maps_of(value)):
        delete_parts(client, value, {*maps_of(value), *([] if is_installed else before)})


def push(options: argparse.Namespace) -> int:
    """Push a folder; return the exit status.

    Raises: MisuseError, FailedError, ApiError, ConfigurationError.
    """
    archive = pack(options.source, MOST_BYTES)
    client = connect(options)
    deployments = Deployments(client)
    words = ["rukpak", "install", options.name, options.source]
    words += ["-n", options.install_namespace] if options.install_namespace else []
    remedy = f'"{shlex.join(words)}" creates it'
    found, _ = deployments.read(options.name, missing=f'BundleDeployment "{options.name}" not found; {remedy}')
    value = _in_namespace(found, options.install_namespace)
    index, parts = _index_of(value, options.position), parts_of(options.name, archive)
    spec = _point(value, index, [name for name, _, _ in parts])
    if options.poll_interval is not None:
        spec["sources"] = poll_each(spec["sources"], options.poll_interval)
    list(write_parts(client, value, parts))
    value = found if spec == found["spec"] else _replace_spec(client, found, spec)
    values, failures = wait_if_asked(options, deployments, awaits_ready, [value])
    _tidy(client, value, found, is_installed=options.wait and not failures)
    return conclude(options, values, failures, done=f"pushed {parts[0][1].digest}")


def _in_namespace(found: Manifest, namespace: str | None) -> Manifest:
    spec = found["spec"]
    own = spec.get("installNamespace")
    if namespace and own and namespace != own:
        raise MisuseError(f"-n {namespace}: spec.installNamespace is {own}, and cannot be changed")
    if not (own or namespace):
        raise MisuseError("spec.installNamespace is not set, and ConfigMaps are read there; pass -n NAMESPACE")
    return {**found, "spec": {**spec, "installNamespace": own or namespace}}


def _index_of(value: Manifest, given: int | None) -> int:
    sources = value["spec"]["sources"]
    if given is not None:
        if not 0 <= given < len(sources):
            raise MisuseError(f"--source: there are only the sources 0 to {len(sources) - 1}")
        return given
    found = [index for index, source in enumerate(sources) if source["kind"] == LOCAL]
    if len(found) == 1:
        return found[0]
    problem = "several sources are" if found else "no source is"
    raise MisuseError(f"spec.sources: {problem} of kind configMap; say with --source which one to replace")


def _point(value: Manifest, index: int, pushed: Collection[str]) -> dict[str, Any]:
    sources = list(value["spec"]["sources"])
    kept = {key: sources[index][key] for key in ("destination",) if key in sources[index]}
    sources[index] = {"kind": LOCAL, **kept, LOCAL: {"names": list(pushed)}}
    return {**value["spec"], "sources": sources}


def package(options: argparse.Namespace) -> int:
    """Render, pack and push a folder; return the exit status.

    Raises: BundleError with the reason that the controller would report, or that of the registry; MisuseError.
    """
    options.name = None
    with new_store() as store:
        revision = render_local(options, store, read_capabilities(options.capabilities))
    for warning in revision.warnings:
        tell(f"warning: {warning}")
    pushed = _push_to_registry(options, options.reference)
    count = len(revision.objects)
    told = "1 object" if count == 1 else f"{count} objects"
    print(pushed if options.output == "name" else f"pushed {pushed}, which renders {told}")
    return 0


def _push_to_registry(options: argparse.Namespace, reference: str) -> str:
    """Push a folder as an image; return the reference of that with its digest.

    Raises: BundleError with the reason of the registry; MisuseError.
    """
    from rukpak.controller.sources.image.registry import push_image  # noqa: PLC0415 - slow to import

    parameters = {"ref": reference.removeprefix(OCI), **read_trust(vars(options))}
    credentials = _credentials(options)
    archive = pack(options.source, Limits().compressed_bytes)
    if not archive.startswith(_GZIP):
        raise MisuseError(f"{quote(options.source)}: must be a folder or a .tgz file, to become a layer of an image")
    with new_store() as store, store.scratch() as scratch:
        access = Access(
            path=_PLACE,
            deadline=time.monotonic() + options.fetch_timeout,
            cancelled=threading.Event(),
            scratch=scratch,
            network=network_of(options),
            credentials=credentials,
        )
        try:
            return push_image(parameters, archive, access)
        except ValueError as error:
            raise MisuseError(f"image reference {quote(parameters['ref'])} {error}") from None


def _docker_folder() -> Path:
    return Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")


def _credentials(options: argparse.Namespace) -> Credentials | None:
    if options.username:
        password = sys.stdin.readline().rstrip("\r\n")
        if not password:
            raise MisuseError("--username: requires the password on stdin")
        return Credentials(username=options.username, password=password)
    # Where nobody has a home, as in some containers, a file that is given is enough.
    file = Path(options.registry_config or _docker_folder() / "config.json")
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
