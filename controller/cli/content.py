"""The content and config that a command line names, and the BundleDeployment that they make.

All verbs that take content have the same flags. Content is SOURCE or a flag in its place; what is on this machine is
packed into immutable ConfigMaps in the install namespace, which are named by its digest: pushing it again changes
nothing. What no flag says stays as it is in the BundleDeployment of `-f FILE`, or in the one on the cluster; `render`,
`lint`, `permissions` and `rights` need no cluster and describe the content alone.

| SOURCE | becomes a source of kind |
|---|---|
| folder, archive, packed chart, file of manifests, `-` for stdin | configMap |
| `oci://registry/repository:tag` | image; with `--chart NAME`, chart |
| `https://` or `http://` | http; with `--chart NAME`, chart |
| `git+https://host/repository//directory?ref=v1`, `ssh://`, `git@host:path`, `https://host/path.git` | git |
"""

from __future__ import annotations

import argparse
import base64
import gzip
import io
import tarfile
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.plugins import ContentTree, Entry, EntryKind, Limits
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.building.entry_points import format_of
from rukpak.controller.building.request import check_config
from rukpak.controller.cli import manifest
from rukpak.controller.cli.command import read_file
from rukpak.controller.cli.values import Convert, find_credentials, merge_files, set_values, typed
from rukpak.controller.content.archive import is_file_name, read_body, write_entries
from rukpak.controller.content.disk import read_folder
from rukpak.controller.content.limits import Rejection, describe_bytes, quote
from rukpak.controller.formats.helm.values import read_configuration
from rukpak.controller.formats.manifests import read_documents
from rukpak.controller.formats.plain import needs_recursive
from rukpak.controller.formats.recognition import (
    Archives,
    is_folder,
    recognize_bundle,
    recognize_chart,
    recognize_first,
    recognize_manifests,
)
from rukpak.controller.kube.client import ApiError, Client, Response
from rukpak.controller.kube.errors import attempt
from rukpak.controller.kube.resources import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES
from rukpak.controller.sources.config_map import KEY, MOST_BYTES, Part, split
from rukpak.controller.sources.image.reference import parse_reference
from rukpak.controller.untrusted import mapping, mappings
from rukpak.controller.views import FailedError, MisuseError
from rukpak.controller.views.access import MANAGER, Manifest

OCI = "oci://"
_URLS = ("https://", "http://")
_GIT_PLUS = "git+"
_GIT = ("git@", "ssh://", "git://")
_FIELDS = {
    "image": {"ref": "image"},
    "git": {"repository": "git", "ref": "ref", "directory": "directory"},
    "http": {"url": "http", "sha256": "sha256"},
    "chart": {"repository": "repository", "name": "chart", "version": "version", "sha256": "sha256"},
}
"""The kinds of sources that have a flag, each with the flags of the fields that say what its content is."""
_RANGES = ("semver", "semverFilter")
"""Fields that say so, too, and have no flag."""
_FETCHING = ("secret", "certificate_authority", "insecure_skip_tls_verify")
"""Flags that say how such a source is fetched."""
_OF_SOURCES = (flag for flags in _FIELDS.values() for flag in flags.values())
_FLAGS = tuple(dict.fromkeys((*_FIELDS, *_OF_SOURCES, *_FETCHING)))
"""All flags about a source, in the order in which they are repeated."""
_DESCRIBING = (
    *("file", "format", "install_namespace", "service_account"),
    *("config", "values", "set", "set_string", "set_file"),
)
LOCAL = "configMap"
"""The kind of a source whose content was on a machine."""
_DIGITS = 12
_EXECUTABLE, _MODE = 0o111, 0o644
_STDIN = "stdin.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A BundleDeployment that a command line describes."""

    value: Manifest
    """As it is to be written."""
    origin: str
    """Where the BundleDeployment is from, for messages and questions."""
    recognizes: bool = False
    """Whether spec.format is not known yet, and to be recognized in the content."""
    parts: Sequence[tuple[str, Part, bytes]] = ()
    """The ConfigMaps that are to contain content of this machine, as `parts_of` returns them."""
    credentials: Sequence[str] = ()
    """Paths of what flags put into spec.config that is a credential by its name."""

    def describe_exposed(self, *, has_secrets: bool) -> Iterator[str]:
        """Yield what is secret and would be written where others can read it.

        `has_secrets`: whether its revision contains Secrets.
        """
        for path in self.credentials:
            remedy = "put it into a Secret, and name that in spec.configFrom"
            yield f"{path}: a credential that whoever may read BundleDeployments can read; {remedy}"
        spec = self.value["spec"]
        # A chart has templates of Secrets; with processors, it may have encrypted ones.
        is_verbatim = spec.get("format") == "plain" and not spec.get("processors")
        if self.parts and is_verbatim and has_secrets:
            yield "the values of Secrets are put into ConfigMaps with the other manifests, in clear"

    def with_spec(self, spec: Mapping[str, Any]) -> Draft:
        """Return it with another spec."""
        return replace(self, value={**self.value, "spec": dict(spec)})


