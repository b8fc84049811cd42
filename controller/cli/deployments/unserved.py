"""BundleDeployments on which no controller acts, since none holds the Lease."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from http import HTTPStatus

from api import names
from controller.cli.command import tell
from controller.cli.deployments.access import Manifest
from controller.cli.installation.release import read_holder
from controller.kube.client import Client
from controller.kube.errors import ApiError
from controller.kube.shard import Shard, is_shard_name

SHOWN = 5


def tell_unserved(verb: str, client: Client, namespace: str, values: Iterable[Manifest]) -> None:
    """Print on stderr on which BundleDeployments no controller acts, and what to do.

    Nothing is printed about those of the default shard that were observed, so that no Lease is read for them, or if
    the user may not read Leases.

    Args:
        verb: of the command line.
        client: of the cluster.
        namespace: of the controller.
        values: the BundleDeployments.

    Raises: ApiError.
    """
    found: dict[tuple[str, bool], list[str]] = {}
    for value in values:
        metadata, status = value["metadata"], value.get("status") or {}
        shard = (metadata.get("labels") or {}).get(names.SHARD)
        if shard is not None or status.get("observedGeneration") != metadata.get("generation"):
            is_stood_in = bool(shard and status.get("conditions") and not status.get("shard"))
            found.setdefault((shard or "", is_stood_in), []).append(metadata["name"])
    for (shard, is_stood_in), deployments in sorted(found.items()):
        if not is_served(client, namespace, shard):
            meanwhile = "; meanwhile the default shard acts" if is_stood_in else ""
            tell(f"rukpak {verb}: {list_first(deployments)}: {_explain(shard)}{meanwhile}")


def list_first(deployments: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(deployments) - SHOWN} more" if len(deployments) > SHOWN else ""
    return f"{', '.join(deployments[:SHOWN])}{more}"


def _explain(shard: str) -> str:
    if not shard:
        return 'no controller acts; "rukpak check" says what is missing'
    remedy = f'start one with "--shard {shard}"' if is_shard_name(shard) else "that cannot be the name of one"
    return f'no controller serves the shard "{shard}"; {remedy}, or change the label {names.SHARD}'


def is_served(client: Client, namespace: str, shard: str) -> bool:
    """Return whether a controller serves a shard, empty: the default one; true if the user may not know.

    Raises: ApiError.
    """
    if shard and not is_shard_name(shard):
        return False
    try:
        holder = read_holder(client, namespace, Shard(shard))
    except ApiError as error:
        if error.status == HTTPStatus.FORBIDDEN:
            return True
        raise
    return holder is not None and holder.is_running
