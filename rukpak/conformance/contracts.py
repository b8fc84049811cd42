"""What a plug-in promises, as classes of tests: a package's own test subclasses one and gives it examples.

    class TestExample(FormatContract):
        plugin = ExampleFormat
        content = [{"a.example": b"..."}]
        bad_config = [({"replicas": "many"}, "spec.config.replicas")]
        bad_content = [({"a.example": b"{"}, Reason.INVALID_BUNDLE)]

A test without an example is skipped, and says what to give; a class without a plug-in, or without an example that
succeeds, fails. Each example is tried in a folder of its own. What a plug-in itself does is watched by an audit hook
of Python, so what a program does that it runs is not seen.

Imported by packages from `rukpak.conformance`. Needs pytest, which RukPak itself does not: the extra `conformance`.
"""

from __future__ import annotations

import copy
import inspect
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import (
    HOOK_DELETE_POLICIES,
    HOOK_EVENTS,
    Access,
    Capabilities,
    ContentTree,
    Credentials,
    Entry,
    EntryKind,
    Format,
    Hook,
    Limits,
    LocalContent,
    Means,
    Network,
    PlacesConfig,
    PrepareRequest,
    PreparesContent,
    Processor,
    ProcessRequest,
    Readable,
    ReadsPart,
    ReadsSecrets,
    Refusal,
    Rendering,
    RenderRequest,
    Resolution,
    RunsProgram,
    Source,
)
from rukpak.api.proxies import Proxies, Proxy
from rukpak.api.v1alpha2.conditions import Reason

Files: TypeAlias = Mapping[str, bytes]
"""Content by path."""
Parameters: TypeAlias = Mapping[str, Any]

SOON_SECONDS = 10.0
"""For what must end soon, even on a busy machine."""
QUICK_SECONDS = 1.0
"""For what must return at once, even on a busy machine."""
THREADS = 8
CANARY = "canary-3f9a1c"
"""A secret that must not be seen in any message."""
TINY = Limits(
    compressed_bytes=1, total_bytes=1, file_bytes=1, entries=1, manifest_bytes=1, text_bytes=1, nodes=1, header_bytes=1
)
NONSENSE: Sequence[Any] = (None, True, 0, -1, 1.5, 10**30, "", "\n", "é" * 5000, [], [None], {}, {"": [{}]})
"""A value of every kind of JSON."""
OBJECTS: Sequence[dict[str, Any]] = (
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"color": "blue"}},
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "registry.example.com/web:v1"}]},
            },
        },
    },
)
CAPABILITIES = Capabilities(
    kubernetes_version="v1.36.3",
    kinds={
        ("", "v1", "ConfigMap"): True,
        ("", "v1", "Namespace"): False,
        ("", "v1", "Secret"): True,
        ("", "v1", "Service"): True,
        ("", "v1", "ServiceAccount"): True,
        ("apps", "v1", "Deployment"): True,
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"): False,
        ("batch", "v1", "Job"): True,
        ("rbac.authorization.k8s.io", "v1", "ClusterRole"): False,
        ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding"): False,
        ("rbac.authorization.k8s.io", "v1", "Role"): True,
        ("rbac.authorization.k8s.io", "v1", "RoleBinding"): True,
    },
)

_LIMITED = {Reason.RENDER_LIMIT_EXCEEDED, Reason.CONTENT_REJECTED, Reason.INVALID_BUNDLE}
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}", re.IGNORECASE)
_DIGEST = re.compile(r"[a-z0-9]+:[0-9a-f]{32,}")


# what a plug-in does


class _Watch:
    """What the plug-in has done in a block that it must not do; it is refused as well."""

    def __init__(self, folder: Path, *, network: bool, programs: bool, peer: tuple[str, int] | None = None) -> None:
        self.seen: list[str] = []
        self._folder, self._network, self._programs, self._peer = folder.resolve(), network, programs, peer

    def see(self, event: str, values: tuple[Any, ...]) -> None:
        if problem := self._judge(event, values):
            self.seen.append(problem)
            raise PermissionError(problem)

    def _judge(self, event: str, values: tuple[Any, ...]) -> str:
        if event in _NETWORK and not self._network:
            return f"{event} {values[1:]}: a plug-in of this kind has no network"
        if self._peer and event == "socket.connect" and values[1][:2] != self._peer:
            return f"{event} {values[1:]}: only the proxy may be connected to"
        if event in _PROGRAMS and not self._programs:
            return f"{event} {values[:1]}: only what is a RunsProgram may run one"
        written = [path for path in _written(event, values) if not self._is_allowed(path)]
        return f"{event} {written[0]}: only the scratch folder may be written to" if written else ""

    def _is_allowed(self, path: Path) -> bool:
        return path.is_relative_to(self._folder) or path.parts[1:2] in {("dev",), ("proc",)}


_NETWORK = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.bind"}
_PROGRAMS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty"}
# The number of paths that an event begins with.
_WRITES = {
    "os.chmod": 1, "os.link": 2, "os.mkdir": 1, "os.remove": 1, "os.rename": 2, "os.rmdir": 1, "os.symlink": 2,
    "os.truncate": 1,
}  # fmt: skip
_ANY_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_watches: list[_Watch] = []


def _written(event: str, values: tuple[Any, ...]) -> Iterator[Path]:
    if event == "open":
        path, mode, flags = values
        # The folder of os.open(…, dir_fd=…) is not told; such a relative path is nothing to judge by.
        is_known = isinstance(path, str | bytes) and (mode is not None or os.fsdecode(path).startswith("/"))
        if is_known and flags & _ANY_WRITE:
            yield Path(os.path.realpath(os.fsdecode(path)))
    elif event in _WRITES:
        paths = values[: _WRITES[event]]
        # The target of a symbolic link is only text.
        for path in paths[1:] if event == "os.symlink" else paths:
            if isinstance(path, str | bytes):
                yield _below(values[-1], Path(os.fsdecode(path)))


def _below(descriptor: object, path: Path) -> Path:
    is_descriptor = isinstance(descriptor, int) and descriptor >= 0 and not path.is_absolute()
    folder = Path(f"/proc/self/fd/{descriptor}").resolve() if is_descriptor else Path.cwd()
    return (folder / path).parent.resolve() / path.name


@cache
def _install_hook() -> None:
    def tell(event: str, values: tuple[Any, ...]) -> None:
        for watch in _watches:
            watch.see(event, values)

    sys.addaudithook(tell)  # for as long as the process lives


@contextmanager
def _watched(folder: Path, **allowed: Any) -> Iterator[None]:
    """Fail if the block uses the network, runs a program or writes outside of a folder.

    `network` and `programs` allow these, and `peer` only connections to one address.
    """
    _install_hook()
    watch = _Watch(folder, **{"network": False, "programs": False, **allowed})
    before = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    _watches.append(watch)
    try:
        yield
    finally:
        _watches.remove(watch)
        sys.dont_write_bytecode = before
        assert not watch.seen, watch.seen[0]


# a proxy


