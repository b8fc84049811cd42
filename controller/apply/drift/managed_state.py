"""`status.managedState`: one digest for the state in which all objects were left (rule 6). Pure.

It is the digest of a sum, to which each object adds a number of its own. So it does not depend on their order, and
changes with one object without a look at the others. The sum is 2,048 bits wide: for narrow ones, other sets of objects
with an equal sum can be found (Wagner, A Generalized Birthday Problem).

Earlier releases wrote `v1`, a digest of the sorted list.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import reduce
from typing import NamedTuple

from controller.content.digests import digest_of, digest_of_json
from controller.observe.records import ObjectKey

_BYTES = 256
_MODULUS = 1 << (8 * _BYTES)
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode


class Row(NamedTuple):
    """An object as it was left."""

    key: ObjectKey
    digest: str
    """The applied-digest annotation."""
    entry_hash: str


def add(total: int, row: Row) -> int:
    """Return a sum with one more object."""
    return (total + _weigh(row)) % _MODULUS


def subtract(total: int, row: Row) -> int:
    """Return a sum without one of its objects."""
    return (total - _weigh(row)) % _MODULUS


def describe(total: int) -> str:
    """Return the state of the objects in a sum; 0 is the sum of none."""
    return f"v2:{digest_of(total.to_bytes(_BYTES, 'little'))}"


def is_state_of(state: str, rows: Iterable[Row]) -> bool:
    """Whether this release or an earlier one has recorded a state for these objects."""
    return state == (_describe_in_v1(rows) if state.startswith("v1:") else describe(reduce(add, rows, 0)))


def _weigh(row: Row) -> int:
    text = _ENCODE((*row.key, row.digest, row.entry_hash))
    return int.from_bytes(hashlib.shake_128(text.encode()).digest(_BYTES), "little")


def _describe_in_v1(rows: Iterable[Row]) -> str:
    return f"v1:{digest_of_json(sorted((*row.key, row.digest, row.entry_hash) for row in rows))}"
