"""A revision: one rendered set of objects, with everything needed to repair and delete them (rule 2).

This module defines the value and its serialized form; `revisions/store.py` keeps it in the cluster.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

from rukpak.api.plugins import CustomKind
from rukpak.controller.content.digests import canonical_json
from rukpak.controller.untrusted import decode

FORMAT = "v1"
_PIECE = 256 * 1024
RecordedKind: TypeAlias = tuple[str, str, str, bool]
"""Group, version and kind, and whether it is namespaced."""
RecordedCustomKind: TypeAlias = tuple[str, str, str, CustomKind | None]
"""Group, version and kind, and what was known of it."""
RecordedLookup: TypeAlias = tuple[str, str, str, str, str, str]
"""apiVersion, kind, namespace, name (empty for a list), resourceVersion (empty if it did not exist), and the digest of
what the bundle saw of it."""
_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a revision records in addition to its objects; it may change without creating another revision."""

    inputs: str
    """Digest of the fields of the spec and the pins that it was rendered from."""
    rendered_from: str = ""
    """Digest of everything the rendering depends on, capabilities included (rule 9)."""
    bundle: str = ""
    """What the bundle calls itself, for status.history."""
    install_namespace: str
    service_account_name: str = ""
    pins: tuple[Mapping[str, str], ...] = ()
    """As `record_pins` writes them, in case status loses them."""
    drift: Mapping[str, Any] | None = None
    optional: tuple[Mapping[str, str], ...] = ()
    account: Mapping[str, str] | None = None
    """`deploymentUID`, `namespaceUID` and `serviceAccountUID` of the account: see revisions/accounts.py."""
    kinds: tuple[RecordedKind, ...] = ()
    """The kinds of other API servers that it was rendered with: see capabilities.py."""
    custom: tuple[RecordedCustomKind, ...] = ()
    """The custom kinds whose definition decided about fields of its objects: see capabilities.py."""
    looked_up: tuple[RecordedLookup, ...] = ()
    """What it was rendered with in addition: see answers.py."""
    held: str = ""
    """Why it must not be applied without approval, see revisions/approval.py; empty: it may be, or has been."""
    left: tuple[str, ...] = ()
    """Objects kept from older revisions that no kept revision names, as `apiVersion/kind namespace name`; `*` if they
    are so many that those revisions are kept instead."""
    past: tuple[str, ...] = ()
    """Objects that revisions named which are retired or deleted, in the same form, those of the newest first: if one
    exists again, an overtaken pass of another controller has made it. As many as fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One rendered set of objects, made applicable, in bundle order."""

    digest: str
    """`sha256:…` over objects and hooks."""
    objects: tuple[dict[str, Any], ...]
    hooks: tuple[dict[str, Any], ...] = ()
    """As JSON: the applicable manifest, with `events`, `weight` and `deletePolicies` of `rukpak.api.plugins.Hook`."""
    terms: Terms
    warnings: tuple[str, ...] = ()
    """For the user; not part of the digest."""
    namespace: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """`labels` and `annotations` of the install namespace, if it must be created."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Size of objects and hooks as JSON."""

    text_bytes: int
    values: int
    """At least the number of scalars, mappings and lists: commas and brackets in strings count, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedRevision:
    """A revision in compressed form: a large one needs little memory until it is unpacked."""

    digest: str
    objects: bytes
    """As `pack_objects` writes them."""
    terms: Terms
    warnings: tuple[str, ...] = ()
    namespace: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def unpacked(self) -> Revision:
        """Return the revision.

        Raises: ValueError if the objects are not what `pack_objects` wrote.
        """
        try:
            content = decode(zlib.decompress(self.objects))
            objects, hooks = tuple(content["objects"]), tuple(content["hooks"])
        except (zlib.error, KeyError, TypeError, RecursionError) as error:
            raise ValueError(type(error).__name__) from error
        return Revision(
            digest=self.digest,
            objects=objects,
            hooks=hooks,
            terms=self.terms,
            warnings=self.warnings,
            namespace=self.namespace,
        )


def pack(revision: Revision) -> PackedRevision:
    """Return a revision in compressed form."""
    return PackedRevision(
        digest=revision.digest,
        objects=pack_objects(revision),
        terms=revision.terms,
        warnings=revision.warnings,
        namespace=revision.namespace,
    )


def pack_objects(revision: Revision) -> bytes:
    """Return the compressed objects and hooks; equal revisions give equal bytes."""
    compress = zlib.compressobj(6)
    return b"".join([*map(compress.compress, _write_objects(revision)), compress.flush()])


def _write_objects(revision: Revision) -> Iterator[bytes]:
    # The whole text may be large.
    for opening, items in (('{"objects":[', revision.objects), ('],"hooks":[', revision.hooks)):
        yield opening.encode()
        for index, item in enumerate(items):
            yield (("," if index else "") + _ENCODE(item)).encode("utf-8", "surrogatepass")
    yield b"]}"


def measure(objects: bytes) -> Size:
    """Return the size of what `pack_objects` wrote, without holding it in memory.

    Raises: ValueError if it is damaged.
    """
    size = values = 0
    decompress = zlib.decompressobj()
    try:
        while objects and not decompress.eof:
            text = decompress.decompress(objects, _PIECE)
            objects = decompress.unconsumed_tail
            size += len(text)
            values += text.count(b",") + text.count(b"{") + text.count(b"[")
    except zlib.error as error:
        raise ValueError(type(error).__name__) from error
    return Size(text_bytes=size, values=values)


def shows_secrets(terms: Terms) -> bool:
    """Whether values of Secrets that were looked up may be in the objects of a revision."""
    return any(lookup[:2] == ("v1", "Secret") for lookup in terms.looked_up)


def has_objects(revision: Revision | PackedRevision) -> bool:
    """Return whether a revision has objects, hooks aside."""
    if isinstance(revision, Revision):
        return bool(revision.objects)
    return not zlib.decompressobj().decompress(revision.objects, len(_NO_OBJECTS)).startswith(_NO_OBJECTS)


def pack_terms(revision: Revision | PackedRevision) -> bytes:
    """Return everything in a revision except objects and hooks, as canonical JSON."""
    fields = {"format": FORMAT, "warnings": revision.warnings, "namespace": revision.namespace}
    fields |= asdict(revision.terms)
    return canonical_json(fields)


def unpack_terms(digest: str, terms: bytes, objects: bytes) -> PackedRevision:
    """Return the revision that `pack_objects` and `pack_terms` wrote, with its objects still compressed.

    Raises: ValueError if the terms are not what `pack_terms` wrote.
    """
    try:
        fields = decode(terms)
        if fields.pop("format") != FORMAT:
            raise ValueError("format of the terms")
        warnings, namespace = tuple(fields.pop("warnings")), dict(fields.pop("namespace"))
        fields.update({name: tuple(fields[name]) for name in ("pins", "optional", "left", "past")})
        fields["looked_up"] = tuple(tuple(each) for each in fields.get("looked_up", ()))
        fields["kinds"] = tuple((*kind, scope) for *kind, scope in fields["kinds"])
        fields["custom"] = tuple(
            (*kind, CustomKind(**known) if known is not None else None) for *kind, known in fields["custom"]
        )
        return PackedRevision(
            digest=digest, objects=objects, terms=Terms(**fields), warnings=warnings, namespace=namespace
        )
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(type(error).__name__) from error


_NO_OBJECTS = b'{"objects":[]'
