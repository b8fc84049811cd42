"""What RukPak demands of every processor."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import ClassVar

import pytest
from rukpak.conformance import OBJECTS, Processing, ProcessorContract
from rukpak.plugins import Reason
from rukpak_krm_functions import FOLDERS, KRMProcessor

ADDED = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "added"}}
LIST = {"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList"}
REFUSAL = {"message": "no", "severity": "error"}
PLACE = "spec.processors[0].parameters.functions"
FUNCTIONS = {
    "same": "cat",
    "replace": f"cat > /dev/null; echo '{json.dumps({**LIST, 'items': [ADDED], 'results': [{'message': 'hm'}]})}'",
    "refuse": f"cat > /dev/null; echo '{json.dumps({**LIST, 'items': [], 'results': [REFUSAL]})}'",
}
TEXTS = {name: f"#!/bin/sh\n{script}\n" for name, script in FUNCTIONS.items()}


@pytest.fixture(autouse=True)
def functions(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the functions."""
    folder = tmp_path_factory.mktemp("functions")
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    monkeypatch.setenv(FOLDERS, str(folder))


def function(name: str, **more: object) -> dict[str, object]:
    return {"exec": name, "digest": f"sha256:{sha256(TEXTS[name].encode()).hexdigest()}", **more}


def processing(*functions: dict[str, object]) -> Processing:
    return Processing(parameters={"functions": list(functions)}, objects=OBJECTS)


class TestKRMProcessor(ProcessorContract):
    plugin = KRMProcessor
    good: ClassVar[Sequence[Processing]] = [
        processing(function("same", configMap={"team": "web"})),
        processing(function("same"), function("replace", config={"apiVersion": "example.com/v1", "kind": "Any"})),
    ]
    bad_parameters: ClassVar = [
        ({}, f"{PLACE}: "),
        ({"functions": [{"exec": "same"}]}, f"{PLACE}[0].digest: "),
        ({"functions": [function("same"), {**function("same"), "exec": "/bin/sh"}]}, f"{PLACE}[1].exec: "),
        ({"functions": [function("same", config={"a": 1})]}, f"{PLACE}[0].config: "),
        ({"functions": [function("same", configMap={"a": 1})]}, f"{PLACE}[0].configMap.a: "),
    ]
    bad: ClassVar = [
        (processing(function("refuse")), Reason.PROCESSOR_FAILED),
        (processing({**function("same"), "exec": "other"}), Reason.NOT_SUPPORTED),
        (processing({**function("same"), "digest": f"sha256:{'0' * 64}"}), Reason.INVALID_CONFIG),
    ]