def make_draft(options: argparse.Namespace, found: Manifest | None = None) -> Draft:
    """Return the BundleDeployment that a command line describes.

    Args:
        options: those of `verbs.CONTENT`; `name` is that of the BundleDeployment, or None with a file.
        found: the one of this name on the cluster, if it exists.

    Raises: MisuseError; BundleError for a file that is not valid.
    """
    check_stdin(options)
    base, origin = _base(options, found)
    name, spec = str(mapping(base, "metadata").get("name")), dict(mapping(base, "spec"))
    _check_namespace(options, found)
    if options.format and options.format != spec.get("format"):
        spec.pop("config", None)  # of another format
    archive, parts = b"", list[tuple[str, Part, bytes]]()
    if is_named(options):
        source = read_source(options)
        if source is None:
            archive = pack(options.source, MOST_BYTES)
            parts = parts_of(name, archive)
            source = {"kind": LOCAL, LOCAL: {"names": [each for each, _, _ in parts]}}
        spec["sources"] = [_replace(spec.get("sources") or (), source)]
    before = dict(find_credentials(spec.get("config")))
    if (interval := getattr(options, "poll_interval", None)) is not None:
        spec["sources"] = poll_each(spec.get("sources") or (), interval)
    spec |= read_overrides(options, spec.get("config"))
    added = [path for path, value in find_credentials(spec.get("config")) if before.get(path) != value]
    if archive:
        spec = _complete(spec, archive, options.source)
    elif "format" not in spec and any("chart" in mapping(each) for each in mappings(spec, "sources")):
        spec["format"] = "helm"
    recognizes = not options.file and "format" not in spec
    value = {**base, "spec": spec}
    return Draft(value=value, origin=origin, parts=parts, recognizes=recognizes, credentials=added)


def _check_namespace(options: argparse.Namespace, found: Manifest | None) -> None:
    value = found or {}
    own = mapping(value, "spec").get("installNamespace") or mapping(value, "status").get("installNamespace")
    given = options.install_namespace
    if given and own and given != own:
        problem = f"{options.name} is installed in {own}, which cannot be changed"
        raise MisuseError(f"-n {given}: {problem}; leave out -n, or choose another NAME")


def _base(options: argparse.Namespace, found: Manifest | None) -> tuple[Manifest, str]:
    if options.file:
        if is_named(options):
            raise MisuseError("specify either SOURCE or -f FILE")
        value = manifest.find(read_file(options.file), options.file)
        name = mapping(value, "metadata").get("name")
        if options.name not in (None, name):
            raise MisuseError(f'"{options.file}" is the BundleDeployment "{name}", not "{options.name}"')
        return value, options.file
    about = {"apiVersion": DEPLOYMENTS.api_version, "kind": names.KIND, "metadata": {"name": options.name}}
    return {**about, "spec": mapping(found or {}, "spec")}, f'BundleDeployment "{options.name}"'


def _replace(sources: Sequence[Mapping[str, Any]], source: Mapping[str, Any]) -> dict[str, Any]:
    if len(sources) > 1:
        problem = f"spec.sources: there are {len(sources)}, of which SOURCE would replace all"
        raise MisuseError(f'{problem}; change them in a file, and use -f FILE, or "rukpak push" with --source')
    before, kind = next(iter(sources), {}), source["kind"]
    keys = ("destination",) if kind == LOCAL else ("destination", "pollInterval")
    kept = {key: before[key] for key in keys if key in before}
    block = before.get(kind) or {}
    how = {key: value for key, value in block.items() if key not in (*_FIELDS.get(kind, block), *_RANGES)}
    return {"kind": kind, **kept, kind: {**how, **source[kind]}}


def poll_each(sources: Sequence[Mapping[str, Any]], interval: str) -> list[dict[str, Any]]:
    """Return sources that are checked so often, but for ConfigMaps, which are watched.

    Raises: MisuseError if there are only ConfigMaps.
    """
    if all(each["kind"] == LOCAL for each in sources):
        raise MisuseError("--poll-interval: the only sources are ConfigMaps, which are watched")
    return [dict(each) if each["kind"] == LOCAL else {**each, "pollInterval": interval} for each in sources]


