"""The objects of a revision as they are on the cluster, and which of them change hands.

They are read with the user's permissions. The rules are those by which the controller decides (apply/ownership.py).
Functions that take no client are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from typing import Any

from controller.apply.ownership import Judgement, Owner, Situation, judge
from controller.apply.targets import Target, TargetSet
from controller.cli.adoption.origin import Origin
from controller.cli.command import REQUESTS
from controller.cli.deployments.access import Deployments
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
    ADOPTED = "adopted"
    """It has no owner, and spec.collisionProtection allows that; nothing has to be given away."""
    USED = "used"
    """A Namespace, which is not changed."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What becomes of an object that exists."""

    standing: Standing
    problem: str = ""
    """Why it is refused."""
    protection: str = PROTECTIONS[0]
    """The least that spec.collisionProtection must be."""


Metadata = Mapping[str, Any]
Exists = Callable[[str, str], bool]
"""Whether a BundleDeployment with a name and UID exists."""
Assess = Callable[[Target, Record, Metadata], Assessment]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An object of the revision."""

    key: ObjectKey
    standing: Standing
    resource: Resource | None = None
    """None if the cluster does not serve its kind yet."""
    metadata: Metadata | None = None
    """None if it does not exist."""
    problem: str = ""
    protection: str = PROTECTIONS[0]
    """These two: see `Assessment`."""


class Survey:
    """Reads the objects of a revision.

    Args:
        client: acts as the user.
        discovery: of the cluster.
        targets: of the revision.
        assess: decides about each that exists.
    """

    def __init__(self, client: Client, discovery: Discovery, targets: TargetSet, assess: Assess) -> None:
        self._client, self._discovery, self._targets, self._assess = client, discovery, targets, assess

    def find(self) -> list[Finding]:
        """Return the objects that the revision contains, in its order.

        Raises: ApiError.
        """
        targets = [each for each in self._targets.targets if not each.bare]
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
        found = self._assess(target, record, metadata)
        return Finding(
            key=target.key,
            standing=found.standing,
            resource=resource,
            metadata=metadata,
            problem=found.problem,
            protection=found.protection,
        )


def exists_on(client: Client) -> Exists:
    """Return the function that tells whether a BundleDeployment exists; it raises ApiError."""
    deployments = Deployments(client)

    def _exists(name: str, uid: str) -> bool:
        found = deployments.get(name)
        return found is not None and uid in ("", found["metadata"]["uid"])

    return _exists


def assess_for_tool(owner: Owner, origin: Origin, exists: Exists) -> Assess:
    """Return how objects are assessed that a tool has installed: those with its marks, or nobody's, are taken over."""

    def _assess(target: Target, record: Record, metadata: Metadata) -> Assessment:
        def _judge(protection: str) -> Judgement:
            carries = target.carries_reference
            return judge(record, owner, exists=exists, collision_protection=protection, carries_reference=carries)

        found = _judge(PROTECTIONS[-1])
        if found.situation is Situation.USED:
            return Assessment(standing=Standing.USED)
        if found.situation is not Situation.ADOPT:
            return Assessment(standing=Standing.OURS)
        if found.owner and not (found.owner == record.marks and origin.has_marked(metadata)):
            return Assessment(standing=Standing.REFUSED, problem=f"belongs to {found.owner}, not to {origin}")
        least = next(each for each in PROTECTIONS if _judge(each).situation is Situation.ADOPT)
        return Assessment(standing=Standing.TAKEN, protection=least)

    return _assess


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
