"""What a source and a format promise, and the values that go in and out. In-tree kinds use the same contracts.

A plug-in is a class without constructor arguments, registered under the entry-point group `rukpak.sources` or
`rukpak.formats` by its kind (in-tree: `image`, `plain`, …; out of tree: domain-qualified). A source never sees a
cluster, a Secret object or a path to write content to: it gets values and yields entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from threading import Event
from typing import Any, Protocol, TypeAlias, runtime_checkable

KIBIBYTE, MEBIBYTE = 1 << 10, 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Budgets on content. Bytes unless said otherwise."""

    compressed_bytes: int = 512 * MEBIBYTE
    total_bytes: int = 1024 * MEBIBYTE
    file_bytes: int = 256 * MEBIBYTE
    entries: int = 50_000
    path_bytes: int = 1024
    path_depth: int = 64
    """Path elements."""
    ratio: int = 200
    """Unpacked to compressed bytes, checked after `ratio_from` unpacked ones."""
    ratio_from: int = 8 * MEBIBYTE
    header_bytes: int = MEBIBYTE
    """What a parser may read between two entries: long names and pax records are read into memory whole."""
    manifest_bytes: int = 16 * MEBIBYTE
    """One file that is parsed."""
    text_bytes: int = 32 * MEBIBYTE
    """All that is parsed for one revision, and what it takes as JSON."""
    nodes: int = 500_000
    """Values of all that is parsed for one revision: scalars, mappings and lists."""
    program_bytes: int = 1024 * MEBIBYTE
    """Memory of one program that a source runs."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RegistryCredentials:
    """One entry of a dockerconfigjson."""

    registry: str
    """Host, optional port and path prefix, as it stands in the Secret; Kubernetes' matching rules apply."""
    username: str = ""
    password: str = ""
    identity_token: str = ""
    """To be exchanged for tokens, instead of a user name and a password."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Credentials:
    """What a Secret said. Never shown: it has no repr."""

    username: str = ""
    password: str = ""
    bearer_token: str = ""
    ssh_private_key: str = ""
    known_hosts: str = ""
    certificate_authority: str = ""
    """PEM."""
    registries: tuple[RegistryCredentials, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What the administrator says about reaching sources."""

    allow_loopback: bool = True
    """Whether a source may be at a loopback address."""
    allowed_networks: tuple[str, ...] = ()
    """Networks in CIDR notation that the address guard lets through though it would refuse them; never link-local or
    metadata addresses."""
    denied_networks: tuple[str, ...] = ()
    """Networks in CIDR notation that no source may be in; the narrower of an allowed and a denied network counts."""
    allowed_hosts: tuple[str, ...] = ()
    """Hosts that a source may name (example.com, example.com:5000, *.example.com); none: all."""
    idle_seconds: float = 120.0
    """How long a server may take until it has sent the header of an answer."""
    bytes_per_second: int = 16 * KIBIBYTE
    """What a server has to send at least from then on, measured over 30 s."""
    registry_mirrors: Mapping[str, str] = field(default_factory=dict)
    """Registry host to the host (and path prefix) that is asked instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """A source pinned to a digest."""

    pinned: str
    """For people: `ref@digest`, `repository@commit`, URL."""
    digest: str
    """Image manifest digest; `sha1:<commit>`; sha256 of the http body."""
    validator: str = ""
    """What makes asking again cheap: the ETag or Last-Modified of an http body."""


Room: TypeAlias = Callable[[int], AbstractContextManager[None]]
"""Waits until so many bytes of memory may be used, and holds them for a block; one block within another may wait for
ever. It raises BundleError (RenderLimitExceeded) for more than there will ever be, and where the work is cancelled."""


def endless(_bytes: int) -> AbstractContextManager[None]:
    """Hold no memory: the Room of who has no limit."""
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What one call of a source may use."""

    path: str
    """Where the parameters stand in the spec (`spec.sources[1].image`): the beginning of every message."""
    deadline: float
    """On the clock of `time.monotonic`; no call outlives it."""
    cancelled: Event
    """Set when nobody waits for the result any more: stop soon, by any exception."""
    scratch: Path
    """An empty folder that is removed after the call."""
    limits: Limits = Limits()
    network: Network = Network()
    credentials: Credentials | None = None
    confinement_required: bool = True
    """Whether a program must not be started where the kernel cannot keep it from other files and the network."""
    previous: Resolution | None = None
    """When polling: what it was resolved to last, to be returned again if nothing has changed."""
    progress: Callable[[int, int], None] = lambda done, total: None
    """Call it with bytes done and bytes in all (0: not known), before many more come: it counts them for all sources
    together, and raises BundleError where they are over their budget, or over a share of the disk."""
    room: Room = endless
    """For a program that is run: what it may use, before it starts."""
    keep: Callable[[Resolution, Iterator[Entry]], None] = lambda resolution, entries: None
    """While resolving, where that had to read the content itself: call it with what `fetch` would yield, verified
    already, and `fetch` is not called for it. It may leave the entries alone, and raises what they raise."""


class EntryKind(Enum):
    """What an entry does to the tree below it."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMBOLIC_LINK = "symbolic link"
    HARD_LINK = "hard link"
    WHITEOUT = "whiteout"
    """Removes `path` of lower layers (OCI image specification, layer.md)."""
    OPAQUE = "opaque whiteout"
    """Removes what lower layers have below `path`."""


class Readable(Protocol):
    """The body of a file; valid until the next entry is asked for."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; nothing at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of an archive, as it came: unchecked, and not on disk yet."""

    path: str
    kind: EntryKind = EntryKind.FILE
    size: int = 0
    """Bytes of a file."""
    data: Readable | None = None
    executable: bool = False
    target: str = ""
    """Of a link. A symbolic link's is relative to its folder, a hard link's to the root of the archive."""
    layer: int = 0
    """Whiteouts remove from lower layers only."""


