"""Calls of plug-ins that other packages have brought: none of them can stall the controller or end it.

Each call has a thread of its own. Beyond its deadline the thread is abandoned, since no thread can be ended; once too
many are, the plug-in is refused further calls until some of them end. Whatever it raises but BundleError, and whatever
it returns but what the contract says, is a failure of the plug-in (`PluginFailed`), which names it. What it returns is
copied, so that it cannot be changed later. The text of its exceptions is shown nowhere, since it may contain secrets.

Where the kernel permits, a thread that renders may write to its scratch folder only, and has no network: files of a
content tree are links into the content store, which all BundleDeployments share.

What this cannot contain: a plug-in that ends the process, exhausts its memory, or computes in C without releasing the
interpreter. A bundle that did so twice is quarantined (`revisions/background.py`).
"""

from __future__ import annotations

import contextvars
import logging
import math
import os
import queue
import re
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from rukpak.api.errors import BundleError
from rukpak.api.plugins import (
    HOOK_DELETE_POLICIES,
    HOOK_EVENTS,
    Access,
    Capabilities,
    Entry,
    EntryKind,
    Hook,
    Limits,
    Prepared,
    PrepareRequest,
    ProcessRequest,
    ProgramVersion,
    Readable,
    Refusal,
    Rendering,
    RenderRequest,
    Resolution,
)
from rukpak.api.v1alpha2.conditions import Reason, Retry
from rukpak.controller.content.limits import collapse, describe_bytes
from rukpak.controller.formats.manifests import LargeTextError
from rukpak.controller.processes import kernel
from rukpak.controller.processes.kernel import Right
from rukpak.controller.processes.programs import Mechanisms

log = logging.getLogger(__name__)
Result = TypeVar("Result")
QUICK_SECONDS = 10.0
"""For methods that are called in each pass, and for loading a plug-in."""
GRACE_SECONDS = 10.0
"""For a call that was cancelled, and beyond a deadline, which a plug-in is to keep itself."""
MOST_ABANDONED = 8
"""Calls of one plug-in that have not ended."""
_TICK = 0.2
_MOST_LISTED = 64
_MOST_CHARACTERS = 4096
_LEVELS = 200
_CHUNK = 64 * 1024
_AHEAD = 16
"""Chunks that a source is ahead of who writes them."""
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_OBJECT_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
_REMEDY = "see the log of the controller, then upgrade the package or report it to its authors"


_MISSING_REMEDY = (
    "install it, and restart the controller: it may not find what was installed while it runs, as by pip --editable"
)
# A text of a plug-in that is shown: nothing but the name of a module.
_MODULE = re.compile(r"[A-Za-z_]\w{0,63}(\.[A-Za-z_]\w{0,63}){0,7}", re.ASCII)


class PluginError(BundleError):
    """A failure of a plug-in (PluginFailed): `plugin` is its key in the metrics, `cause` is without its name."""

    def __init__(self, plugin: tuple[str, str], problem: str, place: str, cause: str = "") -> None:
        super().__init__(Reason.PLUGIN_FAILED, problem, place=place)
        self.plugin, self.cause = plugin, cause


class WrongResultError(Exception):
    """A result that the contract does not allow; the message says what is wrong with it, without any value."""


class _TooMuchError(Exception):
    """A result above the limits of a rendering; the message is the limit."""


