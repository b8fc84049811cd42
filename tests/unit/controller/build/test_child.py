from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from api.errors import BundleError
from api.plugins import MEBIBYTE, Capabilities, ContentTree, Limits, Means, Refusal, RenderRequest
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import Processor
from controller.build import child as aside
from controller.build.builder import render_here_or_in_child
from controller.build.child import render_in_child
from controller.build.rendering import render
from controller.build.request import BuildContext, Places
from controller.build.revision import PackedRevision, Revision
from controller.formats.manifests import INLINE, estimate
from tests.support.charts import chart_of, write

GREAT = 5 * MEBIBYTE
CAPABILITIES = Capabilities(kubernetes_version="v1.36.3", kinds={("", "v1", "ConfigMap"): True})


def config_map(name: str, **data: str) -> bytes:
    value = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
    return json.dumps(value, ensure_ascii=False).encode()


MANIFESTS = {
    "manifests/a.json": config_map("a", great="x" * GREAT, wide="\U0001f600" * 20),
    "manifests/b.yaml": b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: null\n",
}


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def request(root: Path, scratch: Path, **means: Any) -> RenderRequest:
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


def test_a_child_renders_the_same_revision(tmp_path: Path, scratch: Path) -> None:
    asked = request(write(tmp_path / "content", MANIFESTS), scratch)
    made, expected = render_in_child("plain", asked), render("plain", asked)
    assert made.unpacked() == expected
    assert len(made.objects) < GREAT // 100


def test_a_child_refuses_what_must_not_be_read(tmp_path: Path, scratch: Path) -> None:
    asked = request(write(tmp_path / "content", MANIFESTS), scratch)
    refused = {"manifests/c\udcff.yaml": Refusal(problem='not "UTF-8"', reason=Reason.UNSUPPORTED_CONTENT)}
    asked = replace(asked, tree=replace(asked.tree, refused=refused))
    with pytest.raises(BundleError) as caught:
        render_in_child("plain", asked)
    assert (caught.value.reason, caught.value.message) == (Reason.UNSUPPORTED_CONTENT, 'not "UTF-8"')


def test_small_text_is_parsed_in_this_process(tmp_path: Path, scratch: Path) -> None:
    rooms, asked = Rooms(), request(write(tmp_path / "content", {"manifests/a.json": config_map("a")}), scratch)
    assert isinstance(
        render_here_or_in_child("plain", with_inline(asked), BuildContext(room=rooms.room), places=Places()),
        Revision,
    )
    assert rooms.asked == [estimate(len(config_map("a")), INLINE)]


def with_inline(asked: RenderRequest) -> RenderRequest:
    return replace(asked, means=replace(asked.means, inline=True))


LARGE: dict[str, bytes] = {
    "long": config_map("a", great="x" * GREAT),
    "of many values": b'{"apiVersion":"v1","kind":"Widget","metadata":{"name":"a"},"spec":[' + b"0," * 150_000 + b"0]}",
}


@pytest.mark.parametrize("large", LARGE)
def test_large_text_is_parsed_in_a_child(large: str, tmp_path: Path, scratch: Path) -> None:
    rooms, asked = Rooms(), request(write(tmp_path / "content", {"manifests/a.json": LARGE[large]}), scratch)
    made = render_here_or_in_child("plain", with_inline(asked), BuildContext(room=rooms.room), places=Places())
    assert isinstance(made, PackedRevision)
    assert made.unpacked() == render("plain", asked)
    assert rooms.asked[1:] == [estimate(len(LARGE[large]), Limits())]


VALID_CHART = chart_of(
    {
        "templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
        'data: {dice: {{ randAlphaNum 9 }}, great: {{ repeat 5300000 "x" }}}\n'
    }
)


def test_helm_is_run_once_for_a_large_output(tmp_path: Path, scratch: Path) -> None:
    asked = with_inline(request(write(tmp_path / "content", VALID_CHART), scratch))
    made = render_here_or_in_child("helm", asked, BuildContext(), places=Places())
    assert isinstance(made, PackedRevision)
    [item] = made.unpacked().objects
    assert f"dice: {item['data']['dice']}".encode() in (scratch / "output").read_bytes()


def refusal(asked: RenderRequest, make: Callable[[str, RenderRequest], object] = render_in_child) -> str:
    with pytest.raises(BundleError) as caught:
        make("plain", asked)
    assert caught.value.reason is Reason.RENDER_LIMIT_EXCEEDED
    return caught.value.message


