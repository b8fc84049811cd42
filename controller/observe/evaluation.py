"""Expressions of users on the controller: evaluated in children, so that no tenant's delay what others need.

health/expressions.py says what is evaluated, and runs as the child. That may use a quarter of a second of processor
time for a request, 64 MiB in addition to the object, no file but libraries, and no network; what takes more is killed,
and told. A child that ends for another reason says nothing about the expression, so another one is asked. There are two
children at most, whoever asks; they are started when they are needed, end with this process, and cost 15 MB meanwhile.

Watches do not wait for it. An object that has expressions is NotEvaluated on its event; then it is read and judged on
one of two threads for that, of which a share (sharing.py) gets one. If there are more shares, they take turns in the
order of the time that they have used. Passes ask directly, about few expressions: whether they are well-formed, and
whether a dependency is ready.
"""

from __future__ import annotations

import heapq
import json
import logging
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from rukpak.controller.content.limits import describe_bytes
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.client import ApiError
from rukpak.controller.observe.health import expressions
from rukpak.controller.observe.health.expressions import Answer
from rukpak.controller.processes.programs import CHUNK, ProcessGroup, View, confined, programs, start_confined
from rukpak.controller.processes.supervision import Kind, Supervisor
from rukpak.controller.retries import Backoff
from rukpak.controller.sharing import Turns

log = logging.getLogger(__name__)
PLACES = 2
"""Objects that are evaluated at the same time: one share gets one of them, so that there is one for the next."""
ADDRESS_SPACE = 512 << 20
MEMORY_BYTES = 64 << 20
"""For one request, in addition to the object."""
_OBJECT_FACTOR = 32
"""Bytes of memory for a byte of a request: a list of small numbers takes most."""
WAIT_SECONDS = 10.0
"""For one answer, on a machine that has no processor time left for the child."""
PAUSES = Backoff(first=1.0, longest=30.0)
"""Until an object is read again that the API server did not give: all of them wait while it does not answer."""
LATER_SECONDS = 30.0
"""Until an object is read again that could not be evaluated: what ended the child may not be over sooner."""
_COMMAND = (sys.executable, "-P", "-m", expressions.__name__)
_OUT_OF_MEMORY = (expressions.OUT_OF_MEMORY, -signal.SIGABRT, -signal.SIGSEGV)
_MOST_KNOWN, _MOST_BYTES = 4096, 1 << 20


