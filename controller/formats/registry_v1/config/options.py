"""`spec.config`: the options that a bundle accepts, which depend on its install modes.

All errors are collected; the messages are those of upstream's JSON schema validator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote
from controller.formats.registry_v1.bundle.install_modes import (
    ALL,
    ALL_NAMESPACES,
    MULTI,
    OWN,
    SINGLE,
    find_target_problem,
    write_list,
)
from controller.formats.registry_v1.config.deployment_config import SECTION, DeploymentConfig, read_deployment_config
from controller.formats.registry_v1.config.deployment_config_schema import find_errors, wrong_type
from controller.formats.registry_v1.generators.certificates import PROVIDERS

_ONE, _SEVERAL, _PROVIDER = "watchNamespace", "watchNamespaces", "certificateProvider"
_FIELD = "spec.config."
_LONGEST = 63
_PATTERN = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_IS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z").match


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options in a config."""

    targets: tuple[str, ...]
    """The watched namespaces; `("",)` means all."""
    certificate_provider: str
    """'': chosen by what the cluster serves."""
    deployment: DeploymentConfig


def read_options(config: Mapping[str, Any], modes: frozenset[str], namespace: str) -> Options:
    """Return the options in a config, given the supported install modes and the install namespace.

    Raises: BundleError (InvalidConfig) with all errors, or for watched namespaces that the install modes do not allow.
    """
    errors = _find_errors(config, modes, namespace)
    if errors:
        text = _write_errors(errors)
        raise _invalid(text if text.startswith(_FIELD) else f"invalid configuration: {text}")
    targets = _choose_targets(config, modes)
    if problem := find_target_problem(modes, namespace, targets):
        raise _invalid(problem)
    return Options(
        targets=targets,
        certificate_provider=config.get(_PROVIDER, ""),
        deployment=read_deployment_config(config.get(SECTION, {})),
    )


def _choose_targets(config: Mapping[str, Any], modes: frozenset[str]) -> tuple[str, ...]:
    if _SEVERAL in config:
        return tuple(config[_SEVERAL])
    if config.get(_ONE) is not None:
        return (config[_ONE],)
    return ALL_NAMESPACES if ALL in modes else ()


def _find_errors(config: Mapping[str, Any], modes: frozenset[str], namespace: str) -> list[str]:
    if not isinstance(config, dict):
        return [wrong_type("", config, "object")]
    one = _OneNamespace(modes, namespace)
    checks: dict[str, Callable[[Any], list[str]]] = {
        _PROVIDER: _check_provider,
        SECTION: lambda value: find_errors(value, SECTION),
    }
    if one.is_known:
        checks[_ONE] = one.check
    if MULTI in modes:
        checks[_SEVERAL] = _check_several
    errors = [f'required field "{_ONE}" is missing'] if one.is_missing(config) and _SEVERAL not in config else []
    if one.is_known and _ONE in config and _SEVERAL in config:
        errors.append(f'fields "{_ONE}" and "{_SEVERAL}" exclude each other')
    for key in sorted(checks.keys() & config.keys()):
        errors += checks[key](config[key])
    return [*errors, *(_describe_unknown(key, modes) for key in sorted(config.keys() - checks.keys()))]


def _describe_unknown(key: str, modes: frozenset[str]) -> str:
    """Return the error for an option that this bundle, or every bundle, does not accept."""
    if key not in (_ONE, _SEVERAL):
        return f"unknown field {quote(key)}"
    supported = ", ".join(sorted(modes))
    remedy = f"use {_SEVERAL}" if key == _ONE and MULTI in modes else "remove it"
    if key == _SEVERAL and modes & {OWN, SINGLE}:
        remedy = f"use {_ONE}"
    return f"{_FIELD}{key}: not accepted, because this bundle supports only the install modes {supported}; {remedy}"


class _OneNamespace:
    """Checks `watchNamespace` by the supported install modes."""

    def __init__(self, modes: frozenset[str], namespace: str) -> None:
        self._own, self._single = OWN in modes, SINGLE in modes
        self._namespace = namespace
        self.is_known = self._own or self._single
        self._is_optional = ALL in modes

    def is_missing(self, config: Mapping[str, Any]) -> bool:
        """Return whether a config lacks the required field."""
        return self.is_known and not self._is_optional and config.get(_ONE) is None

    def check(self, value: Any) -> list[str]:
        """Return the errors of the field."""
        if value is None:
            return []  # optional, or reported as missing
        errors = self._check_string(value)
        if errors and self._is_optional:
            return [f'invalid value for field "{_ONE}"', wrong_type(_ONE, value, "null"), *errors]
        return errors

    def _check_string(self, value: Any) -> list[str]:
        if not isinstance(value, str):
            return [wrong_type(_ONE, value, "string")]
        return [*self._check_mode(value), *_check_label(value, _ONE)]

    def _check_mode(self, value: str) -> list[str]:
        own = self._namespace
        if self._own and not self._single and value != own:
            return _wrong_mode(
                value,
                "ownNamespaceInstallMode",
                f'must be "{own}" (the namespace where the operator is installed) because this operator only supports'
                " OwnNamespace install mode",
            )
        if self._single and not self._own and value == own:
            return _wrong_mode(
                value,
                "singleNamespaceInstallMode",
                f'must be different from "{own}" (the install namespace) because this operator uses SingleNamespace'
                " install mode to watch a different namespace",
            )
        return []


def _wrong_mode(value: str, format_: str, rule: str) -> list[str]:
    problem = f"'{value}' is not valid {format_}: invalid value \"{value}\": {rule}"
    return [f'invalid format for field "{_ONE}": {problem}']


def _check_label(value: str, path: str) -> list[str]:
    errors = []
    if not value:
        errors.append(f'field "{path}" must have minimum length of 1 (len=0)')
    if len(value) > _LONGEST:
        errors.append(f'field "{path}" must have maximum length of {_LONGEST} (len={len(value)})')
    if not _IS_LABEL(value):
        errors.append(f'field "{path}" must match pattern "{_PATTERN}"')
    return errors


def _check_several(value: Any) -> list[str]:
    if value is None:
        return [f'required field "{_SEVERAL}" is missing']
    if not isinstance(value, list):
        return [wrong_type(_SEVERAL, value, "array")]
    errors = [] if value else [f'field "{_SEVERAL}" must have at least 1 item']
    places: dict[str, int] = {}
    for index, item in enumerate(value):
        path = f"{_SEVERAL}.{index}"
        if not isinstance(item, str):
            errors.append(wrong_type(path, item, "string"))
        elif places.setdefault(item, index) != index:
            errors.append(f'field "{path}" duplicates "{_SEVERAL}.{places[item]}"; remove one')
        else:
            errors += _check_label(item, path)
    return errors


def _check_provider(value: Any) -> list[str]:
    if value is None:
        return [f'required field "{_PROVIDER}" is missing']
    if not isinstance(value, str):
        return [wrong_type(_PROVIDER, value, "string")]
    return [] if value in PROVIDERS else [f'field "{_PROVIDER}" must be one of {write_list(PROVIDERS)}']


def _write_errors(errors: Sequence[str]) -> str:
    if len(errors) == 1:
        return errors[0]
    return "multiple errors found:" + "".join(f"\n  - {error}" for error in errors)


def _invalid(message: str) -> BundleError:
    return BundleError(Reason.INVALID_CONFIG, message)
