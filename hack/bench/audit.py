"""Counting requests in an audit log: by client, verb and object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

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
        """Number of requests."""
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