class Calls:
    """The calls of one plug-in. Thread-safe.

    Args:
        plugin: its type and name.
        package: and its version, for messages.
    """

    def __init__(self, plugin: tuple[str, str], package: str) -> None:
        self._plugin, self._package = plugin, package
        self._lock = threading.Lock()
        self.failures = 0
        """Calls that have failed because of the plug-in."""
        self._abandoned: set[threading.Thread] = set()

    @property
    def abandoned(self) -> int:
        """How many calls were abandoned and have not ended."""
        with self._lock:
            self._abandoned = {thread for thread in self._abandoned if thread.is_alive()}
            return len(self._abandoned)

    def fail(self, place: str, problem: str, remedy: str = _REMEDY) -> PluginError:
        """Return the error for a failure at a place in the spec, and count it."""
        self.count_failure()
        cause = f"{problem}; {remedy}"
        return PluginError(self._plugin, f'plug-in "{self._plugin[1]}" of {self._package} {cause}', place, cause)

    def count_failure(self) -> None:
        """Count a failure, also of a call in another process."""
        with self._lock:
            self.failures += 1

    def run(
        self,
        method: str,
        call: Callable[[], Result],
        *,
        place: str,
        seconds: float | None = None,
        cancelled: threading.Event | None = None,
        writable: Path | None = None,
    ) -> Result:
        """Return the result of a call on a thread of its own.

        Args:
            method: its name in messages.
            call: calls the plug-in, and checks what it returns.
            place: where the plug-in is named in the spec.
            seconds: after which it is abandoned; by default those of a method that returns at once.
            cancelled: shortens the time.
            writable: the only folder that it may write to, without network; None: it is not confined.

        Raises: BundleError and LargeTextError of the plug-in; PluginError for anything else that it raises or returns.
        """
        self.refuse_if_stuck(place)
        seconds = QUICK_SECONDS if seconds is None else seconds
        outcome = Future[Result]()
        context = contextvars.copy_context()

        def _run() -> None:
            try:
                if writable is not None:
                    _confine(writable)
                outcome.set_result(context.run(call))
            except BaseException as error:  # noqa: BLE001 - a plug-in may raise anything, such as SystemExit
                outcome.set_exception(error)

        thread = threading.Thread(target=_run, name=f"plug-in {self._plugin[1]}", daemon=True)
        thread.start()
        if not _wait(outcome, seconds, cancelled):
            raise self.abandon(thread, place, method, seconds)
        if error := outcome.exception():
            raise self.explain(error, place, method) from None
        return outcome.result()

    def refuse_if_stuck(self, place: str) -> None:
        """Refuse a call while too many have not ended.

        Raises: PluginError.
        """
        if (count := self.abandoned) >= MOST_ABANDONED:
            problem = f"is not called any more: {count} calls of it have not ended"
            raise self.fail(place, problem, "restart the controller, and report it to the authors of the package")

    def abandon(self, thread: threading.Thread, place: str, method: str, seconds: float) -> PluginError:
        """Return the error for a call that has not ended in time."""
        self.leave(thread)
        log.error("plug-in hangs", extra={"plugin": self._plugin[1], "package": self._package, "method": method})
        return self.fail(place, f"hangs: {method} takes more than {seconds:.0f} s")

    def leave(self, thread: threading.Thread) -> None:
        """Count a thread that nobody waits for, until it ends."""
        with self._lock:
            self._abandoned.add(thread)

    def explain(self, error: BaseException, place: str, method: str) -> BaseException:
        """Return what a caller gets for what a plug-in has raised."""
        if isinstance(error, LargeTextError | PluginError):
            return error
        if isinstance(error, BundleError):
            return self._checked(error, place, method)
        if isinstance(error, _TooMuchError):
            message = f"{place}: {method} returns more than {error}; split the bundle"
            return BundleError(Reason.RENDER_LIMIT_EXCEEDED, message)
        if isinstance(error, WrongResultError):
            return self.fail(place, f"does not keep its contract: {method} returns {error}")
        frames = traceback.extract_tb(error.__traceback__)
        shown = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames[-_MOST_LISTED:]]
        kind = type(error).__name__
        log.error(
            "plug-in failed",
            extra={"plugin": self._plugin[1], "package": self._package, "error": kind, "frames": shown},
        )
        if missing := _missing_module(error):
            return self.fail(place, f'failed: {method} raised {kind} for the module "{missing}"', _MISSING_REMEDY)
        # The import system is not where anything is wrong.
        own = [frame for frame in frames if not frame.filename.startswith("<frozen ")] or frames
        at = f" at {'/'.join(Path(own[-1].filename).parts[-2:])}:{own[-1].lineno}" if own else ""
        return self.fail(place, f"failed: {method} raised {kind}{at}")

    def _checked(self, error: BundleError, place: str, method: str) -> BundleError:
        reason, message = getattr(error, "reason", None), getattr(error, "message", None)
        if not isinstance(reason, Reason) or not isinstance(message, str) or reason.retry is Retry.NONE:
            return self.fail(
                place, f"does not keep its contract: {method} raised a BundleError without a usable reason"
            )
        checked = BundleError(reason, _line(message), retry_after=error.retry_after)
        # What the message says about it is up to the plug-in.
        checked.place = error.place if str(getattr(error, "place", "")).startswith(place) else place
        return checked


