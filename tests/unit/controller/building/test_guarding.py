"""Plug-ins of other packages that misbehave: each is named, and nothing else notices."""

from __future__ import annotations

import logging
import math
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from dataclasses import fields
from enum import StrEnum
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import (
    Access,
    Capabilities,
    ContentTree,
    Entry,
    Format,
    Hook,
    Limits,
    Means,
    Prepared,
    PrepareRequest,
    PreparesContent,
    ProcessRequest,
    ReadsPart,
    ReadsSecrets,
    Refusal,
    Rendering,
    RenderRequest,
    Resolution,
    RunsProgram,
    Source,
)
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.building import guarding
from rukpak.controller.building.guarding import Calls, guard
from rukpak.controller.formats.manifests import LargeTextError
from rukpak.controller.processes.programs import Mechanisms
from tests.support.bundles import config_map

CONFINED = pytest.mark.skipif(not Mechanisms.found().landlock, reason="the kernel has no Landlock")
REMEDY = "; see the log of the controller, then upgrade the package or report it to its authors"
FORMAT = 'spec.format: plug-in "acme.example/a" of acme 1.0 '
SOURCE = 'spec.sources[0].parameters: plug-in "acme.example/a" of acme 1.0 '
RESOLUTION = Resolution(pinned="a@b", digest="b")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "GRACE_SECONDS", 0.2)
    monkeypatch.setattr(guarding, "QUICK_SECONDS", 5.0)


class Renders:
    """A format that renders what it is given."""

    def __init__(self, render: Callable[[RenderRequest], Any]) -> None:
        self.render = render

    def validate(self, config: Mapping[str, Any]) -> Any:
        return config.get("problems", [])

    def suggest_namespace(self, tree: ContentTree, config: Mapping[str, Any]) -> Any:
        return config["namespace"]


def format_that(render: Callable[[RenderRequest], Any], calls: Calls | None = None) -> Format:
    return cast("Format", guard(Renders(render), calls or Calls(("format", "acme.example/a"), "acme 1.0"), "format"))


def request_of(tmp_path: Path, **means: Any) -> RenderRequest:
    (tmp_path / "tree").mkdir(exist_ok=True)
    (tmp_path / "scratch").mkdir(exist_ok=True)
    (tmp_path / "tree" / "a.yaml").write_text("a: 1", encoding="utf-8")
    return RenderRequest(
        name="a",
        install_namespace="a",
        tree=ContentTree(root=tmp_path / "tree", destinations=("",)),
        config={"a": {"b": 1}},
        capabilities=Capabilities(kubernetes_version="v1.36.3", kinds={("", "v1", "Pod"): True}),
        means=Means(scratch=tmp_path / "scratch", **{"seconds": 5.0, **means}),
    )


def failure(call: Callable[[], object]) -> BundleError:
    with pytest.raises(BundleError) as raised:
        call()
    return raised.value


def broken(problem: str) -> str:
    return f"does not keep its contract: render returns {problem}"


def raising(error: BaseException) -> Callable[[RenderRequest], Any]:
    def render(_request: RenderRequest) -> Any:
        raise error

    return render


def recurse(request: RenderRequest) -> Any:
    return recurse(request)


def cycle(_request: RenderRequest) -> Rendering:
    found: dict[str, Any] = {}
    found["a"] = found
    return Rendering(objects=[found])


def holding(value: Any) -> Callable[[RenderRequest], Rendering]:
    return lambda _request: Rendering(objects=[{"a": {"b": [value]}}])


def rendering_with(**fields: Any) -> Callable[[RenderRequest], Rendering]:
    return lambda _request: Rendering(**{"objects": [], **fields})


