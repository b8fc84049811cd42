"""Refuses an invalid spec before anything is fetched. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import Processor, Spec
from controller.build.plugins import format_of, processor_of, source_of

LEVELS = 100
"""Of nesting in a config, or in the parameters of a source or processor."""
CONFIG_BYTES = 256 << 10
"""Of JSON."""


def check(spec: Spec) -> None:
    """Refuse an invalid spec.

    Raises: BundleError (UnknownSourceKind, UnknownFormat, UnknownProcessor, InvalidReference, InvalidConfig).
    """
    check_nesting(spec.config, "spec.config", Reason.INVALID_CONFIG)
    _check_size(spec.config, "spec.config", "move values to a file in the content and list it in valuesFiles")
    for index, source in enumerate(spec.sources):
        path = f"spec.sources[{index}].{source.block}"
        check_nesting(source.parameters.model_extra if source.parameters else {}, path, Reason.INVALID_REFERENCE)
        _raise_first(Reason.INVALID_REFERENCE, source_of(source.kind).validate(source.parameters_json, path))
    check_config(spec.format, spec.config)
    _check_processors(spec.processors)


def _check_processors(processors: Sequence[Processor]) -> None:
    for index, processor in enumerate(processors):  # before anything that is recursive
        check_nesting(processor.free_form, f"spec.processors[{index}]{processor.block}", Reason.INVALID_CONFIG)
    _check_size([processor.parameters_json for processor in processors], "spec.processors", "change more in the bundle")
    for index, processor in enumerate(processors):
        place = f"spec.processors[{index}]"
        path = f"{place}{processor.block}"
        _raise_first(
            Reason.INVALID_CONFIG, processor_of(processor.kind, place).validate(processor.parameters_json, path)
        )


def check_nesting(value: Any, path: str, reason: Reason) -> None:
    """Refuse nesting that no user needs and that would exhaust the stack."""
    layer = [value]
    for _ in range(LEVELS):
        layer = [item for each in layer for item in _items(each)]
        if not layer:
            return
    raise BundleError(reason, f"{path}: nested more than {LEVELS} levels deep; flatten it")


def _check_size(value: Any, path: str, remedy: str) -> None:
    size = len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogatepass"))
    if size > CONFIG_BYTES:
        problem = f"{path}: larger than {CONFIG_BYTES >> 10} KiB of JSON"
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
