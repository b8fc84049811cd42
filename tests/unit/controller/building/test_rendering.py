"""From a content tree to a revision, beyond what formats and processors do."""

from __future__ import annotations

import base64
import io
import json
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.names import OWNER_LABEL
from rukpak.api.plugins import (
    MEBIBYTE,
    Capabilities,
    ContentTree,
    Hook,
    Limits,
    Means,
    Prepared,
    PrepareRequest,
    ProcessRequest,
    Refusal,
    Rendering,
    RenderRequest,
)
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.processors import Processor
from rukpak.controller.building import entry_points, rendering
from rukpak.controller.building.builder import render_here_or_in_child
from rukpak.controller.building.config_values import Confidential
from rukpak.controller.building.rendering import (
    Task,
    process,
    refuse_secret_names,
    render,
    render_in_child,
    without_secrets,
)
from rukpak.controller.building.request import BuildContext, Places
from rukpak.controller.building.revision import PackedRevision, Revision
from rukpak.controller.formats.manifests import INLINE, LargeTextError, estimate
from tests.support.bundles import config_map
from tests.support.charts import CAPABILITIES, chart_of, pack, write
from tests.support.installed_plugins import install_plugins
from tests.support.objects import labelled
from tests.support.operator_bundles import object_of, service_version, write_bundle


def request(root: Path) -> RenderRequest:
    tree = ContentTree(root=root, destinations=("",))
    return RenderRequest(name="b", install_namespace="inst", tree=tree, config={}, capabilities=CAPABILITIES)


def test_a_bundle_that_renders_nothing_says_so(tmp_path: Path) -> None:
    made = render(Task("registry-v1", request(write_bundle(tmp_path / "empty", service_version()))))
    assert (made.objects, made.warnings) == ((), ("the bundle renders no objects",))
    made = render(Task("registry-v1", request(write_bundle(tmp_path / "b", service_version(), object_of("ConfigMap")))))
    assert (len(made.objects), made.warnings) == (1, ())


GREAT = 5 * MEBIBYTE


def json_of(name: str, **data: str) -> bytes:
    value = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
    return json.dumps(value, ensure_ascii=False).encode()


MANIFESTS = {
    "manifests/a.json": json_of("a", great="GREAT", wide="\U0001f600" * 20).replace(b"GREAT", b"x" * GREAT),
    "manifests/b.yaml": b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: null\n",
}


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def request_aside(root: Path, scratch: Path, **means: Any) -> RenderRequest:
    return RenderRequest(
        name="shop",
        install_namespace="",
        tree=ContentTree(root=root, destinations=("",)),
        config={},
        capabilities=CAPABILITIES,
        means=Means(scratch=scratch, **means),
    )


