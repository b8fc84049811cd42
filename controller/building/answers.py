"""What a bundle looks up while it is rendered: asked once for each build, recorded, and kept out of what is shown.

A rendering that needs an answer ends with the question, and is run again with the answer. All renderings of one build
get the same answers. They belong to the inputs of the revision: its terms record what was looked up, in which version,
and the digest of what the bundle saw of it. They are read when something is rendered, never because an object changes.

A chart may leave out an object because it has found that very object, which it has made itself. Such an object remains
part of the revision, as it was installed. Otherwise it would be pruned, and made anew with the next revision.

Not here: as whom objects are read (revisions/references.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.plugins import MEBIBYTE, Lookup
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.building.config_values import LEAST, Confidential
from rukpak.controller.building.request import Found, Request
from rukpak.controller.building.revision import PackedRevision, RecordedLookup, Revision
from rukpak.controller.content.digests import digest_of_json
from rukpak.controller.content.limits import describe_bytes, name_key, some
from rukpak.controller.formats.applicable import revision_digest
from rukpak.controller.formats.helm.lookups import REMEDY, describe, find_secret_values, make_answer
from rukpak.controller.formats.objects import ObjectKey, group_of, identify
from rukpak.controller.untrusted import mapping, strings, text

LOOKUPS = 64
"""Objects and lists that one revision looks up."""
LOOKUP_BYTES = 4 * MEBIBYTE
"""Size of all answers of one revision, as JSON."""


class Asked:
    """The answers of one build. Not thread-safe.

    Args:
        request: the inputs of the revision.
        look_up: None: nothing is looked up.
        last: the revision that is installed, if there is one.
        given: the installed revisions of those BundleDeployments that objects are taken over from, by name.
    """

    def __init__(
        self,
        request: Request,
        look_up: Callable[[Lookup], Found] | None,
        last: Revision | PackedRevision | None = None,
        given: Mapping[str, PackedRevision] | None = None,
    ) -> None:
        self.request, self._look_up, self.last, self.given = request, look_up, last, given or {}
        self.answers: dict[Lookup, Mapping[str, Any]] | None = None if look_up is None else {}
        self._versions: dict[Lookup, str] = {}
        self._size = 0

    def ask(self, lookup: Lookup) -> None:
        """Get one more answer.

        Raises: BundleError (RenderLimitExceeded, InvalidConfig, and those of `look_up`).
        """
        if self._look_up is None or self.answers is None or lookup in self.answers:
            raise RuntimeError("a format asks although it has been told not to, or has the answer")
        if len(self.answers) == LOOKUPS:
            problem = f"lookup: the bundle looks up more than {LOOKUPS} objects and lists"
            raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{problem}; {REMEDY}")
        self._refuse_secrets(lookup)
        found = self._look_up(lookup)
        answer = make_answer(found.manifest, lookup) if found.manifest else {}
        self._size += len(json.dumps(answer, ensure_ascii=False).encode(errors="replace"))
        if self._size > LOOKUP_BYTES:
            problem = (
                f"lookup: with {describe(lookup)}, what the bundle looks up exceeds {describe_bytes(LOOKUP_BYTES)}"
            )
            raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{problem}; {REMEDY}")
        self.answers[lookup], self._versions[lookup] = answer, found.version

    def _refuse_secrets(self, lookup: Lookup) -> None:
        known = self.confidential()
        if known is None:
            return
        shown = f"{known.public}\n{self.request.name}\n{self.request.install_namespace}".casefold()
        asked = f"{lookup.namespace}\n{lookup.name}".casefold()
        values = (secret.casefold().rstrip("=") for secret in known.secrets if len(secret) >= LEAST)
        if any(value in asked and value not in shown for value in values):
            problem = "the name or namespace of what the bundle looks up contains a value of a Secret"
            remedy = "set the name in spec.config.values, where everybody may see it, or spec.config.lookup to Never"
            raise BundleError(Reason.INVALID_CONFIG, f"lookup: {problem}; {remedy}")

    def recorded(self) -> tuple[RecordedLookup, ...]:
        """Return what the terms of a revision record."""
        return tuple(
            (*lookup, self._versions[lookup], digest_of_json(answer))
            for lookup, answer in sorted((self.answers or {}).items(), key=lambda pair: pair[0])
        )

    def secrets(self) -> list[str]:
        """Return the values of Secrets that were found."""
        return find_secret_values(self.answers or {})

    def confidential(self) -> Confidential | None:
        """Return what is secret of the inputs of a rendering, with what was found."""
        request, found = self.request, self.secrets()
        if not found:
            return request.confidential
        known = request.confidential or Confidential(
            secrets=(),
            public=f"{request.name}\n{request.spec.model_dump_json(by_alias=True, exclude_unset=True)}",
            place="lookup",
        )
        return replace(known, secrets=(*known.secrets, *found))

    def own_objects(self, name: str) -> frozenset[ObjectKey]:
        """Return the identities of the objects that were found and belong to a BundleDeployment."""
        return frozenset(
            ObjectKey(
                lookup.api_version.rpartition("/")[0], lookup.kind, text(answer, "metadata", "namespace"), lookup.name
            )
            for lookup, answer in (self.answers or {}).items()
            if lookup.name and strings(answer, "metadata", "labels").get(names.OWNER_LABEL) == name
        )


def differ(one: Sequence[RecordedLookup], other: Sequence[RecordedLookup]) -> bool:
    """Whether a bundle would see a difference between two records."""
    return {each[:4]: each[5] for each in one} != {each[:4]: each[5] for each in other}


def keep_left_out(made: Revision, last: Revision, own: frozenset[ObjectKey]) -> Revision:
    """Return a revision with those of its own objects that it looks up and leaves out, as the last revision has them.

    Args:
        made: as it was rendered.
        last: the one before.
        own: see `Asked.own_objects`.
    """
    rendered = {identify(item) for item in made.objects}
    left_out = {
        index: item
        for index, item in enumerate(last.objects)
        if (identity := identify(item)) in own and identity not in rendered
    }
    if not left_out:
        return made
    objects = list(made.objects)
    for index, item in left_out.items():
        objects.insert(index, item)
    warnings = [
        f'{item["kind"]} "{item["metadata"]["name"]}": the chart leaves it out because lookup finds it; it is kept '
        "as it was installed"
        for item in left_out.values()
    ]
    return replace(
        made,
        objects=tuple(objects),
        digest=revision_digest(objects, made.hooks),
        warnings=(*made.warnings, *warnings),
    )


def with_warnings_on(made: Revision, own: frozenset[ObjectKey]) -> Revision:
    """Return a revision with warnings about those of its own objects that the installed revision keeps, if it has them.

    Args:
        made: as it was rendered.
        own: see `Asked.own_objects`.
    """
    rendered = {identify(item) for item in made.objects}
    warnings = [
        f'{kind} "{name}": the chart leaves it out because lookup finds it; the controller keeps it as it is installed'
        for _, kind, _, name in sorted(own - rendered)
    ]
    return replace(made, warnings=(*made.warnings, *warnings))


def changed_values(made: Revision, other: Revision) -> frozenset[tuple[str, str]]:
    """Return the namespace/name and field of the values of Secrets that both revisions have, and that differ."""
    before = {identify(item): item for item in other.objects if (group_of(item), item["kind"]) == ("", "Secret")}
    return frozenset(
        (f"{text(item, 'metadata', 'namespace')}/{item['metadata']['name']}", name_key("data", key))
        for item in made.objects
        for key, value in mapping(item, "data").items()
        if mapping(before.get(identify(item)), "data").get(key, value) != value
    )


def describe_generated(values: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield a warning for each Secret with values that each rendering makes anew.

    Args:
        values: as `changed_values` returns them.
    """
    for name, found in groupby(sorted(values), key=itemgetter(0)):
        fields = some([field for _, field in found])
        problem = "made anew, since the content or spec.config has changed and the bundle generates it each time"
        remedy = "to keep it, have the chart take it from a Secret of yours, or set it in spec.config"
        yield f"Secret {name}: {fields}: {problem}; {remedy}"
