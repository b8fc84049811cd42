"""The objects of a revision as they are on the cluster, and which of them change hands.

They are read with the user's permissions. The rules are those by which the controller decides (apply/ownership.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from typing import Any

from api.v1alpha2.types import BundleDeployment
from controller.apply.ownership import Owner, Situation, judge
from controller.apply.targets import Target, TargetSet
from controller.cli.adoption.origin import Origin
from controller.cli.command import REQUESTS
from controller.cli.deployments.access import Deployments
from controller.cli.review.dry_run import owner_of
from controller.kube.client import Client
from controller.kube.discovery import Discovery
from controller.kube.errors import ApiError
from controller.kube.resources import Resource
from controller.observe.records import ObjectKey, Record, project

PROTECTIONS = ("Prevent", "IfNoController", "None")
"""Values of spec.collisionProtection: each allows more than the one before."""


class Standing(Enum):
    """What becomes of an object."""

    CREATED = "created"
    OURS = "already ours"
    TAKEN = "taken over"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An object of the revision."""

    key: ObjectKey
    standing: Standing
    resource: Resource | None = None
    """None if the cluster does not serve its kind yet."""
    metadata: Mapping[str, Any] | None = None
    """None if it does not exist."""
    problem: str = ""
    """Why it is refused."""
    protection: str = PROTECTIONS[0]
    """The least that spec.collisionProtection must be."""


class Survey:
    """Finds out which objects of a revision change hands.

    Args:
        client: acts as the user.
        discovery: of the cluster.
        deployment: which gets them; it need not exist.
        targets: of the revision.
        origin: what has installed them.
    """

    def __init__(
        self,
        client: Client,
        discovery: Discovery,
        deployment: BundleDeployment,
        targets: TargetSet,
        origin: Origin,
    ) -> None:
        self._client, self._discovery, self._targets = client, discovery, targets
        self._owner, self._origin = owner_of(deployment), origin
        self._deployments = Deployments(client)

    def find(self) -> list[Finding]:
        """Return the objects that the revision contains, in its order, without Namespaces, which are only used.

        Raises: ApiError.
        """
        targets = [each for each in self._targets.targets if not each.bare and each.key[:2] != ("", "Namespace")]
        with ThreadPoolExecutor(REQUESTS) as pool:
            return list(pool.map(self._find, targets))

    def _find(self, target: Target) -> Finding:
        resource = self._discovery.resource(target.kind)
        if resource is None or (resource.namespaced and not target.key.namespace):
            return Finding(key=target.key, standing=Standing.CREATED)
        metadata = read_metadata(self._client, resource, target.key)
        if metadata is None:
            return Finding(key=target.key, standing=Standing.CREATED, resource=resource)
        record = project({"metadata": metadata}, target.key.group, target.key.kind)
        found = assess(record, metadata, target, self._owner, self._origin, exists=self._exists)
        return Finding(key=target.key, resource=resource, metadata=metadata, **found)

    def _exists(self, name: str, uid: str) -> bool:
        found = self._deployments.get(name)
        return found is not None and uid in ("", found["metadata"]["uid"])


def assess(
    record: Record,
    metadata: Mapping[str, Any],
    target: Target,
    owner: Owner,
    origin: Origin,
    *,
    exists: Callable[[str, str], bool],
) -> dict[str, Any]:
    """Return standing, problem and protection of an object that exists. Pure but for `exists`.

    An object is taken over if it carries the marks of the origin, or nobody's.
    """

    def _judge(protection: str) -> tuple[Situation, str]:
        found = judge(
            record, owner, exists=exists, collision_protection=protection, carries_reference=target.carries_reference
        )
        return found.situation, found.owner

    situation, claimant = _judge(PROTECTIONS[-1])
    if situation is not Situation.ADOPT:
        return {"standing": Standing.OURS}
    is_free = not claimant or (claimant == record.marks and origin.has_marked(metadata))
    if not is_free:
        return {"standing": Standing.REFUSED, "problem": f"belongs to {claimant}, not to {origin}"}
    least = next(each for each in PROTECTIONS if _judge(each)[0] is Situation.ADOPT)
    return {"standing": Standing.TAKEN, "protection": least}


def find_protection(findings: Iterable[Finding], asked: str) -> str:
    """Return the spec.collisionProtection that is needed: what is asked for, or else the least that allows all."""
    return max((asked, *(each.protection for each in findings)), key=PROTECTIONS.index)


def read_metadata(client: Client, resource: Resource, key: ObjectKey) -> Mapping[str, Any] | None:
    """Return the metadata of an object; None if it does not exist.

    Raises: ApiError.
    """
    try:
        found: Mapping[str, Any] = client.get(resource.path(key.namespace, key.name), metadata=True).value["metadata"]
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return None
    return found
