from __future__ import annotations

import pytest

from controller.cli.command import add_output, make_parser


@pytest.mark.parametrize(
    ("default", "help_text"),
    [("yaml", "output format [default: yaml]"), ("", "output format [default: text]")],
    ids=["a format", "text"],
)
def test_help_tells_the_default_of_the_output(default: str, help_text: str) -> None:
    parser = make_parser("show", "Show it.")
    add_output(parser, ("yaml", "json"), default)
    assert " ".join(parser.format_help().split()).endswith(help_text)