class Evaluator:
    """Thread-safe: children that evaluate, each for one caller at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(PLACES)
        self._idle: list[_Child] = []
        self._is_stopped = False
        self.find_problem = lru_cache(_MOST_KNOWN)(self._find_problem)
        """Returns what is wrong with an expression, and where; empty if nothing is.

        Raises: RuntimeError if no child answers.
        """

    def _find_problem(self, expression: str) -> str:
        try:
            return cast("str", self._ask(expressions.write(expression)))
        except _TooExpensiveError as error:
            return f"is {error}"

    def evaluate(self, given: Sequence[str], manifest: Any) -> Sequence[Answer]:
        """Return what well-formed expressions say about an object, in the same order.

        Raises: RuntimeError if no child answers.
        """
        try:
            request = expressions.write((list(given), manifest))
        except ValueError:
            return ["the object is nested too deeply"] * len(given)
        try:
            return cast("list[Answer]", self._ask(request))
        except _TooExpensiveError as error:
            return [f"it is {error}"] * len(given)

    def stop(self) -> None:
        """End the children, each once it has answered."""
        with self._lock:
            self._is_stopped = True
            idle, self._idle = self._idle, []
        for child in idle:
            child.close()

    def _ask(self, request: bytes) -> Any:
        """Return the answer of a child, or of a new one if that child ends without fault of the request.

        Raises: _TooExpensiveError, RuntimeError.
        """
        with self._places:
            with self._lock:
                child = self._idle.pop() if self._idle else None
            child = child or _Child()
            try:
                answer = child.ask(request)
            except RuntimeError as error:
                log.info("asking another child about an expression", extra={"cause": str(error)})
                child = _Child()
                answer = child.ask(request)
            with self._lock:
                is_kept = not (self._is_stopped or child.has_grown())
                if is_kept:
                    self._idle.append(child)
            if not is_kept:
                child.close()
            return answer


class _TooExpensiveError(Exception):
    """A request exceeds a limit; the message says which."""


class _Child:
    def __init__(self) -> None:
        found = (Path(each) for each in (sys.prefix, sys.base_prefix, *sys.path) if each)
        view = View(programs=(Path(sys.executable), *programs("prlimit")), read=tuple(each.resolve() for each in found))
        process = start_confined(_start, view, "expressions", required=False)
        self._group, self._poll = ProcessGroup(process), select.poll()
        self._sink, self._source = (each.fileno() for each in (process.stdin, process.stdout) if each)
        os.set_blocking(self._sink, False)
        self._poll.register(self._source, select.POLLIN)
        self._pid = process.pid
        self._first = 0
        """Its address space before the first request, in bytes; 0: not known yet."""

    def ask(self, request: bytes) -> Any:
        """Send a request and return the answer.

        Raises: _TooExpensiveError; RuntimeError if it has ended for another reason; it is closed then.
        """
        answer = b""
        if self._first or self._exchange(expressions.write("true")):  # it has imported what it needs
            self._limit(request)
            answer = self._exchange(request)
        if answer.endswith(b"\n"):
            return json.loads(answer)
        self._group.kill()  # unless it has ended, whose status stays
        status = self._group.wait()
        self.close()
        if status == -signal.SIGPROF:
            raise _TooExpensiveError(f"too expensive: it takes more than {expressions.SECONDS:g} s")
        if status in _OUT_OF_MEMORY:
            raise _TooExpensiveError(f"too expensive: it takes more than {describe_bytes(MEMORY_BYTES)} of memory")
        raise RuntimeError(f"evaluating expressions in a child failed: {_describe_end(status)}")

    def _limit(self, request: bytes) -> None:
        size = self._address_space()
        self._first = self._first or size
        limit = min(size + MEMORY_BYTES + _OBJECT_FACTOR * len(request), ADDRESS_SPACE)
        with suppress(ProcessLookupError):
            resource.prlimit(self._pid, resource.RLIMIT_AS, (limit, ADDRESS_SPACE))

    def has_grown(self) -> bool:
        """Whether requests have left behind as much as one may use."""
        return self._address_space() >= self._first + MEMORY_BYTES

    def _address_space(self) -> int:
        try:
            pages = Path(f"/proc/{self._pid}/statm").read_text(encoding="ascii").split()[0]
        except (OSError, IndexError):
            return 0  # it has ended, which the exchange finds out
        return int(pages) * resource.getpagesize()

    def _exchange(self, request: bytes) -> bytes:
        left, answer, deadline = memoryview(request), bytearray(), time.monotonic() + WAIT_SECONDS
        while not answer.endswith(b"\n") and len(answer) < _MOST_BYTES:
            self._poll.register(self._sink, select.POLLOUT if left else 0)
            ready = dict(self._poll.poll(max(deadline - time.monotonic(), 0) * 1000))
            if not ready:
                break
            if self._source in ready:
                data = os.read(self._source, CHUNK)
                if not data:
                    break
                answer += data
            elif left:
                with suppress(BrokenPipeError):  # the end of the answer follows
                    left = left[os.write(self._sink, left[:CHUNK]) :]
        return bytes(answer)

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
        bufsize=0,
        env=environment,
        cwd="/",
        start_new_session=True,
    )


def _describe_end(status: int) -> str:
    if status == -signal.SIGKILL:
        return f"it was killed, since the machine has no memory left, or it did not answer within {WAIT_SECONDS:g} s"
    return f"it ended with status {status}"


class Evaluations:
    """Thread-safe: objects that wait to be judged by their expressions, each share in turn.

    Args:
        judge: judges an object.
        share: returns the share of a BundleDeployment.
        supervisor: of the threads, which start with the first object.
    """

    def __init__(
        self, judge: Callable[[ObjectKey], None], share: Callable[[str], str], supervisor: Callable[[], Supervisor]
    ) -> None:
        self._judge, self._share, self._supervisor = judge, share, supervisor
        self._turns: Turns[tuple[str, ObjectKey]] = Turns(PLACES)
        self._changed = threading.Condition()
        self._later: list[tuple[float, str, ObjectKey]] = []
        """A heap: when, in monotonic seconds, which objects are judged again, with their shares."""
        self._is_started = self._is_stopped = False
        self._failures = 0
        """Consecutive objects that the API server did not give."""

    def stop(self) -> None:
        """Judge no more objects; returns at once."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def add(self, owner: str, key: ObjectKey) -> None:
        """Have an object of a BundleDeployment judged, once if it waits already."""
        share = self._share(owner)
        with self._changed:
            if self._is_stopped:
                return
            self._turns.add(share, (share, key))
            if not self._is_started:
                self._is_started = True
                for number in range(PLACES):
                    self._supervisor().thread(Kind.WATCH, f"expressions {number}", self._run).start()
            self._changed.notify()

    def _run(self) -> None:
        while item := self._next():
            share, key = item
            started, again = time.monotonic(), 0.0
            try:
                self._judge(key)
                self._failures = 0
            except ApiError as error:
                log.debug("object not evaluated", extra={"object": str(key), "reply": str(error)})
                self._failures += 1
                again = PAUSES.delay(self._failures)
            except Exception:  # one object must not stop the others
                log.exception("object not evaluated", extra={"object": str(key)})
                again = LATER_SECONDS
            finally:
                with self._changed:
                    self._turns.end(share, seconds=time.monotonic() - started)
                    if again:
                        heapq.heappush(self._later, (time.monotonic() + again, share, key))
                    self._changed.notify()

    def _next(self) -> tuple[str, ObjectKey] | None:
        with self._changed:
            while not self._is_stopped:
                while self._later and self._later[0][0] <= time.monotonic():
                    _, share, key = heapq.heappop(self._later)
                    self._turns.add(share, (share, key))
                if item := self._turns.begin():
                    return item
                self._changed.wait(max(self._later[0][0] - time.monotonic(), 0) if self._later else None)
            return None
