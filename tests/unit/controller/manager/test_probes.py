from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from rukpak.controller.kube.errors import ApiError
from rukpak.controller.manager.manager import SILENT_SECONDS, STUCK_SECONDS, Probes, ServerProbe

GONE = ApiError(0, "Unreachable", "it did not answer")


@dataclass(kw_only=True)
class Process:
    """A process as its probes see it."""

    dead: list[str] = field(default_factory=list)
    hanging: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    longest: float = 0.0
    idle: float = 0.0
    unanswered: float = 0.0
    election: bool = True
    elects: bool = True
    lease_error: ApiError | None = None
    watch_error: ApiError | None = None
    answer: ApiError | None = None

    def probes(self) -> Probes:
        def request(*_args: object, **_options: object) -> None:
            if self.answer:
                raise self.answer

        parts: dict[str, Any] = {
            "watches": SimpleNamespace(
                stuck=lambda: self.hanging,
                unsynced=lambda: self.unknown,
                deployments=SimpleNamespace(reflector=SimpleNamespace(last_error=self.watch_error)),
            ),
            "workers": SimpleNamespace(dead=lambda: self.dead, longest_seconds=self.longest),
            "election": SimpleNamespace(alive=self.election, last_error=self.lease_error) if self.elects else None,
        }
        client: Any = SimpleNamespace(request=request)
        server = ServerProbe(client, lambda: 0.0)
        server._answered, server._worked = -self.unanswered, -self.idle
        return Probes(**parts, server=server)


class Case(NamedTuple):
    name: str
    process: Process
    ill: str
    lacking: str


SILENCE = "the API server does not respond: it did not answer"
LONG = STUCK_SECONDS + 1
AWAY = Process(unanswered=SILENT_SECONDS + 1, answer=GONE, lease_error=GONE)
FORBIDDEN = ApiError(403, "Forbidden", "no")
CASES = [
    Case("all is well", Process(), "", ""),
    Case("a worker has ended", Process(dead=["worker-1"]), "thread worker-1 has ended", ""),
    Case("a watch hangs", Process(hanging=["/api/v1/namespaces"]), "watch of /api/v1/namespaces hangs", ""),
    Case("a pass makes no request any more", Process(longest=LONG, idle=LONG), "a pass hangs", ""),
    Case("a long pass that gets on", Process(longest=LONG, idle=1), "", ""),
    Case("nothing was done for long, and a pass begins", Process(longest=1, idle=LONG), "", ""),
    Case("the election has ended", Process(election=False), "leader election has ended", ""),
    Case("the API server is away", AWAY, "", SILENCE),
    Case("it says no", Process(unanswered=SILENT_SECONDS + 1, answer=FORBIDDEN), "", ""),
    Case("nothing was heard of it, as nothing was asked", Process(unanswered=SILENT_SECONDS + 1), "", ""),
    Case("caches are not filled", Process(unknown=["/x"]), "", "not listed yet: /x"),
    Case(
        "the Lease may not be used",
        Process(lease_error=FORBIDDEN),
        "",
        "not allowed to use the Lease: 403 Forbidden: no",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_is_said(case: Case) -> None:
    probes = case.process.probes()
    assert probes.find_health_problems() == ([case.ill] if case.ill else [])
    assert probes.find_readiness_problems() == ([case.lacking] if case.lacking else [])


def health(process: Process) -> tuple[int, bytes]:
    reply = process.probes().routes()["/healthz"]()
    return reply.status, reply.body


KNOWN = [
    (Process(lease_error=GONE, unanswered=SILENT_SECONDS), f"ok; {SILENCE}\n"),
    (Process(elects=False, watch_error=GONE, unanswered=SILENT_SECONDS), f"ok; {SILENCE}\n"),
    (Process(lease_error=GONE, watch_error=GONE, unanswered=SILENT_SECONDS - 1), "ok\n"),
    (Process(watch_error=FORBIDDEN, unanswered=SILENT_SECONDS), "ok\n"),
    (Process(unanswered=SILENT_SECONDS, answer=GONE), "ok\n"),
]


@pytest.mark.parametrize(
    ("process", "body"),
    KNOWN,
    ids=["by the election", "by the watch", "for a moment only", "it answers", "only a request would tell"],
)
def test_health_says_why_the_api_server_does_not_respond_and_does_not_fail(process: Process, body: str) -> None:
    assert health(process) == (200, body.encode())


def test_health_that_fails_says_only_why() -> None:
    ill = Process(dead=["worker-1"], lease_error=GONE, unanswered=SILENT_SECONDS)
    assert health(ill) == (503, b"thread worker-1 has ended\n")


def test_a_kind_that_is_new_does_not_make_it_less_ready() -> None:
    process = Process()
    probes = process.probes()
    assert probes.find_readiness_problems() == []
    process.unknown.append("/apis/apps/v1/deployments")
    assert probes.find_readiness_problems() == []


def test_activity_tells_answers_from_attempts() -> None:
    now = [0.0]
    client: Any = None
    probe = ServerProbe(client, lambda: now[0])
    now[0] = SILENT_SECONDS
    probe.request_ended(0)
    was_silent = probe.is_silent
    probe.request_ended(503)
    assert (was_silent, probe.is_silent) == (True, False)
    assert probe.idle_seconds == SILENT_SECONDS  # it was no pass that asked