AT = " at building/test_guarding.py:"
FAILURES: dict[str, tuple[Callable[[RenderRequest], Any], str]] = {
    "an exception": (raising(ValueError("Hunter2")), f"failed: render raised ValueError{AT}"),
    "a module without a name": (
        raising(ModuleNotFoundError("Hunter2")),
        f"failed: render raised ModuleNotFoundError{AT}",
    ),
    "a text as the name of a module": (
        raising(ModuleNotFoundError("x", name="Hunter2 is the password")),
        f"failed: render raised ModuleNotFoundError{AT}",
    ),
    "something that is not in a module": (
        raising(ImportError("Hunter2", name="acme")),
        f"failed: render raised ImportError{AT}",
    ),
    "an import that ends in the import system": (
        lambda _: __import__(""),
        f"failed: render raised ValueError{AT}",
    ),
    "an end of the program": (raising(SystemExit(0)), f"failed: render raised SystemExit{AT}"),
    "an interrupt": (raising(KeyboardInterrupt()), f"failed: render raised KeyboardInterrupt{AT}"),
    "no memory": (raising(MemoryError()), f"failed: render raised MemoryError{AT}"),
    "a cancellation of its own": (raising(CancelledError()), f"failed: render raised CancelledError{AT}"),
    "endless recursion": (recurse, f"failed: render raised RecursionError{AT}"),
    "an exception without a message": (raising(BaseException()), f"failed: render raised BaseException{AT}"),
    "a reason that is none": (
        raising(BundleError(Reason.READY, "all is well")),
        "does not keep its contract: render raised a BundleError without a usable reason",
    ),
    "nothing": (lambda _: None, broken("a NoneType, not a Rendering")),
    "a list": (lambda _: [{}], broken("a list, not a Rendering")),
    "a generator of objects": (
        rendering_with(objects=iter([{}])),
        broken("objects that are a list_iterator, not a list"),
    ),
    "an object that is a string": (rendering_with(objects=["a"]), broken("objects[0] that is a str, not a mapping")),
    "bytes": (holding(b"a"), broken("objects[0].a.b[0] that is a bytes, which JSON does not have")),
    "a set": (holding({1}), broken("objects[0].a.b[0] that is a set, which JSON does not have")),
    "an object of Python": (holding(object()), broken("objects[0].a.b[0] that is a object, which JSON does not have")),
    "a key that is a number": (holding({1: 2}), broken("objects[0].a.b[0] with a key that is not a string")),
    "infinity": (holding(math.inf), broken("objects[0].a.b[0] that is no finite number")),
    "not a number": (holding(math.nan), broken("objects[0].a.b[0] that is no finite number")),
    "half a character": (holding("\ud800"), broken("objects[0].a.b[0] that is not Unicode")),
    "half a character in a key": (holding({"\ud800": 1}), broken("objects[0].a.b[0] that is not Unicode")),
    "a cycle": (cycle, broken("objects[0].a.a.a.a.a.a.a")),
    "an unknown policy": (
        rendering_with(hooks=[Hook(manifest={}, events=("pre-install",), delete_policies=("never",))]),
        broken("hooks[0].delete_policies with an unknown policy"),
    ),
    "a warning that is none": (rendering_with(warnings=[1]), broken("warnings that is a int, not a string")),
    "warnings that are a string": (rendering_with(warnings="abc"), broken("warnings that are a str, not a list")),
    "a bundle that is no name": (rendering_with(bundle=1), broken("bundle that is a int, not a string")),
    "a secret that is none": (rendering_with(secrets=[1]), broken("secrets that is a int, not a string")),
    "labels that are none": (rendering_with(namespace={"labels": 1}), broken("namespace that is a int, not a mapping")),
}


@pytest.mark.parametrize("module", ["acme", "acme.settings", "_acme2.x.y"])
def test_a_module_that_is_missing_is_named_with_what_to_do(module: str, tmp_path: Path) -> None:
    missing = ModuleNotFoundError("Hunter2", name=module)
    error = failure(lambda: format_that(raising(missing)).render(request_of(tmp_path)))
    assert f'render raised ModuleNotFoundError for the module "{module}"; install it, and restart' in error.message
    assert "Hunter2" not in error.message