class _Refusing(BaseHTTPRequestHandler):
    """Wants credentials, and then denies every host."""

    def _refuse(self) -> None:
        said = self.headers.get("Proxy-Authorization", "")
        self.server.asked.append(said)  # type: ignore[attr-defined]
        self.send_response(403 if said else 407)
        self.send_header("Proxy-Authenticate", 'Basic realm="proxy"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_CONNECT = do_GET = do_HEAD = do_POST = _refuse  # noqa: N815 - as the base class calls them

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def _refusing_proxy() -> Iterator[tuple[Proxy, list[str]]]:
    """Provide a proxy that denies every host, and the credentials of each request to it."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        asked: list[str] = []
        server.asked = asked  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield Proxy(host="127.0.0.1", port=server.server_port, username="robot", password=CANARY), asked
        finally:
            server.shutdown()


# values


def variants(value: Any) -> Iterator[Any]:
    """Yield JSON that differs from a value in one place, which has a value of every kind there instead."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from ({**value, key: other} for other in (*NONSENSE, *variants(each)))
        yield dict(list(value.items())[1:])
        yield {**value, "somethingElse": CANARY}
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from ([*value[:index], other, *value[index + 1 :]] for other in (*NONSENSE, *variants(each)))


def _canonical(value: Any) -> str:
    """Return the text of a value of a contract, equal for equal values."""
    return json.dumps(asdict(value), sort_keys=True, default=lambda each: each.decode("latin-1"))


def _check_json(value: Any, place: str) -> None:
    """Fail for what is no plain JSON: other types, subclasses of these, and numbers that JSON does not have."""
    assert type(value) in {dict, list, str, int, float, bool, type(None)}, f"{place} is a {type(value).__name__}"
    if isinstance(value, dict):
        for key, each in value.items():
            assert type(key) is str, f"{place} has the key {key!r}"
            _check_json(each, f"{place}.{key}")
    elif isinstance(value, list):
        for index, each in enumerate(value):
            _check_json(each, f"{place}[{index}]")
    elif isinstance(value, float):
        json.dumps(value, allow_nan=False)


def _check_message(message: str, *folders: Path) -> None:
    """Fail for a message that cannot be a condition: it must be the same for the same failure, anywhere."""
    assert message, "a message says what is wrong"
    assert message.splitlines() == [message], f"more than one line: {message!r}"
    assert message.isprintable(), f"control characters: {message!r}"
    assert not _ADDRESS.search(message), f"an address in memory: {message}"
    for folder in folders:
        assert str(folder) not in message, f"a path that differs each time: {message}"


def _check_rendering(made: Any) -> None:
    assert isinstance(made, Rendering), f"a Rendering, not a {type(made).__name__}"
    for index, item in enumerate(made.objects):
        _check_object(item, f"objects[{index}]")
    for index, hook in enumerate(made.hooks):
        assert isinstance(hook, Hook)
        _check_object(hook.manifest, f"hooks[{index}]")


def _check_object(item: Any, place: str) -> None:
    _check_json(item, place)
    for name in ("apiVersion", "kind"):
        assert item.get(name), f"{place} has no {name}"
        assert isinstance(item[name], str), f"{place}.{name} is no text"


def _write(folder: Path, files: Files, *, backwards: bool = False) -> Path:
    """Write content to a new folder; the order in which files are made is that of the folder on some systems."""
    folder.mkdir(parents=True)
    for path in sorted(files, reverse=backwards):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(files[path])
    return folder


def _read(folder: Path) -> dict[str, tuple[int, bytes]]:
    found = {}
    for path in sorted(folder.rglob("*")):
        data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path.relative_to(folder))] = (path.lstat().st_mode, data)
    return found


@contextmanager
def _listed(*, backwards: bool) -> Iterator[None]:
    """List folders in the order of names, or in the opposite one."""
    listdir, scandir = os.listdir, os.scandir

    class _Listing:
        def __init__(self, path: Any) -> None:
            with scandir(path) as entries:
                self._entries = iter(sorted(entries, key=lambda entry: entry.name, reverse=backwards))

        def __iter__(self) -> Iterator[Any]:
            return self._entries

        def __next__(self) -> Any:
            return next(self._entries)

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            self.close()

        def close(self) -> None:
            self._entries = iter(())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "listdir", lambda path=".": sorted(listdir(path), reverse=backwards))
        patch.setattr(os, "scandir", lambda path=".": _Listing(path))
        yield


def answer(folder: Path) -> None:
    """Call a plug-in as a file says, and write what it returns: the other process of `_in_another_process`."""
    plugin, method, arguments, request = pickle.loads((folder / "call").read_bytes())
    if request is not None:
        (folder / "scratch").mkdir()
        kind, given, means = request
        arguments = [*arguments, kind(**given, means=Means(scratch=folder / "scratch", **means))]
    made = getattr(plugin(), method)(*arguments)
    text = _canonical(made) if isinstance(made, Rendering) else json.dumps(made, sort_keys=True)
    (folder / "answer").write_text(text, encoding="utf-8")


def _in_another_process(folder: Path, plugin: type[Any], method: str, *arguments: Any, request: Any = None) -> str:
    """Return what a method returns where hashes, time zone, language and working folder are others."""
    folder.mkdir(parents=True)
    packed = None
    if request is not None:
        given = {each.name: getattr(request, each.name) for each in fields(request)}
        means = given.pop("means")
        given.pop("charge", None)
        kept = {each: getattr(means, each) for each in ("limits", "programs", "confinement_required", "seconds")}
        packed = (type(request), given, kept)
    (folder / "call").write_bytes(pickle.dumps((plugin, method, arguments, packed)))
    code = "import sys, pathlib; from rukpak.conformance.contracts import answer; answer(pathlib.Path(sys.argv[1]))"
    others = {"PYTHONHASHSEED": "4242", "TZ": "Asia/Kathmandu", "LANG": "C", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], cwd="/", env=os.environ | others, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return (folder / "answer").read_text(encoding="utf-8")


def _outcome(call: Callable[..., Any], *arguments: Any) -> tuple[BundleError | None, Any]:
    """Return the failure of a call, or else what it returns."""
    try:
        return None, call(*arguments)
    except BundleError as error:
        return error, None


