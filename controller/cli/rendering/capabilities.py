"""`rukpak capabilities`: the Kubernetes version and kinds of a cluster, for `rukpak render --capabilities`."""

from __future__ import annotations

import argparse

from controller.build import capabilities
from controller.cli.command import connect, tell
from controller.cli.output import to_json
from controller.kube.discovery import Discovery


def main(options: argparse.Namespace) -> int:
    """Print the capabilities of the cluster; return the exit status.

    Raises: ApiError, ConfigurationError.
    """
    found = Discovery(connect(options)).capabilities()
    for group in sorted(found.unknown):
        tell(
            f'warning: API group "{group}": discovery failed, so its kinds are missing; repair or delete its APIService'
        )
    print(to_json(capabilities.dump(found)) if options.output == "json" else capabilities.write(found), end="")
    return 0