def test_a_child_reports_the_same_errors(tmp_path: Path, scratch: Path) -> None:
    asked = request(write(tmp_path / "content", {"manifests/a.yaml": b"a: [\n"}), scratch)
    with pytest.raises(BundleError) as here:
        render("plain", asked)
    with pytest.raises(BundleError) as there:
        render_in_child("plain", asked)
    assert (there.value.reason, there.value.message) == (here.value.reason, here.value.message)


def test_who_takes_more_than_its_address_space_is_told_what_to_do(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aside, "address_space", lambda _limits: 64 * MEBIBYTE)
    text = b'{"apiVersion":"v1","kind":"Widget","metadata":{"name":"a"},"spec":{"a":"' + b"x" * (12 << 20) + b'"}}'
    many = {f"manifests/{index}.json": text.replace(b'"a"}', b'"a%d"}' % index) for index in range(2)}
    message = refusal(request(write(tmp_path / "content", many), scratch))
    assert message == "rendering needs more than 64 MiB of memory; split the bundle"


def test_a_child_that_times_out_is_killed(tmp_path: Path, scratch: Path) -> None:
    asked = request(write(tmp_path / "content", MANIFESTS), scratch, seconds=0.01)
    assert "takes more than 0.01 s; split the bundle or raise --render-timeout" in refusal(asked)


def test_a_child_gets_the_whole_request(tmp_path: Path, scratch: Path) -> None:
    capabilities = Capabilities(
        kubernetes_version="v1.36.3", kinds={("x.io", "v1", "Foo"): False}, unknown=frozenset({"y.io"})
    )
    asked = replace(request(write(tmp_path / "content", MANIFESTS), scratch), capabilities=capabilities)
    merge = {"target": {"kind": "ConfigMap"}, "merge": {"data": {"color": None}}}
    processor = Processor.model_validate({"kind": "patch", "patch": merge})
    written = json.loads(json.dumps(aside._write_request("plain", asked, [processor])))
    assert aside._read_request(written).capabilities == capabilities
    assert [each.parameters_json for each in aside._read_processors(written)] == [merge]


def test_a_child_runs_processors(tmp_path: Path, scratch: Path) -> None:
    asked = request(write(tmp_path / "content", {"manifests/a.json": config_map("a")}), scratch)
    processors = [Processor.model_validate({"kind": "metadata", "metadata": {"labels": {"team": "shop"}}})]
    made = render_in_child("plain", asked, processors).unpacked()
    assert made == render("plain", asked, processors)
    assert made.objects[0]["metadata"]["labels"] == {"team": "shop"}


def test_a_child_is_killed_when_its_result_is_no_longer_needed(tmp_path: Path, scratch: Path) -> None:
    cancelled = threading.Event()
    cancelled.set()
    asked = request(write(tmp_path / "content", MANIFESTS), scratch, cancelled=cancelled)
    with pytest.raises(BundleError, match="the result is no longer needed"):
        render_in_child("plain", asked)


def test_a_bug_in_a_child_is_raised(tmp_path: Path, scratch: Path) -> None:
    kinds: Any = {("a group without a version",): True}
    broken = replace(
        request(write(tmp_path / "content", MANIFESTS), scratch),
        capabilities=Capabilities(kubernetes_version="v1.36.3", kinds=kinds),
    )
    with pytest.raises(RuntimeError, match=r"(?s)rendering in a child failed with status 1: Traceback.*ValueError"):
        render_in_child("plain", broken)


BUDGETS: dict[str, tuple[dict[str, bytes], str]] = {
    "one file": (
        {"manifests/a.json": b" " * 2000},
        '"manifests/a.json": exceeds the limit of 1024 bytes for one file',
    ),
    "all files": (
        {f"manifests/{index}.json": b" " * 1000 for index in range(3)},
        '"manifests/2.json": exceeds the limit of 2048 bytes for all files',
    ),
    "values": ({"manifests/a.yaml": b"[" + b"0," * 20 + b"]"}, "manifests/a.yaml:1: more than 9 values"),
}


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_limits_of_a_small_pod_say_what_to_do(budget: str, tmp_path: Path, scratch: Path) -> None:
    files, saying = BUDGETS[budget]
    limits = replace(Limits(), manifest_bytes=1024, text_bytes=2048, nodes=9)
    message = refusal(request(write(tmp_path / "content", files), scratch, limits=limits), render)
    assert message == f"{saying}; split the bundle or give the controller more memory"
