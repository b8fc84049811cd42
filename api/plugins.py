"""The contracts of sources, formats and processors, and the values they exchange; built-in kinds use them, too.

A plug-in is a class without constructor arguments, registered by its kind under the entry-point group `rukpak.sources`,
`rukpak.formats` or `rukpak.processors` (built in: `image`, `plain`, `patch`, …; out of tree: qualified by a domain). A
source never sees a cluster, a Secret object or a path to write content to: it receives values and yields entries.

A package of plug-ins names the version of this contract that it was written for as an entry point of the group
`rukpak.plugin_api`. It imports all of this, and what else it may use, from `rukpak.plugins`.

Methods of one instance are called by several threads at the same time. All but `resolve`, `fetch`, `prepare`, `render`
and `process` must return at once: they are called in each pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from rukpak.api.errors import BundleError
from rukpak.api.proxies import Proxies
from rukpak.api.v1alpha2.conditions import Reason

PLUGIN_API = "1"
"""Version of this contract. Within a version, values get fields with defaults, and methods that are optional are added;
nothing is removed or changes its meaning, and no method gets a parameter."""
KIBIBYTE, MEBIBYTE = 1 << 10, 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on content, in bytes unless stated otherwise."""

    compressed_bytes: int = 512 * MEBIBYTE
    total_bytes: int = 1024 * MEBIBYTE
    file_bytes: int = 256 * MEBIBYTE
    entries: int = 50_000
    path_bytes: int = 1024
    path_depth: int = 64
    """Path elements."""
    ratio: int = 200
    """Unpacked to compressed bytes, checked from `ratio_from` unpacked bytes on."""
    ratio_from: int = 8 * MEBIBYTE
    header_bytes: int = MEBIBYTE
    """Headers between two entries: long names and pax records are read into memory as a whole."""
    manifest_bytes: int = 16 * MEBIBYTE
    """A single file that is parsed."""
    text_bytes: int = 32 * MEBIBYTE
    """All files that are parsed for a revision, and the revision as JSON."""
    nodes: int = 500_000
    """Values in all files that are parsed for a revision: scalars, mappings and lists."""
    program_bytes: int = 1024 * MEBIBYTE
    """Memory of a program that a source runs."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RegistryCredentials:
    """One entry of a dockerconfigjson."""

    registry: str
    """Host, optional port and path prefix, as in the Secret; Kubernetes' matching rules apply."""
    username: str = ""
    password: str = ""
    identity_token: str = ""
    """Exchanged for tokens, instead of a user name and a password."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Credentials:
    """The values of a Secret. Never shown: without a repr."""

    username: str = ""
    password: str = ""
    bearer_token: str = ""
    ssh_private_key: str = ""
    known_hosts: str = ""
    certificate_authority: str = ""
    """PEM."""
    client_certificate: str = ""
    """PEM, with what it is signed by: shown to a server that asks for one, over verified TLS only."""
    client_key: str = ""
    """PEM, without a passphrase."""
    registries: tuple[RegistryCredentials, ...] = ()
    identity: str = field(default="", compare=False)
    """Digest of the UIDs and versions of the Secrets: content that was fetched with others is not shared. A name is no
    identity, since another user may have created a Secret again under it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The administrator's settings for connections to sources."""

    allow_loopback: bool = True
    """Whether sources may have loopback addresses."""
    allowed_networks: tuple[str, ...] = ()
    """Networks in CIDR notation that are allowed although the address guard would refuse them; never link-local or
    metadata addresses."""
    denied_networks: tuple[str, ...] = ()
    """Networks in CIDR notation that no source may be in; the narrower of an allowed and a denied network wins."""
    allowed_hosts: tuple[str, ...] = ()
    """Hosts that a source may name (example.com, example.com:5000, *.example.com). Empty: all."""
    idle_seconds: float = 120.0
    """How long a server may take to send the header of a response."""
    bytes_per_second: int = 16 * KIBIBYTE
    """The rate that a server must sustain from then on, measured over 30 s."""
    registry_mirrors: Mapping[str, str] = field(default_factory=dict)
    """Registry host to the host (and path prefix) to use instead."""
    proxies: Proxies = field(default_factory=Proxies)
    """Where connections over https and http go through; `find_route` of `rukpak.plugins` applies them and checks the
    addresses. A proxy must not be asked for what the other fields do not allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """Who has signed what a source leads to; the fields are those of `status.sources[].verified`."""

    by: str
    key: str = ""
    identity: str = ""
    issuer: str = ""
    version: str = ""
    """That what was signed says it is (`verifiedVersion`): a name that leads to it may say another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted:
    """The data of the Secrets and ConfigMaps that `verify` names, by field path below it (`.secret`) and by key."""

    data: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict, repr=False)
    identity: str = ""
    """Digest of what they are and of their versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """A source pinned to a digest."""

    pinned: str
    """Human-readable: `ref@digest`, `repository@commit`, URL."""
    digest: str
    """Digest of the image manifest, `sha1:<commit>`, or SHA-256 of the http body or the packaged chart."""
    version: str = ""
    """The name of the version that was chosen from a range, which `pinned` contains before its last "@"."""
    reference: str = field(default="", compare=False)
    """The name that was resolved, if it may mean something else later: a tag, branch or version; `version` if empty."""
    validator: str = ""
    """ETag or Last-Modified of an http body, which makes polling cheap."""
    signer: Signer | None = field(default=None, compare=False)
    """Who has signed it, if `verify` asks for a signature: the signature was checked before any content was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalContent:
    """A ConfigMap of the install namespace."""

    files: Mapping[str, bytes]
    """By key."""
    annotations: Mapping[str, str] = field(default_factory=dict)