@pytest.mark.parametrize("case", FAILURES)
def test_a_failure_names_the_plug_in(case: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    render, problem = FAILURES[case]
    calls = Calls(("format", "acme.example/a"), "acme 1.0")
    error = failure(lambda: format_that(render, calls).render(request_of(tmp_path)))
    assert error.reason is Reason.PLUGIN_FAILED
    assert error.message.startswith(f"{FORMAT}{problem}")
    assert error.message.endswith(REMEDY)
    assert calls.failures == 1
    assert "Hunter2" not in error.message + caplog.text + str([vars(record) for record in caplog.records])


def test_the_place_of_a_failure_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    failure(lambda: format_that(raising(ValueError())).render(request_of(tmp_path)))
    (record,) = [record for record in caplog.records if record.message == "plug-in failed"]
    assert (record.levelno, vars(record)["error"]) == (logging.ERROR, "ValueError")
    assert vars(record)["frames"][-1].endswith(" render")


class Color(StrEnum):
    RED = "red"


def test_a_result_is_copied_as_json(tmp_path: Path) -> None:
    kept: list[dict[str, Any]] = [{"a": (1, True, None, 1.5, "ü", Color.RED)}]
    rendered = format_that(lambda _: Rendering(objects=kept)).render(request_of(tmp_path))
    assert rendered.objects == [{"a": [1, True, None, 1.5, "ü", "red"]}]
    assert [type(value) for value in rendered.objects[0]["a"]] == [int, bool, type(None), float, str, str]
    kept[0]["a"] = ()
    assert rendered.objects[0]["a"]


def test_what_it_gets_is_its_own(tmp_path: Path) -> None:
    def change(request: RenderRequest) -> Rendering:
        cast("dict[str, Any]", request.config)["a"]["b"] = 2
        cast("dict[Any, Any]", request.capabilities.kinds).clear()
        return Rendering(objects=[])

    request = request_of(tmp_path)
    format_that(change).render(request)
    assert request.config == {"a": {"b": 1}}
    assert request.capabilities.kinds


def test_a_failure_of_the_user_is_passed_on(tmp_path: Path) -> None:
    given = BundleError(Reason.UNREACHABLE, "a:1:\x1b[31m wrong\n\ncorrect it" + "x" * 10_000, retry_after=5)
    error = failure(lambda: format_that(raising(given)).render(request_of(tmp_path)))
    assert (error.reason, error.retry_after) == (Reason.UNREACHABLE, 5)
    assert error.message.startswith("a:1: [31m wrong correct it")
    assert len(error.message) == 4096


def test_too_much_text_for_this_process_is_passed_on(tmp_path: Path) -> None:
    with pytest.raises(LargeTextError):
        format_that(raising(LargeTextError(7))).render(request_of(tmp_path))


@pytest.mark.parametrize(
    ("limits", "value", "said"),
    [
        (Limits(nodes=100), list(range(100)), "100 values"),
        (Limits(text_bytes=100), ["x" * 60, "y" * 60], "100 bytes of text"),
        (Limits(text_bytes=100), {"x" * 101: 1}, "100 bytes of text"),
    ],
    ids=["values", "text", "keys"],
)
def test_a_result_has_limits(limits: Limits, value: Any, said: str, tmp_path: Path) -> None:
    error = failure(lambda: format_that(holding(value)).render(request_of(tmp_path, limits=limits)))
    assert error.reason is Reason.RENDER_LIMIT_EXCEEDED
    assert error.message == f"spec.format: render returns more than {said}; split the bundle"


# time


def test_a_call_that_hangs_is_abandoned_and_at_last_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "GRACE_SECONDS", 0.02)
    go_on, calls = threading.Event(), Calls(("format", "acme.example/a"), "acme 1.0")

    def hang(_request: RenderRequest) -> Rendering:
        go_on.wait()
        return Rendering(objects=[])

    plugin, request = format_that(hang, calls), request_of(tmp_path, seconds=0.02)
    messages = [failure(lambda: plugin.render(request)).message for _ in range(guarding.MOST_ABANDONED)]
    assert set(messages) == {f"{FORMAT}hangs: render takes more than 0 s{REMEDY}"}
    assert calls.abandoned == guarding.MOST_ABANDONED
    refused = failure(lambda: plugin.validate({}))
    assert (
        refused.message == f"{FORMAT}is not called any more: 8 calls of it have not ended; "
        "restart the controller, and report it to the authors of the package"
    )
    go_on.set()
    while calls.abandoned:
        time.sleep(0.01)
    assert plugin.validate({}) == []
    assert calls.failures == guarding.MOST_ABANDONED + 1


def test_a_quick_method_that_hangs_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "QUICK_SECONDS", 0.1)
    go_on = threading.Event()

    class Hangs(Renders):
        def validate(self, config: Mapping[str, Any]) -> Any:
            go_on.wait()

    calls = Calls(("format", "acme.example/a"), "acme 1.0")
    plugin = cast("Format", guard(Hangs(lambda _: None), calls, "format"))
    assert failure(lambda: plugin.validate({})).message == f"{FORMAT}hangs: validate takes more than 0 s{REMEDY}"
    go_on.set()


