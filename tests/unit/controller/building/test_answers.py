"""What a bundle looks up: limits, what it sees, what is recorded and withheld, and what of it is kept."""

from __future__ import annotations

import base64
import threading
from pathlib import Path
from typing import Any

import pytest

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.plugins import Answers, ContentTree, Limits, Lookup, Means, RenderRequest
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.building.answers import (
    LOOKUPS,
    Asked,
    changed_values,
    describe_generated,
    differ,
    keep_left_out,
)
from rukpak.controller.building.builder import Builder
from rukpak.controller.building.rendering import Task, render_in_child
from rukpak.controller.building.request import BuildContext, BuildSettings, Found
from rukpak.controller.building.revision import Revision, Terms, pack, pack_terms, unpack_terms
from rukpak.controller.content.store import ContentStore
from rukpak.controller.formats.applicable import revision_digest
from rukpak.controller.formats.helm.lookups import UnansweredError
from rukpak.controller.formats.objects import ObjectKey
from tests.support.charts import CAPABILITIES, chart_of, packaged_helm, write
from tests.support.deployments import RESOLVED_AT, request, spec
from tests.unit.controller.building.test_builder import SHELF, Shelf, serve, whole

DB = Lookup("v1", "Secret", "shop", "db")
ALL = Lookup("v1", "Secret", "shop", "")
OWN = f"{names.GROUP}/owner-uid"
LIVE = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {
        "name": "db",
        "namespace": "shop",
        "uid": "u",
        "resourceVersion": "7",
        "managedFields": [{}],
        "labels": {names.OWNER_LABEL: "shop"},
        "annotations": {OWN: "x", "a": "b"},
    },
    "data": {"password": base64.b64encode(b"hunter22").decode()},
}
METADATA = {"name": "db", "namespace": "shop", "uid": "u", "labels": {names.OWNER_LABEL: "shop"}}


REQUEST = request(spec(format="helm"))


def found(lookup: Lookup) -> Found:
    if not lookup.name:
        bare = {key: value for key, value in LIVE.items() if key not in ("apiVersion", "kind")}
        manifest = {"kind": "SecretList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": [bare]}
        return Found(manifest=manifest, version="9")
    return Found(manifest=LIVE, version="7") if lookup == DB else Found()


def test_a_bundle_sees_neither_what_changes_by_itself_nor_what_is_the_controllers() -> None:
    asked = Asked(REQUEST, found)
    for lookup in (ALL, DB, Lookup("v1", "Secret", "shop", "no")):
        asked.ask(lookup)
    secret = {**LIVE, "metadata": {**METADATA, "annotations": {"a": "b"}}}
    answers = asked.answers or {}
    assert answers[DB] == secret
    assert answers[ALL] == {"kind": "SecretList", "apiVersion": "v1", "metadata": {}, "items": [secret]}
    assert [each[:5] for each in asked.recorded()] == [
        ("v1", "Secret", "shop", "", "9"),
        ("v1", "Secret", "shop", "db", "7"),
        ("v1", "Secret", "shop", "no", ""),
    ]
    assert set(asked.secrets()) == {"hunter22", base64.b64encode(b"hunter22").decode()}
    assert asked.own_objects("shop") == {("", "Secret", "shop", "db")}
    assert not asked.own_objects("other")


def test_another_version_of_the_same_is_no_difference() -> None:
    answers = (found, lambda _: Found(manifest=LIVE, version="8"), lambda _: Found())
    one, other, third = (Asked(REQUEST, answer) for answer in answers)
    for each in (one, other, third):
        each.ask(DB)
    assert not differ(one.recorded(), other.recorded())
    assert differ(one.recorded(), third.recorded())


@pytest.mark.parametrize("name", ["hunter22", "a-HUNTER22-b", base64.b64encode(b"hunter22").decode().rstrip("=")])
def test_a_value_of_a_secret_is_no_name_of_what_is_looked_up_unless_the_spec_says_it(name: str) -> None:
    asked = Asked(REQUEST, found)
    asked.ask(DB)
    with pytest.raises(BundleError) as caught:
        asked.ask(Lookup("v1", "ConfigMap", "shop", name))
    assert (caught.value.reason, name in caught.value.message) == (Reason.INVALID_CONFIG, False)
    values = {"values": {"public": ["hunter22", base64.b64encode(b"hunter22").decode()]}}
    asked = Asked(request(spec(format="helm", config=values)), found)
    asked.ask(DB)
    asked.ask(Lookup("v1", "ConfigMap", "shop", name))


