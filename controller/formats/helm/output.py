"""Reads Helm's output: objects, those of `crds/` first, and hooks.

Helm prints each document after a comment with its file name. An object of `crds/` is never a hook, whatever its
annotations are; Helm has already removed hooks of unknown events (`crd-install` of Helm 2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from api.plugins import Hook, Rendering
from controller.formats.budget import TextBudget
from controller.formats.objects import Identity, collect_objects, find_identity_problem, identify
from controller.formats.yaml.manifests import Document, read_documents
from controller.untrusted import mapping

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
