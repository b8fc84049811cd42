from __future__ import annotations

import io
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from queue import Queue
from typing import Any, NamedTuple

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import (
    Access,
    Capabilities,
    Credentials,
    CustomKind,
    Entry,
    Limits,
    Means,
    ProgramVersion,
    Rendering,
    RenderRequest,
    Resolution,
    Source,
)
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.types import SourcePin, Spec
from rukpak.controller.building import builder as builder_module
from rukpak.controller.building import fetching, rendering
from rukpak.controller.building import request as request_module
from rukpak.controller.building.builder import Builder
from rukpak.controller.building.entry_points import FORMATS, source_of
from rukpak.controller.building.request import (
    BuildContext,
    BuildSettings,
    Request,
    recall_pins,
    record_pins,
    rendering_digest,
    spec_digest,
)
from rukpak.controller.building.revision import PackedRevision, Revision, pack
from rukpak.controller.content.limits import DiskShares
from rukpak.controller.content.store import ContentStore
from rukpak.controller.formats.applicable import revision_digest
from rukpak.controller.formats.manifests import LargeTextError
from rukpak.controller.formats.plain import PlainFormat
from rukpak.controller.telemetry import Observer, SourceResult
from tests.support.deployments import DIGEST, RESOLVED_AT, request, spec
from tests.support.installed_plugins import install_plugins

CAPABILITIES = Capabilities(
    kubernetes_version="v1.36.3", kinds={("", "v1", "ConfigMap"): True, ("", "v1", "Namespace"): False}
)


SETTINGS = BuildSettings(store_bytes=1 << 20, limits=Limits(), timeout=60)
SHELF = "example.com/shelf"
WAIT = 60.0
"""Seconds after which a test has failed."""


