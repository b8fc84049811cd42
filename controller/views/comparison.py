"""What a revision would make of each object, as values, as text that people and `patch` can read, and as data. Pure.

Objects are compared without what the server and the controller record. A Secret is shown by the length and a hash of
each value. The hash has a key that is made for one comparison: it says whether two values are equal, and nobody can
find a value by hashing guesses. Not here: the comparison with a cluster (dry_run.py).
"""

from __future__ import annotations

import base64
import difflib
import hashlib
import hmac
import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import zip_longest
from typing import Any

from rukpak.api import names
from rukpak.api.v1alpha2.status import Changes
from rukpak.controller.apply.drift import united
from rukpak.controller.apply.hooks import HookEvent, hooks_of
from rukpak.controller.apply.leftovers import LAST_APPLIED
from rukpak.controller.apply.targets import TargetSet, find_differences, find_waves
from rukpak.controller.building.revision import Revision
from rukpak.controller.content.limits import one_line
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.status.report import describe_changes, short
from rukpak.controller.untrusted import mapping, mappings
from rukpak.controller.views.texts import WIDTH, Color, to_yaml

Manifest = Mapping[str, Any]
SERVER_METADATA = frozenset({"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"})
"""Fields of metadata that only the server sets."""
# LAST_APPLIED also has the values of Secrets.
_MARKS = frozenset({names.APPLIED_DIGEST, names.OWNER_UID, names.HOOK_RUN, names.RELEASED_FROM, LAST_APPLIED})
_FIRST = ("apiVersion", "kind", "metadata")
_COLORS = {"+": Color.GREEN, "-": Color.RED, "@": Color.CYAN, "": Color.BOLD}
_INSTALL = (HookEvent.PRE_INSTALL, HookEvent.POST_INSTALL)
_UPGRADE = (HookEvent.PRE_UPGRADE, HookEvent.POST_UPGRADE)
_NOTHING = "/dev/null"
_SHOWN_LINES = 10
_AROUND, _MOST_PAIRS = 3, 1_000_000
"""Lines around a change; and how many pairs of lines are compared, which takes up to a tenth of a second."""
_HASH_DIGITS = 12


