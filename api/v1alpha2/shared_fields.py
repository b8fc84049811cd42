"""Spare memory in models that are kept: those of one shape share the set of the fields that were given.

Pydantic gives each model such a set, and they took two fifths of the memory of a BundleDeployment. Models are frozen,
and a copy gets a set of its own, so that nothing changes a shared one.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

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
