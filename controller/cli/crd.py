"""`rukpak crd`: the CustomResourceDefinition of this release, for `kubectl apply --server-side -f -`."""

from __future__ import annotations

from collections.abc import Sequence

from api.v1alpha2.schema import crd
from controller.cli.command import add_output, make_parser
from controller.cli.output import show


def main(arguments: Sequence[str]) -> int:
    """Print the CustomResourceDefinition; return the exit status."""
    parser = make_parser("crd", "Print the CustomResourceDefinition.")
    add_output(parser, ("yaml", "json", "name"), "yaml")
    print(show([crd()], parser.parse_args(arguments).output), end="")
    return 0
