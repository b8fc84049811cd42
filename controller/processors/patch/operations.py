"""JSON merge patches (RFC 7386), and JSON patches (RFC 6902) by the library jsonpatch.

Its messages contain values, which may be secrets; ours do not.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any

from jsonpatch import JsonPatch, JsonPatchException, JsonPatchTestFailed
from jsonpointer import JsonPointer, JsonPointerException

from controller.processors.rendered import Charge

COPIED_BYTES = 1 << 20
"""Of JSON that one patch may copy: copies of copies would grow exponentially."""


def merge(value: Any, patch: Any) -> Any:
    """Return the value with a merge patch applied; neither is modified."""
    if not isinstance(patch, dict):
        return patch
    result = dict(value) if isinstance(value, dict) else {}
    for key, change in patch.items():
        if change is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), change)
    return result


class OperationError(Exception):
    """An operation that cannot be applied; `index` is its position, the argument the problem with its remedy."""

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(problem)
        self.index = index


def apply_operations(
    value: dict[str, Any], operations: Sequence[Mapping[str, Any]], charge: Charge = lambda _text_bytes, _steps: None
) -> Any:
    """Return the value with the operations applied in order; it is not modified.

    Raises: OperationError.
    """
    result: Any = copy.deepcopy(value)
    copied = 0
    for index, operation in enumerate(operations):
        try:
            if operation["op"] == "copy":
                size = len(json.dumps(JsonPointer(operation["from"]).resolve(result), ensure_ascii=False))
                copied += size
                if copied > COPIED_BYTES:
                    raise OperationError(index, "copies more than 1 MiB; add the values instead")
                charge(size, 0)
            result = JsonPatch([operation]).apply(result, in_place=True)
        except JsonPatchTestFailed:
            raise OperationError(index, "the value there is another one; correct path or value") from None
        except (JsonPatchException, JsonPointerException, TypeError):
            raise OperationError(index, "there is no such field or list item; correct the path") from None
    return result