def test_a_cancelled_call_is_not_waited_for(tmp_path: Path) -> None:
    cancelled, go_on = threading.Event(), threading.Event()
    cancelled.set()
    request = request_of(tmp_path, seconds=250.0, cancelled=cancelled)
    error = failure(lambda: format_that(lambda _: go_on.wait(250)).render(request))
    assert "hangs: render" in error.message
    go_on.set()


# confinement


def _write(path: Path) -> Callable[[RenderRequest], Any]:
    return lambda _request: path.write_text("changed", encoding="utf-8")


def _connect(_request: RenderRequest) -> None:
    socket.socket().close()


@CONFINED
@pytest.mark.parametrize("act", ["change a file", "add a file", "remove a file", "write beside", "connect", "run"])
def test_a_format_changes_nothing_but_its_scratch_folder(act: str, tmp_path: Path) -> None:
    tree, beside = tmp_path / "tree", tmp_path / "beside"
    acts: dict[str, Callable[[RenderRequest], Any]] = {
        "change a file": _write(tree / "a.yaml"),
        "add a file": _write(tree / "b.yaml"),
        "remove a file": lambda _: (tree / "a.yaml").unlink(),
        "write beside": _write(beside),
        "connect": _connect,
        "run": lambda _: subprocess.run([sys.executable, "-c", f"open({str(beside)!r}, 'w')"], check=True),
    }
    error = failure(lambda: format_that(acts[act]).render(request_of(tmp_path)))
    kind = "CalledProcessError" if act == "run" else "PermissionError"
    assert f"failed: render raised {kind} at " in error.message
    assert (tree / "a.yaml").read_text(encoding="utf-8") == "a: 1"
    assert [path.name for path in tree.iterdir()] == ["a.yaml"]
    assert not beside.exists()


@CONFINED
def test_a_format_writes_to_its_scratch_folder_and_others_everywhere(tmp_path: Path) -> None:
    def write(request: RenderRequest) -> Rendering:
        assert request.means.scratch
        (request.means.scratch / "a").write_text("x", encoding="utf-8")
        return Rendering(objects=[config_map("a")])

    assert format_that(write).render(request_of(tmp_path)).objects == [config_map("a")]
    (tmp_path / "tree" / "b").write_text("x", encoding="utf-8")
    socket.socket().close()


# other methods


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"problems": 1}, "problems that are a int, not a list"),
        ({"problems": "abc"}, "problems that are a str, not a list"),
        ({"problems": [1]}, "problems that is a int, not a string"),
    ],
)
def test_problems_are_texts(config: dict[str, Any], said: str) -> None:
    error = failure(lambda: format_that(lambda _: None).validate(config))
    assert error.message == f"{FORMAT}does not keep its contract: validate returns {said}{REMEDY}"


def test_problems_are_short() -> None:
    assert (
        format_that(lambda _: None).validate({"problems": ["a\nb" + "x" * 10_000] * 1000})
        == [("a b" + "x" * 10_000)[:4096]] * 64
    )


@pytest.mark.parametrize("name", ["", "A", "a.b", "-a", "a" * 64, "a\n", None, 1])
def test_a_namespace_has_a_valid_name(name: Any, tmp_path: Path) -> None:
    tree = ContentTree(root=tmp_path, destinations=("",))
    error = failure(lambda: format_that(lambda _: None).suggest_namespace(tree, {"namespace": name}))
    assert error.reason is Reason.PLUGIN_FAILED


class Everything(Renders):
    reads_part = True

    def find_program(self, means: Means) -> Any:
        return None

    def program_bytes(self, means: Means) -> Any:
        return -1

    def find_secrets(self, parameters: Mapping[str, Any]) -> Any:
        return ["a"]

    def prepare(self, request: Any) -> Any:
        return Prepared(files={"a": cast("bytes", "b")})

    def process(self, request: ProcessRequest) -> Any:
        request.rendering.objects[0]["changed"] = True
        return request.rendering