def _missing_module(error: BaseException) -> str:
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    return name if isinstance(name, str) and _MODULE.fullmatch(name) else ""


def _wait(outcome: Future[Any], seconds: float, cancelled: threading.Event | None) -> bool:
    deadline = time.monotonic() + seconds
    if cancelled is None:
        return bool(wait([outcome], seconds).done)
    is_shortened = False
    while not wait([outcome], min(_TICK, max(deadline - time.monotonic(), 0))).done:
        if time.monotonic() >= deadline:
            return False
        if cancelled.is_set() and not is_shortened:
            is_shortened, deadline = True, min(deadline, time.monotonic() + GRACE_SECONDS)
    return True


def _confine(writable: Path) -> None:
    found = Mechanisms.found()
    if found.landlock:
        rights = {Path("/"): Right.RUN, Path(os.devnull): Right.READ | Right.WRITE_FILE, writable: Right.CHANGE}
        with kernel.ruleset(rights, (), abi=found.landlock) as rules:
            kernel.restrict_access(rules)
    if found.seccomp:
        kernel.restrict_calls(tcp=False)


# what plug-ins return


def _line(text: str) -> str:
    return collapse(text[: 2 * _MOST_CHARACTERS])[:_MOST_CHARACTERS]


def _expect(is_right: object, problem: str) -> None:
    if not is_right:
        raise WrongResultError(problem)


def _text(value: Any, name: str, most: int = _MOST_CHARACTERS) -> str:
    _expect(isinstance(value, str), f"{name} that is {_kind(value)}, not a string")
    _expect(len(value) <= most, f"{name} of more than {most} characters")
    _expect(_is_unicode(value), f"{name} that is not Unicode")
    return str.__str__(value)


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"