class Shelf(Source):
    """A source in memory. Parameters: `name` of its content, or of its failure."""

    def __init__(self, contents: Mapping[str, Mapping[str, bytes] | Exception]) -> None:
        self.contents = contents
        self.calls: list[str] = []
        self.access: Access | None = None

    def validate(self, parameters: Mapping[str, Any], path: str) -> list[str]:
        return []

    def identity(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        return parameters

    def resolve(self, parameters: Mapping[str, Any], access: Access) -> Resolution:
        self.calls.append(f"resolve {parameters['name']}")
        self._files(parameters)
        return Resolution(pinned=f"shelf/{parameters['name']}", digest=DIGEST)

    def content_key(self, parameters: Mapping[str, Any], resolution: Resolution) -> str:
        return str(parameters["name"])

    def fetch(self, parameters: Mapping[str, Any], resolution: Resolution, access: Access) -> Iterator[Entry]:
        self.calls.append(f"fetch {parameters['name']}")
        self.access = access
        for path, data in self._files(parameters).items():
            yield Entry(path=path, size=len(data), data=io.BytesIO(data))

    def _files(self, parameters: Mapping[str, Any]) -> Mapping[str, bytes]:
        content = self.contents[parameters["name"]]
        if isinstance(content, Exception):
            raise content
        return content


def config_map(name: str) -> bytes:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n".encode()


GONE = BundleError(Reason.PINNED_CONTENT_GONE, "spec.sources[1].parameters: it is gone", retry_after=3)
ABSENT = BundleError(Reason.NOT_FOUND, "spec.sources[1].parameters: no such thing")
CONTENTS: dict[str, Mapping[str, bytes] | Exception] = {
    "a": {"manifests/a.yaml": config_map("a")},
    "b": {"manifests/b.yaml": config_map("b")},
    "gone": GONE,
    "absent": ABSENT,
    "bug": ZeroDivisionError("bug"),
}


def serve(monkeypatch: pytest.MonkeyPatch, shelf: Shelf) -> None:
    """Make a source available as if it were installed."""
    for module in (fetching, request_module):
        monkeypatch.setattr(module, "source_of", lambda kind: shelf if kind == SHELF else source_of(kind))


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    made = Shelf(CONTENTS)
    serve(monkeypatch, made)
    return made


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    return Builder(ContentStore(tmp_path / "store"), SETTINGS, lambda: RESOLVED_AT)


def shelved(*names: str, **fields: Any) -> Spec:
    return spec(*({"kind": SHELF, "parameters": {"name": name}} for name in names), **fields)


def build(builder: Builder, *names: str, install_namespace: str = "shop") -> Revision:
    source_spec = shelved(*names)
    pins = builder_pins(source_spec)
    made = Request(name="shop", spec=source_spec, pins=pins, install_namespace=install_namespace, requested_at="")
    return whole(builder.build(made, CAPABILITIES, threading.Event()))


def whole(made: Revision | PackedRevision) -> Revision:
    return made.unpacked() if isinstance(made, PackedRevision) else made


def builder_pins(source_spec: Spec) -> tuple[SourcePin, ...]:
    return tuple(
        SourcePin(
            kind=each.kind,
            resolved="x",
            digest=DIGEST,
            spec_digest=f"v1:{DIGEST}",
            origin=f"v1:{DIGEST}",
            resolved_at=RESOLVED_AT,
        )
        for each in source_spec.sources
    )


def test_only_sources_without_a_pin_are_resolved(builder: Builder, shelf: Shelf) -> None:
    source_spec = shelved("a", "b")
    known = builder_pins(source_spec)[0]
    resolved = builder.resolve(source_spec, (known, None), threading.Event())
    assert shelf.calls == ["resolve b"]
    assert resolved.failure is None
    assert resolved.pins[0] is known
    found = resolved.pins[1]
    assert found is not None
    assert (found.kind, found.resolved, found.digest) == (SHELF, "shelf/b", DIGEST)
    assert (found.spec_digest, found.resolved_at) == (spec_digest(source_spec.sources[1]), RESOLVED_AT)


@pytest.mark.parametrize(
    ("failure", "counted"),
    [(Reason.SECRET_NOT_FOUND, 0), (Reason.SECRET_FORBIDDEN, 0), (Reason.SERVICE_ACCOUNT_NOT_FOUND, 0), (None, 1)],
    ids=str,
)
def test_a_source_whose_secret_cannot_be_used_was_not_queried(
    tmp_path: Path, shelf: Shelf, failure: Reason | None, counted: int
) -> None:
    class Counting(Observer):
        results: tuple[SourceResult, ...] = ()

        def source_asked(self, kind: str, result: SourceResult) -> None:
            self.results += (result,)

    def _read(index: int, source: Any) -> None:
        if failure:
            raise BundleError(failure, "spec.sources[0].http.auth: it cannot be used")

    observer = Counting()
    builder = Builder(ContentStore(tmp_path / "store"), SETTINGS, lambda: RESOLVED_AT, observer=observer)
    resolved = builder.resolve(shelved("absent"), (None,), threading.Event(), BuildContext(credentials=_read))
    assert resolved.failure is not None
    assert resolved.failure.reason is (failure or Reason.NOT_FOUND)
    assert observer.results == (SourceResult.ERROR,) * counted


def test_sources_that_are_resolved_are_pinned_even_if_others_fail(builder: Builder, shelf: Shelf) -> None:
    resolved = builder.resolve(shelved("a", "absent", "gone"), (None, None, None), threading.Event())
    assert [each is not None for each in resolved.pins] == [True, False, False]
    assert resolved.failure is not None
    assert resolved.failure.reason is Reason.NOT_FOUND
    assert resolved.failure.message == f"{ABSENT.message} (and 1 more)"


@pytest.mark.usefixtures("shelf")
def test_a_bug_in_a_source_is_raised(builder: Builder) -> None:
    with pytest.raises(ZeroDivisionError):
        builder.resolve(shelved("a", "bug"), (None, None), threading.Event())
    with pytest.raises(ZeroDivisionError):
        build(builder, "bug")


@pytest.mark.usefixtures("shelf")
def test_a_revision_contains_what_its_repair_needs(builder: Builder) -> None:
    revision = build(builder, "a", "b")
    assert [each["metadata"] for each in revision.objects] == [
        {"name": "a", "namespace": "shop"},
        {"name": "b", "namespace": "shop"},
    ]
    assert revision.digest == revision_digest(revision.objects)
    assert revision.terms.install_namespace == "shop"
    assert [pin.resolved for pin in recall_pins(revision.terms.pins)] == ["x", "x"]
    assert revision.terms.inputs.startswith("sha256:")


@pytest.mark.usefixtures("shelf")
def test_equal_inputs_give_equal_revisions_in_any_store(builder: Builder, tmp_path: Path) -> None:
    elsewhere = Builder(ContentStore(tmp_path / "other"), SETTINGS, lambda: RESOLVED_AT)
    assert build(builder, "a", "b") == build(elsewhere, "a", "b")


def test_stored_content_is_not_fetched_again(builder: Builder, shelf: Shelf) -> None:
    build(builder, "a")
    build(builder, "a", "b")
    assert sorted(shelf.calls) == ["fetch a", "fetch b"]


class Claiming(Shelf):
    """Servers that all claim to have content of this digest; the parameter `name` selects one."""

    def content_key(self, parameters: Mapping[str, Any], resolution: Resolution) -> str:
        return resolution.digest


def asked(name: str, **parameters: Any) -> Spec:
    return spec({"kind": SHELF, "parameters": {"name": name, **parameters}})


class Claim(NamedTuple):
    name: str
    resolved: Spec
    """That the pin is of."""
    built: Spec
    fetches: list[str]


SECRET = {"auth": {"secret": {"name": "own"}}}
CLAIMS = [
    Claim("by the same", asked("a"), asked("a"), []),
    Claim("by another server", asked("b"), asked("b"), ["fetch b"]),
    Claim("by one that nobody verified", asked("a", insecureSkipTLSVerify=True), asked("a"), ["fetch a"]),
    Claim("by one that an own authority vouches for", asked("a", certificateData="own"), asked("a"), ["fetch a"]),
    Claim("to another Secret", asked("a", **SECRET), asked("a"), ["fetch a"]),
    Claim("and is asked as another user now", asked("a"), asked("a", **SECRET), ["fetch a"]),
]


@pytest.mark.parametrize("case", CLAIMS, ids=attrgetter("name"))
def test_what_is_stored_serves_whose_pin_was_answered(
    case: Claim, builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    claiming = Claiming(CONTENTS)
    serve(monkeypatch, claiming)
    for resolved, built in ((asked("a"), asked("a")), (case.resolved, case.built)):
        claiming.calls.clear()
        pins = builder.resolve(resolved, (None,), threading.Event()).found
        builder.build(request(built, pins=pins), CAPABILITIES, threading.Event())
    assert [call for call in claiming.calls if call.startswith("fetch")] == case.fetches


def reading(identity: str) -> BuildContext:
    return BuildContext(credentials=lambda _index, _source: Credentials(password="p", identity=identity))


def test_what_was_fetched_with_a_secret_is_not_for_one_of_its_name_that_was_made_again(
    builder: Builder, shelf: Shelf
) -> None:
    private = asked("a", **SECRET)
    fetches: dict[str, list[list[str]]] = {}
    for identity in ("first", "first", "second"):
        shelf.calls.clear()
        pins = builder.resolve(private, (None,), threading.Event(), reading(identity)).found
        builder.build(request(private, pins=pins), CAPABILITIES, threading.Event(), reading(identity))
        fetches.setdefault(identity, []).append(shelf.calls.copy())
    assert fetches == {"first": [["resolve a", "fetch a"], ["resolve a"]], "second": [["resolve a", "fetch a"]]}


def test_what_is_stored_is_not_fetched_again_when_its_secret_is_changed(builder: Builder, shelf: Shelf) -> None:
    private = asked("a", **SECRET)
    pins = recall_pins(record_pins(builder.resolve(private, (None,), threading.Event(), reading("first")).found))
    for identity in ("first", "second"):
        builder.build(request(private, pins=pins), CAPABILITIES, threading.Event(), reading(identity))
    assert shelf.calls == ["resolve a", "fetch a"]


def test_a_source_knows_whether_its_content_is_stored_for_these_credentials(
    builder: Builder, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    private, known = asked("a", **SECRET), []
    resolve = shelf.resolve

    def _resolve(parameters: Mapping[str, Any], access: Access) -> Resolution:
        known.append(access.is_stored(found := resolve(parameters, access)))
        return found

    monkeypatch.setattr(shelf, "resolve", _resolve)
    for identity in ("first", "first", "second"):
        pins = builder.resolve(private, (None,), threading.Event(), reading(identity)).found
        builder.build(request(private, pins=pins), CAPABILITIES, threading.Event(), reading(identity))
    assert known == [False, True, False]


def test_unused_content_is_evicted_when_the_store_is_full(shelf: Shelf, tmp_path: Path) -> None:
    small = Builder(ContentStore(tmp_path / "store"), replace(SETTINGS, store_bytes=0), lambda: RESOLVED_AT)
    build(small, "a")
    build(small, "a")
    assert shelf.calls == ["fetch a", "fetch a"]


@pytest.mark.usefixtures("shelf")
def test_the_format_suggests_a_namespace_if_none_is_given(builder: Builder) -> None:
    revision = build(builder, "a", install_namespace="")
    assert revision.terms.install_namespace == "default"
    assert revision.objects[0]["metadata"]["namespace"] == "default"


# random values


class Things(PlainFormat):
    """A format with an object of a custom kind, which has a null and a status; it counts its renderings."""

    def __init__(self, **fields: Any) -> None:
        self.fields, self.count = fields, 0

    def render(self, request: RenderRequest) -> Rendering:
        self.count += 1
        metadata = {"name": "a", "namespace": "shop"}
        return Rendering(objects=[{"apiVersion": "e.x/v1", "kind": "Thing", "metadata": metadata, **self.fields}])


THING = ("e.x", "v1", "Thing")
KNOWN = CustomKind(has_status=False, schema={"properties": {"spec": {"properties": {"a": {"nullable": True}}}}})
FIELDS = {"spec": {"a": None, "b": None}, "status": {"phase": "Ready"}}
KEPT = {"spec": {"a": None}, "status": {"phase": "Ready"}}
UNKNOWN = (
    "Thing e.x/v1: nulls and status are left out of its objects, since its CustomResourceDefinition is not known; "
    "put it into the bundle, or render again once the cluster has it (rukpak reconcile), or without a cluster with the "
    'file that "rukpak capabilities" has written'
)


class Custom(NamedTuple):
    name: str
    fields: dict[str, Any]
    declared: dict[tuple[str, str, str], CustomKind]
    answer: dict[tuple[str, str, str], CustomKind]
    asked: list[list[tuple[str, str, str]]]
    renderings: int
    expect: dict[str, Any]
    recorded: tuple[Any, ...]
    warnings: tuple[str, ...] = ()


# fmt: off
CUSTOM = [
    Custom("the cluster is asked, and what it says recorded", FIELDS, {}, {THING: KNOWN}, [[THING]], 2, KEPT,
           ((*THING, KNOWN),)),
    Custom("what is declared is not asked", FIELDS, {THING: KNOWN}, {}, [], 1, KEPT, ((*THING, KNOWN),)),
    Custom("what nobody knows is left out, with a warning", FIELDS, {}, {}, [[THING]], 1, {"spec": {}},
           ((*THING, None),), (UNKNOWN,)),
    Custom("without a null and a status nothing is asked, used or recorded", {"spec": {"a": 1}}, {THING: KNOWN},
           {THING: KNOWN}, [], 1, {"spec": {"a": 1}}, ()),
]
# fmt: on


@pytest.mark.usefixtures("shelf")
@pytest.mark.parametrize("in_child", [False, True])
@pytest.mark.parametrize("case", CUSTOM, ids=attrgetter("name"))
def test_what_custom_kinds_store_is_asked_once_objects_tell_which(
    case: Custom, builder: Builder, monkeypatch: pytest.MonkeyPatch, *, in_child: bool
) -> None:
    things, asked = Things(**case.fields), list[list[tuple[str, str, str]]]()
    for module in (builder_module, rendering):
        monkeypatch.setattr(module, "format_of", lambda _name: things)
    if in_child:
        monkeypatch.setattr(builder_module, "render_here_or_in_child", render_as_read)

    def ask(kinds: Collection[tuple[str, str, str]]) -> dict[tuple[str, str, str], CustomKind]:
        asked.append(list(kinds))
        return case.answer

    made_of = Request(
        name="shop", spec=shelved("a"), pins=builder_pins(shelved("a")), install_namespace="shop", requested_at=""
    )
    capabilities = replace(CAPABILITIES, custom=case.declared)
    made = whole(builder.build(made_of, capabilities, threading.Event(), BuildContext(custom_kinds=ask)))
    fields = {key: value for key, value in made.objects[0].items() if key in FIELDS}
    assert (fields, asked, things.count) == (case.expect, case.asked, case.renderings)
    assert (made.terms.custom, made.warnings) == (case.recorded, case.warnings)
    used = {tuple(kind): known for *kind, known in case.recorded if known}
    expect = rendering_digest(made_of, "shop", replace(CAPABILITIES, custom=used))
    assert made.terms.rendered_from == expect


def render_as_read(given: rendering.Task, *_: Any) -> PackedRevision:
    """Render what a child process reads."""
    task = rendering.Task("plain", given.request)
    return pack(rendering.render(rendering._read_request(rendering._write_request(task))))


class Dice(PlainFormat):
    """A format whose objects contain a random value."""

    def __init__(self, *throws: str) -> None:
        self.throws = list(throws)

    def render(self, request: RenderRequest) -> Rendering:
        thrown = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "dice"},
            "data": {"is": self.throws.pop(0)},
        }
        return Rendering(objects=[thrown])


class Thrown(NamedTuple):
    name: str
    throws: tuple[str, ...]
    """Of the second rendering, and of a third."""
    expect: str
    capabilities: Capabilities = CAPABILITIES


THROWN = [
    Thrown("what differs each time stays as it was", ("2", "3"), "1"),
    Thrown("what is as it was is not rendered twice", ("1",), "1"),
    Thrown("what another release makes of it, and makes again, is new", ("2", "2"), "2"),
    Thrown("another cluster is another input", ("2",), "2", Capabilities(kubernetes_version="v1.99.0")),
]


@pytest.mark.usefixtures("shelf")
@pytest.mark.parametrize("case", THROWN, ids=attrgetter("name"))
def test_random_values_after_a_requested_reconcile(
    case: Thrown, builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = Dice("1", *case.throws)
    for module in (builder_module, rendering):
        monkeypatch.setattr(module, "format_of", lambda _name: dice)
    kept = build(builder, "a")
    request = Request(
        name="shop", spec=shelved("a"), pins=builder_pins(shelved("a")), install_namespace="shop", requested_at="now"
    )
    made = whole(builder.build(request, case.capabilities, threading.Event(), kept=[kept]))
    assert (made.objects[0]["data"]["is"], dice.throws) == (case.expect, [])
    assert made.terms.inputs != kept.terms.inputs


@pytest.mark.usefixtures("shelf")
def test_a_plug_in_whose_objects_differ_each_time_is_told_of_once(
    builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice, name = Dice(*map(str, range(9))), "acme.example/dice"
    install_plugins(monkeypatch, {(FORMATS, name): lambda: dice})
    spec = shelved("a", format=name)
    kept: list[Revision] = []
    for requested in ("once", "twice", "again"):
        request = Request(
            name="shop", spec=spec, pins=builder_pins(spec), install_namespace="shop", requested_at=requested
        )
        kept.append(whole(builder.build(request, CAPABILITIES, threading.Event(), kept=kept[-1:])))
    assert [made.objects[0]["data"]["is"] for made in kept] == ["0", "0", "0"]
    told = f'plug-in "{name}" gives other objects each time for the same input; the first ones are kept'
    assert [made.warnings for made in kept] == [(), (told,), (told,)]


@pytest.mark.usefixtures("shelf")
def test_a_failed_fetch_reports_how_many_others_failed(builder: Builder) -> None:
    with pytest.raises(BundleError) as caught:
        build(builder, "a", "gone", "absent")
    assert (caught.value.reason, caught.value.retry_after) == (Reason.PINNED_CONTENT_GONE, 3)
    assert caught.value.message == f"{GONE.message} (and 1 more)"


def test_a_source_gets_its_path_and_a_temporary_folder(builder: Builder, shelf: Shelf) -> None:
    build(builder, "a")
    assert shelf.access is not None
    assert shelf.access.path == "spec.sources[0].parameters"
    assert not shelf.access.scratch.exists()


@pytest.mark.usefixtures("shelf")
def test_content_over_a_limit_is_refused(tmp_path: Path) -> None:
    strict = Builder(
        ContentStore(tmp_path / "store"), replace(SETTINGS, limits=Limits(file_bytes=3)), lambda: RESOLVED_AT
    )
    with pytest.raises(BundleError) as caught:
        build(strict, "a")
    assert caught.value.reason is Reason.CONTENT_REJECTED
    assert caught.value.message.startswith("spec.sources[0].parameters")


# limits

BYTES = len(config_map("a"))


@pytest.mark.usefixtures("shelf")
@pytest.mark.parametrize("stored", [(), ("a",), ("a", "b")], ids=["nothing", "one of them", "both"])
def test_all_sources_of_a_spec_share_one_limit(tmp_path: Path, stored: tuple[str, ...]) -> None:
    """Stored content counts, too: it is not written to the store again, but assembled."""
    strict = Builder(
        ContentStore(tmp_path / "store"),
        replace(SETTINGS, limits=Limits(total_bytes=2 * BYTES - 1)),
        lambda: RESOLVED_AT,
    )
    for name in stored:
        build(strict, name)
    with pytest.raises(BundleError) as caught:
        build(strict, "a", "b")
    assert caught.value.reason is Reason.CONTENT_REJECTED
    assert caught.value.message.startswith("spec.sources: together the sources exceed the limit")


@pytest.mark.usefixtures("shelf")
def test_content_that_another_build_has_stored_counts_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, limits = ContentStore(tmp_path / "store"), Limits(total_bytes=BYTES - 1)
    build(Builder(store, SETTINGS, lambda: RESOLVED_AT), "a")
    monkeypatch.setattr(store, "get", lambda _key: None)  # it came after that
    with pytest.raises(BundleError, match="together the sources exceed the limit"):
        build(Builder(store, replace(SETTINGS, limits=limits), lambda: RESOLVED_AT), "a")


@pytest.mark.usefixtures("shelf")
def test_a_tenant_without_disk_share_left_waits_for_its_own_builds(tmp_path: Path) -> None:
    limits, shares = Limits(), DiskShares(total=1 << 20, share=1 << 16)
    full = Builder(
        ContentStore(tmp_path / "store"), replace(SETTINGS, limits=limits), lambda: RESOLVED_AT, shares=shares
    )
    with shares.use("ann", limits) as other:
        other.occupy((1 << 16) - BYTES)
        with pytest.raises(BundleError) as caught:
            full.build(request(shelved("a")), CAPABILITIES, threading.Event(), BuildContext(tenant="ann"))
        assert caught.value.reason is Reason.STORAGE_FULL
        full.build(request(shelved("a")), CAPABILITIES, threading.Event(), BuildContext(tenant="ben"))
    full.build(request(shelved("b")), CAPABILITIES, threading.Event(), BuildContext(tenant="ann"))
    assert shares._taken.total() == 0


# shares of the interpreter


class Slow(PlainFormat):
    """A format that renders, here or in a child, until it is told to stop, and tells for whom."""

    def __init__(self, *, in_child: bool) -> None:
        self.in_child = in_child
        self.began: Queue[str] = Queue()
        self.may_end = threading.Event()

    def render(self, request: RenderRequest) -> Rendering:
        if self.in_child:
            raise LargeTextError(1)
        return self.work(request)

    def work(self, request: RenderRequest) -> Rendering:
        self.began.put(request.means.tenant)
        assert self.may_end.wait(WAIT)
        return Rendering(objects=[])


class SlowProgram(Slow):
    """One that runs a program."""

    def find_program(self, means: Means) -> ProgramVersion:
        raise NotImplementedError

    def program_bytes(self, means: Means) -> int:
        return 1


@pytest.mark.usefixtures("shelf")
@pytest.mark.parametrize(
    ("slow", "at_once"),
    [(Slow(in_child=False), 1), (Slow(in_child=True), 2), (SlowProgram(in_child=False), 2)],
    ids=["here", "in children", "with a program"],
)
def test_a_tenant_renders_few_bundles_at_a_time_and_others_beside_it(
    slow: Slow, at_once: int, builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = build(builder, "a")

    def _in_child(task: rendering.Task) -> Revision:
        slow.work(task.request)
        return made

    monkeypatch.setattr(builder_module, "render_in_child", _in_child)
    for module in (builder_module, rendering):
        monkeypatch.setattr(module, "format_of", lambda _name: slow)

    def _build(tenant: str) -> None:
        builder.build(request(shelved("a")), CAPABILITIES, threading.Event(), BuildContext(tenant=tenant))

    with ThreadPoolExecutor() as pool:
        builds = [pool.submit(_build, "ann") for _ in range(4)]
        assert [slow.began.get(timeout=WAIT) for _ in range(at_once)] == ["ann"] * at_once
        builds.append(pool.submit(_build, "ben"))
        assert slow.began.get(timeout=WAIT) == "ben"  # and none of ann's that have waited longer
        slow.may_end.set()
        for done in builds:
            done.result(WAIT)


class LongList(Shelf):
    """A source that takes long to read what its server lists."""

    def __init__(self) -> None:
        super().__init__(CONTENTS)
        self.began: Queue[str] = Queue()
        self.may_end = threading.Event()

    def resolve(self, parameters: Mapping[str, Any], access: Access) -> Resolution:
        with access.computing():
            self.began.put(str(parameters["name"]))
            assert self.may_end.wait(WAIT)
        return super().resolve(parameters, access)


def test_a_tenant_reads_one_long_list_at_a_time_and_others_beside_it(
    builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = LongList()
    serve(monkeypatch, lists)

    def _resolve(tenant: str, *names: str) -> None:
        nothing = (None,) * len(names)
        builder.resolve(shelved(*names), nothing, threading.Event(), BuildContext(tenant=tenant))

    with ThreadPoolExecutor() as pool:
        anns = pool.submit(_resolve, "ann", "a", "a")
        assert lists.began.get(timeout=WAIT) == "a"
        bens = pool.submit(_resolve, "ben", "b")
        assert lists.began.get(timeout=WAIT) == "b"  # and not ann's second one
        lists.may_end.set()
        for done in (anns, bens):
            done.result(WAIT)


# callbacks of sources


class Reading(Shelf):
    """A source that must read its content to resolve it."""

    def resolve(self, parameters: Mapping[str, Any], access: Access) -> Resolution:
        resolution = super().resolve(parameters, access)
        self.access = access
        access.keep(resolution, self.fetch(parameters, resolution, access))
        return resolution


def test_content_that_was_read_while_resolving_is_not_fetched_again(
    builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = Reading(CONTENTS)
    serve(monkeypatch, reading)
    resolved = builder.resolve(shelved("a"), (None,), threading.Event())
    builder.build(request(shelved("a"), pins=resolved.found), CAPABILITIES, threading.Event())
    assert reading.calls == ["resolve a", "fetch a"]


def test_a_source_gets_credentials_and_its_last_resolution_and_its_result_is_reported(
    builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = Reading(CONTENTS)
    serve(monkeypatch, reading)
    ended: dict[int, BundleError | None] = {}
    source_spec = shelved("a", "absent")
    context = BuildContext(
        credentials=lambda index, _source: Credentials(username=f"user-{index}"),
        ended=ended.__setitem__,
        previous=builder_pins(source_spec),
    )
    builder.resolve(source_spec, (None, None), threading.Event(), context)
    assert reading.access is not None
    assert reading.access.credentials is not None
    assert reading.access.credentials.username == "user-0"
    assert reading.access.previous == Resolution(pinned="x", digest=DIGEST)
    assert ended == {0: None, 1: ABSENT}


def test_credentials_that_cannot_be_read_are_the_failure_of_their_source(builder: Builder, shelf: Shelf) -> None:
    missing = BundleError(Reason.SECRET_NOT_FOUND, "spec.sources[0].parameters.auth: no Secret")

    def read(_index: int, _source: object) -> Credentials | None:
        raise missing

    ended: dict[int, BundleError | None] = {}
    resolved = builder.resolve(
        shelved("a"), (None,), threading.Event(), BuildContext(credentials=read, ended=ended.__setitem__)
    )
    assert (resolved.failure, ended, shelf.calls) == (missing, {0: missing}, [])


# a store that is removed meanwhile


def losing(monkeypatch: pytest.MonkeyPatch, lose: Callable[[Path], None], *, fails: bool = False) -> None:
    """Have something removed while the tree is read."""
    render = PlainFormat.render

    def render_rest(self: PlainFormat, request: RenderRequest) -> Rendering:
        lose(request.tree.root)
        if fails:
            raise FileNotFoundError(request.tree.root)
        return render(self, request)

    monkeypatch.setattr(PlainFormat, "render", render_rest)


def lose_file(tree: Path) -> None:
    (tree / "manifests" / "b.yaml").unlink()


def lose_index(tree: Path) -> None:
    for index in tree.parents[2].glob("entries/*/index"):
        index.unlink()


@pytest.mark.usefixtures("shelf")
@pytest.mark.parametrize("fails", [False, True], ids=["unnoticed", "with an error"])
@pytest.mark.parametrize("lose", [lose_file, lose_index])
def test_a_bundle_of_which_files_were_removed_while_it_was_read_is_not_taken_for_a_smaller_one(
    builder: Builder, monkeypatch: pytest.MonkeyPatch, lose: Callable[[Path], None], *, fails: bool
) -> None:
    losing(monkeypatch, lose, fails=fails)
    with pytest.raises(BundleError) as caught:
        build(builder, "a", "b")
    assert caught.value.reason is Reason.STORAGE_BROKEN
    assert caught.value.message.startswith("spec.sources: files in the content store were removed")


@pytest.mark.usefixtures("shelf")
def test_another_error_of_a_whole_bundle_stays_what_it_is(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    losing(monkeypatch, lambda _tree: None, fails=True)
    with pytest.raises(FileNotFoundError):
        build(builder, "a")