def test_optional_methods_are_those_of_the_plug_in(tmp_path: Path) -> None:
    calls = Calls(("format", "acme.example/a"), "acme 1.0")
    plain = guard(Renders(lambda _: None), calls, "format")
    protocols = (ReadsPart, RunsProgram, ReadsSecrets, PreparesContent)
    assert [isinstance(plain, each) for each in protocols] == [False] * 4
    processor = guard(Everything(lambda _: None), calls, "processor")
    assert [isinstance(processor, each) for each in protocols] == [True] * 4
    assert processor.find_secrets({}) == ("a",)
    assert "no number of bytes" in failure(lambda: processor.program_bytes(Means())).message
    assert "a NoneType, not a ProgramVersion" in failure(lambda: processor.find_program(Means())).message


def test_a_processor_gets_copies(tmp_path: Path) -> None:
    calls = Calls(("processor", "acme.example/a"), "acme 1.0")
    request = ProcessRequest(
        name="a",
        install_namespace="a",
        parameters={},
        path="spec.processors[1].parameters",
        rendering=Rendering(objects=[config_map("a")]),
        capabilities=Capabilities(kubernetes_version="v1.36.3"),
    )
    result = guard(Everything(lambda _: None), calls, "processor").process(request)
    assert result.objects == [{**config_map("a"), "changed": True}]
    assert request.rendering.objects == [config_map("a")]


class Prepares(Everything):
    """A processor that prepares what it is given."""

    def __init__(self, prepared: Any) -> None:
        super().__init__(lambda _: None)
        self._prepared = prepared

    def prepare(self, request: Any) -> Any:
        return self._prepared


def prepared_by(prepared: Any, tmp_path: Path) -> Any:
    calls = Calls(("processor", "acme.example/a"), "acme 1.0")
    tree = ContentTree(root=tmp_path, destinations=("",))
    request = PrepareRequest(name="a", parameters={}, path="spec.processors[0].parameters", tree=tree)
    return guard(Prepares(prepared), calls, "processor").prepare(request)


def test_all_that_a_processor_prepares_is_passed_on(tmp_path: Path) -> None:
    why = Refusal(problem="encrypted for another key", reason=Reason.INVALID_CONFIG)
    prepared = Prepared(files={"a": b"b"}, secrets=("c",), unprepared={"d": why})
    assert prepared_by(prepared, tmp_path) == prepared
    assert all(getattr(prepared, each.name) for each in fields(Prepared)), "a field that the test does not fill"


@pytest.mark.parametrize(
    ("unprepared", "problem"),
    [
        ([], "unprepared that is no mapping"),
        ({"a": "b"}, "unprepared with a str, not a Refusal"),
        ({1: Refusal(problem="a")}, "a path that is a int, not a string"),
        ({"a": Refusal(problem=cast("str", 1))}, "a problem that is a int, not a string"),
        ({"a": Refusal(problem="b", reason=cast("Reason", "c"))}, "a Refusal without a reason"),
    ],
)
def test_what_is_no_refusal_is_not_passed_on(unprepared: Any, problem: str, tmp_path: Path) -> None:
    assert problem in failure(lambda: prepared_by(Prepared(unprepared=unprepared), tmp_path)).message


# sources


class Fetches:
    """A source that yields what it is given."""

    def __init__(self, fetch: Callable[[], Any], resolution: Any = RESOLUTION) -> None:
        self._fetch, self._resolution = fetch, resolution

    def validate(self, parameters: Mapping[str, Any], path: str) -> Any:
        raise ValueError

    def identity(self, parameters: Mapping[str, Any]) -> Any:
        return {"a": {1}}

    def resolve(self, parameters: Mapping[str, Any], access: Access) -> Any:
        if isinstance(self._resolution, BaseException):
            raise self._resolution
        return self._resolution

    def content_key(self, parameters: Mapping[str, Any], resolution: Resolution) -> Any:
        return None

    def fetch(self, parameters: Mapping[str, Any], resolution: Resolution, access: Access) -> Any:
        return self._fetch()


def source_that(fetch: Callable[[], Any] = list, resolution: Any = RESOLUTION, calls: Calls | None = None) -> Source:
    used = calls or Calls(("source", "acme.example/a"), "acme 1.0")
    return cast("Source", guard(Fetches(fetch, resolution), used, "source"))


def access_of(tmp_path: Path, seconds: float = 250.0) -> Access:
    deadline = time.monotonic() + seconds
    path = "spec.sources[0].parameters"
    return Access(path=path, deadline=deadline, cancelled=threading.Event(), scratch=tmp_path)


