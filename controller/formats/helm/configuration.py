"""`spec.config` of a chart: its keys, their types, and the messages for invalid ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from api.errors import BundleError
from api.plugins import Limits
from controller.content.limits import Rejection, check_path, name_key
from controller.formats.objects import describe_type
from controller.formats.values import read_values

NAME_CHARACTERS = 53
"""Helm's limit for the name of a release, which leaves room for suffixes."""
# ValidateReleaseName in pkg/chartutil/validate_name.go of Helm.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PATH = "spec.config"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The options of a chart."""

    values: Mapping[str, Any] = field(default_factory=dict)
    """Override those of the files."""
    values_files: tuple[str, ...] = ()
    """Paths in the content tree; later files override earlier ones."""
    release_name: str = ""
    """'': the name of the BundleDeployment."""
    include_crds: bool = True
    """Whether `crds/` is rendered."""
    skip_tests: bool = True
    """If false, tests run as hooks after installing and upgrading."""
    disable_hooks: bool = False
    """Whether hooks, including tests, are left out."""
    is_upgrade: bool = False
    """Whether `.Release.IsUpgrade` is true instead of `.Release.IsInstall`; all hooks are rendered either way."""


def find_problems(config: Mapping[str, Any]) -> list[str]:
    """Return the problems of `spec.config`, each starting with its field path, sorted by key."""
    return [problem for key in sorted(config) for problem in _problems_of(key, config[key])]


def read_configuration(config: Mapping[str, Any]) -> Configuration:
    """Return the options in a valid `spec.config`; null means not set."""
    given = {key: value for key, value in config.items() if value is not None}
    values = given.get("values", {})
    return Configuration(
        values=read_values(_encode(values), f"{_PATH}.values") if isinstance(values, str) else values,
        values_files=tuple(check_path(name, Limits()) for name in given.get("valuesFiles", ())),
        release_name=given.get("releaseName", ""),
        include_crds=given.get("includeCRDs", True),
        skip_tests=given.get("skipTests", True),
        disable_hooks=given.get("disableHooks", False),
        is_upgrade=given.get("isUpgrade", False),
    )


def find_name_problem(name: str) -> str:
    """Return why Helm rejects the name of a release; empty if it does not."""
    if len(name) > NAME_CHARACTERS:
        return f"has {len(name)} characters, but Helm allows {NAME_CHARACTERS}"
    if not _NAME.fullmatch(name):
        return "must consist of lower-case letters, digits, dashes and dots, and start and end with a letter or digit"
    return ""


def _problems_of(key: str, value: Any) -> Iterator[str]:
    check = _CHECKS.get(key)
    if check is None:
        known = ", ".join(sorted(_CHECKS))
        yield f'{name_key(_PATH, key)}: unknown key; the format "helm" has the keys {known}'
    elif value is not None:
        yield from (f"{_PATH}.{key}{problem}" for problem in check(value))


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # invalid text is reported when it is read


def _check_values(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        try:
            read_values(_encode(value), "")
        except BundleError as error:
            yield error.message
    elif not isinstance(value, dict):
        yield f": must be a mapping or its YAML text, not {describe_type(value)}"


def _check_files(value: Any) -> Iterator[str]:
    if not isinstance(value, list):
        yield f": must be a list of paths, not {describe_type(value)}"
        return
    for index, name in enumerate(value):
        if not isinstance(name, str):
            yield f"[{index}]: must be a path, not {describe_type(name)}"
        elif not _is_plain_path(name):
            yield f'[{index}]: must be a path relative to the root of the content, without ".."'


def _is_plain_path(name: str) -> bool:
    try:
        return bool(check_path(name, Limits()))
    except Rejection:
        return False


def _check_name(value: Any) -> Iterator[str]:
    if not isinstance(value, str):
        yield f": must be a string, not {describe_type(value)}"
    elif problem := find_name_problem(value):
        yield f": {problem}; change it"


def _check_boolean(value: Any) -> Iterator[str]:
    if not isinstance(value, bool):
        yield f": must be true or false, not {describe_type(value)}"


_CHECKS: Mapping[str, Callable[[Any], Iterator[str]]] = {
    "disableHooks": _check_boolean,
    "includeCRDs": _check_boolean,
    "isUpgrade": _check_boolean,
    "releaseName": _check_name,
    "skipTests": _check_boolean,
    "values": _check_values,
    "valuesFiles": _check_files,
}
