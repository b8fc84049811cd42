"""Reads Helm's output: objects, those of `crds/` first, and hooks; and which API groups a chart has asked for.

Helm prints each document after a comment with its file name. An object of `crds/` is never a hook, whatever its
annotations are; Helm has already removed hooks of unknown events (`crd-install` of Helm 2).

A chart asks for the groups that its text names, if it uses `.Capabilities.APIVersions` at all. What a template computes
from pieces of a name is not found: such a chart is rendered as if the group were not served, as Helm itself does with
every group that fails discovery.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from api.errors import BundleError
from api.plugins import Hook, Rendering
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote
from controller.formats.budget import TextBudget
from controller.formats.helm.chart import name_chart
from controller.formats.objects import Identity, collect_objects, find_identity_problem, identify
from controller.formats.recognition import is_in_file
from controller.formats.yaml.manifests import Document, read_documents
from controller.untrusted import mapping

_DEFINITIONS = "crds"
"""The folder of a chart that Helm reads without templates."""
_ASKS = re.compile(rb"\bAPIVersions\b")
_LISTS = re.compile(rb"\bAPIVersions\b(?!\.Has\b)")
"""Goes through the list instead of asking for a name."""
_SOURCE = re.compile(rb"(?m)^---\n# Source: (.*)\n")
_OF_CRDS = re.compile(r"[^/]+(?:/charts/[^/]+)*/crds/")  # of the chart or a dependency
_EVENT = "helm.sh/hook"
_WEIGHT = "helm.sh/hook-weight"
_DELETE_POLICY = "helm.sh/hook-delete-policy"
_EVENTS = frozenset(
    f"{when}-{what}" for when in ("pre", "post") for what in ("install", "upgrade", "rollback", "delete")
)
_TESTS = frozenset({"test", "test-success"})
_EVENTS_OF_TESTS = ("post-install", "post-upgrade")
_DELETE_POLICIES = frozenset({"before-hook-creation", "hook-succeeded", "hook-failed"})
# As Helm 3 and Helm 4 write it.
_UNKNOWN = re.compile(r'skipping unknown hooks?(?:: |" hookTypes?=)("[^"\n]*"|[^\s"]+)')
_EVENT_NAME = re.compile(r"[a-z]+(?:-[a-z]+){0,3}")
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")


def refuse_unknown_groups(folder: Path, values: Iterable[bytes], unknown: Collection[str], chart: str) -> None:
    """Refuse a chart that asks for groups whose kinds are not known.

    Args:
        folder: with the files of the chart and of its dependencies.
        values: the texts of all values.
        unknown: groups that fail discovery.
        chart: its path in the content.

    Raises: BundleError (APIUnavailable).
    """
    asked = sorted(_find_asked(folder, list(values), unknown))
    if asked:
        groups = ", ".join(map(quote, asked))
        problem = (
            f"{name_chart(chart)}: asks for API group {groups}, whose kinds are not known because its discovery fails"
        )
        raise BundleError(Reason.API_UNAVAILABLE, f"{problem}; repair or delete its APIService")


def _find_asked(folder: Path, values: list[bytes], unknown: Collection[str]) -> Collection[str]:
    if not unknown or not _is_found(_ASKS, folder, values):
        return ()
    if _is_found(_LISTS, folder, values):
        return unknown
    return [name for name in unknown if _is_found(re.compile(re.escape(name.encode())), folder, values)]


def _is_found(pattern: re.Pattern[bytes], folder: Path, values: list[bytes]) -> bool:
    return any(map(pattern.search, values)) or any(is_in_file(pattern, path) for path in _files(folder))


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and _DEFINITIONS not in path.relative_to(folder).parts:
            yield path


def read_output(text: bytes, budget: TextBudget, *, skip_tests: bool) -> Rendering:
    """Return the objects and hooks in the output of `helm template`.

    Args:
        text: the whole output.
        budget: charged with it.
        skip_tests: leave out tests; otherwise they run after installing and upgrading.

    Raises: BundleError (InvalidBundle with the file; RenderLimitExceeded), LargeTextError.
    """
    budget.charge_text(len(text), "the output of Helm", is_manifest=False)
    definitions: list[Document] = []
    ordinary: list[Document] = []
    hooks: list[Hook] = []
    for file, part in _split(text):
        for document in read_documents(part, file, strict=False, budget=budget):
            if _OF_CRDS.match(file):
                definitions.append(document)
            elif _EVENT in _annotations(document.value):
                hooks.extend(_make_hooks(document, skip_tests=skip_tests))
            else:
                ordinary.append(document)
    objects = collect_objects([*_first_of_each(definitions), *ordinary])
    return Rendering(
        objects=objects, hooks=sorted(hooks, key=lambda hook: (hook.weight, hook.manifest["metadata"]["name"]))
    )


def find_unknown_hooks(said: str) -> tuple[str, ...]:
    """Return the events that Helm does not know, and whose objects it has left out, in order.

    Args:
        said: the stderr of `helm template`. It may contain secrets, but no such word can be one.
    """
    events = (event for match in _UNKNOWN.finditer(said) for event in match[1].strip('"').split(","))
    return tuple(sorted({event for event in events if event not in _EVENTS | _TESTS and _EVENT_NAME.fullmatch(event)}))


def _split(text: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the name of each file, and its output."""
    found = list(_SOURCE.finditer(text))
    ends = [*(match.start() for match in found[1:]), len(text)]
    for match, end in zip(found, ends, strict=False):
        # Templates may write such a comment themselves, with any name.
        yield "".join(filter(str.isprintable, match[1].decode(errors="replace"))), text[match.end() : end]


def _annotations(value: Any) -> dict[str, Any]:
    return dict(mapping(mapping(mapping(value).get("metadata")).get("annotations")))


def _first_of_each(documents: list[Document]) -> Iterator[Document]:
    """Yield definitions without duplicates: if two dependencies contain one, Helm installs the first."""
    seen: set[Identity] = set()
    for document in documents:
        if not find_identity_problem(document.value):
            identity = identify(document.value)
            if identity in seen:
                continue
            seen.add(identity)
        yield document


def _make_hooks(document: Document, *, skip_tests: bool) -> Iterator[Hook]:
    """Yield the hooks in a document, one for each object of a List; none if all of its events are left out."""
    annotations = _annotations(document.value)
    events = _read_events(str(annotations[_EVENT]), skip_tests=skip_tests)
    if not events:
        return
    named = _words(str(annotations.get(_DELETE_POLICY, "")))
    policies = tuple(policy for policy in dict.fromkeys(named) if policy in _DELETE_POLICIES)
    for manifest in collect_objects([document]):
        yield Hook(
            manifest=manifest,
            events=events,
            weight=_read_weight(str(annotations.get(_WEIGHT, ""))),
            delete_policies=policies or ("before-hook-creation",),
        )


def _read_events(text: str, *, skip_tests: bool) -> tuple[str, ...]:
    words = _words(text)
    events = [word for word in words if word in _EVENTS]
    if not skip_tests and not _TESTS.isdisjoint(words):
        events.extend(_EVENTS_OF_TESTS)
    return tuple(dict.fromkeys(events))


def _read_weight(text: str) -> int:
    """Return a weight; like Helm, 0 for text that is not a number."""
    return int(text) if _INTEGER.fullmatch(text) else 0


def _words(text: str) -> list[str]:
    return [word.strip().lower() for word in text.split(",")]
