"""`rukpak crd`: the CustomResourceDefinition of this release, for `kubectl apply --server-side -f -`."""

from __future__ import annotations

from collections.abc import Sequence

from api.v1alpha2.schema import crd
from controller.cli.command import add_output, make_parser
from controller.cli.output import name_of, to_json, to_yaml


def main(arguments: Sequence[str]) -> int:
    """Print it; returns the exit status."""
    parser = make_parser("crd", "Print the CustomResourceDefinition.")
    add_output(parser, ("yaml", "json", "name"), "yaml")
    output = parser.parse_args(arguments).output
    if output == "name":
        print(name_of(crd()))
    else:
        print(to_json(crd()) if output == "json" else to_yaml(crd()), end="")
    return 0
