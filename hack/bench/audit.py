"""Counting requests in an audit log: who asked for what, how often."""

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
    """The requests of one program, each once: a watch counts when it is opened."""

    events: tuple[Mapping[str, Any], ...]

    @property
    def by_verb(self) -> dict[str, int]:
        """How many of each verb, the most frequent first."""
        return dict(Counter(event["verb"] for event in self.events).most_common())

    @property
    def total(self) -> int:
        """How many there are."""
        return len(self.events)

    @property
    def writes(self) -> list[str]:
        """The requests that may change something, as `describe` puts them."""
        return [describe(event) for event in self.events if event["verb"] in WRITES]

    def without_watches(self) -> Requests:
        """Leave out watches: one that ends is opened again."""
        return Requests(events=tuple(event for event in self.events if event["verb"] != "watch"))

    def last_answer(self) -> float | None:
        """Return when the last one was answered, as seconds since 1970; None if there is none."""
        return max((_time(event["stageTimestamp"]) for event in self.events), default=None)


def requests_of(events: Iterable[Mapping[str, Any]], user_agent: str = CONTROLLER) -> Requests:
    """Return the requests of the programs whose user agent begins so, but for those about a Lease.

    Args:
        events: of audit.k8s.io/v1, in the stages ResponseStarted, ResponseComplete and Panic.
        user_agent: its beginning.
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
