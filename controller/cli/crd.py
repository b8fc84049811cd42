"""`rukpak crd`: the CustomResourceDefinition of this release, for `kubectl apply --server-side -f -`."""

from __future__ import annotations

import argparse

from api.v1alpha2.schema import crd
from controller.cli.output import show


def main(options: argparse.Namespace) -> int:
    """Print the CustomResourceDefinition; return the exit status."""
    print(show([crd()], options.output), end="")
    return 0
