from __future__ import annotations

from rukpak.api.v1alpha2.fields import Api
from rukpak.api.v1alpha2.schema import find_descriptions


class Base(Api):
    """A model."""

    inherited: str = ""
    """Of the base."""
    replaced: str = ""
    """Of the base."""


class Model(Base):
    """Another one."""

    replaced: str = ""
    """Of the model, in
    two lines."""
    silent: str = ""
    last: int = 0
    """The last one."""

    def method(self) -> None:
        """Not of a field."""


def test_the_text_below_a_field_describes_it() -> None:
    assert find_descriptions(Model) == {
        "inherited": "Of the base.",
        "replaced": "Of the model, in\ntwo lines.",
        "last": "The last one.",
    }