class Case(NamedTuple):
    resolution: Any
    said: str


RESOLUTIONS = {
    "nothing": Case(None, "does not keep its contract: resolve returns a NoneType, not a Resolution"),
    "no digest": Case(Resolution(pinned="a", digest=""), "a Resolution without pinned or digest"),
    "a digest of bytes": Case(Resolution(pinned="a", digest=cast("str", b"a")), "digest that is a bytes, not a string"),
    "a long name": Case(Resolution(pinned="a" * 5000, digest="a"), "pinned of more than 4096 characters"),
    "an exception": Case(OSError("Hunter2"), "failed: resolve raised OSError at "),
    "the end": Case(SystemExit(), "failed: resolve raised SystemExit at "),
}


@pytest.mark.parametrize("case", RESOLUTIONS)
def test_a_resolution_is_checked(case: str, tmp_path: Path) -> None:
    resolution, said = RESOLUTIONS[case]
    error = failure(lambda: source_that(resolution=resolution).resolve({}, access_of(tmp_path)))
    assert error.reason is Reason.PLUGIN_FAILED
    assert error.message.startswith(SOURCE)
    assert said in error.message
    assert "Hunter2" not in error.message


def test_quick_methods_of_a_source_name_their_place() -> None:
    source = source_that()
    assert failure(lambda: source.validate({}, "spec.sources[3].parameters")).message.startswith(
        "spec.sources[3].param"
    )
    assert "an identity.a that is a set" in failure(lambda: source.identity({})).message
    assert "a key that is a NoneType" in failure(lambda: source.content_key({}, RESOLUTION)).message


def read_all(entries: Iterator[Entry], size: int = 7) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for entry in entries:
        found[entry.path] = b""
        while entry.data and (data := entry.data.read(size)):
            found[entry.path] += data
    return found


def test_entries_are_passed_on_with_their_data(tmp_path: Path) -> None:
    large = bytes(range(256)) * 10_000
    files = {"a": b"first", "b": large, "c": b"", "d": b"last"}
    made = [Entry(path=path, size=len(data), data=BytesIO(data)) for path, data in files.items()]
    fetched = source_that(lambda: made).fetch({}, RESOLUTION, access_of(tmp_path))
    assert read_all(fetched, 65_537) == files


def test_data_that_is_not_read_is_skipped(tmp_path: Path) -> None:
    made = [Entry(path=path, size=300_000, data=BytesIO(b"x" * 300_000)) for path in "abc"]
    fetched = source_that(lambda: made).fetch({}, RESOLUTION, access_of(tmp_path))
    assert [(entry.path, entry.data.read(2) if entry.data else b"") for entry in fetched] == [(p, b"xx") for p in "abc"]


def then(*last: Any) -> Callable[[], Iterator[Any]]:
    def fetch() -> Iterator[Any]:
        yield Entry(path="a", size=1, data=BytesIO(b"x"))
        for each in last:
            if isinstance(each, BaseException):
                raise each
            yield each

    return fetch


class Odd:
    def __init__(self, result: Any) -> None:
        self._result = result

    def read(self, _size: int, /) -> Any:
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result


FETCHES = {
    "an exception": (then(ValueError("Hunter2")), "failed: fetch raised ValueError at "),
    "an exception at once": (lambda: 1 / 0, "failed: fetch raised ZeroDivisionError at "),
    "nothing": (lambda: None, "failed: fetch raised TypeError at "),
    "no entry": (then("b"), "fetch returns a str, not an Entry"),
    "no path": (then(Entry(path=cast("str", None))), "an Entry whose path or target is no string"),
    "a negative size": (then(Entry(path="b", size=-1)), "an Entry without a size"),
    "no kind": (then(Entry(path="b", kind=cast("Any", "file"))), "an Entry of no kind"),
    "text": (then(Entry(path="b", data=Odd("x"))), "data of an Entry that is a str, not bytes"),
    "data that raises": (then(Entry(path="b", data=Odd(OSError("Hunter2")))), "failed: fetch raised OSError at "),
    "the end": (then(SystemExit()), "failed: fetch raised SystemExit at "),
}


