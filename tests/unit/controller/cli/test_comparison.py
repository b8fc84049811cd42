"""Objects as a comparison shows them, and the comparison as text and as data."""

from __future__ import annotations

import base64
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rukpak.api import names
from rukpak.controller.apply.ownership import Owner
from rukpak.controller.apply.targets import TargetSet, make_targets
from rukpak.controller.building.revision import Revision, Terms
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.observe.records import key_of
from rukpak.controller.views.comparison import (
    Change,
    Comparison,
    Difference,
    clean,
    compare_hooks,
    compare_revisions,
    mask,
    outline,
    summarize,
    to_value,
    write,
)

Manifest = dict[str, Any]
HASH_KEY = b"key"
KEY = b"key"
DIGESTS = tuple(f"sha256:{letter * 64}" for letter in "ab")


def secret(**data: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": data}


def encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_what_the_server_and_the_controller_record_is_left_out() -> None:
    metadata = {
        "name": "a",
        "namespace": "shop",
        "uid": "u",
        "resourceVersion": "1",
        "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{}],
        "labels": {names.OWNER_LABEL: "shop", "app": "web"},
        "annotations": {names.APPLIED_DIGEST: "v1:x", names.OWNER_UID: "u"},
        "ownerReferences": [{"kind": names.KIND, "name": "shop"}],
    }
    value = {"kind": "ConfigMap", "data": {"b": "2", "a": "1"}, "metadata": metadata, "apiVersion": "v1", "status": {}}
    cleaned = clean(value)
    assert cleaned == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"labels": {"app": "web"}, "name": "a", "namespace": "shop"},
        "data": {"a": "1", "b": "2"},
    }
    assert [*cleaned, *cleaned["data"]] == ["apiVersion", "kind", "metadata", "data", "a", "b"]


def test_a_copy_of_the_object_in_an_annotation_is_left_out() -> None:
    value = secret(password=encode("hunter2"))
    value["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": '{"data": "hunter2"}'}
    assert "hunter2" not in str(mask(clean(value), HASH_KEY))


def test_references_to_other_owners_are_shown() -> None:
    reference = {"kind": "Deployment", "name": "web", "uid": "u"}
    assert clean({"metadata": {"ownerReferences": [reference]}})["metadata"] == {"ownerReferences": [reference]}


def test_equal_values_of_a_secret_look_equal_and_no_key_is_shared_between_comparisons() -> None:
    masked = mask(secret(a=encode("hunter2"), b=encode("hunter2"), c=encode("hunter3"), d=""), HASH_KEY)["data"]
    assert masked["a"] == masked["b"] != masked["c"]
    assert masked["a"].startswith("7 bytes, hash ")
    assert masked["d"].startswith("0 bytes, hash ")
    assert mask(secret(a=encode("hunter2")), b"other")["data"]["a"] != masked["a"]


@given(st.dictionaries(st.text(min_size=1, max_size=5), st.text(alphabet="äbc=\n", min_size=8)))
def test_no_value_of_a_secret_is_shown(data: dict[str, str]) -> None:
    value = {**secret(**data), "stringData": data}
    shown = mask(value, HASH_KEY)
    texts = [text for part in ("data", "stringData") for text in shown[part].values()]
    assert all(text not in shown_text for text in data.values() for shown_text in texts)
    assert value["data"] == data


def test_only_secrets_of_the_core_group_are_masked() -> None:
    for value in ({**secret(a="x"), "kind": "ConfigMap"}, {**secret(a="x"), "apiVersion": "x.io/v1"}):
        assert mask(value, HASH_KEY) is value


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}, "data": data}


def difference(change: Change, before: Any = None, after: Any = None, **fields: Any) -> Difference:
    key = key_of(before or after or config_map("a"))
    return Difference(key=key, api_version="v1", change=change, before=before, after=after, **fields)


def comparison(*objects: Difference, **fields: Any) -> Comparison:
    return Comparison(name="shop", revision=DIGESTS[1], against="the cluster", objects=objects, **fields)


def lines(value: Comparison, *, colors: bool = False) -> list[str]:
    return list(write(value, KEY, colors=colors))


def test_a_change_is_a_unified_diff() -> None:
    change = difference(Change.CHANGED, config_map("a", color="blue"), config_map("a", color="red"))
    assert lines(comparison(change, difference(Change.NONE))) == [
        f"shop: revision {DIGESTS[1]} compared with the cluster: 1 to change, 1 unchanged",
        "",
        "changed ConfigMap shop/a",
        "--- before/v1/ConfigMap/shop/a",
        "+++ after/v1/ConfigMap/shop/a",
        "@@ -4,4 +4,4 @@",
        "   name: a",
        "   namespace: shop",
        " data:",
        "-  color: blue",
        "+  color: red",
    ]


def test_changes_are_shown_wave_by_wave() -> None:
    late, early = config_map("late"), config_map("early")
    late["metadata"]["annotations"] = {names.WAVE: "1"}
    shown = lines(comparison(difference(Change.CREATED, None, late), difference(Change.DELETED, early)))
    heads = [line for line in shown if line.startswith(("Wave", "created", "deleted"))]
    assert heads == ["Wave 0:", "deleted ConfigMap shop/early", "Wave 1:", "created ConfigMap shop/late"]


