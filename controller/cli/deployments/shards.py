"""BundleDeployments that no controller serves, since none holds the Lease of their shard."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus

from api import names
from controller.cli.command import tell
from controller.cli.deployments.access import Manifest
from controller.cli.installation.release import read_holder
from controller.kube.client import Client
from controller.kube.errors import ApiError
from controller.kube.shard import Shard, is_shard_name

SHOWN = 5


def tell_unserved(client: Client, namespace: str, values: Iterable[Manifest]) -> None:
    """Print on stderr which BundleDeployments belong to shards that no controller serves, and what to do.

    Nothing is printed about those without the label, or if the user may not read Leases.

    Raises: ApiError.
    """
    by_shard: dict[str, list[str]] = {}
    for value in values:
        shard = (value["metadata"].get("labels") or {}).get(names.SHARD)
        if shard is not None:
            by_shard.setdefault(shard, []).append(value["metadata"]["name"])
    for shard, found in sorted(by_shard.items()):
        if not is_served(client, namespace, shard):
            more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
            remedy = f'start one with "--shard {shard}"' if is_shard_name(shard) else "that cannot be the name of one"
            tell(
                f'rukpak status: {", ".join(found[:SHOWN])}{more}: no controller serves the shard "{shard}"; {remedy}, '
                f"or change the label {names.SHARD}"
            )


def is_served(client: Client, namespace: str, shard: str) -> bool:
    """Return whether a controller serves a shard; true if the user may not know.

    Raises: ApiError.
    """
    if not is_shard_name(shard):
        return False
    try:
        holder = read_holder(client, namespace, Shard(shard))
    except ApiError as error:
        if error.status == HTTPStatus.FORBIDDEN:
            return True
        raise
    return holder is not None and holder.is_running
