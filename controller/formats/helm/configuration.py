"""`spec.config` of a chart: its keys, their types, and what is said about those that are wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from api.errors import BundleError
from api.plugins import Limits
from controller.content.limits import Rejection, check_path, name_key
from controller.formats.helm.values import read_values
from controller.formats.objects import describe_type

NAME_CHARACTERS = 53
"""Of a release: Helm's bound, which leaves room for what charts append."""
# ValidateReleaseName in pkg/chartutil/validate_name.go of Helm.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PATH = "spec.config"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What a chart is rendered with."""

    values: Mapping[str, Any] = field(default_factory=dict)
    """They win over those of the files."""
    values_files: tuple[str, ...] = ()
    """Paths in the content tree; of two that set a value, the later one wins."""
    release_name: str = ""
    """Empty: the name of the BundleDeployment."""
    include_crds: bool = True
    """Whether what is in `crds/` is rendered."""
    skip_tests: bool = True
    """Otherwise tests are run as hooks after installing and upgrading."""
    disable_hooks: bool = False
    """Whether hooks, and tests with them, are left out."""


def find_problems(config: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with `spec.config`, each beginning with its field path, in order of keys."""
    return [problem for key in sorted(config) for problem in _problems_of(key, config[key])]


def read_configuration(config: Mapping[str, Any]) -> Configuration:
    """Return what a `spec.config` without problems says; a key that is null counts as left out."""
    given = {key: value for key, value in config.items() if value is not None}
    values = given.get("values", {})
    return Configuration(
        values=read_values(_encode(values), f"{_PATH}.values") if isinstance(values, str) else values,
        values_files=tuple(check_path(name, Limits()) for name in given.get("valuesFiles", ())),
        release_name=given.get("releaseName", ""),
        include_crds=given.get("includeCRDs", True),
        skip_tests=given.get("skipTests", True),
        disable_hooks=given.get("disableHooks", False),
    )


def find_name_problem(name: str) -> str:
    """Return why Helm refuses the name of a release; empty if it does not."""
    if len(name) > NAME_CHARACTERS:
        return f"has {len(name)} characters, and Helm allows {NAME_CHARACTERS}"
    if not _NAME.fullmatch(name):
        return "is not made of lower-case letters, digits, dashes and dots, with a letter or digit at both ends"
    return ""


def _problems_of(key: str, value: Any) -> Iterator[str]:
    check = _CHECKS.get(key)
    if check is None:
        known = ", ".join(sorted(_CHECKS))
        yield f'{name_key(_PATH, key)}: unknown key; the format "helm" takes {known}'
    elif value is not None:
        yield from (f"{_PATH}.{key}{problem}" for problem in check(value))


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # what is no text is found, and told, when it is read


def _check_values(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        try:
            read_values(_encode(value), "")
        except BundleError as error:
            yield error.message
    elif not isinstance(value, dict):
        yield f": is {describe_type(value)} where a mapping, or YAML text of one, is needed"


def _check_files(value: Any) -> Iterator[str]:
    if not isinstance(value, list):
        yield f": is {describe_type(value)} where a list of paths is needed"
        return
    for index, name in enumerate(value):
        if not isinstance(name, str):
            yield f"[{index}]: is {describe_type(name)} where a path is needed"
        elif not _is_plain_path(name):
            yield f'[{index}]: is no path in the content; write one that is relative to its root, without ".."'


def _is_plain_path(name: str) -> bool:
    try:
        return bool(check_path(name, Limits()))
    except Rejection:
        return False


def _check_name(value: Any) -> Iterator[str]:
    if not isinstance(value, str):
        yield f": is {describe_type(value)} where a string is needed"
    elif problem := find_name_problem(value):
        yield f": {problem}; give it another one"


def _check_boolean(value: Any) -> Iterator[str]:
    if not isinstance(value, bool):
        yield f": is {describe_type(value)} where true or false is needed"


_CHECKS: Mapping[str, Callable[[Any], Iterator[str]]] = {
    "disableHooks": _check_boolean,
    "includeCRDs": _check_boolean,
    "releaseName": _check_name,
    "skipTests": _check_boolean,
    "values": _check_values,
    "valuesFiles": _check_files,
}
