from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path
from typing import Any

import pytest

from api.errors import BundleError
from api.names import OWNER_LABEL
from api.plugins import Capabilities, ContentTree, Limits, Means, ProcessRequest, Rendering, RenderRequest
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import Processor
from controller.build import plugins
from controller.build.rendering import process
from controller.formats.manifests import LargeTextError
from tests.support.bundles import config_map
from tests.support.objects import labelled

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
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a plug-in next to the built-in ones."""
    own = EntryPoint("example.com/append", f"{__name__}:Appending", plugins.PROCESSORS)
    monkeypatch.setattr(EntryPoint, "load", lambda self: Appending if self == own else LOAD(self))
    known = entry_points(group=plugins.PROCESSORS)
    monkeypatch.setattr(plugins, "entry_points", EntryPoints([*known, own]).select)
    plugins._find_processor.cache_clear()
    yield
    plugins._find_processor.cache_clear()


LOAD = EntryPoint.load


def patch(merge: dict[str, Any], **target: str) -> Processor:
    return Processor.model_validate({"kind": "patch", "patch": {"target": target, "merge": merge}})


def append(item: Any, **parameters: Any) -> Processor:
    return Processor.model_validate({"kind": "example.com/append", "parameters": {"object": item, **parameters}})


def run(*processors: Processor, objects: list[dict[str, Any]] | None = None, means: Means | None = None) -> list[Any]:
    request = replace(REQUEST, means=means or Means())
    return list(process(processors, Rendering(objects=objects or [config_map("a")]), request).objects)


def refusal(
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
    error = refusal(patch({}, name="a"), patch({}, name="b"))
    assert error.message.startswith("spec.processors[1].patch.target: matches no object")


def test_without_processors_nothing_is_even_looked_at() -> None:
    rendering = Rendering(objects=[{}])
    assert process((), rendering, REQUEST) is rendering


def test_a_kind_that_is_not_installed_is_refused() -> None:
    error = refusal(Processor(kind="example.com/none"))
    problem = 'spec.processors[0].kind: no plug-in for processors of kind "example.com/none"; install one or correct it'
    assert (error.reason, error.message) == (Reason.UNKNOWN_PROCESSOR, problem)


def test_the_marks_of_the_controller_are_refused_and_those_of_the_bundle_dropped() -> None:
    marked = labelled(config_map("a"), labels={OWNER_LABEL: "other"})
    assert run(patch({"data": {"size": "large"}}, name="a"), objects=[marked]) == [
        config_map("a", color="blue", size="large")
    ]
    error = refusal(patch({}, name="a"), patch({"metadata": {"labels": {OWNER_LABEL: "other"}}}, name="a"))
    problem = f'sets metadata.labels["{OWNER_LABEL}"] of ConfigMap a, which belongs to the controller; remove it'
    assert (error.reason, error.message) == (Reason.INVALID_CONFIG, f"spec.processors[1]: {problem}")


def test_an_object_that_loses_its_name_is_refused() -> None:
    error = refusal(patch({"metadata": {"name": None}}, name="a"))
    expect = "spec.processors[0]: makes an invalid object: objects[0]: metadata.name: missing"
    assert (error.reason, error.message) == (Reason.INVALID_CONFIG, expect)


def test_an_invalid_object_of_the_bundle_is_not_the_fault_of_a_processor() -> None:
    error = refusal(patch({}, name="a"), objects=[{"kind": "ConfigMap"}])
    assert (error.reason, error.message) == (Reason.INVALID_BUNDLE, "objects[0]: apiVersion: missing")


def test_text_has_limits() -> None:
    large = config_map("b", text="x" * 1000)
    error = refusal(append(large, times=10), means=Means(limits=Limits(text_bytes=10_000)))
    assert error.reason is Reason.RENDER_LIMIT_EXCEEDED
    assert error.message.startswith('"spec.processors[0]": exceeds the limit of')
    with pytest.raises(LargeTextError):
        run(append(config_map("b", text="x" * 1_000_000), times=5), means=Means(inline=True))


def test_nesting_has_limits() -> None:
    error = refusal(append(config_map("b"), depth=100_000))
    assert (error.reason, error.message) == (
        Reason.INVALID_CONFIG,
        "spec.processors[0]: makes objects too deeply nested; flatten them",
    )