def _complete(spec: dict[str, Any], archive: bytes, source: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="rukpak-") as folder:
        tree = _unpack(archive, Path(folder), source)
        spec = {**spec, **recognize(tree.root, spec)}
        if not spec.get("installNamespace"):
            config = spec.get("config") or {}
            check_config(spec["format"], config)
            spec["installNamespace"] = format_of(spec["format"]).suggest_namespace(tree, config)
        return spec


def read_overrides(options: argparse.Namespace, config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the fields of the spec that flags say, other than its sources.

    Args:
        options: those of `verbs.CONTENT`.
        config: spec.config as it would be without flags.

    Raises: MisuseError; BundleError for a file that is not valid.
    """
    fields = {
        "format": options.format,
        "installNamespace": options.install_namespace,
        "serviceAccountName": options.service_account,
        "config": _read_config(options, config or {}),
        "approval": getattr(options, "approval", None),
    }
    return {key: value for key, value in fields.items() if value or value == {}}  # an empty config is one, too


def _read_config(options: argparse.Namespace, config: Mapping[str, Any]) -> dict[str, Any] | None:
    if options.config:
        config = read_mapping(options.config, "the value of spec.config")
    files = [read_mapping(each, "values of a chart") for each in options.values or ()]
    sets: list[tuple[str, str, Convert]] = [
        *(("--set", each, typed) for each in options.set or ()),
        *(("--set-string", each, str) for each in options.set_string or ()),
        *(("--set-file", each, _read_text) for each in options.set_file or ()),
    ]
    if not (options.config or files or sets):
        return None
    if not (files or sets):
        return dict(config)
    values = merge_files(files if files and not options.config else [read_configuration(config).values, *files])
    for flag, text, convert in sets:
        try:
            set_values(values, text, convert)
        except ValueError as error:
            raise MisuseError(f"{flag} {quote(text)}: {error}") from None
    return {**config, "values": values}


def _read_text(name: str) -> str:
    try:
        return read_file(name).decode()
    except UnicodeDecodeError:
        raise ValueError(f"{quote(name)} is not UTF-8") from None


def read_mapping(name: str, what: str) -> dict[str, Any]:
    """Return the mapping that a YAML or JSON file contains; `-` is stdin.

    Raises: MisuseError; BundleError (InvalidConfig, InvalidBundle).
    """
    documents = [document.value for document in read_documents(read_file(name), name)] or [{}]
    if len(documents) > 1 or not isinstance(documents[0], dict):
        raise BundleError(Reason.INVALID_CONFIG, f"{name}: must contain a single mapping, {what}")
    return documents[0]


# the source


def repeat(options: argparse.Namespace) -> Iterator[str]:
    """Yield the words of a command line that describe the BundleDeployment."""
    if options.source:
        yield options.source
    for flag in (*_DESCRIBING, *_FLAGS):
        if value := getattr(options, flag):
            for each in value if isinstance(value, list) else [value]:
                yield _name(flag)
                yield from () if each is True else (each,)


def check_stdin(options: argparse.Namespace) -> None:
    """Refuse to read stdin more than once.

    Raises: MisuseError.
    """
    files = [options.source, options.file, options.config, options.capabilities, *(options.values or ())]
    if files.count("-") > 1:
        raise MisuseError("only one file can be read from stdin")


def is_described(options: argparse.Namespace) -> bool:
    """Return whether a command line describes a BundleDeployment: otherwise it is about the one on the cluster."""
    return is_named(options) or any(getattr(options, each) for each in _DESCRIBING)


def is_named(options: argparse.Namespace) -> bool:
    """Return whether a command line names content, by SOURCE or by a flag in its place."""
    return options.source is not None or any(getattr(options, each) for each in _FIELDS)


def is_local(options: argparse.Namespace) -> bool:
    """Return whether a command line names content of this machine.

    Raises: as `read_source`.
    """
    return is_named(options) and read_source(options) is None


def read_source(options: argparse.Namespace) -> dict[str, Any] | None:
    """Return the source that a command line names; None if its content is on this machine.

    Raises: MisuseError unless there is exactly one.
    """
    said = _flags_of(options.source, is_repository=bool(options.chart and not options.repository))
    if twice := next((flag for flag in said if getattr(options, flag)), None):
        raise MisuseError(f"{_name(twice)}: SOURCE says that, too; specify it once")
    flags = {**vars(options), **said}
    if getattr(options, "registry", None):  # the flags about servers are about that
        flags |= dict.fromkeys(("certificate_authority", "insecure_skip_tls_verify", "secret"))
    given = [kind for kind in _FIELDS if flags[kind]]
    if len(given) + (options.source is not None and not said) != 1:
        raise MisuseError("specify one of SOURCE, --image, --git, --http and --chart, or -f FILE")
    kind = given[0] if given else LOCAL
    valid = {*_FIELDS[kind].values(), *_FETCHING} if given else set()
    if wrong := next((flag for flag in _FLAGS if flags[flag] and flag not in valid), None):
        what = f"a source of kind {kind}" if given else "content of this machine"
        raise MisuseError(f"{_name(wrong)} does not apply to {what}")
    if not given:
        return None
    if kind == "chart" and not flags["repository"]:
        raise MisuseError("--chart requires --repository, or the repository as SOURCE")
    block = {field: flags[flag] for field, flag in _FIELDS[kind].items()}
    if kind == "image":
        block["ref"] = block["ref"].removeprefix(OCI)
    block["auth"] = {"secret": {"name": flags["secret"]}} if flags["secret"] else None
    return {"kind": kind, kind: {**{key: value for key, value in block.items() if value}, **read_trust(flags)}}


def read_trust(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a source that say which servers are trusted, from the flags of the same meaning.

    Raises: MisuseError.
    """
    file = flags["certificate_authority"]
    found = {
        "certificateData": read_file(file).decode("utf-8", "replace") if file else "",
        "insecureSkipTLSVerify": flags["insecure_skip_tls_verify"],
    }
    return {key: value for key, value in found.items() if value}


def _name(flag: str) -> str:
    return f"--{flag.replace('_', '-')}"


def _flags_of(source: str | None, *, is_repository: bool) -> dict[str, str]:
    if source == "":
        raise MisuseError("SOURCE is empty")
    if source is None:
        return {}
    scheme = source.partition("://")[0] if "://" in source else ""
    if is_repository and scheme not in ("https", "http", "oci"):
        raise MisuseError(f"{quote(source)}: the repository of --chart begins with https:// or oci://")
    if scheme and f"{scheme.removeprefix(_GIT_PLUS)}://" not in (OCI, *_URLS, *_GIT):
        known = "oci://, https://, git+https:// or ssh://"
        raise MisuseError(
            f"{quote(source)}: not a kind of address that is known; SOURCE is a path, or begins with {known}"
        )
    if source == f"{scheme}://":
        raise MisuseError(f"{quote(source)}: the address ends after the scheme")
    if is_repository:
        return {"repository": source}
    if source.startswith(_GIT_PLUS):
        return _read_git(source.removeprefix(_GIT_PLUS))
    if source.startswith(_GIT) or (source.startswith(_URLS) and source.endswith(".git")):
        return {"git": source}
    if source.startswith(OCI):
        return {"image": source}
    return {"http": source} if source.startswith(_URLS) else {}


def _read_git(address: str) -> dict[str, str]:
    """Return the flags for an address as kustomize has it: `https://host/repository//directory?ref=v1`.

    Raises: MisuseError.
    """
    url = urlsplit(address)
    query = dict(parse_qsl(url.query, keep_blank_values=True))
    if unknown := sorted(query.keys() - {"ref"}):
        raise MisuseError(f'SOURCE: "{unknown[0]}" is not known in the address of a repository; it may have ?ref=REF')
    repository, _, directory = url.path.partition("//")
    found = {
        "git": url._replace(path=repository, query="").geturl(),
        "ref": query.get("ref", ""),
        "directory": directory,
    }
    return {flag: value for flag, value in found.items() if value}


# content of this machine


def unpack(source: str, folder: Path) -> ContentTree:
    """Write a local directory, archive or file of manifests into an empty folder; `-` is stdin.

    Returns: the folder, with what must not be read.
    Raises: MisuseError if it cannot be read; BundleError (ContentRejected, UnsupportedContent, StorageFull).
    """
    try:
        if source != "-" and Path(source).is_dir():
            return _write(read_folder(Path(source)), folder, source)
        return _unpack(_read(source), folder, source)
    except OSError as error:
        raise MisuseError(f'"{error.filename or source}": {error.strerror or "cannot be read"}') from error


def _read(source: str) -> bytes:
    try:
        return read_file(source)
    except MisuseError as error:
        if Path(source).exists() or not _looks_like_image(source):
            raise
        raise MisuseError(f"{error}; for an image or chart in a registry: {OCI}{source}") from None


def _unpack(data: bytes, folder: Path, source: str) -> ContentTree:
    def _entries() -> Iterator[Entry]:
        try:
            yield from read_body(io.BytesIO(data), len(data), _file_name(source), 0, Limits())
        except Rejection as rejection:
            raise rejection.at(source) from None

    return _write(_entries(), folder, source)


def _write(entries: Iterator[Entry], folder: Path, source: str) -> ContentTree:
    refused = write_entries(entries, folder, Limits(), source, records=True)
    named = {path: replace(each, problem=f"{source}: {each.problem}") for path, each in refused.items()}
    return ContentTree(root=folder, destinations=("",), refused=named)


def _looks_like_image(source: str) -> bool:
    try:
        reference = parse_reference(source)
    except ValueError:
        return False
    return source.startswith(f"{reference.registry}/")


def _file_name(source: str) -> str:
    return _STDIN if source == "-" else Path(source).name


def recognize(root: Path, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the spec that content says itself: its format, and what that needs in the config.

    Args:
        root: of the content.
        spec: as far as it is known; a format in it stays.
    """
    name, config = spec.get("format") or guess_format(root), spec.get("config") or {}
    if name == "plain" and "recursive" not in config and needs_recursive(root):
        return {"format": name, "config": {**config, "recursive": True}}
    return {"format": name}


def guess_format(root: Path) -> str:
    """Return the format of content that says what it is; `plain` for all other content."""
    if recognize_bundle(root, ""):
        return "registry-v1"
    return "helm" if not is_folder(root / "manifests") and _is_chart(root) else "plain"


def _is_chart(root: Path) -> bool:
    if recognize_first(root, recognize_chart):
        return True
    return bool(recognize_first(root, Archives().recognize)) and not recognize_first(root, recognize_manifests)


def pack(source: str, most: int) -> bytes:
    """Return content of this machine as an archive; `-` is stdin.

    Args:
        source: folder, which becomes tar+gzip without owners, times and git's own folder; file of manifests; or
            archive, which is returned as it is. Links remain links, which are judged by who reads the archive.
        most: bytes of the archive.

    Raises: MisuseError if it cannot be packed, or the archive is larger.
    """
    packed = _pack_folder(Path(source)) if source != "-" and Path(source).is_dir() else _pack_file(source)
    if len(packed) > most:
        problem = f"larger than {describe_bytes(most)} when packed; use a registry or a repository"
        raise MisuseError(f"{quote(source)}: {problem}")
    return packed


def _pack_folder(folder: Path) -> bytes:
    try:
        entries = [entry for entry in read_folder(folder) if entry.kind is not EntryKind.DIRECTORY]
        entries.sort(key=lambda entry: entry.path)
        return _pack(_member(folder / entry.path, entry) for entry in entries)
    except OSError as error:
        raise MisuseError(f"{quote(str(folder))}: cannot be read: {error.strerror or error}") from None


def _pack_file(source: str) -> bytes:
    data, info = _read(source), tarfile.TarInfo(_file_name(source))
    if not data:
        raise MisuseError(f"{quote(source)}: is empty")
    if not is_file_name(info.name):
        return data  # an archive, or it is refused by who reads it
    info.size, info.mode = len(data), _MODE
    return _pack([(info, data)])


def _pack(members: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return gzip.compress(packed.getvalue(), mtime=0)


def _member(path: Path, entry: Entry) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(entry.path)
    if entry.kind is EntryKind.SYMBOLIC_LINK:
        if entry.target.startswith("/"):
            problem = (
                f"is a link to {quote(entry.target)} on this machine; replace it with what it leads to, or remove it"
            )
            raise MisuseError(f"{quote(str(path))}: {problem}")
        if is_file_name(entry.path) and not path.exists():  # a manifest would be missing without a word
            problem = f"is a link to {quote(entry.target)}, which does not exist; correct or remove it"
            raise MisuseError(f"{quote(str(path))}: {problem}")
        info.type, info.linkname = tarfile.SYMTYPE, entry.target
        return info, b""
    data = path.read_bytes()
    info.size, info.mode = len(data), 0o755 if path.stat().st_mode & _EXECUTABLE else _MODE
    return info, data


# ConfigMaps


def parts_of(name: str, archive: bytes) -> list[tuple[str, Part, bytes]]:
    """Return the ConfigMaps that an archive is put into: the name, number and content of each.

    Args:
        name: of the BundleDeployment.
        archive: may be empty: then there are none.
    """
    return [
        (f"{name}-{part.digest.rpartition(':')[2][:_DIGITS]}-{part.number}", part, data)
        for part, data in split(archive)
    ]


def write_with_content(client: Client, draft: Draft, found: Manifest | None, write: Callable[[], Manifest]) -> Manifest:
    """Write a BundleDeployment after the ConfigMaps that its source names, and return it.

    Args:
        client: acts as the user.
        draft: of the BundleDeployment.
        found: the one on the cluster, if it exists.
        write: writes the BundleDeployment.

    Raises: MisuseError if a ConfigMap with other content has the name of one; FailedError; ApiError.
    """
    uid = found["metadata"]["uid"] if found else ""
    value = {**draft.value, "metadata": {**draft.value["metadata"], "uid": uid}}
    created: list[str] = []
    try:
        created.extend(write_parts(client, value, draft.parts))  # also those before a failure
        written = write()
    except (ApiError, FailedError, MisuseError):
        if created:
            delete_parts(client, value, maps_of(found) if found else ())
        raise
    if not found:
        change = {"metadata": {"ownerReferences": _references(written)}}
        for name in created:
            path = CONFIG_MAPS.path(written["spec"]["installNamespace"], name)
            client.merge_patch(path, change, manager=MANAGER)
    return written


def write_parts(client: Client, value: Manifest, parts: Iterable[tuple[str, Part, bytes]]) -> Iterator[str]:
    """Create the ConfigMaps of an archive, and their namespace if it is missing; yield the names of those created.

    Args:
        client: acts as the user.
        value: the BundleDeployment, with which they are deleted if it has a UID.
        parts: as `parts_of` returns them.

    Raises: MisuseError if a ConfigMap with other content has the name; FailedError; ApiError.
    """
    namespace = value["spec"]["installNamespace"]
    for name, part, data in parts:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {names.CONTENT_LABEL: value["metadata"]["name"]},
                "annotations": {names.PART: str(part)},
                "ownerReferences": _references(value),
            },
            "immutable": True,
            "binaryData": {KEY: base64.b64encode(data).decode()},
        }
        if attempt(partial(_create, client, CONFIG_MAPS.path(namespace), body), HTTPStatus.CONFLICT):
            yield name
        else:
            _check_existing(client, namespace, name, part)


def delete_parts(client: Client, value: Manifest, kept: Collection[str]) -> None:
    """Delete the ConfigMaps that were pushed for a BundleDeployment, but for those that are kept.

    Raises: ApiError.
    """
    namespace, selector = value["spec"]["installNamespace"], f"{names.CONTENT_LABEL}={value['metadata']['name']}"
    found = client.list(CONFIG_MAPS.path(namespace), label_selector=selector, metadata=True)
    for name in [each["metadata"]["name"] for each in found]:
        if name not in kept:
            client.delete(CONFIG_MAPS.path(namespace, name))


def maps_of(value: Manifest) -> list[str]:
    """Return the ConfigMaps that the sources of a BundleDeployment name."""
    blocks = [source.get(LOCAL) or {} for source in value["spec"]["sources"]]
    return [name for block in blocks for name in (block.get("names") or [block.get("name")]) if name]


def _references(value: Manifest) -> list[dict[str, Any]]:
    uid = value["metadata"].get("uid")
    about = {"apiVersion": DEPLOYMENTS.api_version, "kind": names.KIND, "name": value["metadata"]["name"]}
    return [{**about, "uid": uid}] if uid else []


def _create(client: Client, path: str, body: Manifest) -> Response:
    create = partial(client.create, path, body, manager=MANAGER)
    if reply := attempt(create, HTTPStatus.NOT_FOUND):
        return reply
    name = body["metadata"]["namespace"]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    try:
        attempt(partial(client.create, NAMESPACES.path(), namespace, manager=MANAGER), HTTPStatus.CONFLICT)
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        text = f'namespace "{name}" does not exist, and you may not create it; ask an administrator for it'
        raise FailedError(text) from None
    return create()


def _check_existing(client: Client, namespace: str, name: str, part: Part) -> None:
    found = client.get(CONFIG_MAPS.path(namespace, name), metadata=True).value
    if (found["metadata"].get("annotations") or {}).get(names.PART) != str(part):
        raise MisuseError(f'ConfigMap "{namespace}/{name}" exists with other content; delete it')
