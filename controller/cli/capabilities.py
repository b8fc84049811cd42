"""`rukpak capabilities`: the Kubernetes version and kinds of a cluster, for `rukpak render --capabilities`."""

from __future__ import annotations

from collections.abc import Sequence

from controller.build import capabilities
from controller.cli.command import add_cluster_options, add_output, connect, make_parser, tell
from controller.cli.output import to_json
from controller.kube.discovery import Discovery


def main(arguments: Sequence[str]) -> int:
    """Print the capabilities of the cluster; return the exit status.

    Raises: ApiError, ConfigurationError.
    """
    parser = make_parser("capabilities", "Print what a cluster serves, for rukpak render --capabilities.")
    add_output(parser, ("yaml", "json"), "yaml")
    add_cluster_options(parser)
    options = parser.parse_args(arguments)
    found = Discovery(connect(options)).capabilities()
    for group in sorted(found.unknown):
        tell(
            f'warning: API group "{group}": discovery failed, so its kinds are missing; repair or delete its APIService'
        )
    print(to_json(capabilities.dump(found)) if options.output == "json" else capabilities.write(found), end="")
    return 0