def _refuse_local(name: str) -> LocalContent:
    raise BundleError(Reason.NOT_SUPPORTED, f'ConfigMap "{name}": cannot be read without a cluster')


Room: TypeAlias = Callable[[int], AbstractContextManager[None]]
"""Waits until that many bytes of memory are free and reserves them for a block. Nested blocks can deadlock. Raises
BundleError (RenderLimitExceeded) if there will never be enough, or if the work is cancelled."""


def endless(_bytes: int) -> AbstractContextManager[None]:
    """Reserve nothing: the Room where memory has no limit."""
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The means of a single call of a source."""

    path: str
    """Field path of the parameters (`spec.sources[1].image`), with which every message starts."""
    deadline: float
    """In seconds of `time.monotonic`; no call may outlive it."""
    cancelled: Event
    """Set when the result is no longer needed: stop soon, with any exception."""
    scratch: Path
    """An empty folder, removed after the call."""
    limits: Limits = Limits()
    network: Network = Network()
    credentials: Credentials | None = None
    confinement_required: bool = True
    """Whether programs may only run where the kernel can confine them."""
    config_map: Callable[[str], LocalContent] = _refuse_local
    """Reads a ConfigMap of the install namespace by its name, as the account. Raises BundleError."""
    previous: Resolution | None = None
    """When polling: the last resolution, to be returned again if nothing has changed."""
    pinned: Resolution | None = None
    """When only `verify` has changed: the resolution whose signature is to be checked, and which is returned with its
    signer, instead of what the name leads to now."""
    trusted: Trusted = Trusted()
    """While resolving a source with `verify`: what it names."""
    max_age: float = 0.0
    """When polling: how many seconds ago the source may have asked for what it shares among calls, such as an index."""
    progress: Callable[[int, int], None] = lambda done, total: None
    """Call it often with the bytes fetched and the total (0: unknown). It counts the bytes of all sources together, and
    raises BundleError if they exceed their limit or the share of the disk."""
    receive: Callable[[int], None] = lambda done: None
    """As `progress`, for bytes that are not shown yet, since another host than the spec names has sent them."""
    room: Room = endless
    """Reserves the memory of a program before it starts."""
    computing: Callable[[], AbstractContextManager[None]] = nullcontext
    """Waits for a place to compute for more than a moment in this process, such as to parse a long list, and keeps it
    for a block, in which nothing may wait. A tenant gets one place at a time. Raises BundleError if the work is
    cancelled."""
    is_stored: Callable[[Resolution], bool] = lambda resolution: False
    """Whether `fetch` will not be called, because its content was fetched before with these credentials. If `resolve`
    has only asked for something that leads to the content, such as a public index, it then asks for the content, too,
    without reading it."""
    keep: Callable[[Resolution, Iterator[Entry]], None] = lambda resolution, entries: None
    """If resolving had to read the content, call it with the entries that `fetch` would yield, already verified, so
    that `fetch` is not called. It may ignore the entries, and raises what they raise."""

    def known_signer(self, digest: str) -> Signer | None:
        """Return who has signed a digest, if an earlier call has checked that with the same `verify` and keys."""
        return self.previous.signer if self.previous and self.previous.digest == digest else None


class EntryKind(Enum):
    """How an entry changes the tree."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMBOLIC_LINK = "symbolic link"
    HARD_LINK = "hard link"
    WHITEOUT = "whiteout"
    """Removes `path` from lower layers (OCI image specification, layer.md)."""
    OPAQUE = "opaque whiteout"
    """Removes everything below `path` from lower layers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a path of the content must not be read. Content as a whole is not refused for paths that no format reads."""

    problem: str
    """What is wrong and what to do, without the field path of the source."""
    reason: Reason = Reason.CONTENT_REJECTED


