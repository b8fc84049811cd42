"""The steps of making objects applicable: refuse invalid fields, correct, remove nulls, set namespaces."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from controller.formats.applicable.corrections import NO_SCHEMA, correct, schemas_of_crds, without_nulls
from controller.formats.applicable.invalid_fields import find_invalid_fields
from controller.formats.objects import Identity, Object, crd_specs, find_identity_problem, group_of, identify, refuse
from controller.untrusted import mapping

ScopeLookup = Callable[[str, str, str], bool | None]
"""Group, version and kind to whether it is namespaced; None if this is not known yet."""

_ENCODE = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")).encode
_ENCODE_SORTED = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, sort_keys=True, separators=(",", ":")
).encode


def make_applicable(objects: Sequence[Object], *, install_namespace: str, is_namespaced: ScopeLookup) -> list[Object]:
    """Return the objects as server-side apply accepts them, in the same order.

    Args:
        objects: as a format rendered them.
        install_namespace: of namespaced objects without a namespace. Cluster-scoped objects lose theirs, as the API
            server drops it silently.
        is_namespaced: scope of kinds that no CRD among the objects defines. With None the namespace remains unchanged
            until the API appears.

    Raises: BundleError (InvalidBundle) with object and field of the first problem, and the number of others.
    """
    refuse(
        f"objects[{index}]: {problem}" for index, item in enumerate(objects) if (problem := find_identity_problem(item))
    )
    refuse(f"{identify(item)}: {problem}" for item in objects for problem in find_invalid_fields(item))
    defined = scopes_of_crds(objects)

    @cache
    def _scope(api_version: str, kind: str) -> bool | None:
        group, _, version = api_version.rpartition("/")
        scope = defined.get((group, kind))
        return is_namespaced(group, version, kind) if scope is None else scope

    result = [
        _set_namespace(item, install_namespace, is_namespaced=_scope(item["apiVersion"], item["kind"]))
        for item in _remove_nulls([correct(item) for item in objects], objects)
    ]
    _refuse_equal(result)
    return result


def scopes_of_crds(objects: Sequence[Object]) -> dict[tuple[str, str], bool]:
    """Return whether the kinds that CRDs among the objects define are namespaced, by group and kind."""
    result: dict[tuple[str, str], bool] = {}
    for spec in crd_specs(objects):
        key = str(spec.get("group")), str(mapping(spec, "names").get("kind"))
        result[key] = spec.get("scope") == "Namespaced"
    return result


def revision_digest(objects: Sequence[Mapping[str, Any]], hooks: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return the `sha256:…` of a revision.

    It covers `{"hooks":[…],"objects":[…]}` in canonical JSON: keys sorted, no spaces, UTF-8.
    """
    digest = hashlib.sha256()
    for opening, items in (('{"hooks":[', hooks), ('],"objects":[', objects)):
        digest.update(opening.encode())
        for index, item in enumerate(items):  # one at a time: the whole text may have 40 MB
            digest.update((("," if index else "") + _ENCODE_SORTED(item)).encode())
    digest.update(b"]}")
    return f"sha256:{digest.hexdigest()}"


def _set_namespace(item: Object, default: str, *, is_namespaced: bool | None) -> Object:
    metadata = item["metadata"]
    if is_namespaced and not metadata.get("namespace"):
        return {**item, "metadata": {**metadata, "namespace": default}}
    if is_namespaced is False and "namespace" in metadata:
        return {**item, "metadata": {key: value for key, value in metadata.items() if key != "namespace"}}
    return item


def _remove_nulls(objects: Sequence[Object], crds: Sequence[Object]) -> list[Object]:
    schemas = schemas_of_crds(crds)
    result = []
    for item in objects:
        # Encoding in C is several times faster than a walk in Python, and few objects contain nulls.
        if ":null" in _ENCODE(item):
            version = item["apiVersion"].rpartition("/")[2]
            schema = schemas.get((group_of(item), version, item["kind"]), NO_SCHEMA)
            item = {**without_nulls(item, schema), "metadata": without_nulls(item["metadata"])}  # noqa: PLW2901
        result.append(item)
    return result


def _refuse_equal(objects: Sequence[Object]) -> None:
    seen: set[Identity] = set()
    problems: list[str] = []
    for identity in map(identify, objects):
        if identity in seen:
            problems.append(f"{identity}: defined twice in the bundle; remove one")
        seen.add(identity)
    refuse(problems)