class Source(Protocol):
    """A kind of source. `parameters` is its block of the spec as plain JSON (`spec.sources[].image`, `.parameters`)."""

    def validate(self, parameters: Mapping[str, Any], path: str) -> list[str]:
        """Return what is wrong with the parameters, each beginning with its field path below `path`."""

    def identity(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what names the content, in normalised spelling: `specDigest` covers just this (rule 1)."""

    def origin(self, parameters: Mapping[str, Any]) -> str:  # noqa: ARG002 - what those have who inherit
        """Return who `resolve` asks for the content, in normalised spelling: registry and repository, a URL.

        Stored content is shared only by references with one origin, since a server may claim to have any digest. A
        source without this method, or with nothing to say, shares only among equal parameters. It may hold secrets:
        what is kept of it is a digest.
        """
        return ""

    def resolve(self, parameters: Mapping[str, Any], access: Access) -> Resolution:
        """Ask the source what the parameters name now. It must answer for a digest, too: that authorises this caller.

        Raises: BundleError with a reason of Unpacked.
        """

    def content_key(self, parameters: Mapping[str, Any], resolution: Resolution) -> str:
        """Return what tells contents of one origin apart: equal keys mean equal content, wherever it comes from."""

    def fetch(self, parameters: Mapping[str, Any], resolution: Resolution, access: Access) -> Iterator[Entry]:
        """Yield the entries of what was resolved, never of a floating name; every digest is verified by the end.

        Raises: BundleError with a reason of Unpacked, also while iterating.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentTree:
    """The assembled content, for reading only."""

    root: Path
    destinations: tuple[str, ...]
    """Of the sources, in spec order, each once; the root is ''."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What the cluster serves, as far as rendering may know it."""

    kubernetes_version: str
    """As `/version` has it: v1.36.3."""
    kinds: Mapping[tuple[str, str, str], bool] = field(default_factory=dict)
    """(group, version, kind) to whether it is namespaced."""

    def is_namespaced(self, group: str, kind: str) -> bool | None:
        """Return the scope of a kind in any of its versions; None if it is not served."""
        return next((scope for (g, _, k), scope in self.kinds.items() if (g, k) == (group, kind)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What rendering may use up. It decides whether there is a result, never what it is."""

    scratch: Path | None = None
    """An empty folder that is removed after the call; formats that need none do without."""
    cancelled: Event = field(default_factory=Event)
    """Set when nobody waits for the result any more: stop soon, by any exception."""
    limits: Limits = Limits()
    """Of archives that the content holds, and of what is parsed."""
    inline: bool = False
    """Whether only small texts may be parsed: for others `formats/budget.py` raises LargeTextError, and the request is
    rendered once more, in a process of its own."""
    occupy: Callable[[int], None] = lambda size: None
    """Call it with the bytes that are to be written to scratch: it raises BundleError where the share of the disk is
    used up."""
    seconds: float = 60.0
    """What one run of a program may take; its processor time is bounded accordingly."""
    memory_bytes: int = 1024 * MEBIBYTE
    """Address space of one run of a program."""
    output_bytes: int = 64 * MEBIBYTE
    """What one run of a program may write."""
    programs: Mapping[str, str] = field(default_factory=dict)
    """Where the administrator says that programs are, by name; others are looked for."""
    tenant: str = ""
    """For whom it is rendered: where only a few may do something at the same time, tenants take turns."""
    confinement_required: bool = True
    """Whether a program must not be started where the kernel cannot keep it from other files and the network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderRequest:
    """What a rendering depends on, and, but for `means`, all that it depends on (rule 9)."""

    name: str
    """Of the BundleDeployment."""
    install_namespace: str
    tree: ContentTree
    config: Mapping[str, Any]
    capabilities: Capabilities
    means: Means = field(default_factory=Means)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """An object that is run at a point of installing or tearing down; not a managed object. The words are Helm's."""

    manifest: dict[str, Any]
    events: tuple[str, ...]
    """pre-install, post-install, pre-upgrade, post-upgrade, pre-delete, post-delete."""
    weight: int = 0
    """Those of one event run in ascending order, each waited for."""
    delete_policies: tuple[str, ...] = ("before-hook-creation",)
    """before-hook-creation, hook-succeeded, hook-failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """What a format makes of a content tree."""

    objects: Sequence[dict[str, Any]]
    """In bundle order, as plain dictionaries of Kubernetes JSON."""
    hooks: Sequence[Hook] = ()
    warnings: Sequence[str] = ()
    """What a person should know and nothing stops for, a line each: unknown fields that were left out, say."""
    namespace: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """`labels` and `annotations` of the install namespace where the controller has to create it."""


class Format(Protocol):
    """A way to make objects from a content tree. Pure: equal requests give equal renderings."""

    def validate(self, config: Mapping[str, Any]) -> list[str]:
        """Return what is wrong with `spec.config`, each beginning with its field path."""

    def suggest_namespace(self, tree: ContentTree, config: Mapping[str, Any]) -> str:
        """Return the install namespace where the spec names none."""

    def render(self, request: RenderRequest) -> Rendering:
        """Return the objects and hooks.

        Raises: BundleError with a reason of Installed.
        """


@runtime_checkable
class RunsProgram(Protocol):
    """A format that runs a program says what that takes."""

    def program_bytes(self, means: Means) -> int:
        """Return the bytes of memory that the program may use.

        They are held before `render` is called, and pay for what is parsed in this process when it has ended.
        """
