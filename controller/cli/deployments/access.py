"""BundleDeployments on a cluster, for verbs that show or change them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

from api import names
from controller.kube.client import PAGE_ITEMS, Client, Response
from controller.kube.errors import ApiError
from controller.kube.resources import DEPLOYMENTS
from controller.kube.watch.collection import Collection, parse_events

Manifest = dict[str, Any]
MANAGER = "kubectl-rukpak"
WATCH_SECONDS = 300
"""How long the API server is asked to keep a watch open."""


class NoApiError(ApiError):
    """The cluster does not serve BundleDeployments."""

    def __str__(self) -> str:
        """Return the message, with the remedy."""
        remedy = 'run "rukpak crd | kubectl apply --server-side -f -" to install the API'
        return f"the cluster does not serve BundleDeployments; {remedy}"


class Deployments:
    """The BundleDeployments of a cluster. Every method raises ApiError, NoApiError where the API is not installed."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def all(self, selector: str = "") -> list[Manifest]:
        """Return all BundleDeployments, or those whose labels match.

        Raises: ApiError.
        """
        try:
            return [_typed(item) for item in self._client.list(DEPLOYMENTS.path(), label_selector=selector)]
        except ApiError as error:
            raise _explain(error) from None

    def follow(self, selector: str = "") -> Iterator[Manifest]:
        """Yield the BundleDeployments whose labels match, then each that is created, changed or deleted. Endless.

        Raises: ApiError, while iterating.
        """
        try:
            yield from map(_typed, follow(self._client, DEPLOYMENTS.path(), label_selector=selector))
        except ApiError as error:
            raise _explain(error) from None

    def get(self, name: str) -> Manifest | None:
        """Return a BundleDeployment; None if it does not exist.

        Raises: ApiError.
        """
        return _value_unless_missing(lambda: self._client.get(DEPLOYMENTS.path(name=name)))

    def create(self, value: Manifest) -> Manifest:
        """Create a BundleDeployment and return it.

        Raises: ApiError.
        """
        try:
            made: Manifest = self._client.create(DEPLOYMENTS.path(), value, manager=MANAGER).value
        except ApiError as error:
            raise _explain(error) from None
        return made

    def apply(self, value: Manifest) -> Manifest:
        """Create a BundleDeployment, or set the fields of one and remove those that an earlier apply has set.

        Raises: ApiError.
        """
        path = DEPLOYMENTS.path(name=value["metadata"]["name"])
        try:
            made: Manifest = self._client.apply(path, value, manager=MANAGER, force=True, metadata=False).value
        except ApiError as error:
            raise _explain(error) from None
        return made

    def change(self, name: str, change: Mapping[str, Any]) -> Manifest | None:
        """Merge a change into a BundleDeployment and return the result; None if it does not exist.

        Raises: ApiError.
        """
        path = DEPLOYMENTS.path(name=name)
        return _value_unless_missing(lambda: self._client.merge_patch(path, change, manager=MANAGER))

    def delete(self, name: str) -> None:
        """Request the deletion of a BundleDeployment, if it exists.

        Raises: ApiError.
        """
        _value_unless_missing(lambda: self._client.delete(DEPLOYMENTS.path(name=name)))


def _value_unless_missing(request: Callable[[], Response]) -> Manifest | None:
    try:
        value: Manifest = request().value
    except ApiError as error:
        if error.status == HTTPStatus.NOT_FOUND and error.reason:
            return None
        raise _explain(error) from None
    return value


def _explain(error: ApiError) -> ApiError:
    # Only an object that does not exist has a reason: for an unknown path the reply is plain text.
    if error.status == HTTPStatus.NOT_FOUND and not error.reason:
        return NoApiError(error.status, error.reason, error.message)
    return error


def _typed(item: Mapping[str, Any]) -> Manifest:
    """Return an item of a list with its apiVersion and kind, which lists leave out."""
    return {"apiVersion": DEPLOYMENTS.api_version, "kind": names.KIND, **item}


def follow(
    client: Client,
    path: str,
    *,
    label_selector: str = "",
    field_selector: str = "",
    order: Callable[[Manifest], str] = lambda value: str(value["metadata"]["name"]),
) -> Iterator[Manifest]:
    """Yield the objects of a collection in order, then each that is created, changed or deleted. Endless.

    Raises: ApiError, while iterating.
    """
    collection = Collection(
        client=client, path=path, label_selector=label_selector, field_selector=field_selector, metadata=False
    )
    version = ""
    while True:
        if not version:
            pages = list(collection.pages(PAGE_ITEMS))
            version = pages[-1].resource_version
            yield from sorted((item for page in pages for item in page.items), key=order)
        try:
            with collection.open_watch(version, WATCH_SECONDS, WATCH_SECONDS) as stream:
                for kind, value in parse_events(stream):
                    version = value["metadata"]["resourceVersion"]
                    if kind != "BOOKMARK":
                        yield value
        except ApiError as error:
            if error.status != HTTPStatus.GONE:
                raise
            version = ""