class Rooms:
    """Stands in for an admission, and records the requested bytes."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    @contextmanager
    def room(self, size: int, cancelled: threading.Event) -> Iterator[None]:
        assert not cancelled.is_set()
        self.asked.append(size)
        yield


def test_small_text_is_parsed_in_this_process(tmp_path: Path, scratch: Path) -> None:
    rooms, asked = Rooms(), request_aside(write(tmp_path / "content", {"manifests/a.json": json_of("a")}), scratch)
    assert isinstance(
        render_here_or_in_child(Task("plain", with_inline(asked)), BuildContext(room=rooms.room), Places()),
        Revision,
    )
    assert rooms.asked == [estimate(len(json_of("a")), INLINE)]


def with_inline(asked: RenderRequest) -> RenderRequest:
    return replace(asked, means=replace(asked.means, inline=True))


LARGE: dict[str, bytes] = {
    "long": json_of("a", great="x" * GREAT, wide="\U0001f600" * 20),
    "of many values": b'{"apiVersion":"v1","kind":"Widget","metadata":{"name":"a"},"spec":[' + b"0," * 150_000 + b"0]}",
}


@pytest.mark.parametrize("large", LARGE)
def test_large_text_is_parsed_in_a_child(large: str, tmp_path: Path, scratch: Path) -> None:
    rooms, asked = Rooms(), request_aside(write(tmp_path / "content", {"manifests/a.json": LARGE[large]}), scratch)
    made = render_here_or_in_child(Task("plain", with_inline(asked)), BuildContext(room=rooms.room), Places())
    assert isinstance(made, PackedRevision)
    assert made.unpacked() == render(Task("plain", asked))
    assert len(made.objects) < len(LARGE[large]) // 100
    assert rooms.asked[1:] == [estimate(len(LARGE[large]), Limits())]


VALID_CHART = chart_of(
    {
        "templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
        'data: {dice: {{ randAlphaNum 9 }}, great: {{ repeat 5300000 "x" }}}\n'
    }
)


def test_helm_is_run_once_for_a_large_output(tmp_path: Path, scratch: Path) -> None:
    asked = with_inline(request_aside(write(tmp_path / "content", VALID_CHART), scratch))
    made = render_here_or_in_child(Task("helm", asked), BuildContext(), Places())
    assert isinstance(made, PackedRevision)
    [item] = made.unpacked().objects
    assert f"dice: {item['data']['dice']}".encode() in (scratch / "output").read_bytes()


def refusal(asked: RenderRequest, make: Callable[[Task], object] = render_in_child) -> str:
    with pytest.raises(BundleError) as caught:
        make(Task("plain", asked))
    assert caught.value.reason is Reason.RENDER_LIMIT_EXCEEDED
    return caught.value.message


def test_a_child_reports_the_same_errors(tmp_path: Path, scratch: Path) -> None:
    asked = request_aside(write(tmp_path / "content", MANIFESTS), scratch)
    refused = {"manifests/c\udcff.yaml": Refusal(problem='not "UTF-8"', reason=Reason.UNSUPPORTED_CONTENT)}
    asked = replace(asked, tree=replace(asked.tree, refused=refused))
    for make in (render, render_in_child):
        with pytest.raises(BundleError) as caught:
            make(Task("plain", asked))
        assert (caught.value.reason, caught.value.message) == (Reason.UNSUPPORTED_CONTENT, 'not "UTF-8"')


@pytest.mark.parametrize("name", ["terms", "objects"])
def test_a_disk_that_is_full_is_told_without_space_on_it(
    tmp_path: Path, scratch: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_request = rendering._write_request

    def _fill_the_disk(*arguments: Any) -> bytes:
        for each in ("error", name):
            (scratch / "child" / each).symlink_to("/dev/full")
        return write_request(*arguments)

    monkeypatch.setattr(rendering, "_write_request", _fill_the_disk)
    with pytest.raises(BundleError, match="the disk of the content store is full") as caught:
        render_in_child(Task("plain", request_aside(write(tmp_path / "content", MANIFESTS), scratch)))
    assert caught.value.reason is Reason.STORAGE_FULL


def test_who_takes_more_than_its_address_space_is_told_what_to_do(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendering, "address_space", lambda _limits: 64 * MEBIBYTE)
    text = b'{"apiVersion":"v1","kind":"Widget","metadata":{"name":"a"},"spec":{"a":"' + b"x" * (12 << 20) + b'"}}'
    many = {f"manifests/{index}.json": text.replace(b'"a"}', b'"a%d"}' % index) for index in range(2)}
    message = refusal(request_aside(write(tmp_path / "content", many), scratch))
    assert message == "rendering needs more than 64 MiB of memory; split the bundle"


def test_a_child_that_times_out_is_killed(tmp_path: Path, scratch: Path) -> None:
    asked = request_aside(write(tmp_path / "content", MANIFESTS), scratch, seconds=0.01)
    assert "takes more than 0.01 s; split the bundle or raise --render-timeout" in refusal(asked)


def test_a_child_gets_the_whole_request(tmp_path: Path, scratch: Path) -> None:
    capabilities = Capabilities(
        kubernetes_version="v1.36.3", kinds={("x.io", "v1", "Foo"): False}, unknown=frozenset({"y.io"})
    )
    asked = replace(request_aside(write(tmp_path / "content", MANIFESTS), scratch), capabilities=capabilities)
    merge = {"target": {"kind": "ConfigMap"}, "merge": {"data": {"color": None}}}
    processor = Processor.model_validate({"kind": "patch", "patch": merge})
    read = rendering._read_request(rendering._write_request(Task("plain", asked, [processor])))
    assert read.request.capabilities == capabilities
    assert [each.parameters_json for each in read.processors] == [merge]


def test_a_child_runs_processors(tmp_path: Path, scratch: Path) -> None:
    asked = request_aside(write(tmp_path / "content", {"manifests/a.json": json_of("a")}), scratch)
    processors = [Processor.model_validate({"kind": "metadata", "metadata": {"labels": {"team": "shop"}}})]
    made = render_in_child(Task("plain", asked, processors)).unpacked()
    assert made == render(Task("plain", asked, processors))
    assert made.objects[0]["metadata"]["labels"] == {"team": "shop"}


def test_a_child_is_killed_when_its_result_is_no_longer_needed(tmp_path: Path, scratch: Path) -> None:
    cancelled = threading.Event()
    cancelled.set()
    asked = request_aside(write(tmp_path / "content", MANIFESTS), scratch, cancelled=cancelled)
    with pytest.raises(BundleError, match="the result is no longer needed"):
        render_in_child(Task("plain", asked))


def test_a_bug_in_a_child_is_raised(tmp_path: Path, scratch: Path) -> None:
    kinds: Any = {("a group without a version",): True}
    broken = replace(
        request_aside(write(tmp_path / "content", MANIFESTS), scratch),
        capabilities=Capabilities(kubernetes_version="v1.36.3", kinds=kinds),
    )
    with pytest.raises(RuntimeError, match=r"(?s)rendering in a child failed with status 1: Traceback.*ValueError"):
        render_in_child(Task("plain", broken))


BUDGETS: dict[str, tuple[dict[str, bytes], str]] = {
    "one file": (
        {"manifests/a.json": b" " * 2000},
        '"manifests/a.json": exceeds the limit of 1 KiB for one file',
    ),
    "all files": (
        {f"manifests/{index}.json": b" " * 1000 for index in range(3)},
        '"manifests/2.json": exceeds the limit of 2 KiB for all files',
    ),
    "values": ({"manifests/a.yaml": b"[" + b"0," * 20 + b"]"}, "manifests/a.yaml:1: more than 9 values"),
}


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_limits_of_a_small_pod_say_what_to_do(budget: str, tmp_path: Path, scratch: Path) -> None:
    files, saying = BUDGETS[budget]
    limits = replace(Limits(), manifest_bytes=1024, text_bytes=2048, nodes=9)
    message = refusal(request_aside(write(tmp_path / "content", files), scratch, limits=limits), render)
    assert message == f"{saying}; split the bundle or give the controller more memory"


REQUEST = RenderRequest(
    name="shop",
    install_namespace="shop",
    tree=ContentTree(root=Path("/nowhere"), destinations=("",)),
    config={},
    capabilities=Capabilities(kubernetes_version="v1.36.3"),
)


class Appending:
    """A plug-in that adds what its parameters say."""

    def validate(self, parameters: Any, path: str) -> list[str]:
        return []

    def process(self, request: ProcessRequest) -> Rendering:
        data: Any = request.parameters["object"]
        for _ in range(request.parameters.get("depth", 0)):
            data = [data]
        added = [{**request.parameters["object"], "data": data}] if request.parameters.get("depth") else [data]
        added *= request.parameters.get("times", 1)
        return replace(request.rendering, objects=[*request.rendering.objects, *added])


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a plug-in next to the built-in ones."""
    monkeypatch.syspath_prepend(str(PACKAGE))
    install_plugins(monkeypatch, {(entry_points.PROCESSORS, "example.com/append"): Appending})


