"""Reads the objects of `spec.dependsOn` that are no BundleDeployments, and says why they are not ready.

They are read as the account of the BundleDeployment, since who writes a spec may not learn more of the cluster through
it than that account may. So a message has the reason of an object's health, and an expression of the spec, but no text
of the object. While one of them is not ready, they are followed by name (observe/following.py); nothing polls them.

Passes wait for their expressions, and so do those of others. So once one object is waited for, and expressions have
taken as long as those of one object may, the others are not evaluated: they would not end the wait.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.kube.client import ApiError, Client
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.resources import GroupVersionKind, Resource
from rukpak.controller.observe.following import ObjectReference
from rukpak.controller.observe.health import expressions
from rukpak.controller.observe.health.verdict import State
from rukpak.controller.observe.relations import MISSING
from rukpak.controller.observe.watches import Watches
from rukpak.controller.revisions.accounts import Account, Seen, account_in, check_before_reading
from rukpak.controller.untrusted import field


class DependencyReader:
    """Thread-safe.

    Args:
        client: acts as the controller, and as accounts.
        discovery: finds the resources of kinds.
        watches: judge objects.
    """

    def __init__(self, client: Client, discovery: Discovery, watches: Watches) -> None:
        self._client, self._discovery, self._watches = client, discovery, watches

    def find_waiting(self, deployment: BundleDeployment, seen: Seen) -> list[str]:
        """Return the objects that are not ready, each with the reason: `Cache shop/c (does not exist)`.

        Args:
            deployment: completed with its default account.
            seen: gets what was read.

        Raises: BundleError (Forbidden; ServiceAccountNotFound and its kin), ApiError.
        """
        required = [(index, each) for index, each in enumerate(deployment.spec.depends_on) if each.kind]
        account = account_in(deployment.spec)
        if account and required:
            check_before_reading(self._client, deployment, account, seen)
        waiting: list[str] = []
        seconds = 0.0
        for index, each in required:
            kind = GroupVersionKind.of({"apiVersion": each.api_version, "kind": each.kind})
            resource = self._discovery.resource(kind)
            if resource is None:
                waiting.append(f"{each.kind} {each.name} (the cluster does not serve {kind})")
                continue
            name, manifest = self._look(deployment, index, resource, seen)
            evaluates, started = not waiting or seconds < expressions.SECONDS, time.monotonic()
            bundle = deployment.metadata.name
            if hindrance := self._find_hindrance(bundle, manifest, resource, each.ready, evaluates=evaluates):
                waiting.append(f"{name} ({hindrance})")
            seconds += time.monotonic() - started
        return waiting

    def _look(
        self, deployment: BundleDeployment, index: int, resource: Resource, seen: Seen
    ) -> tuple[str, Mapping[str, Any] | None]:
        wanted = deployment.spec.depends_on[index]
        default = deployment.spec.install_namespace or deployment.status.install_namespace
        namespace = (wanted.namespace or default) if resource.namespaced else ""
        account = account_in(deployment.spec)
        watched = ObjectReference(namespace, wanted.name, account.user.name if account else "", resource)
        name = f"{wanted.kind} {namespace}/{wanted.name}" if namespace else f"{wanted.kind} {wanted.name}"
        manifest = self._read(watched, account, f"spec.dependsOn[{index}]: {name}")
        seen(watched, manifest["metadata"]["resourceVersion"] if manifest else "")
        return name, manifest

    def _read(self, watched: ObjectReference, account: Account | None, what: str) -> Mapping[str, Any] | None:
        client = self._client.acting_as(account.user if account else None)
        try:
            found: Mapping[str, Any] = client.get(watched.resource.path(watched.namespace, watched.name)).value
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            if error.status == HTTPStatus.FORBIDDEN:
                whom = f'"{account.user.name}"' if account else "the controller"
                right = f"get, list and watch on {watched.resource.plural}"
                group = f" of {watched.resource.group}" if watched.resource.group else ""
                message = f"{what} cannot be read by {whom}; grant {right}{group}"
                raise BundleError(Reason.FORBIDDEN, message) from None
            raise
        return found

    def _find_hindrance(
        self,
        name: str,
        manifest: Mapping[str, Any] | None,
        resource: Resource,
        ready: str | None,
        *,
        evaluates: bool,
    ) -> str:
        if manifest is None:
            return MISSING
        if field(manifest, "metadata", "deletionTimestamp"):
            return "is being deleted"
        if ready is None:
            verdict = self._watches.projection.judge(name, manifest, resource, evaluates=evaluates)
            return "" if verdict.state is State.HEALTHY else verdict.reason
        if not evaluates:
            return f"{ready} is not evaluated"
        (answer,) = self._watches.evaluator.evaluate([ready], manifest)
        if answer is True:
            return ""
        return f"{ready} is not known yet: {answer}" if answer else f"{ready} is not true"