def _told(call: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a call returns, or the message with which it fails."""
    failure, made = _outcome(call, *arguments)
    return failure.message if failure else made


# what all kinds promise


class _Contract:
    """What all plug-ins promise."""

    plugin: ClassVar[type[Any]]
    """The class that the entry point names."""
    programs: ClassVar[Mapping[str, str]] = {}
    """Paths of programs that it runs, by name; others are searched for."""

    _methods: ClassVar[tuple[str, ...]]
    _protocol: ClassVar[type[Any]]

    def make(self) -> Any:
        """Return a new plug-in."""
        if not hasattr(self, "plugin"):
            pytest.fail(f"{type(self).__name__}: set `plugin` to the class of the plug-in")
        return self.plugin()

    def means(self, folder: Path, **given: Any) -> Means:
        """Return means with a new scratch folder below a folder."""
        scratch = folder / f"scratch-{len(list(folder.iterdir())) if folder.exists() else 0}"
        scratch.mkdir(parents=True)
        # The content is the author's own, and a kernel that confines is not needed to test with it.
        return Means(**{"scratch": scratch, "programs": self.programs, "confinement_required": False, **given})

    def test_it_is_a_class_without_arguments(self) -> None:
        assert isinstance(self.make(), self.plugin)
        assert self.plugin.__module__ != "__main__"

    def test_it_has_the_methods_of_its_contract(self) -> None:
        plugin = self.make()
        for name in self._methods:
            expected = [each for each in inspect.signature(getattr(self._protocol, name)).parameters if each != "self"]
            method = getattr(plugin, name, None)
            assert callable(method), f"{name} is missing"
            inspect.signature(method).bind(*expected)

    def test_a_program_is_found_or_said_to_be_missing(self, tmp_path: Path) -> None:
        plugin = self.make()
        if not isinstance(plugin, RunsProgram):
            pytest.skip("it is no RunsProgram")
        means = self.means(tmp_path)
        assert plugin.program_bytes(means) > 0
        failure, found = _outcome(plugin.find_program, means)
        if failure:
            assert failure.reason is Reason.NOT_SUPPORTED
            _check_message(failure.message, tmp_path)
        else:
            assert found.path.is_file()
            assert found.digest.startswith("sha256:")
            assert plugin.find_program(means) == found


class _Validated(_Contract):
    """What is promised about parameters, which the three kinds get in different ways."""

    schema_checked: ClassVar[bool] = False
    """Whether the API server checks the parameters by a schema first, as it does those of built-in kinds."""
    _path: ClassVar[str]

    def _good(self) -> Sequence[Parameters]:
        raise NotImplementedError

    def _bad(self) -> Sequence[tuple[Parameters, str]]:
        """Return parameters that are not, each with the field path of the problem."""
        raise NotImplementedError

    def _problems(self, plugin: Any, parameters: Parameters) -> list[str]:
        found = plugin.validate(parameters, self._path)
        assert isinstance(found, list)
        return found

    def _some_bad(self) -> Sequence[tuple[Parameters, str]]:
        if not self._bad():
            pytest.skip(f"give {self._name_of_bad}: parameters that are not valid, with the field path of the problem")
        return self._bad()

    _name_of_bad: ClassVar[str]

    def test_good_parameters_have_no_problems(self) -> None:
        plugin = self.make()
        for parameters in self._good():
            assert self._problems(plugin, parameters) == [], parameters

    def test_a_problem_names_its_field(self) -> None:
        plugin = self.make()
        for parameters, path in self._some_bad():
            assert any(each.startswith(path) for each in self._problems(plugin, parameters)), (parameters, path)

    def test_all_problems_start_below_the_path_of_the_parameters(self) -> None:
        plugin = self.make()
        for parameters, _ in self._some_bad():
            for problem in self._problems(plugin, parameters):
                _check_message(problem)
                assert re.match(rf"{re.escape(self._path)}(?=[.:\[])", problem), problem

    def test_no_kind_of_json_in_any_place_is_an_exception(self) -> None:
        plugin = self.make()
        if self.schema_checked:
            pytest.skip("its parameters are checked by a schema first")
        for good in self._good() or [{}]:
            for parameters in ({}, *variants(good)):
                try:
                    problems = self._problems(plugin, parameters)
                except Exception as error:
                    error.add_note(f"validate({parameters!r})")
                    raise
                for problem in problems:
                    _check_message(problem)
                    assert re.match(rf"{re.escape(self._path)}(?=[.:\[])", problem), problem

    def test_problems_are_the_same_each_time(self) -> None:
        plugin = self.make()
        for parameters, _ in self._some_bad():
            first = self._problems(plugin, parameters)
            assert self._problems(plugin, parameters) == first == self._problems(self.make(), parameters)

    def test_problems_are_the_same_in_another_process(self, tmp_path: Path) -> None:
        parameters, _ = self._some_bad()[0]
        told = _in_another_process(tmp_path / "other", self.plugin, "validate", *self._validated(parameters))
        assert json.loads(told) == self._problems(self.make(), parameters)

    def _validated(self, parameters: Parameters) -> tuple[Any, ...]:
        return parameters, self._path

    def test_the_list_of_problems_belongs_to_the_caller(self) -> None:
        plugin, parameters = self.make(), self._good()[0]
        self._problems(plugin, parameters).append("of another call")
        assert self._problems(plugin, parameters) == []

    def test_validating_changes_no_parameters(self) -> None:
        plugin = self.make()
        for parameters in [*self._good(), *(each for each, _ in self._bad())]:
            given = copy.deepcopy(parameters)
            self._problems(plugin, given)
            assert given == parameters

    def test_validating_is_quick_and_only_looks_at_the_parameters(self, tmp_path: Path) -> None:
        plugin = self.make()
        with _watched(tmp_path):
            begun = time.monotonic()
            for parameters in self._good():
                self._problems(plugin, parameters)
            assert time.monotonic() - begun < QUICK_SECONDS * len(self._good())


class _Rendered(_Validated):
    """What formats and processors promise, since both are pure."""

    def _requests(self, folder: Path) -> Sequence[Any]:
        raise NotImplementedError

    def _bad_requests(self, folder: Path) -> Sequence[tuple[Any, Reason]]:
        raise NotImplementedError

    _call: ClassVar[str]

    def _run(self, plugin: Any, request: Any) -> Rendering:
        try:
            made: Rendering = getattr(plugin, self._call)(request)
        finally:  # a folder is there for one call
            shutil.rmtree(_scratch(request))
            _scratch(request).mkdir()
        return made

    def _again(self, request: Any, folder: Path) -> Any:
        """Return an equal request, as the next pass makes it."""
        given = {each.name: getattr(request, each.name) for each in fields(request) if each.name not in _NOT_COPIED}
        return replace(request, **copy.deepcopy(given), means=self.means(folder))

    def _failures(self, folder: Path) -> Iterator[tuple[BundleError, Reason, Any]]:
        found = self._bad_requests(folder)
        if not found:
            pytest.skip(f"give {self._name_of_failing}, with the reason")
        for request, reason in found:
            with pytest.raises(BundleError) as caught:
                self._run(self.make(), request)
            yield caught.value, reason, request

    _name_of_failing: ClassVar[str]

    def test_a_good_example_gives_objects_of_plain_json(self, tmp_path: Path) -> None:
        plugin, requests = self.make(), self._requests(tmp_path)
        assert requests, f"{type(self).__name__}: give an example that succeeds"
        for request in requests:
            _check_rendering(self._run(plugin, request))

    def test_equal_requests_give_equal_renderings(self, tmp_path: Path) -> None:
        plugin = self.make()
        for request in self._requests(tmp_path):
            first = _canonical(self._run(plugin, self._again(request, tmp_path)))
            assert _canonical(self._run(plugin, self._again(request, tmp_path))) == first
            assert _canonical(self._run(self.make(), self._again(request, tmp_path))) == first

    def test_another_process_gives_an_equal_rendering(self, tmp_path: Path) -> None:
        for index, request in enumerate(self._requests(tmp_path)):
            told = _in_another_process(tmp_path / f"other-{index}", self.plugin, self._call, request=request)
            assert told == _canonical(self._run(self.make(), request))

    def test_eight_threads_give_equal_renderings(self, tmp_path: Path) -> None:
        plugin, request = self.make(), self._requests(tmp_path)[0]
        requests = [self._again(request, tmp_path) for _ in range(THREADS)]
        with ThreadPoolExecutor(THREADS) as pool:
            made = {_canonical(each) for each in pool.map(lambda each: self._run(plugin, each), requests)}
        assert len(made) == 1

    def test_a_rendering_belongs_to_the_caller(self, tmp_path: Path) -> None:
        plugin = self.make()
        for request in self._requests(tmp_path):
            first = self._run(plugin, self._again(request, tmp_path))
            expected = _canonical(first)
            for item in [*first.objects, *(hook.manifest for hook in first.hooks)]:
                _spoil(item)
            assert _canonical(self._run(plugin, self._again(request, tmp_path))) == expected

    def test_the_request_is_not_changed(self, tmp_path: Path) -> None:
        plugin = self.make()
        for request in self._requests(tmp_path):
            before = self._again(request, tmp_path)
            self._run(plugin, request)
            for each in fields(request):
                if each.name not in _NOT_COPIED:
                    assert getattr(request, each.name) == getattr(before, each.name), f"it has changed {each.name}"

    def test_it_uses_no_network_and_writes_only_to_scratch(self, tmp_path: Path) -> None:
        plugin = self.make()
        for request in self._requests(tmp_path):
            with _watched(_scratch(request), programs=isinstance(plugin, RunsProgram)):
                self._run(plugin, request)

    def test_it_changes_no_variables_and_no_working_folder(self, tmp_path: Path) -> None:
        plugin = self.make()
        for request in self._requests(tmp_path):
            before = dict(os.environ), Path.cwd()
            self._run(plugin, request)
            assert (dict(os.environ), Path.cwd()) == before

    def test_it_leaves_no_thread_behind(self, tmp_path: Path) -> None:
        plugin, request = self.make(), self._requests(tmp_path)[0]
        before = set(threading.enumerate())
        self._run(plugin, request)
        assert [each.name for each in threading.enumerate() if each not in before] == []

    def test_warnings_are_lines(self, tmp_path: Path) -> None:
        for request in self._requests(tmp_path):
            for warning in self._run(self.make(), request).warnings:
                _check_message(warning, tmp_path)

    def test_hooks_have_known_events_and_policies(self, tmp_path: Path) -> None:
        for request in self._requests(tmp_path):
            for hook in self._run(self.make(), request).hooks:
                assert hook.events, "a hook without an event never runs"
                assert set(hook.events) <= HOOK_EVENTS
                assert set(hook.delete_policies) <= HOOK_DELETE_POLICIES
                assert type(hook.weight) is int

    def test_secrets_and_marks_of_the_namespace_are_texts(self, tmp_path: Path) -> None:
        for request in self._requests(tmp_path):
            made = self._run(self.make(), request)
            assert all(type(each) is str and each for each in made.secrets)
            assert set(made.namespace) <= {"labels", "annotations"}
            assert all(type(text) is str for marks in made.namespace.values() for text in marks.values())

    def test_what_is_no_longer_needed_ends_soon(self, tmp_path: Path) -> None:
        plugin = self.make()
        for request in self._requests(tmp_path):
            request.means.cancelled.set()
            begun = time.monotonic()
            with suppress(Exception):  # any is allowed
                self._run(plugin, request)
            assert time.monotonic() - begun < SOON_SECONDS

    def test_a_program_without_time_is_a_failure(self, tmp_path: Path) -> None:
        plugin = self.make()
        if not isinstance(plugin, RunsProgram):
            pytest.skip("it is no RunsProgram")
        request = replace(self._requests(tmp_path)[0], means=self.means(tmp_path, seconds=0.0001))
        begun = time.monotonic()
        with pytest.raises(BundleError) as caught:
            self._run(plugin, request)
        assert time.monotonic() - begun < SOON_SECONDS
        _check_message(caught.value.message, tmp_path)

    def test_a_bad_example_has_its_reason(self, tmp_path: Path) -> None:
        for error, reason, _ in self._failures(tmp_path):
            assert error.reason is reason, error

    def test_a_failure_is_one_line_without_anything_of_this_run(self, tmp_path: Path) -> None:
        for error, _, _ in self._failures(tmp_path):
            _check_message(error.message, tmp_path)

    def test_the_same_failure_has_the_same_message(self, tmp_path: Path) -> None:
        first = [error.message for error, _, _ in self._failures(tmp_path / "first")]
        assert [error.message for error, _, _ in self._failures(tmp_path / "second-one")] == first

    def test_a_failure_writes_only_to_scratch(self, tmp_path: Path) -> None:
        plugin = self.make()
        for request, _ in self._bad_requests(tmp_path) or pytest.skip(f"give {self._name_of_failing}"):
            with _watched(_scratch(request), programs=isinstance(plugin, RunsProgram)), suppress(BundleError):
                self._run(plugin, request)


_NOT_COPIED = {"means", "charge"}


def _scratch(request: Any) -> Path:
    folder: Path = request.means.scratch
    return folder


def _spoil(value: Any) -> None:
    """Change everything in a value, as somebody might who has been given it."""
    if isinstance(value, dict):
        for each in value.values():
            _spoil(each)
        value["spoiled"] = True
    elif isinstance(value, list):
        for each in value:
            _spoil(each)
        value.append("spoiled")


class FormatContract(_Rendered):
    """What a format promises."""

    content: ClassVar[Sequence[Files]] = ()
    """Content that can be rendered with the first of `good_config`. At least one."""
    good_config: ClassVar[Sequence[Parameters]] = ({},)
    """`spec.config` that is valid."""
    bad_config: ClassVar[Sequence[tuple[Parameters, str]]] = ()
    """`spec.config` that is not, with the start of the problem: `spec.config.replicas`."""
    bad_content: ClassVar[Sequence[tuple[Files, Reason]]] = ()
    """Content that cannot be rendered, with the reason."""
    capabilities: ClassVar[Capabilities] = CAPABILITIES

    _protocol = Format
    _methods = ("validate", "suggest_namespace", "render")
    _path = "spec.config"
    _call = "render"
    _name_of_bad = "bad_config"
    _name_of_failing = "bad_content: content that cannot be rendered"

    def request(self, folder: Path, files: Files, config: Parameters | None = None, **means: Any) -> RenderRequest:
        """Return a request for content in a folder of its own."""
        used = len(list(folder.iterdir())) if folder.exists() else 0
        root = _write(folder / f"tree-{used}", files)
        return RenderRequest(
            name="example",
            install_namespace="example-system",
            tree=ContentTree(root=root, destinations=("",)),
            config=copy.deepcopy(self.good_config[0] if config is None else config),
            capabilities=self.capabilities,
            means=self.means(folder, **means),
        )

    def _problems(self, plugin: Any, parameters: Parameters) -> list[str]:
        found = plugin.validate(parameters)
        assert isinstance(found, list)
        return found

    def _validated(self, parameters: Parameters) -> tuple[Any, ...]:
        return (parameters,)

    def _good(self) -> Sequence[Parameters]:
        return self.good_config

    def _bad(self) -> Sequence[tuple[Parameters, str]]:
        return self.bad_config

    def _requests(self, folder: Path) -> Sequence[RenderRequest]:
        assert self.content, f"{type(self).__name__}: give `content`: content that can be rendered"
        return [self.request(folder, files) for files in self.content]

    def _bad_requests(self, folder: Path) -> Sequence[tuple[RenderRequest, Reason]]:
        return [(self.request(folder, files), reason) for files, reason in self.bad_content]

    def test_the_order_of_files_on_the_disk_changes_nothing(self, tmp_path: Path) -> None:
        plugin = self.make()
        for index, files in enumerate(self.content):
            request = self.request(tmp_path, files)
            with _listed(backwards=False):
                expected = _canonical(self._run(plugin, request))
            root = _write(tmp_path / f"opposite-{index}", files, backwards=True)
            with _listed(backwards=True):
                made = self._run(plugin, replace(request, tree=replace(request.tree, root=root)))
            assert _canonical(made) == expected

    def test_the_place_of_the_content_changes_nothing(self, tmp_path: Path) -> None:
        plugin = self.make()
        for index, files in enumerate(self.content):
            request = self.request(tmp_path, files)
            root = _write(tmp_path / "a folder" / f"{'with a long name' * 8}-{index}", files)
            made = self._run(plugin, replace(request, tree=replace(request.tree, root=root)))
            assert _canonical(made) == _canonical(self._run(plugin, request))

    def test_the_content_is_not_changed(self, tmp_path: Path) -> None:
        plugin = self.make()
        for request in self._requests(tmp_path):
            before = _read(request.tree.root)
            self._run(plugin, request)
            assert _read(request.tree.root) == before

    def test_too_much_text_is_a_failure_that_says_so(self, tmp_path: Path) -> None:
        plugin = self.make()
        for files in self.content:
            with pytest.raises(BundleError) as caught:
                self._run(plugin, self.request(tmp_path, files, limits=TINY))
            assert caught.value.reason in _LIMITED, caught.value
            _check_message(caught.value.message, tmp_path)

    def test_content_without_files_is_no_exception(self, tmp_path: Path) -> None:
        try:
            made = self._run(self.make(), self.request(tmp_path, {}))
        except BundleError as error:
            _check_message(error.message, tmp_path)
        else:
            _check_rendering(made)

    @pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00", b"{" * 2000, b"a: b: c", b"[]", b"null\n", b"\x00"])
    def test_no_bytes_in_a_file_are_an_exception(self, tmp_path: Path, data: bytes) -> None:
        plugin = self.make()
        for files in self.content:
            for path in files:
                try:
                    _check_rendering(self._run(plugin, self.request(tmp_path, {**files, path: data})))
                except BundleError as error:
                    _check_message(error.message, tmp_path)

    def test_content_that_must_not_be_read_is_not_done_without(self, tmp_path: Path) -> None:
        plugin = self.make()
        if not isinstance(plugin, ReadsPart):
            pytest.skip("it is no ReadsPart: it never gets a tree of which anything is refused")
        for files in self.content:
            request = self.request(tmp_path, {})
            refused = {path: Refusal(problem=f"spec.sources[0]: {path} is refused") for path in files}
            with pytest.raises(BundleError):
                self._run(plugin, replace(request, tree=replace(request.tree, refused=refused)))

    def test_the_suggested_namespace_is_a_valid_name(self, tmp_path: Path) -> None:
        plugin = self.make()
        for request in self._requests(tmp_path):
            try:
                found = plugin.suggest_namespace(request.tree, request.config)
            except BundleError as error:
                _check_message(error.message, tmp_path)
            else:
                assert found == "" or _LABEL.fullmatch(found), found

    def test_the_suggested_namespace_is_the_same_each_time(self, tmp_path: Path) -> None:
        plugin = self.make()
        for request in self._requests(tmp_path):
            assert _told(plugin.suggest_namespace, request.tree, request.config) == _told(
                self.make().suggest_namespace, request.tree, request.config
            )

    def test_suggesting_a_namespace_is_quick_and_writes_nothing(self, tmp_path: Path) -> None:
        plugin = self.make()
        for request in self._requests(tmp_path):
            with _watched(_scratch(request)):
                begun = time.monotonic()
                _told(plugin.suggest_namespace, request.tree, request.config)
                assert time.monotonic() - begun < QUICK_SECONDS

    def test_values_from_the_cluster_are_placed_without_a_change_to_either(self) -> None:
        plugin = self.make()
        if not isinstance(plugin, PlacesConfig):
            pytest.skip("it is no PlacesConfig")
        values, config = {"somethingElse": "blue"}, copy.deepcopy(self.good_config[0])
        placed = _told(plugin.place_config, values, config)
        assert (values, config) == ({"somethingElse": "blue"}, self.good_config[0])
        _check_json(placed, "the placed config")

    def test_values_from_the_cluster_are_not_shown(self) -> None:
        plugin = self.make()
        if not isinstance(plugin, PlacesConfig):
            pytest.skip("it is no PlacesConfig")
        for values in variants({"a": CANARY, CANARY: [CANARY]}):
            told = _told(plugin.place_config, values, self.good_config[0])
            assert not isinstance(told, str) or CANARY not in told


@dataclass(frozen=True, slots=True, kw_only=True)
class Processing:
    """An example for a processor: what it gets."""

    parameters: Parameters
    objects: Sequence[dict[str, Any]] = OBJECTS
    hooks: Sequence[Hook] = ()
    secrets: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict, repr=False)
    """What `find_secrets` names, by name and key."""
    files: Files = field(default_factory=dict)
    """The content, for what is a PreparesContent."""


class ProcessorContract(_Rendered):
    """What a processor promises."""

    good: ClassVar[Sequence[Processing]] = ()
    """What it changes. At least one."""
    bad_parameters: ClassVar[Sequence[tuple[Parameters, str]]] = ()
    """Parameters that are not valid, with the start of the problem: `spec.processors[0].parameters.color`."""
    bad: ClassVar[Sequence[tuple[Processing, Reason]]] = ()
    """What it cannot do, with the reason. If it is a PreparesContent, `prepare` may fail with it as well."""
    capabilities: ClassVar[Capabilities] = CAPABILITIES

    _protocol = Processor
    _methods = ("validate", "process")
    _path = "spec.processors[0].parameters"
    _call = "process"
    _name_of_bad = "bad_parameters"
    _name_of_failing = "bad: what it cannot do"

    def request(self, folder: Path, example: Processing) -> ProcessRequest:
        """Return a request for an example."""
        return ProcessRequest(
            name="example",
            install_namespace="example-system",
            parameters=copy.deepcopy(example.parameters),
            path=self._path,
            rendering=Rendering(
                objects=copy.deepcopy(list(example.objects)),
                hooks=copy.deepcopy(list(example.hooks)),
                warnings=("a warning of the format",),
                secrets=("a secret of the format",),
                namespace={"labels": {"of": "the-format"}},
            ),
            capabilities=self.capabilities,
            secrets=copy.deepcopy(example.secrets),
            means=self.means(folder),
        )

    def prepare_request(self, folder: Path, example: Processing) -> PrepareRequest:
        """Return a request to prepare the content of an example."""
        used = len(list(folder.iterdir())) if folder.exists() else 0
        root = _write(folder / f"tree-{used}", example.files)
        return PrepareRequest(
            name="example",
            parameters=copy.deepcopy(example.parameters),
            path=self._path,
            tree=ContentTree(root=root, destinations=("",)),
            secrets=copy.deepcopy(example.secrets),
            means=self.means(folder),
        )

    def _good(self) -> Sequence[Parameters]:
        assert self.good, f"{type(self).__name__}: give `good`: what it changes"
        return [example.parameters for example in self.good]

    def _bad(self) -> Sequence[tuple[Parameters, str]]:
        return self.bad_parameters

    def _requests(self, folder: Path) -> Sequence[ProcessRequest]:
        assert self.good, f"{type(self).__name__}: give `good`: what it changes"
        return [self.request(folder, example) for example in self.good]

    def _bad_requests(self, folder: Path) -> Sequence[tuple[ProcessRequest, Reason]]:
        plugin = self.make()
        is_ours = [not self._fails_to_prepare(plugin, folder, example) for example, _ in self.bad]
        kept = [each for each, ours in zip(self.bad, is_ours, strict=True) if ours]
        return [(self.request(folder, example), reason) for example, reason in kept]

    def _fails_to_prepare(self, plugin: Any, folder: Path, example: Processing) -> bool:
        if not isinstance(plugin, PreparesContent):
            return False
        return isinstance(_told(plugin.prepare, self.prepare_request(folder, example)), str)

    def test_what_the_format_has_said_is_kept(self, tmp_path: Path) -> None:
        plugin = self.make()
        for request in self._requests(tmp_path):
            made = self._run(plugin, request)
            assert set(request.rendering.warnings) <= set(made.warnings), "it drops warnings"
            assert set(request.rendering.secrets) <= set(made.secrets), "it drops what must not be shown"
            assert request.rendering.namespace["labels"].items() <= made.namespace["labels"].items()

    def test_nothing_to_change_is_no_exception(self, tmp_path: Path) -> None:
        for example in self.good:
            told = _told(self._run, self.make(), self.request(tmp_path, replace(example, objects=(), hooks=())))
            if isinstance(told, str):
                _check_message(told, tmp_path)
            else:
                _check_rendering(told)

    def test_no_kind_of_json_in_an_object_is_an_exception(self, tmp_path: Path) -> None:
        plugin, example = self.make(), replace(self.good[0], hooks=())
        for item in example.objects:
            for spec in [*NONSENSE, *variants(item.get("spec", {}))][:200]:
                odd = [{**copy.deepcopy(item), "spec": copy.deepcopy(spec)}]
                self._meet(plugin, tmp_path, replace(example, objects=odd))
            for metadata in variants(item["metadata"]):
                odd = [{**copy.deepcopy(item), "metadata": {**metadata, "name": item["metadata"]["name"]}}]
                self._meet(plugin, tmp_path, replace(example, objects=odd))

    def _meet(self, plugin: Any, folder: Path, example: Processing) -> None:
        try:
            self._run(plugin, self.request(folder, example))
        except BundleError as error:
            _check_message(error.message, folder)
        except Exception as error:
            error.add_note(f"objects: {example.objects!r}"[:2000])
            raise

    def test_what_is_charged_too_much_fails(self, tmp_path: Path) -> None:
        plugin, charged = self.make(), []

        def charge(text_bytes: int, steps: int) -> None:
            charged.append((text_bytes, steps))
            raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, "too much")

        request = replace(self._requests(tmp_path)[0], charge=charge)
        told = _told(self._run, plugin, request)
        if not charged:
            pytest.skip("it charges nothing: right for what only adds a little to each object")
        assert told == "too much", "it goes on although the limit is exceeded"

    # Secrets

    def test_secrets_that_are_needed_have_valid_names(self) -> None:
        plugin = self._reader_of_secrets()
        for example in self.good:
            found = plugin.find_secrets(example.parameters)
            assert all(isinstance(name, str) and _SUBDOMAIN.fullmatch(name) for name in found), found
            assert set(found) <= set(example.secrets), "give the example the Secrets that it needs"

    def test_finding_secrets_is_quick_and_the_same_each_time(self, tmp_path: Path) -> None:
        plugin = self._reader_of_secrets()
        for example in self.good:
            with _watched(tmp_path):
                begun = time.monotonic()
                found = list(plugin.find_secrets(example.parameters))
                assert time.monotonic() - begun < QUICK_SECONDS
            assert list(self.make().find_secrets(copy.deepcopy(example.parameters))) == found

    def test_secrets_are_not_shown_when_they_are_wrong(self, tmp_path: Path) -> None:
        plugin = self._reader_of_secrets()
        for example in self.good:
            for value in (CANARY.encode(), b"\xff" + CANARY.encode(), b""):
                secrets = {name: dict.fromkeys(data, value) for name, data in example.secrets.items()}
                for told in self._all_told(plugin, tmp_path, replace(example, secrets=secrets)):
                    _check_message(told, tmp_path)
                    assert CANARY not in told, told

    def test_a_secret_without_its_keys_is_no_exception(self, tmp_path: Path) -> None:
        plugin = self._reader_of_secrets()
        for example in self.good:
            secrets: dict[str, dict[str, bytes]] = {name: {} for name in example.secrets}
            for told in self._all_told(plugin, tmp_path, replace(example, secrets=secrets)):
                _check_message(told, tmp_path)

    def _all_told(self, plugin: Any, folder: Path, example: Processing) -> Iterator[str]:
        told: list[Any] = [_told(self._run, plugin, self.request(folder, example))]
        if isinstance(plugin, PreparesContent):
            told.append(_told(plugin.prepare, self.prepare_request(folder, example)))
        yield from (each for each in told if isinstance(each, str))

    def _reader_of_secrets(self) -> Any:
        plugin = self.make()
        if not isinstance(plugin, ReadsSecrets):
            pytest.skip("it is no ReadsSecrets")
        return plugin

    # content

    def test_only_files_that_exist_are_replaced(self, tmp_path: Path) -> None:
        for plugin, request in self._preparations(tmp_path):
            prepared = plugin.prepare(request)
            existing = {path for path, (_, _) in _read(request.tree.root).items()}
            assert set(prepared.files) <= existing
            assert all(isinstance(data, bytes) for data in prepared.files.values())
            assert all(type(each) is str and each for each in prepared.secrets)

    def test_content_is_prepared_the_same_each_time(self, tmp_path: Path) -> None:
        for plugin, request in self._preparations(tmp_path):
            first = _canonical(plugin.prepare(request))
            assert _canonical(self.make().prepare(replace(request, means=self.means(tmp_path)))) == first
            with _listed(backwards=True):
                assert _canonical(plugin.prepare(replace(request, means=self.means(tmp_path)))) == first

    def test_stored_content_is_not_changed(self, tmp_path: Path) -> None:
        for plugin, request in self._preparations(tmp_path):
            before = _read(request.tree.root)
            with _watched(_scratch(request), programs=isinstance(plugin, RunsProgram)):
                plugin.prepare(request)
            assert _read(request.tree.root) == before

    def _preparations(self, folder: Path) -> Iterator[tuple[Any, PrepareRequest]]:
        plugin = self.make()
        if not isinstance(plugin, PreparesContent):
            pytest.skip("it is no PreparesContent")
        for example in self.good:
            yield plugin, self.prepare_request(folder, example)

    def test_a_failure_to_prepare_has_its_reason(self, tmp_path: Path) -> None:
        plugin = self.make()
        if not isinstance(plugin, PreparesContent):
            pytest.skip("it is no PreparesContent")
        for example, reason in self.bad or pytest.skip(f"give {self._name_of_failing}"):
            failure, _ = _outcome(plugin.prepare, self.prepare_request(tmp_path, example))
            if failure:
                assert failure.reason is reason
                _check_message(failure.message, tmp_path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """An example for a source: something real that has content, and can be changed while a test runs."""

    parameters: Parameters
    files: Files
    """What is there at first."""
    change: Callable[[], object] | None = None
    """Puts other content there, as its publisher does."""
    lie: Callable[[], object] | None = None
    """Replaces the content under the name (digest, commit, address) that was resolved, as an attacker does."""
    go_away: Callable[[], object] | None = None
    """Removes it, or stops the server."""
    hang: Callable[[], object] | None = None
    """Makes the server accept connections and say nothing."""
    credentials: Credentials | None = field(default=None, repr=False)
    """With which it can be read."""
    is_protected: bool = False
    """Whether it cannot be read without the credentials."""
    config_map: Callable[[str], LocalContent] | None = None
    """Reads a ConfigMap, for sources of the cluster."""
    is_remote: bool = True
    """Whether it is asked by way of the network."""
    public: Parameters | None = None
    """Parameters with the public name of a server over https or http, such as files.example.com, which need not exist:
    proxies are for such names only."""


class SourceContract(_Validated):
    """What a source promises. A subclass has a fixture `site` that yields a Site."""

    good_parameters: ClassVar[Sequence[Parameters]] = ()
    """Parameters that are valid. At least one."""
    bad_parameters: ClassVar[Sequence[tuple[Parameters, str]]] = ()
    """Parameters that are not, with the start of the problem: `spec.sources[0].parameters.url`."""
    same: ClassVar[Sequence[tuple[Parameters, Parameters]]] = ()
    """Spellings of the same content."""
    different: ClassVar[Sequence[tuple[Parameters, Parameters]]] = ()
    """Parameters that name different content."""

    _protocol = Source
    _methods = ("validate", "identity", "resolve", "content_key", "fetch")
    _path = "spec.sources[0].parameters"
    _name_of_bad = "bad_parameters"

    @pytest.fixture
    def site(self) -> Site:
        pytest.fail(f"{type(self).__name__}: give a fixture `site` that yields a Site")

    def access(self, folder: Path, site: Site, **given: Any) -> Access:
        """Return access with a new scratch folder below a folder."""
        scratch = folder / f"scratch-{len(list(folder.iterdir())) if folder.exists() else 0}"
        scratch.mkdir(parents=True)
        usual = {
            "path": self._path,
            "deadline": time.monotonic() + 60,
            "cancelled": threading.Event(),
            "scratch": scratch,
            "credentials": site.credentials,
            "confinement_required": False,
            **({"config_map": site.config_map} if site.config_map else {}),
        }
        return Access(**{**usual, **given})

    def _good(self) -> Sequence[Parameters]:
        assert self.good_parameters, f"{type(self).__name__}: give `good_parameters`"
        return self.good_parameters

    def _bad(self) -> Sequence[tuple[Parameters, str]]:
        return self.bad_parameters

    # names

    def test_the_identity_is_json_and_does_not_depend_on_the_order_of_fields(self) -> None:
        plugin = self.make()
        for parameters in self._good():
            found = dict(plugin.identity(parameters))
            assert dict(plugin.identity(dict(reversed(list(parameters.items()))))) == found
            json.dumps(found, allow_nan=False)

    def test_the_identity_is_the_same_in_another_process(self, tmp_path: Path) -> None:
        parameters = self._good()[0]
        told = _in_another_process(tmp_path / "other", self.plugin, "identity", parameters)
        assert json.loads(told) == json.loads(json.dumps(self.make().identity(parameters)))

    def test_names_are_quick_and_ask_nobody(self, tmp_path: Path) -> None:
        plugin = self.make()
        resolution = Resolution(pinned="example", digest=f"sha256:{'0' * 64}")
        for parameters in self._good():
            with _watched(tmp_path):
                begun = time.monotonic()
                plugin.identity(parameters)
                plugin.content_key(parameters, resolution)
                if hasattr(plugin, "origin"):
                    plugin.origin(parameters)
                assert time.monotonic() - begun < QUICK_SECONDS

    def test_names_change_no_parameters(self) -> None:
        plugin = self.make()
        for parameters in self._good():
            given = copy.deepcopy(parameters)
            plugin.identity(given)
            if hasattr(plugin, "origin"):
                plugin.origin(given)
            assert given == parameters

    def test_the_origin_is_a_text_and_the_same_each_time(self) -> None:
        plugin = self.make()
        if not hasattr(plugin, "origin"):
            pytest.skip("it has no method `origin`: only equal parameters share content")
        for parameters in self._good():
            assert isinstance(plugin.origin(parameters), str)
            assert plugin.origin(parameters) == self.make().origin(copy.deepcopy(parameters))

    def test_spellings_of_the_same_have_the_same_identity(self) -> None:
        plugin = self.make()
        for first, second in self.same or pytest.skip("give same: spellings of the same content"):
            assert plugin.identity(first) == plugin.identity(second)

    def test_what_is_different_has_different_identities(self) -> None:
        plugin = self.make()
        for first, second in self.different or pytest.skip("give different: parameters that name different content"):
            assert plugin.identity(first) != plugin.identity(second)

    # resolving

    def test_the_parameters_of_the_example_are_valid(self, site: Site) -> None:
        assert self._problems(self.make(), site.parameters) == []

    def test_it_is_pinned_to_a_digest(self, site: Site, tmp_path: Path) -> None:
        found = self._resolve(site, tmp_path)
        assert isinstance(found, Resolution)
        assert _DIGEST.fullmatch(found.digest), found.digest
        for text in (found.pinned, found.digest):
            _check_message(text, tmp_path)

    def test_unchanged_content_has_the_same_digest_and_key(self, site: Site, tmp_path: Path) -> None:
        first, second = self._resolve(site, tmp_path), self._resolve(site, tmp_path)
        assert first.digest == second.digest
        assert self._key(site, first) == self._key(site, second)

    def test_polling_tells_that_nothing_has_changed(self, site: Site, tmp_path: Path) -> None:
        first = self._resolve(site, tmp_path)
        assert self._resolve(site, tmp_path, previous=first).digest == first.digest

    def test_polling_tells_what_has_changed(self, site: Site, tmp_path: Path) -> None:
        first = self._resolve(site, tmp_path)
        _need(site.change, "change")()
        assert self._resolve(site, tmp_path, previous=first).digest != first.digest

    def test_other_content_has_another_digest_and_key(self, site: Site, tmp_path: Path) -> None:
        first = self._resolve(site, tmp_path)
        _need(site.change, "change")()
        second = self._resolve(site, tmp_path)
        assert second.digest != first.digest
        assert self._key(site, second) != self._key(site, first)

    def test_what_does_not_exist_is_a_failure_at_its_path(self, site: Site, tmp_path: Path) -> None:
        _need(site.go_away, "go_away")()
        told = _told(self._resolve, site, tmp_path)
        assert isinstance(told, str), "it was resolved although it does not exist"
        _check_message(told, tmp_path)
        assert told.startswith("spec.sources[0]"), told
        assert told == _told(self._resolve, site, tmp_path), "the same failure has the same message"

    def test_credentials_are_shown_nowhere(self, site: Site, tmp_path: Path) -> None:
        secrets = Credentials(username="somebody", password=CANARY, bearer_token="", identity=CANARY)
        told = _told(lambda: self._resolve(site, tmp_path, credentials=secrets))
        if isinstance(told, str):
            _check_message(told, tmp_path)
            assert CANARY not in told
        else:
            assert CANARY not in json.dumps(asdict(told))

    def test_wrong_credentials_are_a_failure(self, site: Site, tmp_path: Path) -> None:
        if not site.is_protected:
            pytest.skip("give a Site that is_protected, with its credentials")
        wrong = Credentials(username="somebody", password=CANARY)
        told = _told(lambda: self._resolve(site, tmp_path, credentials=wrong))
        assert isinstance(told, str), "it was resolved with wrong credentials"
        assert CANARY not in told

    def test_a_host_that_is_not_allowed_is_not_asked(self, site: Site, tmp_path: Path) -> None:
        if not site.is_remote:
            pytest.skip("the example is not remote")
        network = Network(allowed_hosts=("nowhere.example.com",))
        told = _told(lambda: self._resolve(site, tmp_path, network=network))
        assert isinstance(told, str), "it has asked a host that is not in Network.allowed_hosts"

    def test_an_address_that_is_not_allowed_is_not_asked(self, site: Site, tmp_path: Path) -> None:
        if not site.is_remote:
            pytest.skip("the example is not remote")
        network = Network(allow_loopback=False, denied_networks=("127.0.0.0/8", "::1/128"))
        told = _told(lambda: self._resolve(site, tmp_path, network=network))
        assert isinstance(told, str), "it has asked an address that Network denies"

    def test_a_proxy_is_asked_and_nobody_else(self, site: Site, tmp_path: Path) -> None:
        with _refusing_proxy() as (proxy, asked):
            access = self._behind(proxy, site, tmp_path)
            with _watched(access.scratch, network=True, programs=True, peer=(proxy.host, proxy.port)):
                told = _told(lambda: self.make().resolve(site.public, access))
        assert isinstance(told, str), "it was resolved although the proxy denies all hosts"
        assert proxy.authorization in asked, "it has not asked the proxy, or without its credentials"
        _check_message(told, tmp_path)
        assert CANARY not in told
        assert proxy.authority in told, f"the message does not name the proxy: {told}"

    def test_a_proxy_is_not_asked_for_a_host_that_is_not_allowed(self, site: Site, tmp_path: Path) -> None:
        with _refusing_proxy() as (proxy, asked):
            access = self._behind(proxy, site, tmp_path, allowed_hosts=("nowhere.example.com",))
            told = _told(lambda: self.make().resolve(site.public, access))
        assert isinstance(told, str), "it was resolved although its host is not in Network.allowed_hosts"
        assert asked == []

    def _behind(self, proxy: Proxy, site: Site, folder: Path, **given: Any) -> Access:
        if site.public is None:
            pytest.skip("give the Site `public`: parameters with a public name")
        network = Network(allow_loopback=False, proxies=Proxies(https=proxy, http=proxy), **given)
        return self.access(folder, site, network=network)

    # fetching

    def test_the_content_is_what_is_there(self, site: Site, tmp_path: Path) -> None:
        assert self._fetch(site, self._resolve(site, tmp_path), tmp_path) == site.files

    def test_it_is_the_same_each_time(self, site: Site, tmp_path: Path) -> None:
        resolution = self._resolve(site, tmp_path)
        first = self._fetch(site, resolution, tmp_path)
        assert self._fetch(site, resolution, tmp_path) == first
        assert self._fetch(site, resolution, tmp_path, plugin=self.make()) == first

    def test_what_was_resolved_before_a_change_is_fetched_or_nothing(self, site: Site, tmp_path: Path) -> None:
        resolution = self._resolve(site, tmp_path)
        _need(site.change, "change")()
        told = _told(lambda: self._fetch(site, resolution, tmp_path))
        assert isinstance(told, str) or told == site.files, "it fetches a floating reference"

    def test_content_that_lies_about_its_digest_is_refused(self, site: Site, tmp_path: Path) -> None:
        resolution = self._resolve(site, tmp_path)
        _need(site.lie, "lie")()
        told = _told(lambda: self._fetch(site, resolution, tmp_path))
        assert isinstance(told, str), "it has not verified the digest"
        _check_message(told, tmp_path)

    def test_content_that_is_gone_is_a_failure(self, site: Site, tmp_path: Path) -> None:
        resolution = self._resolve(site, tmp_path)
        _need(site.go_away, "go_away")()
        told = _told(lambda: self._fetch(site, resolution, tmp_path))
        assert isinstance(told, str), "it was fetched although it is gone"
        _check_message(told, tmp_path)

    def test_too_much_content_is_a_failure_and_no_exception(self, site: Site, tmp_path: Path) -> None:
        resolution = self._resolve(site, tmp_path)
        told = _told(lambda: self._fetch(site, resolution, tmp_path, limits=TINY))
        if isinstance(told, str):  # what is in memory already is counted by whoever writes it
            _check_message(told, tmp_path)

    def test_progress_that_is_too_much_fails(self, site: Site, tmp_path: Path) -> None:
        if not site.is_remote:
            pytest.skip("the example is not remote")

        def refuse(*_: int) -> None:
            raise BundleError(Reason.CONTENT_REJECTED, "too much")

        resolution = self._resolve(site, tmp_path)
        told = _told(lambda: self._fetch(site, resolution, tmp_path, progress=refuse, receive=refuse))
        assert told == "too much", "it calls neither progress nor receive, or goes on although they raise"

    def test_it_writes_only_to_scratch(self, site: Site, tmp_path: Path) -> None:
        plugin, access = self.make(), self.access(tmp_path, site)
        with _watched(access.scratch, network=True, programs=True):
            resolution = plugin.resolve(site.parameters, access)
            list(_read_entries(plugin.fetch(site.parameters, resolution, access)))

    def test_eight_threads_fetch_the_same(self, site: Site, tmp_path: Path) -> None:
        plugin = self.make()

        def run(index: int) -> tuple[str, dict[str, bytes]]:
            folder = tmp_path / str(index)
            found = plugin.resolve(site.parameters, self.access(folder, site))
            return found.digest, self._fetch(site, found, folder, plugin=plugin)

        with ThreadPoolExecutor(THREADS) as pool:
            made = list(pool.map(run, range(THREADS)))
        assert all(each == made[0] for each in made)

    def test_it_leaves_the_parameters_as_they_are(self, site: Site, tmp_path: Path) -> None:
        plugin, given = self.make(), copy.deepcopy(site.parameters)
        found = plugin.resolve(given, self.access(tmp_path, site))
        list(plugin.fetch(given, found, self.access(tmp_path, site)))
        assert given == site.parameters

    def test_what_is_no_longer_needed_ends_soon(self, site: Site, tmp_path: Path) -> None:
        cancelled = threading.Event()
        cancelled.set()
        begun = time.monotonic()
        with suppress(Exception):  # any is allowed
            resolution = self._resolve(site, tmp_path, cancelled=cancelled)
            self._fetch(site, resolution, tmp_path, cancelled=cancelled)
        assert time.monotonic() - begun < SOON_SECONDS

    def test_a_call_without_time_ends_soon(self, site: Site, tmp_path: Path) -> None:
        resolution = self._resolve(site, tmp_path)
        begun = time.monotonic()
        told = _told(lambda: self._fetch(site, resolution, tmp_path, deadline=begun))
        assert time.monotonic() - begun < SOON_SECONDS
        if isinstance(told, str):
            _check_message(told, tmp_path)

    def test_a_server_that_says_nothing_is_not_waited_for_beyond_the_deadline(self, site: Site, tmp_path: Path) -> None:
        _need(site.hang, "hang")()
        begun = time.monotonic()
        told = _told(lambda: self._resolve(site, tmp_path, deadline=begun + 1))
        assert time.monotonic() - begun < SOON_SECONDS
        assert isinstance(told, str)
        _check_message(told, tmp_path)

    def _resolve(self, site: Site, folder: Path, **given: Any) -> Resolution:
        found: Resolution = self.make().resolve(site.parameters, self.access(folder, site, **given))
        return found

    def _key(self, site: Site, resolution: Resolution) -> str:
        key = self.make().content_key(site.parameters, resolution)
        assert isinstance(key, str)
        return key

    def _fetch(
        self, site: Site, resolution: Resolution, folder: Path, plugin: Any = None, **given: Any
    ) -> dict[str, bytes]:
        entries = (plugin or self.make()).fetch(site.parameters, resolution, self.access(folder, site, **given))
        return dict(_read_entries(entries))


def _need(action: Callable[[], object] | None, name: str) -> Callable[[], object]:
    if action is None:
        pytest.skip(f"give the Site `{name}`")
    return action


def _read_entries(entries: Iterator[Entry]) -> Iterator[tuple[str, bytes]]:
    for entry in entries:
        assert isinstance(entry, Entry)
        if entry.kind is EntryKind.FILE and entry.refusal is None:
            data = _read_all(entry.data) if entry.data else b""
            assert len(data) == entry.size, f"{entry.path} has {len(data)} bytes instead of {entry.size}"
            yield entry.path, data


def _read_all(file: Readable) -> bytes:
    return b"".join(iter(lambda: file.read(1 << 16), b""))
