"""Expressions of users on the controller: evaluated in a child, so that no tenant's delay what others need.

health/expressions.py says what is evaluated, and runs as the child. That may use a quarter of a second of processor
time for a request, half a gibibyte of address space, no file but libraries, and no network; what takes more is killed,
and told. It is started with the first expression, ends with this process, and costs 15 MB meanwhile.

Watches do not wait for it. An object that has expressions is NotEvaluated on its event; then it is read and judged on
a thread of its own, where shares (sharing.py) take turns in the order of the time that they have used. So the
expressions of one tenant delay those of another by one request, and nothing else at all. Passes ask directly, about
few expressions: whether they are well-formed, and whether a dependency is ready.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from controller.content.limits import describe_bytes
from controller.kube.client import ApiError
from controller.observe.health import expressions
from controller.observe.health.expressions import Answer
from controller.observe.records import ObjectKey
from controller.processes.programs import ProcessGroup, View, confined, programs, start_confined
from controller.processes.supervision import Kind, Supervisor
from controller.sharing import Turns

log = logging.getLogger(__name__)
ADDRESS_SPACE = 512 << 20
WAIT_SECONDS = 10.0
"""For one answer, on a machine that has no processor time left for the child."""
AGAIN_SECONDS = 1.0
"""Until an object is read again that the API server did not give."""
_COMMAND = (sys.executable, "-P", "-m", expressions.__name__)
_MOST_KNOWN, _MOST_BYTES = 4096, 1 << 20


class Evaluator:
    """Thread-safe: a child that evaluates, for one caller at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._problems: dict[str, str] = {}
        """Of well-formed and other expressions that were asked about."""

    def find_problem(self, expression: str) -> str:
        """Return what is wrong with an expression, and where; empty if nothing is."""
        known = self._problems.get(expression)
        if known is None:
            known = self._ask(expression, "is")
            if len(self._problems) >= _MOST_KNOWN:
                self._problems.clear()
            self._problems[expression] = known
        return cast("str", known)

    def evaluate(self, given: Sequence[str], manifest: Any) -> Sequence[Answer]:
        """Return what well-formed expressions say about an object, in the same order."""
        answer = self._ask((list(given), manifest), "it is")
        return [answer] * len(given) if isinstance(answer, str) else cast("list[Answer]", answer)

    def stop(self) -> None:
        """End the child."""
        with self._lock:
            self._end()

    def _ask(self, request: Any, subject: str) -> Any:
        """Return the answer of the child, or a text about why there is none, which begins with `subject`."""
        try:
            written = expressions.write(request)
        except ValueError:
            return "the object is nested too deeply"
        with self._lock:
            if self._child is None:
                self._child = _Child()
            try:
                return self._child.ask(written)
            except _EndedError as error:
                self._end()
                return f"{subject} {error}"

    def _end(self) -> None:
        if self._child:
            self._child.close()
            self._child = None


class _EndedError(Exception):
    """The child has ended; the message says why."""


class _Child:
    def __init__(self) -> None:
        found = (Path(each) for each in (sys.prefix, sys.base_prefix, *sys.path) if each)
        view = View(programs=(Path(sys.executable), *programs("prlimit")), read=tuple(each.resolve() for each in found))
        self._process = start_confined(_start, view, "expressions", required=False)
        self._group = ProcessGroup(self._process)

    def ask(self, request: bytes) -> Any:
        """Send a request and return the answer.

        Raises: _EndedError.
        """
        sink, source = self._process.stdin, self._process.stdout
        timer = threading.Timer(WAIT_SECONDS, self._group.kill)
        timer.daemon = True
        timer.start()
        line = b""
        try:
            if sink and source:
                with suppress(BrokenPipeError):
                    sink.write(request)
                    sink.flush()
                line = source.readline(_MOST_BYTES)
        finally:
            timer.cancel()
        if not line.endswith(b"\n"):
            raise _EndedError(_describe_end(self._group.wait()))
        return json.loads(line)

    def close(self) -> None:
        """Kill the process if it still runs."""
        self._group.close()


def _start() -> subprocess.Popen[bytes]:
    environment = {"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    limits = {"as": ADDRESS_SPACE, "core": 0, "fsize": 0, "nofile": 64}
    return subprocess.Popen(
        confined(_COMMAND, raisable=False, **limits),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        cwd="/",
        start_new_session=True,
    )


def _describe_end(status: int) -> str:
    if status in (-signal.SIGPROF, -signal.SIGKILL):
        return f"too expensive: it takes more than {expressions.SECONDS:g} s"
    return f"too expensive: it takes more than {describe_bytes(ADDRESS_SPACE)} of memory"


class Evaluations:
    """Thread-safe: objects that wait to be judged by their expressions, each share in turn.

    Args:
        judge: judges an object.
        share: returns the share of a BundleDeployment.
        supervisor: of the thread, which starts with the first object.
    """

    def __init__(
        self, judge: Callable[[ObjectKey], None], share: Callable[[str], str], supervisor: Callable[[], Supervisor]
    ) -> None:
        self._judge, self._share, self._supervisor = judge, share, supervisor
        self._turns: Turns[tuple[str, ObjectKey]] = Turns(1)
        self._changed = threading.Condition()
        self._is_started = False

    def add(self, owner: str, key: ObjectKey) -> None:
        """Have an object of a BundleDeployment judged, once if it waits already."""
        self._add(self._share(owner), key)

    def _add(self, share: str, key: ObjectKey) -> None:
        with self._changed:
            self._turns.add(share, (share, key))
            if not self._is_started:
                self._is_started = True
                self._supervisor().thread(Kind.WATCH, "expressions", self._run).start()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            share, key = self._next()
            started, again = time.monotonic(), False
            try:
                self._judge(key)
            except ApiError as error:
                log.debug("object not evaluated", extra={"object": str(key), "reply": str(error)})
                again = True
            except Exception:  # one object must not stop the others
                log.exception("object not evaluated", extra={"object": str(key)})
            finally:
                with self._changed:
                    self._turns.end(share, seconds=time.monotonic() - started)
            if again:
                timer = threading.Timer(AGAIN_SECONDS, self._add, (share, key))
                timer.daemon = True
                timer.start()

    def _next(self) -> tuple[str, ObjectKey]:
        with self._changed:
            while (item := self._turns.begin()) is None:
                self._changed.wait()
            return item
