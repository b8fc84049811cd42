"""Refuses an invalid spec before anything is fetched. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import Spec
from controller.build.plugins import format_of, source_of

LEVELS = 100
"""Of nesting in a config, or in the parameters of a source."""
CONFIG_BYTES = 256 << 10
"""Of JSON."""


def check(spec: Spec) -> None:
    """Refuse an invalid spec.

    Raises: BundleError (UnknownSourceKind, UnknownFormat, InvalidReference, InvalidConfig).
    """
    _check_nesting(spec.config, "spec.config", Reason.INVALID_CONFIG)
    _check_size(spec.config)
    for index, source in enumerate(spec.sources):
        path = f"spec.sources[{index}].{source.block}"
        _check_nesting(source.parameters.model_extra if source.parameters else {}, path, Reason.INVALID_REFERENCE)
        _raise_first(Reason.INVALID_REFERENCE, source_of(source.kind).validate(source.parameters_json, path))
    check_config(spec.format, spec.config)


def _check_nesting(value: Any, path: str, reason: Reason) -> None:
    """Refuse nesting that no user needs and that would exhaust the stack."""
    layer = [value]
    for _ in range(LEVELS):
        layer = [item for each in layer for item in _items(each)]
        if not layer:
            return
    raise BundleError(reason, f"{path}: nested more than {LEVELS} levels deep; flatten it")


def _check_size(config: Mapping[str, Any]) -> None:
    size = len(json.dumps(config, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogatepass"))
    if size > CONFIG_BYTES:
        problem = f"spec.config: larger than {CONFIG_BYTES >> 10} KiB of JSON"
        remedy = "move values to a file in the content and list it in valuesFiles"
        raise BundleError(Reason.INVALID_CONFIG, f"{problem}; {remedy}")


def _items(value: Any) -> Iterable[Any]:
    """Return the mappings and lists in a mapping or a list."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (item for item in items if isinstance(item, dict | list))


def _raise_first(reason: Reason, problems: Sequence[str]) -> None:
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise BundleError(reason, problems[0] + more)


def check_config(format_name: str, config: Mapping[str, Any]) -> None:
    """Refuse a config that its format does not accept.

    Raises: BundleError (UnknownFormat, InvalidConfig).
    """
    _raise_first(Reason.INVALID_CONFIG, format_of(format_name).validate(config))
