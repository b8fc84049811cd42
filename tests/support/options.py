"""The options of `rukpak run`, read as the command line reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.cli.parser import Parser
from controller.options import add_options
from controller.settings import Settings


def parse_options(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Return the settings; on a mistake, print it and exit with status 2."""
    parser = Parser("run")
    add_options(parser, environment)
    settings = Settings(**vars(parser.read(arguments)))
    if problem := settings.problem():
        parser.error(problem)
    return settings