def test_creation_and_deletion_are_whole_files() -> None:
    shown = lines(
        comparison(difference(Change.CREATED, None, config_map("new")), difference(Change.DELETED, config_map("old")))
    )
    assert shown[2:7] == [
        "created ConfigMap shop/new",
        "--- /dev/null",
        "+++ after/v1/ConfigMap/shop/new",
        "@@ -0,0 +1,6 @@",
        "+apiVersion: v1",
    ]
    assert shown[shown.index("deleted ConfigMap shop/old") :][1:4] == [
        "--- before/v1/ConfigMap/shop/old",
        "+++ /dev/null",
        "@@ -1,6 +0,0 @@",
    ]


def test_what_has_no_diff_is_listed_in_the_summary() -> None:
    value = comparison(
        difference(Change.REFUSED, note="already exists"),
        difference(Change.KEPT, config_map("kept"), note="it stays"),
        hooks=[difference(Change.HOOK, config_map("h"), config_map("h"), hook="pre-upgrade")],
        problems=["a definition is unsafe"],
    )
    assert lines(value) == [
        f"shop: revision {DIGESTS[1]} compared with the cluster: no object to change",
        "  Hook:    ConfigMap shop/h (pre-upgrade, unchanged)",
        "  Refused: ConfigMap shop/a: already exists",
        "  Kept: ConfigMap shop/kept: it stays",
        "  Problem: a definition is unsafe",
    ]
    assert value.is_refused


def test_what_refuses_all_of_it_is_listed_in_the_summary() -> None:
    value = comparison(difference(Change.NONE), refusals=["an account lacks rights"])
    assert lines(value)[1:] == ["  Refused: an account lacks rights"]
    assert value.is_refused
    assert (to_value(value, KEY)["refused"], to_value(value, KEY)["problems"]) == (True, ["an account lacks rights"])


def test_an_outline_has_only_the_lines_that_change() -> None:
    before, after = secret(a=encode("hunter2"), b="", d=""), secret(a=encode("hunter2"), b=encode("x"), c="")
    shown = outline(difference(Change.CHANGED, before, after), KEY)
    assert [line.partition(" byte")[0] for line in shown] == [
        '    -  b: "0',
        '    -  d: "0',
        '    +  b: "1',
        '    +  c: "0',
    ]


def test_a_long_outline_is_cut() -> None:
    after = config_map("a", **{f"k{number:02}": "x" * 200 for number in range(12)})
    *shown, last = outline(difference(Change.CHANGED, config_map("a"), after), KEY)
    assert (len(shown), max(map(len, shown))) == (10, 100)
    assert last.startswith("    and ")


def test_lines_are_colored_for_a_terminal() -> None:
    shown = lines(comparison(difference(Change.CHANGED, config_map("a", x="1"), config_map("a", x="2"))), colors=True)
    assert any(line.startswith("\x1b[31m-") and line.endswith("\x1b[0m") for line in shown)
    assert any(line.startswith("\x1b[32m+") for line in shown)
    assert " data:" in shown


def test_control_characters_of_a_bundle_do_not_reach_the_terminal() -> None:
    shown = lines(comparison(difference(Change.CREATED, None, config_map("a", x="\x1b[2J", y="a\r\nb\x07\n"))))
    assert not any(character in line for line in shown for character in "\x1b\r\x07")


def test_data_masks_secrets_and_leaves_out_what_is_unchanged() -> None:
    secret = {**config_map("s"), "kind": "Secret", "data": {"password": "aHVudGVyMg=="}}
    value = to_value(comparison(difference(Change.CREATED, None, secret), difference(Change.NONE)), KEY)
    assert value["changes"] == {"create": 1, "change": 0, "delete": 0, "recreate": 0}
    assert value["unchanged"] == 1
    assert [(each["name"], each["change"], each["before"]) for each in value["objects"]] == [("s", "created", None)]
    assert value["objects"][0]["after"]["data"]["password"].startswith("7 bytes, hash ")


def targets(digest: str, *objects: dict[str, Any]) -> TargetSet:
    revision = Revision(digest=digest, objects=objects, terms=Terms(inputs="", install_namespace=""))
    return make_targets(revision, Owner("shop", "uid"), lambda _: True)


def test_revisions_are_compared_without_a_cluster() -> None:
    claim = {**config_map("data"), "kind": "PersistentVolumeClaim", "data": None}
    before = targets(DIGESTS[0], config_map("a", x="1"), config_map("old"), config_map("same"), claim)
    after = targets(DIGESTS[1], config_map("a", x="2"), config_map("new"), config_map("same"))
    found = compare_revisions("shop", before, after, [])
    assert [(each.key.name, each.change) for each in found.objects] == [
        ("new", Change.CREATED),
        ("a", Change.CHANGED),
        ("old", Change.DELETED),
        ("data", Change.KEPT),
    ]
    assert next(summarize(found)).endswith(f"compared with revision {'a' * 12}: 1 to create, 1 to change, 1 to delete")


def hooked(**data: str) -> Revision:
    hooks = tuple(
        {"manifest": config_map(event, **data), "events": [event], "weight": 0, "deletePolicies": []}
        for event in ("pre-install", "post-upgrade", "pre-delete")
    )
    return Revision(digest=DIGESTS[0], objects=(), hooks=hooks, terms=Terms(inputs="", install_namespace=""))


def test_the_hooks_that_run_are_those_of_an_installation_or_an_upgrade() -> None:
    assert [each.hook for each in compare_hooks(None, hooked(), is_upgrade=False)] == ["pre-install"]
    (found,) = compare_hooks(hooked(x="1"), hooked(x="2"), is_upgrade=True)
    assert (found.hook, found.before and found.before["data"], found.key) == (
        "post-upgrade",
        {"x": "1"},
        ObjectKey("", "ConfigMap", "shop", "post-upgrade"),
    )
