"""Reading a BundleDeployment from the API server, even if this release cannot read all of its spec.

The API server may have admitted the spec under the schema of another release. The readable fields are kept, so that
status can report the problem and a deletion can continue; nothing is installed from such a spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from api.v1alpha2.types import BundleDeployment

# Values for required fields that cannot be read.
_REQUIRED = {"format": "unknown", "sources": [{"kind": "unknown"}]}
_IDENTITY = frozenset({"installNamespace", "serviceAccountName"})
"""Without these, the account to use is unknown."""


def read(manifest: Mapping[str, Any]) -> BundleDeployment:
    """Return a BundleDeployment; its `problem` says which field of the spec cannot be read, if any.

    Such fields have their defaults, except deletionPolicy, which becomes Orphan.

    Raises: ValidationError if metadata, status, or the namespace or account in the spec cannot be read.
    """
    try:
        return BundleDeployment.model_validate(manifest)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        if any(problem["loc"][0] != "spec" for problem in problems):
            raise
        bad = {str(problem["loc"][1]) for problem in problems if len(problem["loc"]) > 1}
        if bad & _IDENTITY or not isinstance(manifest.get("spec"), dict):
            raise
        found = BundleDeployment.model_validate({**manifest, "spec": _readable(manifest["spec"], bad)})
        return found.with_problem(describe(problems[0]))


def try_to_read(manifest: Mapping[str, Any]) -> tuple[BundleDeployment | None, str]:
    """Return a BundleDeployment, or None if it cannot be read at all, and the first field that cannot be read."""
    try:
        deployment = read(manifest)
    except ValidationError as error:
        return None, describe(error.errors(include_input=False, include_url=False)[0])
    return deployment, deployment.problem


def _readable(spec: Mapping[str, Any], bad: set[str]) -> dict[str, Any]:
    kept = {key: value for key, value in spec.items() if key not in bad}
    keeps_objects = {"deletionPolicy": "Orphan"} if "deletionPolicy" in bad else {}
    return {**_REQUIRED, **kept, **keeps_objects}


def describe(problem: Mapping[str, Any]) -> str:
    """Return field path and problem of one of `ValidationError.errors`, without the value."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"]).removeprefix(".")
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{path}: {message[:1].lower()}{message[1:]}"
