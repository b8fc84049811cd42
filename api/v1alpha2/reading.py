"""Reading a BundleDeployment from the API server, even if this release cannot read all of it.

The API server may have admitted it under the schema of another release. The readable fields are kept, so that status
can report the problem and a deletion can continue; nothing is installed from a spec that cannot be read in full. A
field of the status that cannot be read counts as unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from rukpak.api.v1alpha2.types import BundleDeployment

# Values for required fields that cannot be read.
_REQUIRED = {"format": "unknown", "sources": [{"kind": "unknown"}]}
_IDENTITY = frozenset({"installNamespace", "serviceAccountName"})
"""Without these, the account to use is unknown."""


def read(manifest: Mapping[str, Any]) -> BundleDeployment:
    """Return a BundleDeployment; `problem` and `status_problem` say which field cannot be read, if any.

    Such fields have their defaults, except deletionPolicy, which becomes Orphan.

    Raises: ValidationError if metadata, or the namespace or account in the spec, cannot be read.
    """
    found = _read(manifest)
    share_fields(found)
    return found


def _read(manifest: Mapping[str, Any]) -> BundleDeployment:
    try:
        return BundleDeployment.model_validate(manifest)
    except ValidationError as error:
        problems = problems_of(error)
        in_spec = [problem for problem in problems if problem["loc"][0] == "spec"]
        in_status = [problem for problem in problems if problem["loc"][0] == "status"]
        if len(in_spec) + len(in_status) < len(problems):
            raise
        bad = _fields_of(in_spec)
        if in_spec and (bad & _IDENTITY or not isinstance(manifest.get("spec"), dict)):
            raise
        spec = _readable(manifest["spec"], bad) if in_spec else manifest["spec"]
        status = _without(manifest.get("status"), _fields_of(in_status))
        found = BundleDeployment.model_validate({**manifest, "spec": spec, "status": status})
        return found.with_problems(*(describe(each[0]) if each else "" for each in (in_spec, in_status)))


def try_to_read(manifest: Mapping[str, Any]) -> tuple[BundleDeployment | None, str]:
    """Return a BundleDeployment, or None if it cannot be read at all, and the first field that cannot be read."""
    try:
        deployment = read(manifest)
    except ValidationError as error:
        return None, describe(problems_of(error)[0])
    return deployment, deployment.problem


def _fields_of(problems: Iterable[Mapping[str, Any]]) -> set[str]:
    return {str(problem["loc"][1]) for problem in problems if len(problem["loc"]) > 1}


def _without(fields: object, bad: set[str]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key not in bad} if isinstance(fields, dict) else {}


def _readable(spec: Mapping[str, Any], bad: set[str]) -> dict[str, Any]:
    keeps_objects = {"deletionPolicy": "Orphan"} if "deletionPolicy" in bad else {}
    return {**_REQUIRED, **_without(spec, bad), **keeps_objects}


def problems_of(error: ValidationError) -> list[Mapping[str, Any]]:
    """Return those of `ValidationError.errors` that count: not that a list is too short since its items are wrong."""
    found: list[Mapping[str, Any]] = list(error.errors(include_url=False, include_input=False))
    places = [tuple(each["loc"]) for each in found]

    def _is_consequence(problem: Mapping[str, Any]) -> bool:
        place = tuple(problem["loc"])
        return problem["type"] == "too_short" and any(other[: len(place)] == place != other for other in places)

    return [each for each in found if not _is_consequence(each)]


def describe(problem: Mapping[str, Any]) -> str:
    """Return field path and problem of one of `ValidationError.errors`, without the value."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"]).removeprefix(".")
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{path}: {message[:1].lower()}{message[1:]}"


# Pydantic gives each model a set of the fields that were given: two fifths of the memory of a BundleDeployment. Models
# are frozen, and a copy gets a set of its own, so that nothing changes a shared one.
_SETS: dict[frozenset[str], set[str]] = {}
"""There are few shapes, of which optional fields are given."""
MOST_SETS = 4096
"""Users choose which fields they give: this many shapes are shared at most."""


def share_fields(model: BaseModel) -> None:
    """Let a model and those in it share their sets with models that were read before; thread-safe."""
    given = model.__pydantic_fields_set__
    shape = frozenset(given)
    if shape in _SETS or len(_SETS) < MOST_SETS:
        object.__setattr__(model, "__pydantic_fields_set__", _SETS.setdefault(shape, given))
    values = model.__dict__
    for field in shape:  # the others have their defaults, which all models share
        _share_in(values.get(field))  # None of a field that the model allows and does not know


def _share_in(value: Any) -> None:
    if type(value) is tuple:
        for item in value:
            _share_in(item)
    elif hasattr(value, "__pydantic_fields_set__"):  # isinstance takes several times as long, for each text and number
        share_fields(value)
