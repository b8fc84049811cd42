"""Tests that every plug-in has to pass, as classes: `class TestExample(FormatContract): …`.

They come with the extra `conformance`, which brings pytest.
"""

import pytest

pytest.register_assert_rewrite("rukpak.conformance.contracts")

from rukpak.conformance.contracts import (  # noqa: E402 - once pytest knows that it explains asserts there
    CAPABILITIES,
    OBJECTS,
    FormatContract,
    Processing,
    ProcessorContract,
    Site,
    SourceContract,
)

__all__ = [
    "CAPABILITIES",
    "OBJECTS",
    "FormatContract",
    "Processing",
    "ProcessorContract",
    "Site",
    "SourceContract",
]