PACKAGE = Path(__file__).parents[3] / "data" / "plugins"
"""Installed by being on the path, also that of children."""
KEY = "QUNNRS1LRVktMTIzNDU2Nzg5MGFiY2RlZg"


LOCKED = {"manifests/a.yaml": b"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {a: LOCKED}\n"}


def unlock(plain: str, **parameters: Any) -> Processor:
    return Processor.model_validate({"kind": "acme.example/unlock", "parameters": {"plain": plain, **parameters}})


def test_content_is_prepared_for_a_rendering_alone(tmp_path: Path, scratch: Path) -> None:
    asked = request_aside(write(tmp_path / "content", LOCKED), scratch)
    keys = {"keys": {"key": KEY.encode()}}
    task = Task("plain", asked, [unlock("Hunter2-is-long")], None, keys)
    made = render(task)
    assert base64.b64decode(made.objects[0]["data"]["a"]) == b"Hunter2-is-long"
    again = render_in_child(task)  # beside what the other has left
    assert again.unpacked() == made
    assert (tmp_path / "content" / "manifests" / "a.yaml").read_bytes() == LOCKED["manifests/a.yaml"]


class Withheld(NamedTuple):
    said: str
    files: Mapping[str, bytes] = LOCKED
    plain: str = "Hunter2-is-long"
    key: str = KEY
    more: Sequence[str] = ()
    then: tuple[Processor, ...] = ()


