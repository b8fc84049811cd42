"""Layers: what becomes of each of them, in images and in other artifacts."""

from __future__ import annotations

import json
from operator import itemgetter
from typing import Any

import pytest

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.sources.image.manifest import Descriptor, Image, Layer, Role, name_chart, plan_layers

PATH = "spec.sources[0].image"
DIGEST = "sha256:" + "a1" * 32
TAR = "application/vnd.oci.image.layer.v1.tar"
IMAGE = "application/vnd.oci.image.config.v1+json"
CHART = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
FLUX = "application/vnd.cncf.flux.content.v1.tar+gzip"
TITLE = "org.opencontainers.image.title"
UNPACK = {"io.deis.oras.content.unpack": "true"}
EMPTY = "application/vnd.oci.empty.v1+json"


def describe(media_type: str, annotations: Any = None) -> Descriptor:
    document = {"mediaType": media_type, "digest": DIGEST, "size": 1, "annotations": annotations}
    return Descriptor.model_validate(document)


def plan(config: str, *layers: tuple[str, Any]) -> list[tuple[Role, str]]:
    image = Image(config=describe(config) if config else None, layers=tuple(describe(*layer) for layer in layers))
    return [(layer.role, layer.name or layer.suffix) for layer in plan_layers(image, PATH)]


ROLES = [
    ("a layer of an image", IMAGE, (TAR + "+gzip", None), (Role.LAYER, "")),
    ("a layer of an image with a title", IMAGE, (TAR, {TITLE: "x"}), (Role.LAYER, "")),
    ("a layer without a config", "", (TAR, None), (Role.LAYER, "")),
    ("a layer of an artifact without a title", "a/b", (TAR + "+zstd", None), (Role.LAYER, "")),
    ("a file", "a/b", (TAR, {TITLE: "x.yaml"}), (Role.FILE, "x.yaml")),
    ("a file of any type", EMPTY, ("text/plain", {TITLE: "x.txt"}), (Role.FILE, "x.txt")),
    ("a folder", EMPTY, (TAR + "+gzip", {TITLE: "x", **UNPACK}), (Role.ARCHIVE, "")),
    ("an archive that is to stay one", EMPTY, (TAR + "+gzip", {TITLE: "x.tgz"}), (Role.FILE, "x.tgz")),
    ("an archive of Flux", "a/b", (FLUX, {TITLE: "x"}), (Role.ARCHIVE, "")),
    ("a chart", "application/vnd.cncf.helm.config.v1+json", (CHART, None), (Role.FILE, ".tgz")),
    ("a chart with a title", "a/b", (CHART, {TITLE: "x.tgz"}), (Role.FILE, "x.tgz")),
    ("annotations that are no text", "a/b", (TAR, {TITLE: 1, "b": None}), (Role.LAYER, "")),
    ("annotations that are none", "a/b", (TAR, ["x"]), (Role.LAYER, "")),
]


@pytest.mark.parametrize(("config", "layer", "expect"), [case[1:] for case in ROLES], ids=map(itemgetter(0), ROLES))
def test_what_becomes_of(config: str, layer: tuple[str, Any], expect: tuple[Role, str]) -> None:
    assert plan(config, layer) == [expect]


def test_layers_keep_their_order_and_what_stands_for_nothing_is_left_out() -> None:
    found = plan("a/b", (TAR, {TITLE: "b"}), (EMPTY, None), (TAR, {TITLE: "a"}))
    assert found == [(Role.FILE, "b"), (Role.FILE, "a")]


UNSUPPORTED = [
    ("a foreign layer", IMAGE, "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", "nor foreign"),
    (
        "one that is not distributed",
        IMAGE,
        "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
        "nor foreign",
    ),
    ("an encrypted one", IMAGE, "application/vnd.oci.image.layer.v1.tar+gzip+encrypted", "neither encrypted"),
    ("no type", IMAGE, "", "push it as tar"),
    ("a file without a name", "a/b", "text/plain", "push it with the annotation org.opencontainers.image.title"),
]


@pytest.mark.parametrize(
    ("config", "media_type", "message"), [case[1:] for case in UNSUPPORTED], ids=map(itemgetter(0), UNSUPPORTED)
)
def test_what_cannot_be_read(config: str, media_type: str, message: str) -> None:
    with pytest.raises(BundleError) as caught:
        plan(config, (TAR, {TITLE: "x"}), (media_type, None))
    assert caught.value.reason is Reason.UNSUPPORTED_CONTENT
    assert caught.value.message.startswith(f'{PATH}.ref: layer 1 has the unsupported media type "{media_type}"; ')
    assert message in caught.value.message


def test_two_files_of_one_name_are_refused() -> None:
    with pytest.raises(BundleError, match='2 layers have the title "x"; give them different titles') as caught:
        plan("a/b", (TAR, {TITLE: "x"}), (TAR, {TITLE: "x"}))
    assert caught.value.reason is Reason.CONTENT_REJECTED


def test_a_chart_is_named_as_helm_names_it() -> None:
    assert name_chart(b'{"name":"demo","version":"1.0.0+b1","apiVersion":"v2"}', PATH) == "demo-1.0.0+b1"


CONFIGS = [
    b"",
    b"{}",
    b"[]",
    b'{"name":"demo"}',
    b'{"name":"","version":"1"}',
    b'{"name":1,"version":2}',
    b'{"name":"../demo","version":"1"}',
    b'{"name":"a/b","version":"1"}',
    json.dumps({"name": "a\n", "version": "1"}).encode(),
]


@pytest.mark.parametrize("config", CONFIGS)
def test_a_chart_without_a_name_is_refused(config: bytes) -> None:
    with pytest.raises(BundleError, match="the config of the chart has no valid name and version") as caught:
        name_chart(config, PATH)
    assert caught.value.reason is Reason.UNSUPPORTED_CONTENT


def test_a_layer_says_what_it_is() -> None:
    descriptor = describe(TAR)
    assert plan_layers(Image(layers=(descriptor,)), PATH) == (Layer(descriptor=descriptor, role=Role.LAYER),)