def _is_unicode(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _texts(value: Any, name: str, most: int = _MOST_LISTED) -> list[str]:
    return [_line(_text(each, name, 1 << 20)) for each in _list(value, name)[:most]]


def _list(value: Any, name: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise WrongResultError(f"{name} that are {_kind(value)}, not a list")
    return value


class _Plain:
    """Copies values as JSON: dictionaries, lists, strings, finite numbers, booleans and null."""

    def __init__(self, limits: Limits) -> None:
        self._nodes, self._characters, self._limits = limits.nodes, limits.text_bytes, limits

    def copy(self, value: Any, place: str, steps: tuple[str, ...] = ()) -> Any:
        """Return a copy; `place` and the steps below it say where the value is, for errors."""
        self._nodes -= 1
        if self._nodes < 0:
            raise _TooMuchError(f"{self._limits.nodes} values")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value, place, steps)
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            if not math.isfinite(value):
                raise _wrong(place, steps, "that is no finite number")
            return float(value)
        return self._container(value, place, steps)

    def _text(self, value: str, place: str, steps: tuple[str, ...]) -> str:
        self._characters -= len(value)
        if self._characters < 0:
            raise _TooMuchError(f"{describe_bytes(self._limits.text_bytes)} of text")
        if not _is_unicode(value):
            raise _wrong(place, steps, "that is not Unicode")
        return str.__str__(value)

    def _container(self, value: Any, place: str, steps: tuple[str, ...]) -> Any:
        if len(steps) >= _LEVELS:
            raise _wrong(place, steps, f"nested more than {_LEVELS} levels deep")
        if isinstance(value, Mapping):
            if not all(isinstance(key, str) for key in value):
                raise _wrong(place, steps, "with a key that is not a string")
            members = ((self._text(key, place, steps), item) for key, item in value.items())
            return {key: self.copy(item, place, (*steps, f".{key}")) for key, item in members}
        if not isinstance(value, list | tuple):
            raise _wrong(place, steps, f"that is {_kind(value)}, which JSON does not have")
        return [self.copy(item, place, (*steps, f"[{index}]")) for index, item in enumerate(value)]


def _wrong(place: str, steps: Iterable[str], problem: str) -> WrongResultError:
    where = "".join(_line(step[:64]) for step in steps)
    return WrongResultError(f"{place}{where[:100]}{'…' * (len(where) > 100)} {problem}")  # noqa: PLR2004


def _json_mapping(value: Any, name: str) -> dict[str, Any]:
    return _object(value, name, _Plain(Limits()))


def _rendering(value: Any, limits: Limits) -> Rendering:
    _expect(isinstance(value, Rendering), f"{_kind(value)}, not a Rendering")
    plain = _Plain(limits)
    return Rendering(
        objects=[
            _object(each, f"objects[{index}]", plain) for index, each in enumerate(_list(value.objects, "objects"))
        ],
        hooks=[_hook(each, f"hooks[{index}]", plain) for index, each in enumerate(_list(value.hooks, "hooks"))],
        warnings=tuple(_texts(value.warnings, "warnings")),
        secrets=_secrets(value.secrets),
        namespace={
            part: {key: _text(item, "namespace") for key, item in _json_mapping(marks, "namespace").items()}
            for part, marks in _json_mapping(value.namespace, "namespace").items()
        },
        bundle=_text(value.bundle, "bundle"),
    )


def _object(value: Any, place: str, plain: _Plain) -> dict[str, Any]:
    _expect(isinstance(value, Mapping), f"{place} that is {_kind(value)}, not a mapping")
    copied: dict[str, Any] = plain.copy(value, place)
    return copied


def _hook(value: Any, place: str, plain: _Plain) -> Hook:
    _expect(isinstance(value, Hook), f"{place} that is {_kind(value)}, not a Hook")
    events = _texts(value.events, f"{place}.events")
    policies = _texts(value.delete_policies, f"{place}.delete_policies")
    _expect(events and HOOK_EVENTS.issuperset(events), f"{place}.events with an unknown event, or without any")
    _expect(HOOK_DELETE_POLICIES.issuperset(policies), f"{place}.delete_policies with an unknown policy")
    _expect(type(value.weight) is int, f"{place}.weight that is no integer")
    manifest = _object(value.manifest, f"{place}.manifest", plain)
    return Hook(manifest=manifest, events=tuple(events), weight=value.weight, delete_policies=tuple(policies))


def _secret_names(value: Any) -> tuple[str, ...]:
    listed = _list(value, "names of Secrets")
    _expect(len(listed) <= _MOST_LISTED, f"more than {_MOST_LISTED} names of Secrets")
    names = tuple(_text(each, "the name of a Secret") for each in listed)
    _expect(all(map(_OBJECT_NAME.fullmatch, names)), "an invalid name of a Secret")
    return names


def _secrets(value: Any) -> tuple[str, ...]:
    return tuple(_text(each, "secrets", 1 << 24) for each in _list(value, "secrets"))


def _prepared(value: Any, limits: Limits) -> Prepared:
    _expect(isinstance(value, Prepared), f"{_kind(value)}, not Prepared")
    _expect(isinstance(value.files, Mapping), "files that are no mapping")
    _expect(all(isinstance(path, str) and isinstance(data, bytes) for path, data in value.files.items()), "other files")
    files = {str.__str__(path): bytes(data) for path, data in value.files.items()}
    _expect(isinstance(value.unprepared, Mapping), "unprepared that is no mapping")
    _expect(len(value.unprepared) <= limits.entries, "more unprepared files than content may have")
    unprepared = {_text(path, "a path"): _refusal(why, "unprepared") for path, why in value.unprepared.items()}
    return Prepared(files=files, secrets=_secrets(value.secrets), unprepared=unprepared)


def _refusal(value: Any, place: str) -> Refusal:
    _expect(isinstance(value, Refusal), f"{place} with {_kind(value)}, not a Refusal")
    _expect(isinstance(value.reason, Reason), f"{place} with a Refusal without a reason")
    return Refusal(problem=_line(_text(value.problem, f"{place} with a problem")), reason=value.reason)


def _resolution(value: Any) -> Resolution:
    _expect(isinstance(value, Resolution), f"{_kind(value)}, not a Resolution")
    # Only sources that are built in check signatures: `verify` is no field of others.
    names = [name for name in Resolution.__slots__ if name != "signer"]
    fields = {name: _line(_text(getattr(value, name), name)) for name in names}
    _expect(fields["pinned"] and fields["digest"], "a Resolution without pinned or digest")
    return Resolution(**fields, signer=None)


def _program(value: Any) -> ProgramVersion:
    if not isinstance(value, ProgramVersion):
        raise WrongResultError(f"{_kind(value)}, not a ProgramVersion")
    return value


def _amount(value: Any) -> int:
    _expect(isinstance(value, int) and 0 <= value < 1 << 50, "no number of bytes")
    return int(value)


def _namespace(value: Any) -> str:
    name = _text(value, "a namespace")
    _expect(_LABEL.fullmatch(name), "a namespace with an invalid name")
    return name


def _entry(value: Any) -> Entry:
    if not isinstance(value, Entry):
        raise WrongResultError(f"{_kind(value)}, not an Entry")
    path, target, size, kind = (getattr(value, name) for name in ("path", "target", "size", "kind"))
    _expect(isinstance(kind, EntryKind), "an Entry of no kind")
    _expect(isinstance(path, str) and isinstance(target, str), "an Entry whose path or target is no string")
    _expect(isinstance(size, int) and size >= 0, "an Entry without a size")
    _expect(value.refusal is None or isinstance(value.refusal, Refusal), "an Entry whose refusal is none")
    return value


# the calls


def _own(given: Any) -> Any:
    # A plug-in may change its argument.
    if isinstance(given, RenderRequest):
        return replace(given, config=deepcopy(given.config), capabilities=_own(given.capabilities))
    if isinstance(given, ProcessRequest):
        rendering = deepcopy(given.rendering)
        parameters, capabilities = deepcopy(given.parameters), _own(given.capabilities)
        return replace(given, parameters=parameters, rendering=rendering, capabilities=capabilities)
    if isinstance(given, PrepareRequest):
        return replace(given, parameters=deepcopy(given.parameters))
    if isinstance(given, Capabilities):
        return replace(given, kinds=dict(given.kinds), custom=deepcopy(dict(given.custom)))
    return deepcopy(given) if isinstance(given, Mapping) else given


def guard(plugin: Any, calls: Calls, kind: str) -> Any:
    """Return a plug-in whose calls are guarded; it has those methods of the contract that the plug-in has.

    Args:
        plugin: an instance.
        calls: of this plug-in.
        kind: source, format or processor.

    Raises: WrongResultError if it lacks a method of its contract.
    """
    guarded = SimpleNamespace()
    required, optional = _METHODS[kind]
    place = f"spec.{kind if kind == 'format' else f'{kind}s'}"
    for name in (*required, *optional):
        method = getattr(plugin, name, None)
        if callable(method):
            make = _guard_fetch if name == "fetch" else _guard
            setattr(guarded, name, make(calls, name, method, place))
        elif name in required:
            raise WrongResultError(f"an object without the method {name}")
    if hasattr(plugin, "reads_part"):
        guarded.reads_part = bool(plugin.reads_part)
    return guarded


_OF_PROGRAMS = ("find_program", "program_bytes")
_METHODS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "source": (("validate", "identity", "resolve", "content_key", "fetch"), ("origin",)),
    "format": (("validate", "suggest_namespace", "render"), ("place_config", *_OF_PROGRAMS)),
    "processor": (("validate", "process"), ("find_secrets", "prepare", *_OF_PROGRAMS)),
}
"""What a plug-in must have, and what it may have."""


