"""What is installed on a cluster: the API and the controller, each compared with this program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from api import names
from api.v1alpha2.schema import crd
from controller.kube.client import Client, Response
from controller.kube.errors import ApiError
from controller.kube.lease import LEASES
from controller.kube.shard import DEFAULT_SHARD, Shard

DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{names.DEFINITION}"
MOST_FIELDS = 5
"""Fields that a message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The controller that holds the Lease."""

    identity: str
    version: str
    """Empty: unknown, since an older release does not record it."""
    seconds: float
    """Since it renewed the Lease, by the clocks of the cluster and of the controller."""
    duration: float
    """Seconds after which a silent controller has lost the Lease."""

    @property
    def host(self) -> str:
        """The pod or machine that it runs on."""
        return self.identity.rpartition("_")[0] or self.identity

    @property
    def is_running(self) -> bool:
        """Whether it has renewed the Lease in time."""
        return self.seconds <= self.duration


def find(client: Client, path: str) -> Response | None:
    """Return the reply with an object; None if it does not exist.

    Raises: ApiError.
    """
    try:
        return client.get(path)
    except ApiError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise


def read_holder(client: Client, namespace: str, shard: Shard = DEFAULT_SHARD) -> Holder | None:
    """Return the controller that holds the Lease of a shard in a namespace; None: nobody does.

    Raises: ApiError.
    """
    reply = find(client, LEASES.path(namespace, shard.lease))
    spec: Mapping[str, Any] = (reply.value.get("spec") or {}) if reply else {}
    if reply is None or not spec.get("holderIdentity"):
        return None
    renewed = datetime.fromisoformat(str(spec.get("renewTime") or "1970-01-01T00:00:00Z"))
    return Holder(
        identity=str(spec["holderIdentity"]),
        version=str((reply.value["metadata"].get("annotations") or {}).get(names.VERSION) or ""),
        seconds=(server_time(reply) - renewed).total_seconds(),
        duration=float(spec.get("leaseDurationSeconds") or 0),
    )


def server_time(reply: Response) -> datetime:
    """Return when the API server sent a reply, to the second; the time of this machine if it does not say."""
    try:
        return parsedate_to_datetime(reply.headers.get("Date", ""))
    except ValueError:
        return datetime.now(UTC)


def compare_definitions(served: Mapping[str, Any]) -> str:
    """Return how the CustomResourceDefinition of a cluster differs from that of this program; empty: not at all."""
    theirs, ours = _schemas(served), _schemas(crd())
    there, here = set(_fields(theirs)), set(_fields(ours))
    parts = []
    if lacks := sorted(here - there):
        parts.append(f"lacks {_name(lacks)}")
    if more := sorted(there - here):
        parts.append(f"has {_name(more)}, which this release does not know")
    return "; ".join(parts) or ("" if theirs == ours else "validates some fields differently")


def _schemas(definition: Mapping[str, Any]) -> dict[str, Any]:
    versions = definition["spec"]["versions"]
    return {str(each["name"]): (each.get("schema") or {}).get("openAPIV3Schema") or {} for each in versions}


def _fields(schemas: Mapping[str, Any]) -> Iterator[str]:
    for schema in schemas.values():
        yield from _properties(schema, "")


def _properties(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    for key, member in (schema.get("properties") or {}).items():
        yield f"{path}{key}"
        yield from _properties(member, f"{path}{key}.")
    if isinstance(schema.get("items"), Mapping):
        yield from _properties(schema["items"], path.rstrip(".") + "[].")


def _name(fields: list[str]) -> str:
    more = f" and {len(fields) - MOST_FIELDS} more" if len(fields) > MOST_FIELDS else ""
    return ", ".join(fields[:MOST_FIELDS]) + more