WITHHELD = {
    "a wrong key": Withheld("spec.processors[0].parameters: wrong key …", key="WRONG" + KEY),
    "a file that is not there": Withheld('.parameters: "b.yaml" is no file of the content', more=["b.yaml"]),
    "a folder": Withheld('spec.processors[0].parameters: "manifests" is no file of the content', more=["manifests"]),
    "a path that leaves the content": Withheld("is no file of the content", more=["../a"]),
    "what is no YAML any more": Withheld("manifests/a.yaml:", plain="[Hunter2-is-long"),
    "a name": Withheld(
        "objects[0].metadata.name contains a value of a Secret",
        files={"manifests/a.yaml": LOCKED["manifests/a.yaml"].replace(b"name: a", b"name: LOCKED")},
        plain="hunter2-is-long",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WITHHELD)
def test_what_is_prepared_is_not_in_messages(case: str, tmp_path: Path, scratch: Path) -> None:
    said, files, plain, key, more, then = WITHHELD[case]
    asked = request_aside(write(tmp_path / "content", files), scratch)
    with pytest.raises(BundleError) as raised:
        render(Task("plain", asked, [unlock(plain, more=list(more)), *then], None, {"keys": {"key": key.encode()}}))
    assert said in raised.value.message
    assert "Hunter2" not in raised.value.message
    assert "hunter2" not in raised.value.message
    assert key not in raised.value.message


class Revealing(Appending):
    """Adds an object with a text that must not be shown."""

    def process(self, request: ProcessRequest) -> Rendering:
        return replace(super().process(request), secrets=["Hunter2-is-long"])


class Quoting(Appending):
    """Quotes what it is given, which it cannot know to be secret."""

    def process(self, request: ProcessRequest) -> Rendering:
        text = request.rendering.objects[-1]["data"]["a"]
        raise BundleError(Reason.INVALID_CONFIG, f"{request.path}: not {text}; correct it")


class Reading(Appending):
    """Quotes the content, as others have prepared it."""

    def prepare(self, request: PrepareRequest) -> Prepared:
        text = (request.tree.root / "manifests" / "a.yaml").read_text()
        raise BundleError(Reason.INVALID_CONFIG, f"{request.path}: not {text}; correct it")


REVEALED = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"a": "Hunter2-is-long"}}