def _guard(calls: Calls, name: str, method: Callable[..., Any], place: str) -> Callable[..., Any]:
    check = _CHECKS[name]

    def _call(*arguments: Any) -> Any:
        given, last = [_own(each) for each in arguments], arguments[-1]
        return calls.run(name, lambda: check(method(*given), last), **_bounds(name, last, place))

    return _call


def _bounds(name: str, last: Any, place: str) -> dict[str, Any]:
    """Return the place and the bounds of a call, as `Calls.run` takes them.

    Args:
        name: of the method.
        last: the last argument, which decides.
        place: of the plug-in, unless the argument names another one.
    """
    if isinstance(last, Access):
        return {"place": last.path, "seconds": _seconds_of(last), "cancelled": last.cancelled}
    if isinstance(last, RenderRequest | ProcessRequest | PrepareRequest):
        means = last.means
        return {
            "place": place if isinstance(last, RenderRequest) else last.path,
            "seconds": means.seconds + GRACE_SECONDS,
            "cancelled": means.cancelled,
            "writable": means.scratch,
        }
    if name == "find_program":
        return {"place": place, "seconds": last.seconds + GRACE_SECONDS}
    return {"place": last if name == "validate" and isinstance(last, str) else place}


def _guard_fetch(calls: Calls, _name: str, method: Callable[..., Any], _place: str) -> Callable[..., Any]:
    def _call(parameters: Mapping[str, Any], resolution: Resolution, access: Access) -> Iterator[Entry]:
        calls.refuse_if_stuck(access.path)
        return _Fetch(calls, lambda: method(_own(parameters), resolution, access), access).entries()

    return _call


