"""Reads what bundles look up while they are rendered, as the account of the BundleDeployment.

Only GETs of one object, or of one page of a list: what a hostile chart gets at is what its account may read.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Lookup
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.apply.rights import RbacRight, describe_roles
from rukpak.controller.building.answers import LOOKUP_BYTES
from rukpak.controller.building.request import Found
from rukpak.controller.formats.helm.lookups import REMEDY, describe
from rukpak.controller.kube.client import PAGE_ITEMS, TOO_LARGE, Client
from rukpak.controller.kube.errors import ApiError, attempt
from rukpak.controller.kube.resources import GroupVersionKind, Resource
from rukpak.controller.revisions.accounts import Account, account_in, check_before_reading

FindResource = Callable[[GroupVersionKind], Resource | None]


def look_up(
    client: Client,
    find_resource: FindResource,
    lookup: Lookup,
    account: Account | None,
    check: Callable[[], None] = lambda: None,
    *,
    whom: str = "the controller",
) -> Found:
    """Return an object, or a list of them.

    Args:
        client: of the controller, or of the user of a command.
        find_resource: returns what serves a kind.
        lookup: what to read.
        account: to read as; None: the user of the client.
        check: refuses an account that must not be used.
        whom: how messages name the user of the client.

    Raises: BundleError (Forbidden with the rule to grant, KindNotServed, RenderLimitExceeded, APIUnavailable, and those
        of `check`).
    """
    what, resource = f"lookup of {describe(lookup)}", None
    try:
        check()
        resource = find_resource(GroupVersionKind.parse(f"{lookup.api_version}/{lookup.kind}"))
        if resource is None:
            problem = f"{what}: the cluster does not serve this kind"
            remedy = "install its CustomResourceDefinition first, or let the chart ask .Capabilities.APIVersions before"
            raise BundleError(Reason.KIND_NOT_SERVED, f"{problem}; {remedy}")
        return _read(client.acting_as(account.user if account else None), resource, lookup)
    except ValueError:
        raise BundleError(Reason.RENDER_FAILED, f"{what}: this is no kind; correct the template") from None
    except ApiError as error:
        raise _translate(error, lookup, resource, f'"{account.user.name}"' if account else whom) from None


def _read(client: Client, resource: Resource, lookup: Lookup) -> Found:
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


def _translate(error: ApiError, lookup: Lookup, resource: Resource | None, whom: str) -> BundleError:
    what = f"lookup of {describe(lookup)}"
    if resource and error.status == HTTPStatus.FORBIDDEN:
        roles = describe_roles([_right_to(lookup, resource)])
        return BundleError(Reason.FORBIDDEN, f"{what} is not permitted to {whom}; grant {roles}")
    if error.reason == TOO_LARGE:
        return BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{what}: it is too large; {REMEDY}")
    problem = f"the API server answered with status {error.status}" if error.status else "the API server did not answer"
    return BundleError(Reason.API_UNAVAILABLE, f"{what}: {problem}; will be retried", retry_after=error.retry_after)


def _right_to(lookup: Lookup, resource: Resource) -> RbacRight:
    return RbacRight(
        namespace=lookup.namespace if resource.namespaced else "",
        groups=(resource.group,),
        resources=(resource.plural,),
        resource_names=(lookup.name,) if lookup.name else (),
        verbs=("get",) if lookup.name else ("list",),
    )


def reader(client: Client, find_resource: FindResource, deployment: BundleDeployment) -> Callable[[Lookup], Found]:
    """Return what reads as the account of a BundleDeployment, completed with its default account."""
    account = account_in(deployment.spec)

    def _check() -> None:
        if account:
            check_before_reading(client, deployment, account, lambda _object, _version: None)

    return lambda lookup: look_up(client, find_resource, lookup, account, _check)
