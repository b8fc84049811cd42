"""Reading a BundleDeployment as the API server has it, also where this release cannot read all of its spec.

The API server may have admitted a spec under the schema of another release. What is readable of it is kept, so that
status can say what is wrong, and so that a deletion goes on; nothing is installed from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from api.v1alpha2.types import BundleDeployment

# Required fields, in place of those that cannot be read.
_REQUIRED = {"format": "unknown", "sources": [{"kind": "unknown"}]}
_IDENTITY = frozenset({"installNamespace", "serviceAccountName"})
"""Without these nobody knows as whom to act."""


def read(manifest: Mapping[str, Any]) -> BundleDeployment:
    """Return a BundleDeployment; its `problem` says what of the spec cannot be read, if anything.

    Fields of the spec that cannot be read have their defaults then, but for deletionPolicy, which is Orphan.

    Raises: ValidationError if metadata or status, or the namespace or account in the spec, cannot be read.
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
    """Return the same, and what of it cannot be read; None if that is more than a part of the spec."""
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
    """Return what is wrong with a field, its path first, as one of `ValidationError.errors` has it; never the value."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"]).removeprefix(".")
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{path}: {message[:1].lower()}{message[1:]}"