def _seconds_of(access: Access) -> float:
    return max(access.deadline - time.monotonic(), 0) + GRACE_SECONDS


class _Fetch:
    """Entries of a source, which it yields on a thread of its own, a few chunks ahead."""

    def __init__(self, calls: Calls, fetch: Callable[[], Iterable[Entry]], access: Access) -> None:
        self._calls, self._fetch, self._access = calls, fetch, access
        self._chunks: queue.Queue[Entry | bytes | BaseException | None] = queue.Queue(_AHEAD)
        self._done = threading.Event()
        run = contextvars.copy_context().run
        self._thread = threading.Thread(target=run, args=(self._run,), name="plug-in fetch", daemon=True)
        self._rest = b""
        self._in_file = False
        self._seconds = _seconds_of(access)
        self._deadline = time.monotonic() + self._seconds

    def entries(self) -> Iterator[Entry]:
        """Yield the entries, with their data.

        Raises: what the plug-in raises, as `Calls.run` does.
        """
        self._thread.start()
        try:
            while (entry := self._next_entry()) is not None:
                yield replace(entry, data=self) if entry.data is not None else entry
        finally:
            self._done.set()
            self._calls.leave(self._thread)

    def read(self, size: int, /) -> bytes:
        """Return the next bytes of the current file, at most `size`; none at its end."""
        if not self._rest and self._in_file:
            chunk = self._take()
            self._rest = chunk if isinstance(chunk, bytes) else b""
            self._in_file = bool(self._rest)
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    def _next_entry(self) -> Entry | None:
        while self._in_file:
            self.read(_CHUNK)
        self._rest = b""
        entry = self._take()
        self._in_file = isinstance(entry, Entry) and entry.data is not None
        return entry if isinstance(entry, Entry) else None

    def _take(self) -> Entry | bytes | None:
        while True:
            try:
                found = self._chunks.get(timeout=_TICK)
                break
            except queue.Empty:
                if self._access.cancelled.is_set():
                    self._deadline = min(self._deadline, time.monotonic() + GRACE_SECONDS)
                if time.monotonic() >= self._deadline:
                    raise self._calls.abandon(self._thread, self._access.path, "fetch", self._seconds) from None
        if isinstance(found, BaseException):
            raise self._calls.explain(found, self._access.path, "fetch") from None
        return found

    def _run(self) -> None:
        try:
            for item in self._items():
                if not self._put(item):
                    return
            self._put(None)
        except BaseException as error:  # noqa: BLE001 - a plug-in may raise anything
            self._put(error)

    def _items(self) -> Iterator[Entry | bytes]:
        """Yield each entry, and after it its data, which end with no bytes."""
        for found in self._fetch():
            entry = _entry(found)
            yield entry
            if entry.data is not None:
                yield from self._data(entry.data)

    def _data(self, file: Readable) -> Iterator[bytes]:
        while True:
            data = file.read(_CHUNK)
            _expect(isinstance(data, bytes), f"data of an Entry that is {_kind(data)}, not bytes")
            yield bytes(data)
            if not data:
                return

    def _put(self, item: Entry | bytes | BaseException | None) -> bool:
        """Return whether somebody still reads what the source yields, once there is room for it."""
        while not self._done.is_set():
            with suppress(queue.Full):
                self._chunks.put(item, timeout=_TICK)
                return True
        return False


_CHECKS: Mapping[str, Callable[[Any, Any], Any]] = {
    "validate": lambda value, _: _texts(value, "problems"),
    "identity": lambda value, _: _json_mapping(value, "an identity"),
    "origin": lambda value, _: _text(value, "an origin"),
    "content_key": lambda value, _: _text(value, "a key"),
    "suggest_namespace": lambda value, _: _namespace(value),
    "place_config": lambda value, _: _json_mapping(value, "a config"),
    "program_bytes": lambda value, _: _amount(value),
    "find_secrets": lambda value, _: _secret_names(value),
    "find_program": lambda value, _: _program(value),
    "resolve": lambda value, _: _resolution(value),
    "render": lambda value, request: _rendering(value, request.means.limits),
    "process": lambda value, request: _rendering(value, request.means.limits),
    "prepare": lambda value, request: _prepared(value, request.means.limits),
}
"""By method, what returns its checked result: of what it has returned, and of its last argument."""