class Readable(Protocol):
    """The content of a file, valid until the next entry is requested."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; none at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry of an archive, unchecked and not on disk yet."""

    path: str
    kind: EntryKind = EntryKind.FILE
    size: int = 0
    """Bytes of a file."""
    data: Readable | None = None
    executable: bool = False
    target: str = ""
    """Where a link leads: relative to its folder (symbolic link) or to the root of the archive (hard link)."""
    layer: int = 0
    """Whiteouts only affect lower layers."""
    refusal: Refusal | None = None
    """Why the entry must not be read: nothing is written for it, and `size` bytes count as skipped."""


class Source(Protocol):
    """A kind of source. `parameters` is its block of the spec as plain JSON (`spec.sources[].image`, `.parameters`)."""

    def validate(self, parameters: Mapping[str, Any], path: str) -> list[str]:
        """Return the problems of the parameters, each starting with its field path below `path`."""

    def identity(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the parameters that identify the content, normalized: `specDigest` covers only these (rule 1)."""

    def origin(self, parameters: Mapping[str, Any]) -> str:  # noqa: ARG002 - a default for classes that inherit
        """Return the place that `resolve` asks for the content, normalized: registry and repository, or a URL.

        Stored content is shared only within an origin, because a server may claim to have any digest. Without this
        method, or if it returns "", only equal parameters share content. It may contain secrets: only its digest is
        kept.
        """
        return ""

    def resolve(self, parameters: Mapping[str, Any], access: Access) -> Resolution:
        """Ask the source for the digest of the content. Ask even if it is given: the answer authorizes this caller.

        Raises: BundleError with a reason of Unpacked.
        """

    def content_key(self, parameters: Mapping[str, Any], resolution: Resolution) -> str:
        """Return a key that identifies the content within its origin: equal keys mean equal content."""

    def fetch(self, parameters: Mapping[str, Any], resolution: Resolution, access: Access) -> Iterator[Entry]:
        """Yield the entries of the resolution, never of a floating reference; verify all digests by the end.

        Raises: BundleError with a reason of Unpacked, also during iteration.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentTree:
    """The assembled content, read-only."""

    root: Path
    destinations: tuple[str, ...]
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    """What must not be read, by path; `root` contains nothing of it. Each problem starts with the path of its source in
    the spec."""
    unprepared: Mapping[str, Refusal] = field(default_factory=dict)
    """Files that a processor could not prepare, by path; `root` has them as they were. A format that reads one because
    the user names it, and not because it is there, must refuse it with `check_prepared`."""

    def check(self, is_read: Callable[[str], bool]) -> None:
        """Refuse a tree that cannot be read as a format reads it.

        Args:
            is_read: whether the format reads a path, or would if nothing was refused.

        Raises: BundleError with the reason of the first refused path that is read.
        """
        if found := list(filter(is_read, self.refused)):
            first = self.refused[min(found)]
            raise BundleError(first.reason, first.problem)

    def check_prepared(self, path: str, place: str) -> None:
        """Refuse a file that a processor could not prepare; `place` is what names the file, and starts the message.

        Raises: BundleError.
        """
        if found := self.unprepared.get(path):
            raise BundleError(found.reason, f"{place}: {found.problem}")

    def describe_refused(self) -> str:
        """Return the end of a message about content that was not found; empty if nothing was left out."""
        if not self.refused:
            return ""
        first, count = self.refused[min(self.refused)], len(self.refused)
        what = "an entry that cannot be used was" if count == 1 else f"{count} entries that cannot be used were"
        return f"; {what} left out: {first.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomKind:
    """What decides which fields of its objects a custom kind, at one version, stores."""

    has_status: bool
    """Whether it has the status subresource; if not, `status` is a field as any other."""
    schema: Mapping[str, Any]
    """The part of its `openAPIV3Schema` that says where null is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What the cluster serves, as far as rendering may depend on it."""

    kubernetes_version: str
    """As in `/version`: v1.36.3."""
    kinds: Mapping[tuple[str, str, str], bool] = field(default_factory=dict)
    """(group, version, kind) to whether it is namespaced. For a group that fails discovery, the last known kinds."""
    unknown: frozenset[str] = frozenset()
    """Groups that fail discovery and whose kinds are not known. A rendering that depends on them raises BundleError
    (APIUnavailable); every other one ignores them, since one broken API must not block everything."""
    custom: Mapping[tuple[str, str, str], CustomKind] = field(default_factory=dict)
    """By group, version and kind: asked only about kinds of which the bundle has objects with a null or a status, and
    no CustomResourceDefinition."""

    def is_namespaced(self, group: str, kind: str) -> bool | None:
        """Return whether a kind is namespaced, in any of its versions; None if it is not served."""
        return next((scope for (g, _, k), scope in self.kinds.items() if (g, k) == (group, kind)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """Resources for rendering. They decide whether it succeeds, never what the result is."""

    scratch: Path | None = None
    """An empty folder, removed after the call; None for formats that need none."""
    cancelled: Event = field(default_factory=Event)
    """Set when the result is no longer needed: stop soon, with any exception."""
    limits: Limits = Limits()
    """For archives in the content, and for files that are parsed."""
    inline: bool = False
    """Whether only small texts may be parsed. For larger ones `formats/manifests.py` raises LargeTextError, and the
    request is rendered again in a child process."""
    occupy: Callable[[int], None] = lambda size: None
    """Call it with the number of bytes before writing them to scratch. Raises BundleError if the share of the disk is
    exhausted."""
    seconds: float = 60.0
    """Time limit of one run of a program; its CPU time is limited accordingly."""
    memory_bytes: int = 1600 * MEBIBYTE
    """Address space of one run of a program."""
    output_bytes: int = 64 * MEBIBYTE
    """Output limit of one run of a program."""
    programs: Mapping[str, str] = field(default_factory=dict)
    """Paths of programs that the administrator has set, by name; others are searched for."""
    tenant: str = ""
    """The tenant to render for: tenants take turns where concurrency is limited."""
    confinement_required: bool = True
    """Whether programs may only run where the kernel can confine them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramVersion:
    """A program that a format runs."""

    path: Path
    version: str
    """As the program reports it: v4.3.1."""
    digest: str
    """`sha256:…` of the file."""


class Lookup(NamedTuple):
    """An object that a bundle asks for while it is rendered, or a list of them."""

    api_version: str
    kind: str
    namespace: str
    """Empty for cluster-scoped kinds, and for a list of all namespaces."""
    name: str
    """Empty for a list."""


Answers: TypeAlias = Mapping[Lookup, Mapping[str, Any]]
"""What a bundle sees of the objects that it asks for, and of lists of them; empty: it does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderRequest:
    """The input of a rendering: except for `means`, the result depends on all of this and nothing else (rule 9)."""

    name: str
    install_namespace: str
    tree: ContentTree
    config: Mapping[str, Any]
    capabilities: Capabilities
    means: Means = field(default_factory=Means)
    verified: tuple[bool, ...] = ()
    """Whether the content of each source of the spec has the signature that its `verify` asks for; empty for content
    that is from no source. A format may refuse content because of this, and never renders it differently."""
    answers: Answers | None = field(default=None, repr=False)
    """What is known of objects that the bundle asks for. None: nothing is looked up, as if none of them existed."""


HOOK_EVENTS = frozenset(
    f"{when}-{what}" for when in ("pre", "post") for what in ("install", "upgrade", "rollback", "delete")
)
HOOK_DELETE_POLICIES = frozenset({"before-hook-creation", "hook-succeeded", "hook-failed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """An object that runs at a point of installation or deletion and is not managed. The terms are Helm's."""

    manifest: dict[str, Any]
    events: tuple[str, ...]
    """pre-install, post-install, pre-upgrade, post-upgrade, pre-rollback, post-rollback, pre-delete, post-delete."""
    weight: int = 0
    """Hooks of an event run in ascending order, one after the other."""
    delete_policies: tuple[str, ...] = ("before-hook-creation",)
    """before-hook-creation, hook-succeeded, hook-failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """The result of rendering a content tree."""

    objects: Sequence[dict[str, Any]]
    """In the order of the bundle, as plain dictionaries of Kubernetes JSON."""
    hooks: Sequence[Hook] = ()
    warnings: Sequence[str] = ()
    """Problems that do not stop the installation, one line each, such as unknown fields that were dropped."""
    secrets: Sequence[str] = field(default=(), repr=False)
    """Texts in the objects that must not be shown to everybody who can read BundleDeployments, such as values that were
    decrypted. Names of objects that contain one are refused, and they are removed from errors."""
    namespace: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """`labels` and `annotations` for the install namespace if the controller creates it."""
    bundle: str = ""
    """What the bundle calls itself, with its version, such as "ingress-nginx 4.12.1"; for people, in status.history."""


class Format(Protocol):
    """A way to render a content tree to objects. Pure: equal requests give equal renderings."""

    def validate(self, config: Mapping[str, Any]) -> list[str]:
        """Return the problems of `spec.config`, each starting with its field path."""

    def suggest_namespace(self, tree: ContentTree, config: Mapping[str, Any]) -> str:
        """Return the install namespace to use if the spec sets none."""

    def render(self, request: RenderRequest) -> Rendering:
        """Return the objects and hooks.

        Raises: BundleError with a reason of Installed.
        """


@runtime_checkable
class ReadsPart(Protocol):
    """A format that reads part of a tree. It passes `ContentTree.check` the paths that it reads.

    Other formats do not render a tree of which anything is refused.
    """

    reads_part: bool


@runtime_checkable
class PlacesConfig(Protocol):
    """A format that decides where in `spec.config` the values from the cluster (`spec.configFrom`) belong.

    Its errors contain none of them, since some may be secret. Without this they are merged with the whole of
    `spec.config`, and removed from errors.
    """

    def place_config(self, values: Mapping[str, Any], config: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a config that was validated with values from the cluster merged below its own."""


@runtime_checkable
class RunsProgram(Protocol):
    """A format or processor that runs a program: it knows which one, and how much memory that needs."""

    def find_program(self, means: Means) -> ProgramVersion:
        """Return the program that would be run with the same means; called at startup, for the log.

        Raises: BundleError (NotSupported) if there is none.
        """

    def program_bytes(self, means: Means) -> int:
        """Return the bytes of memory that the program may use.

        They are reserved before the plug-in is called; once the program has exited, they cover what this process
        parses.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRequest:
    """The input of a processor: the result depends on all of this and nothing else (rule 9)."""

    name: str
    install_namespace: str
    parameters: Mapping[str, Any]
    """The block of the kind in the spec (`spec.processors[].patch`, `.parameters`), as the user has written it."""
    path: str
    """Field path of the parameters (`spec.processors[1].patch`), with which every message starts."""
    rendering: Rendering
    """What the format rendered, and earlier processors changed. Every object has a valid identity."""
    capabilities: Capabilities
    charge: Callable[[int, int], None] = lambda _text_bytes, _steps: None
    """Accounts for text that is made and for steps of about a microsecond that are done, before there is too much of
    either: all of many objects may meet all of a long patch. Raises BundleError (RenderLimitExceeded)."""
    secrets: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict, repr=False)
    """The data of the Secrets that `find_secrets` has named, by name and key."""
    unprepared: Mapping[str, Refusal] = field(default_factory=dict)
    """As in ContentTree: an object may come from such a file."""
    means: Means = field(default_factory=Means)


class Processor(Protocol):
    """A way to change rendered objects. Pure: equal requests give equal renderings.

    It may also be a RunsProgram, ReadsSecrets or PreparesContent.
    """

    def validate(self, parameters: Mapping[str, Any], path: str) -> list[str]:
        """Return the problems of the parameters, each starting with its field path below `path`."""

    def process(self, request: ProcessRequest) -> Rendering:
        """Return the changed rendering. The objects in the request must not be changed in place.

        Raises: BundleError with a reason of Installed.
        """


@runtime_checkable
class ReadsSecrets(Protocol):
    """A processor that needs Secrets of the install namespace, such as keys.

    They are read as the account of the BundleDeployment, and it is rendered again when one has changed.
    """

    def find_secrets(self, parameters: Mapping[str, Any]) -> Sequence[str]:
        """Return the names of the Secrets that the parameters, which are valid, refer to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareRequest:
    """The input of `prepare`: the result depends on all of this and nothing else (rule 9), except for `means`."""

    name: str
    parameters: Mapping[str, Any]
    path: str
    """Field path of the parameters, with which every message starts."""
    tree: ContentTree
    """The content, as earlier processors have prepared it."""
    secrets: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict, repr=False)
    """As in ProcessRequest."""
    means: Means = field(default_factory=Means)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What a processor changes in the content."""

    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """The new content of existing files, by path in the tree."""
    secrets: Sequence[str] = field(default=(), repr=False)
    """As in Rendering."""
    unprepared: Mapping[str, Refusal] = field(default_factory=dict)
    """Why files could not be prepared, by path. They stay as they are: nothing may read them."""


@runtime_checkable
class PreparesContent(Protocol):
    """A processor that also changes files of the content before the format reads them, such as encrypted ones."""

    def prepare(self, request: PrepareRequest) -> Prepared:
        """Return the files to replace for this rendering; stored content stays as it is.

        Raises: BundleError with a reason of Installed.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramResult:
    """The result of a program that has exited."""

    status: int
    """Negative: the signal that ended it."""
    output: bytes
    stderr: str
    """The start of its stderr; may contain secrets."""