class Change(Enum):
    """What would be done with an object."""

    NONE = "unchanged"
    CREATED = "created"
    CHANGED = "changed"
    RECREATED = "recreated"
    """Deleted and created again."""
    DELETED = "deleted"
    KEPT = "kept"
    """The revision lacks it, but it is not deleted."""
    REFUSED = "refused"
    """The controller could not apply it."""
    UNREAD = "not compared"
    """The user may not read it; it is shown as rendered."""
    HOOK = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One object before and after."""

    key: ObjectKey
    api_version: str
    change: Change
    before: Mapping[str, Any] | None = None
    """Cleaned, as the next; None if it does not exist, or is not shown."""
    after: Mapping[str, Any] | None = None
    note: str = ""
    """Why, or how it was found."""
    hook: str = ""
    """The event of a hook; empty for an ordinary object."""
    holder: Manifest | None = None
    """The object on the cluster that keeps one of the bundle from being applied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A revision compared with a cluster, or with another revision."""

    name: str
    revision: str
    against: str
    """What it is compared with: `the cluster`, or a digest."""
    objects: Sequence[Difference]
    """In the order of the bundle, then those that it lacks; also unchanged ones."""
    hooks: Sequence[Difference] = field(default_factory=tuple)
    """Those that would run."""
    refusals: Sequence[str] = field(default_factory=tuple)
    """Why it would not be installed, beside what is refused of single objects."""
    problems: Sequence[str] = field(default_factory=tuple)
    """What could not be found out, and what to think about."""

    @property
    def changes(self) -> Changes:
        """How many objects would change."""
        count = [each.change for each in self.objects].count
        recreated = count(Change.RECREATED)
        return Changes(
            create=count(Change.CREATED),
            change=count(Change.CHANGED) + recreated,
            delete=count(Change.DELETED),
            recreate=recreated,
        )

    @property
    def differs(self) -> bool:
        """Whether anything would be done, or is not known."""
        quiet = (Change.NONE, Change.KEPT)
        return bool(self.hooks) or any(each.change not in quiet for each in self.objects)

    @property
    def is_refused(self) -> bool:
        """Whether the controller could not install it, or not all of it."""
        return bool(self.refusals) or any(each.change is Change.REFUSED for each in self.objects)


def compare_revisions(name: str, before: TargetSet, after: TargetSet, hooks: Sequence[Difference]) -> Comparison:
    """Compare two revisions as they were rendered; hooks are those that differ."""
    found = find_differences(before, after, prunes=True)
    manifests = [
        {target.key: clean(united(target.manifest, target.initial)) for target in targets.targets if not target.bare}
        for targets in (before, after)
    ]

    def _make(key: ObjectKey, change: Change) -> Difference:
        old, new = (each.get(key) for each in manifests)
        version = str((new or old or {}).get("apiVersion"))
        return Difference(key=key, api_version=version, change=change, before=old, after=new)

    made = [_make(key, Change.CREATED) for key in found.created]
    made += [_make(key, Change.CHANGED) for key in found.changed if key not in found.recreated]
    made += [_make(key, Change.RECREATED) for key in found.recreated]
    gone = [key for key in manifests[0] if key not in after.by_key]
    made += [_make(key, Change.DELETED if key in found.deleted else Change.KEPT) for key in gone]
    return Comparison(name=name, revision=after.revision, against=before.revision, objects=made, hooks=hooks)


def compare_hooks(before: Revision | None, after: Revision, *, is_upgrade: bool) -> list[Difference]:
    """Return the hooks that run when a revision is installed, or installed instead of another one.

    Args:
        before: the other one, if it is known.
        after: the revision.
        is_upgrade: whether there is another one.
    """
    events = _UPGRADE if is_upgrade else _INSTALL
    old = {each.key: clean(each.manifest) for event in events for each in (hooks_of(before, event) if before else ())}
    return [
        Difference(
            key=each.key,
            api_version=each.kind.api_version,
            change=Change.HOOK,
            before=old.get(each.key),
            after=clean(each.manifest),
            hook=event.value,
        )
        for event in events
        for each in hooks_of(after, event)
    ]


def count_unchanged(objects: Iterable[Difference]) -> int:
    """Return how many objects stay as they are."""
    return sum(each.change is Change.NONE for each in objects)


def clean(manifest: Manifest) -> dict[str, Any]:
    """Return what a bundle says about an object, with the keys of all maps in order."""
    said = mapping(manifest, "metadata")
    kept: dict[str, Any] = {
        "labels": {name: value for name, value in mapping(said, "labels").items() if name != names.OWNER_LABEL},
        "annotations": {name: value for name, value in mapping(said, "annotations").items() if name not in _MARKS},
        "ownerReferences": [each for each in mappings(said, "ownerReferences") if each.get("kind") != names.KIND],
    }
    metadata = {
        key: kept.get(key, value)
        for key, value in said.items()
        if key not in SERVER_METADATA and kept.get(key, True)  # without those that have become empty
    }
    fields = {key: value for key, value in manifest.items() if key != "status"} | {"metadata": metadata}
    ordered = [*(key for key in _FIRST if key in fields), *sorted(fields.keys() - set(_FIRST))]
    return {key: json.loads(json.dumps(fields[key], sort_keys=True)) for key in ordered}


_LISTED = (Change.KEPT, Change.REFUSED)
"""Without a diff: only a line says what would happen."""


def summarize(comparison: Comparison) -> Iterator[str]:
    """Yield lines that say what would happen, except to the single objects that would change."""
    against = "the cluster" if comparison.against == "the cluster" else f"revision {short(comparison.against)}"
    text = describe_changes(comparison.changes) if comparison.differs else "no difference"
    unchanged = count_unchanged(comparison.objects)
    more = f", {unchanged} unchanged" if unchanged else ""
    yield f"{comparison.name}: revision {comparison.revision} compared with {against}: {text}{more}"
    for each in comparison.hooks:
        is_same = each.before == each.after
        yield f"  Hook:    {each.key} ({each.hook}{', unchanged' if is_same else ''})"
    for each in comparison.objects:
        if each.change in _LISTED:
            note = f": {each.note}" if each.note else ""
            yield f"  {each.change.value.capitalize()}: {each.key}{note}"
    unread = sum(each.change is Change.UNREAD for each in comparison.objects)
    if unread:
        yield f"  Not compared: {unread} objects that you may not read; they are shown as rendered"
    yield from (f"  Refused: {refusal}" for refusal in comparison.refusals)
    yield from (f"  Problem: {problem}" for problem in comparison.problems)


def write(comparison: Comparison, key: bytes, *, colors: bool) -> Iterator[str]:
    """Yield the lines of a comparison.

    Args:
        comparison: what is shown.
        key: of the hashes of values of Secrets.
        colors: whether lines are colored; see `texts.is_colored`.
    """
    for line in summarize(comparison):
        yield _paint("", one_line(line), colors=colors)
    wave = None
    for each, number in (*((hook, None) for hook in comparison.hooks), *_by_wave(comparison.objects)):
        if each.change is Change.NONE or each.change in _LISTED or each.before == each.after:
            continue
        if number != wave:
            yield from ("", f"Wave {number}:")
            wave = number
        yield ""
        note = f" ({each.hook or each.note})" if each.hook or each.note else ""
        yield _paint("", one_line(f"{each.change.value} {each.key}{note}"), colors=colors)
        for line in _diff(each, key):
            yield _paint(line[:1], line, colors=colors)


def _by_wave(objects: Sequence[Difference]) -> list[tuple[Difference, int | None]]:
    shown = {each.key: manifest for each in objects if (manifest := each.after or each.before)}
    waves = find_waves(shown.values())
    if len(set(waves.values())) <= 1:
        return [(each, None) for each in objects]
    numbered: list[tuple[Difference, int | None]] = [(each, waves.get(each.key, 0)) for each in objects]
    return sorted(numbered, key=lambda pair: pair[1] or 0)


def write_one(difference: Difference, key: bytes) -> Iterator[str]:
    """Yield the lines about one object, without colors; `key` is that of the hashes of values of Secrets."""
    yield one_line(f"{difference.change.value} {difference.key}")
    yield from _diff(difference, key)


def outline(difference: Difference, key: bytes) -> Iterator[str]:
    """Yield the first of the lines that an object gains or loses, each cut to the width of prose.

    Args:
        difference: of an object that is changed.
        key: of the hashes of values of Secrets.
    """
    _, _, *lines = _diff(difference, key)
    changed = [line for line in lines if line.startswith(("+", "-"))]
    shown = (f"    {line}" for line in changed[:_SHOWN_LINES])
    yield from (line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…" for line in shown)
    if len(changed) > _SHOWN_LINES:
        yield f"    and {len(changed) - _SHOWN_LINES} more lines; --diff shows all"


def _paint(kind: str, line: str, *, colors: bool) -> str:
    return _COLORS.get(kind, Color.NONE).paint(line) if colors else line


def _diff(difference: Difference, key: bytes) -> Iterator[str]:
    name = one_line("/".join(filter(None, (difference.api_version, *difference.key[1:]))))
    before, after = _lines(difference.before, key), _lines(difference.after, key)
    yield f"--- {f'before/{name}' if before else _NOTHING}"
    yield f"+++ {f'after/{name}' if after else _NOTHING}"
    yield from _compare(before, after)


def set_side_by_side(before: Manifest, after: Manifest, key: bytes, most: int) -> list[tuple[str, str, bool]]:
    """Return the lines of two objects beside each other, and whether they differ.

    Args:
        before: cleaned, as the next.
        after: what it is compared with.
        key: of the hashes of values of Secrets.
        most: number of lines from which on only those around changes are returned, with `…` between them.
    """
    old, new = _lines(before, key), _lines(after, key)
    matcher = _Matcher(old, new)
    is_whole = max(len(old), len(new)) <= most
    groups = [matcher.get_opcodes()] if is_whole else list(matcher.get_grouped_opcodes(_AROUND))
    rows: list[tuple[str, str, bool]] = []
    for group in groups:
        rows += [] if is_whole else [("…", "…", False)]
        for kind, start, end, new_start, new_end in group:
            pairs = zip_longest(old[start:end], new[new_start:new_end], fillvalue="")
            rows += [(left, right, kind != "equal") for left, right in pairs]
    return rows


class _Matcher(difflib.SequenceMatcher[str]):
    """Compares texts of any length: of long ones, only the short parts between lines that each text has once."""

    def __init__(self, before: Sequence[str], after: Sequence[str]) -> None:
        super().__init__(None, before, after)
        self._before, self._after = before, after

    def get_matching_blocks(self) -> list[difflib.Match]:
        """Return the parts that are equal, in order."""
        before, after = self._before, self._after
        if len(before) * len(after) <= _MOST_PAIRS:
            return super().get_matching_blocks()
        end = difflib.Match(len(before), len(after), 0)
        blocks = [difflib.Match(0, 0, 0)]
        for anchor in (*_find_anchors(before, after), end):
            old, new = blocks[-1].a + blocks[-1].size, blocks[-1].b + blocks[-1].size
            for a, b, size in _compare_between(before[old : anchor.a], after[new : anchor.b]):
                _append(blocks, difflib.Match(old + a, new + b, size))
            _append(blocks, anchor)
        return [*blocks, end]


def _compare_between(before: Sequence[str], after: Sequence[str]) -> list[difflib.Match]:
    few = len(before) * len(after) <= _MOST_PAIRS
    return difflib.SequenceMatcher(None, before, after).get_matching_blocks()[:-1] if few else []


def _append(blocks: list[difflib.Match], block: difflib.Match) -> None:
    # Hunks end at long blocks only.
    last = blocks[-1]
    if (last.a + last.size, last.b + last.size) == (block.a, block.b):
        blocks[-1] = difflib.Match(last.a, last.b, last.size + block.size)
    else:
        blocks.append(block)


def _find_anchors(before: Sequence[str], after: Sequence[str]) -> list[difflib.Match]:
    # A patience diff.
    counts = Counter(before), Counter(after)
    places = {line: index for index, line in enumerate(after) if counts[0][line] == counts[1][line] == 1}
    common = [(index, places[line]) for index, line in enumerate(before) if line in places]
    ends: list[int] = []  # of the rising sequences of each length, the lowest last place in the new text
    lengths = []
    for _, place in common:
        lengths.append(length := bisect_left(ends, place))
        ends[length : length + 1] = [place]
    anchors: list[difflib.Match] = []
    wanted, limit = len(ends) - 1, len(after)
    for (old, new), length in zip(reversed(common), reversed(lengths), strict=True):
        if length == wanted and new < limit:
            anchors.append(difflib.Match(old, new, 1))
            wanted, limit = wanted - 1, new
    return anchors[::-1]


def _compare(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    for group in _Matcher(before, after).get_grouped_opcodes(_AROUND):
        (_, start, _, new_start, _), (_, _, end, _, new_end) = group[0], group[-1]
        yield f"@@ -{_range(start, end)} +{_range(new_start, new_end)} @@"
        for kind, old, old_end, new, up_to in group:
            if kind == "equal":
                yield from (f" {line}" for line in before[old:old_end])
                continue
            yield from (f"-{line}" for line in before[old:old_end])
            yield from (f"+{line}" for line in after[new:up_to])


def _range(start: int, end: int) -> str:
    count = end - start
    return f"{start + 1}" if count == 1 else f"{start + (count > 0)},{count}"


def _lines(manifest: Mapping[str, Any] | None, key: bytes) -> list[str]:
    return to_yaml(mask(manifest, key)).split("\n")[:-1] if manifest else []


def to_value(comparison: Comparison, key: bytes) -> dict[str, Any]:
    """Return a comparison as data, without unchanged objects and with Secrets masked."""
    return {
        "name": comparison.name,
        "revision": comparison.revision,
        "against": comparison.against,
        "changes": comparison.changes.model_dump(),
        "unchanged": count_unchanged(comparison.objects),
        "objects": [_to_value(each, key) for each in comparison.objects if each.change is not Change.NONE],
        "hooks": [_to_value(each, key) for each in comparison.hooks],
        "refused": comparison.is_refused,
        "problems": [*comparison.refusals, *comparison.problems],
    }


def _to_value(difference: Difference, key: bytes) -> dict[str, Any]:
    about = {
        "apiVersion": difference.api_version,
        "kind": difference.key.kind,
        "namespace": difference.key.namespace,
        "name": difference.key.name,
        "change": difference.change.value,
        "note": difference.note,
        "before": mask(difference.before, key) if difference.before else None,
        "after": mask(difference.after, key) if difference.after else None,
    }
    return {**about, "event": difference.hook} if difference.hook else about


def mask(manifest: Manifest, key: bytes) -> Manifest:
    """Return an object without the values of a Secret; any other object as it is.

    Args:
        manifest: the object.
        key: of the hashes.
    """
    if (manifest.get("apiVersion"), manifest.get("kind")) != ("v1", "Secret"):
        return manifest
    data = {name: _mask(_decode(value), key) for name, value in mapping(manifest, "data").items()}
    texts = {name: _mask(str(value).encode(), key) for name, value in mapping(manifest, "stringData").items()}
    shown = {"data": data, "stringData": texts}
    return {name: shown.get(name, value) for name, value in manifest.items()}


def _decode(value: object) -> bytes:
    try:
        return base64.b64decode(str(value or ""), validate=True)
    except ValueError:  # also of letters that are not ASCII
        return str(value).encode()


def _mask(value: bytes, key: bytes) -> str:
    digits = hmac.new(key, value, hashlib.sha256).hexdigest()[:_HASH_DIGITS]
    return f"{len(value)} {'byte' if len(value) == 1 else 'bytes'}, hash {digits}"