LIMITS: dict[str, tuple[int, int, str]] = {
    "as many as there may be": (LOOKUPS, 1, ""),
    "one more": (LOOKUPS + 1, 1, "looks up more than 64 objects and lists"),
    "as much as there may be": (4, 1 << 19, ""),
    "more": (5, 1 << 20, "exceeds 4 MiB"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_lookups_have_limits(name: str) -> None:
    count, size, told = LIMITS[name]
    asked, problem = Asked(REQUEST, lambda _: Found(manifest={"a": "x" * size})), ""
    try:
        for number in range(count):
            asked.ask(Lookup("v1", "ConfigMap", "shop", f"a{number}"))
    except BundleError as error:
        problem = f"{error.reason.value} {error.message}"
    assert (told in problem, problem.startswith("RenderLimitExceeded")) == (True, bool(told))


def item(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "shop"}}


def revision(*objects: dict[str, Any]) -> Revision:
    terms = Terms(inputs="", install_namespace="shop")
    return Revision(digest=revision_digest(objects), objects=objects, terms=terms)


A, B, C = item("a"), item("b"), item("c")
LEFT_OUT: dict[str, tuple[list[dict[str, Any]], set[str], list[dict[str, Any]]]] = {
    "one that is found": ([A, C], {"b"}, [A, B, C]),
    "one that is not found": ([A, C], set(), [A, C]),
    "one that is found and rendered": ([A, B, C], {"b"}, [A, B, C]),
    "all": ([], {"a", "b", "c"}, [A, B, C]),
    "one that was never there": ([A, B, C], {"d"}, [A, B, C]),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_an_object_that_is_left_out_because_it_is_found_is_kept(name: str) -> None:
    rendered, own, expect = LEFT_OUT[name]
    made = keep_left_out(
        revision(*rendered), revision(A, B, C), frozenset(ObjectKey("", "Secret", "shop", each) for each in own)
    )
    assert (list(made.objects), made.digest) == (expect, revision(*expect).digest)


CHANGED: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], set[str]]] = {
    "a value": ([{**A, "data": {"k": "1", "l": "1"}}], [{**A, "data": {"k": "2", "l": "1"}}], {"shop/a data.k"}),
    "a key with a dot": ([{**A, "data": {"tls.key": "1"}}], [{**A, "data": {"tls.key": "2"}}], {"shop/a data.tls.key"}),
    "one that is new": ([{**A, "data": {"k": "1"}}], [A], set()),
    "one that is gone": ([A], [{**A, "data": {"k": "1"}}], set()),
    "of a new Secret": ([{**B, "data": {"k": "1"}}], [{**A, "data": {"k": "2"}}], set()),
    "of another kind": (
        [{**A, "kind": "ConfigMap", "data": {"k": "1"}}], [{**A, "kind": "ConfigMap", "data": {"k": "2"}}], set()
    ),
    "two at once": (
        [{**A, "data": {"k": "1"}}, {**B, "data": {"k": "1"}}],
        [{**B, "data": {"k": "2"}}, {**A, "data": {"k": "2"}}],
        {"shop/a data.k", "shop/b data.k"},
    ),
    "of another namespace": (
        [{**A, "data": {"k": "1"}}],
        [{**A, "metadata": {"name": "a", "namespace": "other"}, "data": {"k": "2"}}],
        set(),
    ),
    "of no mapping": ([{**A, "data": {"k": "1"}}], [{**A, "data": "x"}], set()),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_values_of_secrets_that_differ_are_found(name: str) -> None:
    made, other, expect = CHANGED[name]
    assert set(map(" ".join, changed_values(revision(*made), revision(*other)))) == expect


def test_what_is_generated_anew_is_a_warning_for_each_secret() -> None:
    told = list(describe_generated({("s/b", "data.a"), *(("s/a", f"data.{number}") for number in range(7))}))
    what = "made anew, since the content or spec.config has changed and the bundle generates it each time"
    remedy = "to keep it, have the chart take it from a Secret of yours, or set it in spec.config"
    assert told == [
        f"Secret s/a: data.0, data.1, data.2, data.3, data.4 and 2 more: {what}; {remedy}",
        f"Secret s/b: data.a: {what}; {remedy}",
    ]


def test_the_terms_of_a_revision_record_what_was_looked_up() -> None:
    asked = Asked(REQUEST, found)
    asked.ask(DB)
    terms = Terms(inputs="", install_namespace="shop", looked_up=asked.recorded())
    packed = pack(Revision(digest="sha256:a", objects=(), terms=terms))
    again = unpack_terms("sha256:a", pack_terms(packed), packed.objects)
    assert again.terms == terms


CHART = chart_of({
    "templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
    'data: {a: \'{{ (lookup "v1" "Secret" "shop" "db").metadata.uid }}\'}\n'
})  # fmt: skip


@pytest.mark.parametrize("answers", [None, {}, {DB: LIVE}], ids=["without answers", "unanswered", "answered"])
def test_a_child_asks_and_is_answered_as_this_process(answers: Answers | None, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    wanted = RenderRequest(
        name="shop",
        install_namespace="shop",
        tree=ContentTree(root=write(tmp_path / "tree", CHART), destinations=("",)),
        config={},
        capabilities=CAPABILITIES,
        means=Means(scratch=scratch, programs={"helm": str(packaged_helm())}),
        answers=answers,
    )
    if answers:
        assert whole(render_in_child(Task("helm", wanted))).objects[0]["data"] == {"a": "u"}
        return
    with pytest.raises(BundleError) as raised:
        render_in_child(Task("helm", wanted))
    assert getattr(raised.value, "lookup", None) == (None if answers is None else DB)
    assert isinstance(raised.value, UnansweredError) is (answers is not None)


def test_each_object_is_read_once_for_a_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, Shelf({"c": CHART}))
    read: list[Lookup] = []

    def _read(lookup: Lookup) -> Found:
        read.append(lookup)
        return found(lookup)

    means = Means(programs={"helm": str(packaged_helm())})
    settings = BuildSettings(store_bytes=1 << 20, limits=Limits(), timeout=60, means=means)
    builder = Builder(ContentStore(tmp_path / "store"), settings, lambda: RESOLVED_AT)
    asked = request(spec({"kind": SHELF, "parameters": {"name": "c"}}, format="helm"))
    context = BuildContext(look_up=_read)
    made = whole(builder.build(asked, CAPABILITIES, threading.Event(), context))
    assert ([*made.objects[0]["data"].values()], read) == (["u"], [DB])
    refused = BuildContext(look_up=_refuse)
    with pytest.raises(BundleError, match="not permitted"):
        builder.build(asked, CAPABILITIES, threading.Event(), refused)


def _refuse(_lookup: Lookup) -> Found:
    raise BundleError(Reason.FORBIDDEN, "not permitted")
