"""Reads objects beside the sources as the account of the BundleDeployment: those that a spec names, and lookups.

`spec.configFrom` names ConfigMaps and Secrets, processors name Secrets, and `spec.dependsOn` names objects of any kind.
They are read as that account because who writes a spec may not learn more of the cluster through it than the account
may.

Config is read when a pass needs it, and again only after a change of one of these objects or of the spec. The values
are dropped when nothing is left to do; what is remembered then is only that they are known.

About an object of `spec.dependsOn`, a message has the reason of its health, and an expression of the spec, but no text
of the object. While one of them is not ready, they are followed by name (observe/following.py); nothing polls them.
Passes wait for their expressions, and so do those of others. So once one object is waited for, and expressions have
taken as long as those of one object may, the others are not evaluated: they would not end the wait.

What a bundle looks up while it is rendered is read by GETs of one object, or of one page of a list, and not followed:
what a hostile chart gets at is what its account may read.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Lookup
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.fields import ConfigReference
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller import untrusted
from rukpak.controller.apply.rights import RbacRight, describe_roles
from rukpak.controller.building.answers import LOOKUP_BYTES
from rukpak.controller.building.config_values import (
    Confidential,
    SecretValues,
    confidential_of,
    find_secrets,
    merge_config,
)
from rukpak.controller.building.request import Found
from rukpak.controller.formats.helm.lookups import REMEDY, describe
from rukpak.controller.kube.client import PAGE_ITEMS, TOO_LARGE, ApiError, Client, User
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.errors import attempt
from rukpak.controller.kube.resources import CONFIG_MAPS, SECRETS, GroupVersionKind, Resource
from rukpak.controller.observe.deployments import MISSING
from rukpak.controller.observe.following import ObjectReference
from rukpak.controller.observe.health import expressions
from rukpak.controller.observe.health.verdict import State
from rukpak.controller.observe.watches import Watches
from rukpak.controller.revisions.accounts import Account, Seen, account_in, check_before_reading

_RESOURCES = {"ConfigMap": CONFIG_MAPS, "Secret": SECRETS}


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownConfig:
    """What was read for one version of the spec and of its objects."""

    version: str = ""
    config: Mapping[str, Any] | None = field(default=None, repr=False)
    """The merged config; None: it was dropped."""
    confidential: Confidential | None = None
    """What of it is secret; dropped together with it."""
    secrets: SecretValues = field(default_factory=dict, repr=False)
    """Values for processors; dropped together with it."""

    def rest(self) -> KnownConfig:
        """Return the same without the values."""
        return replace(self, config=None, confidential=None, secrets={})


def read_config(client: Client, deployment: BundleDeployment, account: Account | None, seen: Seen) -> KnownConfig:
    """Return the merged config of a spec, and the Secrets that its processors need.

    Args:
        client: of the controller, or of the user of a command.
        deployment: with an install namespace.
        account: to read as; None: the user of the client.
        seen: gets what was read.

    Raises: BundleError (ConfigNotFound, ConfigForbidden, InvalidConfig, UnknownFormat, ServiceAccountNotFound and its
        kin), ApiError.
    """
    references, needed = deployment.spec.config_from, find_secrets(deployment.spec)
    namespace = deployment.spec.install_namespace or ""
    if needed and not namespace:
        problem = "required, since a processor needs Secrets of that namespace; set it"
        raise BundleError(Reason.INVALID_CONFIG, f"spec.installNamespace: {problem}")
    if references or needed:
        check_before_reading(client, deployment, account, seen)
    manifests: dict[ObjectReference, Mapping[str, Any] | None] = {}

    def _read_once(kind: str, name: str, place: str) -> tuple[ObjectReference, Mapping[str, Any] | None]:
        watched = ObjectReference(namespace, name, account.user.name if account else "", _RESOURCES[kind])
        if watched not in manifests:
            manifests[watched] = _read(client, watched, seen, place + _name(watched), forbidden=Reason.CONFIG_FORBIDDEN)
        return watched, manifests[watched]

    texts: list[bytes | None] = []
    for index, reference in enumerate(references):
        place = f"spec.configFrom[{index}]: "
        watched, manifest = _read_once(reference.kind, reference.name, place)
        text = _text_of(manifest, reference, place)
        if text is None and not reference.optional:
            raise BundleError(Reason.CONFIG_NOT_FOUND, place + _describe_missing(watched, reference, manifest))
        texts.append(text)
    secrets: dict[str, Mapping[str, bytes]] = {}
    for path, name in needed:
        watched, manifest = _read_once("Secret", name, f"{path}: ")
        if manifest is None:
            problem = f"{path}: {_name(watched)} does not exist; create it, or correct the name"
            raise BundleError(Reason.CONFIG_NOT_FOUND, problem)
        data = manifest.get("data") or {}
        secrets[name] = {key: _decode(value, key, f"{path}: ") for key, value in data.items()}
    config, confidential = merge_config(deployment.spec, texts), confidential_of(deployment, texts, secrets)
    return KnownConfig(config=config, confidential=confidential, secrets=secrets)


def _read(
    client: Client, watched: ObjectReference, seen: Seen, what: str, *, forbidden: Reason, right: str = "it"
) -> Mapping[str, Any] | None:
    """Return an object, and note which version was seen; None if it does not exist.

    Args:
        what: the object, in messages.
        forbidden: reason of the failure if the account, or the controller, may not read it.
        right: on what that failure says to grant get, list and watch.

    Raises: BundleError, ApiError.
    """
    try:
        found: Mapping[str, Any] | None = (
            client.acting_as(User(watched.user) if watched.user else None)
            .get(watched.resource.path(watched.namespace, watched.name))
            .value
        )
    except ApiError as error:
        if error.status == HTTPStatus.FORBIDDEN:
            whom = f'"{watched.user}"' if watched.user else "the controller"
            problem = f"{what} cannot be read by {whom}; grant get, list and watch on {right}"
            raise BundleError(forbidden, problem) from None
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        found = None
    seen(watched, found["metadata"]["resourceVersion"] if found else "")
    return found


def _text_of(manifest: Mapping[str, Any] | None, reference: ConfigReference, place: str) -> bytes | None:
    data = (manifest or {}).get("data") or {}
    binary = data if reference.kind == "Secret" else (manifest or {}).get("binaryData") or {}
    if reference.key in binary:
        return _decode(binary[reference.key], reference.key, place)
    text: str | None = data.get(reference.key)
    return None if text is None else text.encode("utf-8", "surrogatepass")


def _decode(value: Any, key: str, place: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise BundleError(Reason.INVALID_CONFIG, f'{place}key "{key}" is not base64') from None


def _describe_missing(watched: ObjectReference, reference: ConfigReference, manifest: Mapping[str, Any] | None) -> str:
    if manifest is None:
        return f"{_name(watched)} does not exist; create it, or correct the name"
    return f'{_name(watched)} has no key "{reference.key}"; add it, or correct the key'


def _name(watched: ObjectReference) -> str:
    return f'{watched.resource.kind} "{watched.namespace}/{watched.name}"'


def find_waiting(
    client: Client, discovery: Discovery, watches: Watches, deployment: BundleDeployment, seen: Seen
) -> list[str]:
    """Return the objects of `spec.dependsOn` that are not ready, each with the reason: `Cache shop/c (does not exist)`.

    Args:
        client: acts as the controller, and as accounts.
        discovery: finds the resources of kinds.
        watches: judge objects.
        deployment: completed with its default account.
        seen: gets what was read.

    Raises: BundleError (Forbidden; ServiceAccountNotFound and its kin), ApiError.
    """
    required = [(index, each) for index, each in enumerate(deployment.spec.depends_on) if each.kind]
    account = account_in(deployment.spec)
    if required:
        check_before_reading(client, deployment, account, seen)
    waiting: list[str] = []
    seconds = 0.0
    for index, each in required:
        kind = GroupVersionKind.of({"apiVersion": each.api_version, "kind": each.kind})
        resource = discovery.resource(kind)
        if resource is None:
            waiting.append(f"{each.kind} {each.name} (the cluster does not serve {kind})")
            continue
        name, manifest = _look(client, deployment, index, resource, seen)
        evaluates, started = not waiting or seconds < expressions.SECONDS, time.monotonic()
        bundle = deployment.metadata.name
        if hindrance := _find_hindrance(watches, bundle, manifest, resource, each.ready, evaluates=evaluates):
            waiting.append(f"{name} ({hindrance})")
        seconds += time.monotonic() - started
    return waiting


def _look(
    client: Client, deployment: BundleDeployment, index: int, resource: Resource, seen: Seen
) -> tuple[str, Mapping[str, Any] | None]:
    wanted = deployment.spec.depends_on[index]
    default = deployment.spec.install_namespace or deployment.status.install_namespace
    namespace = (wanted.namespace or default) if resource.namespaced else ""
    account = account_in(deployment.spec)
    watched = ObjectReference(namespace, wanted.name, account.user.name if account else "", resource)
    name = f"{wanted.kind} {namespace}/{wanted.name}" if namespace else f"{wanted.kind} {wanted.name}"
    right = f"{resource.plural} of {resource.group}" if resource.group else resource.plural
    what = f"spec.dependsOn[{index}]: {name}"
    return name, _read(client, watched, seen, what, forbidden=Reason.FORBIDDEN, right=right)


def _find_hindrance(
    watches: Watches,
    name: str,
    manifest: Mapping[str, Any] | None,
    resource: Resource,
    ready: str | None,
    *,
    evaluates: bool,
) -> str:
    if manifest is None:
        return MISSING
    if untrusted.field(manifest, "metadata", "deletionTimestamp"):
        return "is being deleted"
    if ready is None:
        verdict = watches.projection.judge(name, manifest, resource, evaluates=evaluates)
        return "" if verdict.state is State.HEALTHY else verdict.reason
    if not evaluates:
        return f"{ready} is not evaluated"
    (answer,) = watches.evaluator.evaluate([ready], manifest)
    if answer is True:
        return ""
    return f"{ready} is not known yet: {answer}" if answer else f"{ready} is not true"


def look_up(
    client: Client,
    find_resource: Callable[[GroupVersionKind], Resource | None],
    deployment: BundleDeployment | None,
    lookup: Lookup,
) -> Found:
    """Return an object that a bundle looks up while it is rendered, or a list of them.

    Args:
        client: of the controller, or of the user of a command.
        find_resource: returns what serves a kind.
        deployment: completed with its default account, to read as that account; None: to read as the user of a command.
        lookup: what to read.

    Raises: BundleError (Forbidden with the rule to grant, KindNotServed, RenderLimitExceeded, APIUnavailable, and those
        of an account that must not be used).
    """
    account = account_in(deployment.spec) if deployment else None
    what, resource = f"lookup of {describe(lookup)}", None
    try:
        if deployment:
            check_before_reading(client, deployment, account, lambda _object, _version: None)
        resource = find_resource(GroupVersionKind.parse(f"{lookup.api_version}/{lookup.kind}"))
        if resource is None:
            problem = f"{what}: the cluster does not serve this kind"
            remedy = "install its CustomResourceDefinition first, or let the chart ask .Capabilities.APIVersions before"
            raise BundleError(Reason.KIND_NOT_SERVED, f"{problem}; {remedy}")
        return _answer(client.acting_as(account.user if account else None), resource, lookup)
    except ValueError:
        raise BundleError(Reason.RENDER_FAILED, f"{what}: this is no kind; correct the template") from None
    except ApiError as error:
        whom = f'"{account.user.name}"' if account else "the controller" if deployment else "you"
        raise _refuse_lookup(error, lookup, resource, whom) from None


def _answer(client: Client, resource: Resource, lookup: Lookup) -> Found:
    if resource.namespaced and lookup.name and not lookup.namespace:
        return Found()  # as the API server says of such a path
    path = resource.path(lookup.namespace, lookup.name)
    paging = () if lookup.name else (("limit", PAGE_ITEMS),)
    reply = attempt(
        lambda: client.request("GET", path, query=[*paging], max_bytes=2 * LOOKUP_BYTES), HTTPStatus.NOT_FOUND
    )
    if reply is None:
        return Found()
    found = reply.value
    metadata = found.get("metadata") or {}
    if metadata.get("continue"):
        problem = f"lookup of {describe(lookup)}: there are more than {PAGE_ITEMS}"
        raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{problem}; {REMEDY}")
    return Found(manifest=found, version=str(metadata.get("resourceVersion") or ""))


def _refuse_lookup(error: ApiError, lookup: Lookup, resource: Resource | None, whom: str) -> BundleError:
    what = f"lookup of {describe(lookup)}"
    if resource and error.status == HTTPStatus.FORBIDDEN:
        right = RbacRight(
            namespace=lookup.namespace if resource.namespaced else "",
            groups=(resource.group,),
            resources=(resource.plural,),
            resource_names=(lookup.name,) if lookup.name else (),
            verbs=("get",) if lookup.name else ("list",),
        )
        roles = describe_roles([right])
        return BundleError(Reason.FORBIDDEN, f"{what} is not permitted to {whom}; grant {roles}")
    if error.reason == TOO_LARGE:
        return BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{what}: it is too large; {REMEDY}")
    problem = f"the API server answered with status {error.status}" if error.status else "the API server did not answer"
    return BundleError(Reason.API_UNAVAILABLE, f"{what}: {problem}; will be retried", retry_after=error.retry_after)
