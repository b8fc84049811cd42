"""A bare client of the API server: JSON over HTTPS, one connection per thread, and nothing else.

Requests are counted in its audit log: by client, verb and object.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rukpak.controller.playground.cluster import read_token

TIMEOUT_SECONDS = 600.0
REST_SECONDS = 30.0
"""The API server closes connections that have been idle for longer."""
USER_AGENT = "bench"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
BUNDLE_DEPLOYMENTS = "/apis/core.rukpak.io/v1alpha2/bundledeployments"


METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class ApiError(RuntimeError):
    """Anything but 2xx."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Api:
    """One API server; thread-safe.

    Args:
        server: address.
        folder: of its control plane, with the certificate of the authority and the token of the admin.
    """

    def __init__(self, server: str, folder: Path) -> None:
        self._host = urlsplit(server).netloc
        self._tls = ssl.create_default_context(cafile=folder / "ca.crt")
        self._token = read_token(folder)
        self._local = threading.local()

    def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """Send one request and return the JSON of the response.

        Raises: ApiError.
        """
        return self._read(self._send(self._connection(), method, path, body, content_type), f"{method} {path}")

    def list_metadata(self, path: str) -> Any:
        """Return the metadata of the objects of a collection.

        Raises: ApiError.
        """
        return self._read(self._send(self._connection(), "GET", path, None, "", accept=METADATA), path)

    def _read(self, answer: http.client.HTTPResponse, what: str) -> Any:
        said = answer.read()
        if not http.client.OK <= answer.status < http.client.MULTIPLE_CHOICES:
            raise ApiError(f"{what}: {answer.status} {said.decode()}", answer.status)
        return json.loads(said)

    def watch(self, path: str, resource_version: str) -> Iterator[dict[str, Any]]:
        """Yield the events of a collection that follow a version, over a separate connection.

        Raises: RuntimeError if the watch ends; TimeoutError if there is no event for 10 minutes.
        """
        connection = self._connect()
        try:
            address = f"{path}?watch=true&resourceVersion={resource_version}"
            answer = self._send(connection, "GET", address, None, "")
            for line in answer:
                yield json.loads(line)
        except TimeoutError:
            raise TimeoutError(f"the watch of {path} has had no event for {TIMEOUT_SECONDS:g} s") from None
        finally:
            connection.close()
        raise RuntimeError(f"the watch of {path} ended")

    def version(self, path: str) -> str:
        """Return the version of a collection, for `watch`."""
        version: str = self.request("GET", f"{path}?limit=1")["metadata"]["resourceVersion"]
        return version

    def _connection(self) -> http.client.HTTPSConnection:
        if not hasattr(self._local, "connection"):
            self._local.connection, self._local.used = self._connect(), time.monotonic()
        connection: http.client.HTTPSConnection = self._local.connection
        if time.monotonic() - self._local.used > REST_SECONDS:
            connection.close()  # the next request opens it again
        self._local.used = time.monotonic()
        return connection

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._host, timeout=TIMEOUT_SECONDS, context=self._tls)

    def _send(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        path: str,
        body: Any,
        content_type: str,
        *,
        accept: str = "application/json",
    ) -> http.client.HTTPResponse:
        headers = {"Authorization": f"Bearer {self._token}", "User-Agent": USER_AGENT, "Accept": accept}
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path, data, {**headers, "Content-Type": content_type} if data else headers)
        return connection.getresponse()


CONTROLLER = "rukpak/"
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """The requests of a program without duplicates: a watch counts when it is opened."""

    events: tuple[Mapping[str, Any], ...]

    @property
    def by_verb(self) -> dict[str, int]:
        """Number of requests by verb, the most frequent first."""
        return dict(Counter(event["verb"] for event in self.events).most_common())

    @property
    def by_object(self) -> dict[str, int]:
        """Number of requests by what `describe` says of them."""
        return dict(Counter(map(describe, self.events)))

    @property
    def total(self) -> int:
        return len(self.events)

    @property
    def writes(self) -> list[str]:
        """The write requests, described by `describe`."""
        return [describe(event) for event in self.events if event["verb"] in WRITES]

    def without_watches(self) -> Requests:
        """Leave out watches: one that ends is opened again."""
        return Requests(events=tuple(event for event in self.events if event["verb"] != "watch"))

    def last_answer(self) -> float | None:
        """Return the time of the last response in seconds since 1970; None if there is none."""
        return max((_time(event["stageTimestamp"]) for event in self.events), default=None)


def requests_of(events: Iterable[Mapping[str, Any]], user_agent: str = CONTROLLER) -> Requests:
    """Return the requests with a user agent, except those for a Lease.

    Args:
        events: of audit.k8s.io/v1, in the stages ResponseStarted, ResponseComplete and Panic.
        user_agent: prefix of the user agent.
    """
    return Requests(
        events=tuple(
            event
            for event in events
            if event.get("userAgent", "").startswith(user_agent)
            and (event.get("objectRef") or {}).get("resource") != "leases"
            and (event["verb"] == "watch") == (event["stage"] == "ResponseStarted")
        )
    )


def describe(event: Mapping[str, Any]) -> str:
    """Return verb and object of one request: `patch bundledeployments/status foo`."""
    about = event.get("objectRef") or {}
    resource = "/".join(filter(None, (about.get("resource", event.get("requestURI", "")), about.get("subresource"))))
    name = "/".join(filter(None, (about.get("namespace"), about.get("name"))))
    return f"{event['verb']} {resource} {name}".rstrip()


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
