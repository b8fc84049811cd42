"""Objects as a comparison shows them."""

from __future__ import annotations

import base64
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from api import names
from controller.cli.review.cleaning import clean, mask

Manifest = dict[str, Any]
KEY = b"key"


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
    assert "hunter2" not in str(mask(clean(value), KEY))


def test_references_to_other_owners_are_shown() -> None:
    reference = {"kind": "Deployment", "name": "web", "uid": "u"}
    assert clean({"metadata": {"ownerReferences": [reference]}})["metadata"] == {"ownerReferences": [reference]}


def test_equal_values_of_a_secret_look_equal_and_no_key_is_shared_between_comparisons() -> None:
    masked = mask(secret(a=encode("hunter2"), b=encode("hunter2"), c=encode("hunter3"), d=""), KEY)["data"]
    assert masked["a"] == masked["b"] != masked["c"]
    assert masked["a"].startswith("7 bytes, hash ")
    assert masked["d"].startswith("0 bytes, hash ")
    assert mask(secret(a=encode("hunter2")), b"other")["data"]["a"] != masked["a"]


@given(st.dictionaries(st.text(min_size=1, max_size=5), st.text(alphabet="äbc=\n", min_size=8)))
def test_no_value_of_a_secret_is_shown(data: dict[str, str]) -> None:
    value = {**secret(**data), "stringData": data}
    shown = mask(value, KEY)
    texts = [text for part in ("data", "stringData") for text in shown[part].values()]
    assert all(text not in shown_text for text in data.values() for shown_text in texts)
    assert value["data"] == data


def test_only_secrets_of_the_core_group_are_masked() -> None:
    for value in ({**secret(a="x"), "kind": "ConfigMap"}, {**secret(a="x"), "apiVersion": "x.io/v1"}):
        assert mask(value, KEY) is value