def test_what_a_processor_reveals_is_not_in_messages_of_later_ones(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = {"example.com/reveal": Revealing, "example.com/quote": Quoting}
    install_plugins(monkeypatch, {(entry_points.PROCESSORS, kind): made for kind, made in kinds.items()})
    reveal, quote = (
        Processor.model_validate({"kind": kind, "parameters": {"object": REVEALED, "times": 1}}) for kind in kinds
    )
    asked = request_aside(write(tmp_path / "content", LOCKED), scratch)
    with pytest.raises(BundleError) as raised:
        render(Task("plain", asked, [reveal, quote]))
    assert raised.value.message == "spec.processors[1].parameters: not …; correct it"


def test_what_is_prepared_is_not_in_messages_of_who_prepares_later(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_plugins(monkeypatch, {(entry_points.PROCESSORS, "example.com/read"): Reading})
    reads = Processor.model_validate({"kind": "example.com/read"})
    asked = request_aside(write(tmp_path / "content", LOCKED), scratch)
    with pytest.raises(BundleError, match=r"stringData: \{a: …\}"):
        render(Task("plain", asked, [unlock("Hunter2-is-long"), reads], None, {"keys": {"key": KEY.encode()}}))


def test_secrets_are_known_once_however_many_processors_pass_them_on() -> None:
    marks = Processor.model_validate({"kind": "metadata", "metadata": {"labels": {"a": "b"}}})
    found = process([marks] * 12, Rendering(objects=[config_map("a")], secrets=["Hunter2-is-long"]), REQUEST)
    assert list(found.secrets) == ["Hunter2-is-long"]


def test_what_is_prepared_has_limits(tmp_path: Path, scratch: Path) -> None:
    asked = request_aside(write(tmp_path / "content", LOCKED), scratch, limits=Limits(file_bytes=100))
    with pytest.raises(BundleError, match=r'"manifests/a\.yaml" exceeds the limit of 100 bytes for one file'):
        render(Task("plain", asked, [unlock("x" * 100)], None, {"keys": {"key": KEY.encode()}}))


def patch(merge: dict[str, Any], **target: str) -> Processor:
    return Processor.model_validate({"kind": "patch", "patch": {"target": target, "merge": merge}})


def append(item: Any, **parameters: Any) -> Processor:
    return Processor.model_validate({"kind": "example.com/append", "parameters": {"object": item, **parameters}})


def run(*processors: Processor, objects: list[dict[str, Any]] | None = None, means: Means | None = None) -> list[Any]:
    request = replace(REQUEST, means=means or Means())
    return list(process(processors, Rendering(objects=objects or [config_map("a")]), request).objects)


def refusal_of_process(
    *processors: Processor, objects: list[dict[str, Any]] | None = None, means: Means | None = None
) -> BundleError:
    with pytest.raises(BundleError) as caught:
        run(*processors, objects=objects, means=means)
    return caught.value


def test_processors_run_in_order() -> None:
    found = run(
        patch({"data": {"color": "red"}}, name="a"),
        append(config_map("b")),
        patch({"data": {"size": "large"}}, kind="ConfigMap"),
        patch({"metadata": {"name": "c"}}, name="b"),
    )
    assert found == [config_map("a", color="red", size="large"), config_map("c", color="blue", size="large")]


def test_a_message_names_the_processor_by_index() -> None:
    error = refusal_of_process(patch({}, name="a"), patch({}, name="b"))
    assert error.message.startswith("spec.processors[1].patch.target: matches no object")


def test_without_processors_nothing_is_even_looked_at() -> None:
    rendering = Rendering(objects=[{}])
    assert process((), rendering, REQUEST) is rendering


def test_a_kind_that_is_not_installed_is_refused() -> None:
    error = refusal_of_process(Processor(kind="example.com/none"))
    problem = 'spec.processors[0].kind: no plug-in for processors of kind "example.com/none"; install one or correct it'
    assert (error.reason, error.message) == (Reason.UNKNOWN_PROCESSOR, problem)


def test_the_marks_of_the_controller_are_refused_and_those_of_the_bundle_dropped() -> None:
    marked = labelled(config_map("a"), labels={OWNER_LABEL: "other"})
    assert run(patch({"data": {"size": "large"}}, name="a"), objects=[marked]) == [
        config_map("a", color="blue", size="large")
    ]
    error = refusal_of_process(patch({}, name="a"), patch({"metadata": {"labels": {OWNER_LABEL: "other"}}}, name="a"))
    problem = f'sets metadata.labels["{OWNER_LABEL}"] of ConfigMap a, which belongs to the controller; remove it'
    assert (error.reason, error.message) == (Reason.INVALID_CONFIG, f"spec.processors[1]: {problem}")


def test_an_object_that_loses_its_name_is_refused() -> None:
    error = refusal_of_process(patch({"metadata": {"name": None}}, name="a"))
    expect = "spec.processors[0]: makes an invalid object: objects[0]: metadata.name: missing"
    assert (error.reason, error.message) == (Reason.INVALID_CONFIG, expect)


def test_an_invalid_object_of_the_bundle_is_not_the_fault_of_a_processor() -> None:
    error = refusal_of_process(patch({}, name="a"), objects=[{"kind": "ConfigMap"}])
    assert (error.reason, error.message) == (Reason.INVALID_BUNDLE, "objects[0]: apiVersion: missing")


def test_text_has_limits() -> None:
    large = config_map("b", text="x" * 1000)
    error = refusal_of_process(append(large, times=10), means=Means(limits=Limits(text_bytes=10_000)))
    assert error.reason is Reason.RENDER_LIMIT_EXCEEDED
    assert error.message == "spec.processors[0].parameters: process returns more than 9.8 KiB of text; split the bundle"
    with pytest.raises(LargeTextError):
        run(append(config_map("b", text="x" * 1_000_000), times=5), means=Means(inline=True))


def test_nesting_has_limits() -> None:
    error = refusal_of_process(append(config_map("b"), depth=100_000))
    assert error.reason is Reason.PLUGIN_FAILED
    assert "does not keep its contract: process returns objects[1].data[0][0]" in error.message
    assert "… nested more than 200 levels deep; see the log" in error.message


PASSWORD = "Hunter2-is-long"
ENCODED = base64.b64encode(PASSWORD.encode()).decode()
LOGIN = Confidential(
    secrets=(PASSWORD, "admin", "q"), public='shop\n{"format": "helm", "config": {"stage": "testing"}}'
)
RBAC = "rbac.authorization.k8s.io/v1"


def item(kind: str = "ConfigMap", name: str = "web", version: str = "v1", **more: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **more.pop("metadata", {})}, **more}


def refuse(rendering: Rendering, root: Path, files: Mapping[str, bytes], confidential: Confidential = LOGIN) -> None:
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    request = RenderRequest(
        name="shop",
        install_namespace="shop-system",
        tree=ContentTree(root=root, destinations=("",)),
        config={},
        capabilities=Capabilities(kubernetes_version="v1.36.3", kinds={("apps", "v1", "Deployment"): True}),
    )
    refuse_secret_names(rendering, confidential, request)


class Refused(NamedTuple):
    name: str
    item: dict[str, Any]
    place: str


def pod(**spec: Any) -> dict[str, Any]:
    return item("Deployment", version="apps/v1", spec={"template": {"spec": spec}})


# fmt: off
REFUSED = [
    Refused("the name", item(name="hunter2-is-long"), "metadata.name"),
    Refused("a part of the name", item(name="web-hunter2-is-long-0"), "metadata.name"),
    Refused("in other case", item(name="HUNTER2-IS-LONG"), "metadata.name"),
    Refused("without what no name may have", item(name="web-hunter2islong"), "metadata.name"),
    Refused("a word of it", item(name="hunter2"), "metadata.name"),
    Refused("what is left of it in a name that was cut", item(name="a" * 50 + "hunter2islo"), "metadata.name"),
    Refused("in base64", item(name=ENCODED.lower().rstrip("=")), "metadata.name"),
    Refused("in base64 that was cut", item(name=ENCODED.lower()[:9]), "metadata.name"),
    Refused("in hexadecimal digits", item(name=PASSWORD.encode().hex()), "metadata.name"),
    Refused("the namespace", item(metadata={"namespace": "hunter2-is-long"}), "metadata.namespace"),
    Refused("the kind", item(kind="Hunter2"), "kind"),
    Refused("the group", item(version="hunter2.example.com/v1"), "apiVersion"),
    Refused("the version", item(version="example.com/hunter2"), "apiVersion"),
    Refused("another value", item(name="web-admin"), "metadata.name"),
    Refused("the rules of a role", item("Role", version=RBAC, rules=[{"resourceNames": ["hunter2"]}]), "rules"),
    Refused("the role of a binding", item("RoleBinding", version=RBAC, roleRef={"name": "hunter2"}), "roleRef"),
    Refused("the names of a definition",
            item("CustomResourceDefinition", version="apiextensions.k8s.io/v1", spec={"names": {"plural": "hunter2s"}}),
            "spec.names"),
    Refused("a container", pod(containers=[{"name": "web"}, {"name": "hunter2"}]),
            "spec.template.spec.containers[1].name"),
    Refused("the account of pods", pod(serviceAccountName="hunter2"), "spec.template.spec.serviceAccountName"),
    Refused("an annotation that is read", item(metadata={"annotations": {"core.rukpak.io/ignore-fields": "hunter2"}}),
            "metadata.annotations"),
]
# fmt: on


@pytest.mark.parametrize("case", REFUSED, ids=attrgetter("name"))
def test_a_value_of_a_secret_is_refused_as(case: Refused, tmp_path: Path) -> None:
    for made, place in (
        (Rendering(objects=[item(), case.item]), "objects[1]"),
        (Rendering(objects=[], hooks=[Hook(manifest=case.item, events=("pre-install",))]), "hooks[0]"),
    ):
        with pytest.raises(BundleError) as caught:
            refuse(made, tmp_path, {"values.yaml": b"login: {password: none}"})
        assert caught.value.reason is Reason.INVALID_CONFIG
        assert caught.value.message == (
            f"spec.configFrom: {place}.{case.place} contains a value of a Secret, and everybody who can read "
            "BundleDeployments can see it there; take it from a ConfigMap or spec.config if it is not secret, or "
            "change the bundle"
        )


NAMED = Rendering(objects=[item(name="web-admin")])
DEPENDENCY = pack({"db/templates/a.yaml": b"name: {{ .Release.Name }}-admin\n"})


def test_a_value_that_is_used_as_a_value_is_not_refused(tmp_path: Path) -> None:
    refuse(Rendering(objects=[item(data={"a": PASSWORD}, metadata={"labels": {"a": "admin"}})]), tmp_path, {})


IN_CONTENT = {
    "a template": {"templates/a.yaml": b'name: "{{ .Release.Name }}-admin"'},
    "in other case": {"README.md": b"The ADMIN of the shop"},
    "the name of a file": {"templates/admin.yaml": b""},
    "a packed chart": {"web-1.0.0.tgz": pack({"web/values.yaml": b"user: admin\n"})},
    "a dependency that is packed in a packed chart": {"web.tgz": pack({"web/charts/db-1.0.0.tgz": DEPENDENCY})},
}


@pytest.mark.parametrize("where", IN_CONTENT)
def test_what_is_in_the_content_is_no_secret(where: str, tmp_path: Path) -> None:
    refuse(NAMED, tmp_path, IN_CONTENT[where])


def test_a_longer_secret_is_one_although_the_content_has_its_beginning(tmp_path: Path) -> None:
    secret = Confidential(secrets=("postgres4711",), public="")
    content = {"values.yaml": b"image: postgresql"}
    refuse(Rendering(objects=[item(name="db-postgresql")]), tmp_path, content, secret)
    with pytest.raises(BundleError, match="contains a value of a Secret"):
        refuse(Rendering(objects=[item(name="db-postgres4711")]), tmp_path, content, secret)


PUBLIC = {
    "a short value": item(name="q"),
    "the name of the BundleDeployment": item(name="shop-web"),
    "a value of the spec": item(name="web-testing"),
    "the namespace of the installation": item(metadata={"namespace": "shop-system"}),
    "a kind that is served": item("Deployment", version="apps/v1"),
}


@pytest.mark.parametrize("what", PUBLIC)
def test_what_everybody_may_read_is_no_secret(what: str, tmp_path: Path) -> None:
    secrets = ("q", "shop", "testing", "shop-system", "system", "deployment", "apps/v1")
    refuse(Rendering(objects=[PUBLIC[what]]), tmp_path, {}, Confidential(secrets=secrets, public=LOGIN.public))


def test_an_archive_that_cannot_be_read_has_no_names(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="contains a value of a Secret"):
        refuse(NAMED, tmp_path, {"web.tgz": DEPENDENCY[:60]})


def test_archives_in_each_other_end(tmp_path: Path) -> None:
    data = b"admin"
    for _ in range(10):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            about = tarfile.TarInfo("a.tgz")
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))
        data = packed.getvalue()
    with pytest.raises(BundleError, match="contains a value of a Secret"):
        refuse(NAMED, tmp_path, {"a.tgz": data})