@pytest.mark.parametrize("case", FETCHES)
def test_a_fetch_that_fails_names_the_plug_in(case: str, tmp_path: Path) -> None:
    fetch, said = FETCHES[case]
    error = failure(lambda: read_all(source_that(fetch).fetch({}, RESOLUTION, access_of(tmp_path))))
    assert error.reason is Reason.PLUGIN_FAILED
    assert said in error.message
    assert "Hunter2" not in error.message


def test_a_failed_fetch_of_the_user_is_passed_on(tmp_path: Path) -> None:
    source = source_that(then(BundleError(Reason.DIGEST_MISMATCH, "it lies")))
    error = failure(lambda: read_all(source.fetch({}, RESOLUTION, access_of(tmp_path))))
    assert (error.reason, error.message) == (Reason.DIGEST_MISMATCH, "it lies")


@pytest.mark.parametrize("where", ["before", "within", "after"])
def test_a_fetch_that_hangs_is_abandoned(where: str, tmp_path: Path) -> None:
    go_on, calls = threading.Event(), Calls(("source", "acme.example/a"), "acme 1.0")

    class Slow:
        def read(self, _size: int, /) -> bytes:
            go_on.wait()
            return b""

    def fetch() -> Iterator[Entry]:
        if where == "before":
            go_on.wait()
        yield Entry(path="a", size=1, data=Slow() if where == "within" else BytesIO(b"x"))
        if where == "after":
            go_on.wait()

    source = source_that(fetch, calls=calls)
    error = failure(lambda: read_all(source.fetch({}, RESOLUTION, access_of(tmp_path, seconds=0.1))))
    assert error.message.startswith(f"{SOURCE}hangs: fetch takes more than 0 s")
    assert calls.abandoned == 1
    go_on.set()
    while calls.abandoned:
        time.sleep(0.01)


def test_an_endless_fetch_ends_when_nobody_reads_it(tmp_path: Path) -> None:
    ended = threading.Event()

    def fetch() -> Iterator[Entry]:
        try:
            while True:
                yield Entry(path="a", size=1, data=BytesIO(b"x"))
        finally:
            ended.set()

    fetched = source_that(fetch).fetch({}, RESOLUTION, access_of(tmp_path))
    next(fetched)
    cast("Any", fetched).close()
    assert ended.wait(60)


def test_a_fetch_that_nobody_reads_any_more_is_counted_until_it_ends(tmp_path: Path) -> None:
    go_on, calls = threading.Event(), Calls(("source", "acme.example/a"), "acme 1.0")

    def fetch() -> Iterator[Entry]:
        yield Entry(path="a")
        go_on.wait()

    for _ in range(guarding.MOST_ABANDONED):
        fetched = source_that(fetch, calls=calls).fetch({}, RESOLUTION, access_of(tmp_path))
        next(fetched)
        cast("Any", fetched).close()
    error = failure(lambda: source_that(calls=calls).fetch({}, RESOLUTION, access_of(tmp_path)))
    assert "is not called any more: 8 calls of it have not ended" in error.message
    go_on.set()
    while calls.abandoned:
        time.sleep(0.01)
    assert read_all(source_that(calls=calls).fetch({}, RESOLUTION, access_of(tmp_path))) == {}


@pytest.mark.parametrize("chunks", [0, 2])
def test_a_fetch_that_hangs_is_told_in_the_same_words_wherever_it_does(chunks: int, tmp_path: Path) -> None:
    go_on = threading.Event()

    def fetch() -> Iterator[Entry]:
        for number in range(chunks):
            time.sleep(0.35)
            yield Entry(path=f"{number}")
        go_on.wait()

    error = failure(lambda: read_all(source_that(fetch).fetch({}, RESOLUTION, access_of(tmp_path, seconds=0.9))))
    go_on.set()
    assert "hangs: fetch takes more than 1 s" in error.message


@pytest.mark.parametrize("names", [["a"] * 65, ["A"], ["a\n"], [""], [1], "abc", None], ids=repr)
def test_names_of_secrets_are_names(names: Any) -> None:
    class Needs(Everything):
        def find_secrets(self, parameters: Mapping[str, Any]) -> Any:
            return names

    processor = guard(Needs(lambda _: None), Calls(("processor", "acme.example/a"), "acme 1.0"), "processor")
    assert failure(lambda: processor.find_secrets({})).reason is Reason.PLUGIN_FAILED
