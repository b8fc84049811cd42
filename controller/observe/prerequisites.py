"""APIServices and Namespaces: watched for their changes only."""

from __future__ import annotations

from collections.abc import Callable

from controller.kube.cache import Trace, make_trace
from controller.kube.client import Client
from controller.kube.resources import NAMESPACES, Resource
from controller.kube.watch import Reflector

API_SERVICES = Resource("apiregistration.k8s.io", "v1", "APIService", "apiservices", namespaced=False)


class Prerequisites:
    """The watches of both.

    Args:
        api_service_changed: gets the API group of an APIService, empty if that is gone; on the thread of the watch.
        namespace_changed: called when a Namespace has changed; on the thread of the watch.
    """

    def __init__(
        self, client: Client, api_service_changed: Callable[[str], None], namespace_changed: Callable[[], None]
    ) -> None:
        self.reflectors = [
            _watch(client, API_SERVICES, lambda _old, new: api_service_changed(_group_of(new))),
            _watch(client, NAMESPACES, lambda _old, _new: namespace_changed()),
        ]


def _watch(
    client: Client, resource: Resource, changed: Callable[[Trace | None, Trace | None], None]
) -> Reflector[Trace]:
    return Reflector[Trace](client, resource.path(), metadata=True, project=make_trace, on_change=changed)


def _group_of(api_service: Trace | None) -> str:
    """Return the group of an APIService, from its name <version>.<group>."""
    return api_service.name.partition(".")[2] if api_service else ""