def test_many_values_and_names_take_no_quadratic_time(tmp_path: Path) -> None:
    secrets = Confidential(secrets=tuple(f"password{number:06}" for number in range(50_000)), public="")
    objects = [item(name=f"web-{number}-passwor") for number in range(5000)]
    refuse(Rendering(objects=objects), tmp_path, {}, secrets)


def test_a_warning_with_a_value_of_a_secret_is_not_shown() -> None:
    assert without_secrets("ConfigMap shop/web: has a hook", LOGIN) == "ConfigMap shop/web: has a hook"
    shown = without_secrets("ConfigMap shop/hunter2: has a hook", LOGIN)
    assert shown == "a warning about the bundle is not shown, because it contains a value of a Secret"


class Named:
    """A format whose bundle has a name with a secret, and of more than a line."""

    def validate(self, config: Any) -> list[str]:
        return []

    def suggest_namespace(self, tree: Any, config: Any) -> str:
        return "shop"

    def render(self, request: RenderRequest) -> Rendering:
        secrets = ["hunter2"] if request.config["decrypts"] else []
        return Rendering(objects=[item()], secrets=secrets, bundle=f"shop\nhunter2-{'x' * 200}")


@pytest.mark.parametrize(("decrypts", "expected"), [(True, ""), (False, f"shop hunter2-{'x' * 115}")])
def test_the_name_of_a_bundle_is_a_line_without_secrets(
    decrypts: bool, expected: str, tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_plugins(monkeypatch, {(entry_points.FORMATS, "example.com/named"): Named})
    asked = replace(request_aside(write(tmp_path / "content", LOCKED), scratch), config={"decrypts": decrypts})
    assert render(Task("example.com/named", asked)).terms.bundle == expected
