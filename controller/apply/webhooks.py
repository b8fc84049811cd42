"""Which admission webhooks the API server may be waiting for when it does not answer a write.

The API server names a webhook that hangs once the time of that is over, 10 s by default. Where writes have less time,
as with a small `--renew-deadline`, they end before it does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rukpak.controller.kube.client import ApiError, Client
from rukpak.controller.kube.resources import Resource
from rukpak.controller.untrusted import mappings, text, texts

CONFIGURATIONS = (
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
)
READ_SECONDS = 10.0
"""Between two reads, however many writes are not answered."""
_WRITES = frozenset({"CREATE", "UPDATE", "*"})


class Webhooks:
    """The webhooks of the cluster, read when they are asked for. Thread-safe.

    Args:
        client: acts as the controller.
        clock: monotonic seconds.
    """

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._found: list[Mapping[str, Any]] = []
        self._read_at = -READ_SECONDS
        self._lock = threading.Lock()

    def called_for(self, resource: Resource) -> list[str]:
        """Return the names of the webhooks that may be called for a write; none if that cannot be read."""
        with self._lock:
            if self._clock() - self._read_at >= READ_SECONDS:
                self._found = list(self._read())
                self._read_at = self._clock()
        return sorted({text(each, "name") for each in self._found if _is_called(each, resource)})

    def _read(self) -> Iterator[Mapping[str, Any]]:
        try:
            for path in CONFIGURATIONS:
                for configuration in self._client.list(path):
                    yield from mappings(configuration, "webhooks")
        except ApiError:
            return


def _is_called(webhook: Mapping[str, Any], resource: Resource) -> bool:
    # Selectors and conditions are not evaluated.
    return any(
        not {resource.group, "*"}.isdisjoint(texts(rule, "apiGroups"))
        and not {resource.plural, "*", "*/*"}.isdisjoint(texts(rule, "resources"))
        and not _WRITES.isdisjoint(texts(rule, "operations"))
        for rule in mappings(webhook, "rules")
    )
