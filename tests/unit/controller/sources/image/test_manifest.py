"""Manifests: which are understood, and which image of an index is taken.

Layers: what becomes of each of them, in images and in other artifacts."""

from __future__ import annotations

import json
import re
import time
import tracemalloc
from contextlib import suppress
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Limits
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.sources.image.manifest import (
    Descriptor,
    Image,
    Index,
    Layer,
    ValueCounter,
    check_size,
    choose,
    name_chart,
    parse_manifest,
    plan_layers,
)

DIGEST = "sha256:" + "a1" * 32
LAYER = "application/vnd.oci.image.layer.v1.tar"
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
PATH = "spec.sources[0].image"


def layer(media_type: str = LAYER, digest: str = DIGEST, size: Any = 1) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest, "size": size}


def document(**fields: Any) -> bytes:
    return json.dumps({"schemaVersion": 2, **fields}).encode()


def index_of(*platforms: str) -> Index:
    keys = ("os", "architecture", "variant")
    entries: list[dict[str, Any]] = []
    for number, platform in enumerate(platforms):
        named = {"platform": dict(zip(keys, platform.split("/"), strict=False))} if platform else {}
        entries.append({"mediaType": MANIFEST, "digest": f"sha256:{number:064}", "size": 1, **named})
    index = parse_manifest(document(manifests=entries), PATH)
    assert isinstance(index, Index)
    return index


def test_an_image_has_its_layers_in_order() -> None:
    image = parse_manifest(document(mediaType=MANIFEST, layers=[layer(size=1), layer(size=2)]), PATH)
    assert isinstance(image, Image)
    assert [found.size for found in image.layers] == [1, 2]
    assert image.size == 3


UNSUPPORTED = [
    ("no JSON", b"\xff{"),
    ("another document", b"[]"),
    ("schema version 1", b'{"schemaVersion": 1, "fsLayers": []}'),
    ("neither layers nor manifests", document()),
    ("both layers and manifests", document(layers=[], manifests=[])),
    ("an index by its type, an image by its content", document(mediaType=INDEX, layers=[])),
    ("an image by its type, an index by its content", document(mediaType=MANIFEST, manifests=[])),
    ("an unknown type", document(mediaType="text/plain", layers=[])),
    ("a layer without a digest", document(layers=[{"mediaType": LAYER, "size": 1}])),
    ("a layer with another kind of digest", document(layers=[layer(digest="sha512:" + "a" * 128)])),
    ("a layer with a digest that is a path", document(layers=[layer(digest=DIGEST + "/../x")])),
    ("a layer of negative size", document(layers=[layer(size=-1)])),
    ("a layer of no size", document(layers=[layer(size="many")])),
    ("deep nesting", b'{"layers":' + b"[" * 10_000),
]


@pytest.mark.parametrize("data", [case[1] for case in UNSUPPORTED], ids=map(itemgetter(0), UNSUPPORTED))
def test_what_is_not_a_manifest(data: bytes) -> None:
    with pytest.raises(BundleError) as caught:
        parse_manifest(data, PATH)
    assert caught.value.reason is Reason.UNSUPPORTED_CONTENT
    assert re.match(r"spec.sources\[0\].image.ref: (the )?manifest ", caught.value.message)


def test_many_invalid_layers_are_not_many_errors() -> None:
    started = time.thread_time()
    with pytest.raises(BundleError) as caught:
        parse_manifest(b'{"schemaVersion":2,"layers":[' + b"{}," * 9_000 + b"{}]}", PATH)
    assert caught.value.reason is Reason.UNSUPPORTED_CONTENT
    assert time.thread_time() - started < 0.05


ANNOTATED = b'{"mediaType":"","size":0,"digest":"%s","annotations":{%s}}' % (
    DIGEST.encode(),
    b",".join([b'"":""'] * 11),
)
LARGE = [
    ("descriptors with annotations", b'{"schemaVersion":2,"manifests":[' + b",".join([ANNOTATED] * 27_000) + b"]}"),
    ("annotations of the document", b'{"schemaVersion":2,"annotations":{' + b'"a":"",' * 30_000 + b'"b":""}}'),
    ("what is no field", b'{"schemaVersion":2,"x":' + b"[" * 30_000 + b"]" * 30_000 + b"}"),
]


@pytest.mark.parametrize("data", [each[1] for each in LARGE], ids=[each[0] for each in LARGE])
def test_a_document_of_too_many_values_is_refused_before_it_takes_memory(data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(BundleError, match=r"exceeds the limit of 20000 values; push fewer") as caught:
            parse_manifest(data, PATH)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    assert caught.value.reason is Reason.CONTENT_REJECTED


def test_values_are_counted_while_a_document_arrives() -> None:
    counter = ValueCounter(PATH)
    counter.add(b"{," * 5_000)
    counter.add(b"[" * 10_000)
    with pytest.raises(BundleError, match="exceeds the limit of 20000 values"):
        counter.add(b",")


def test_a_list_of_two_thousand_files_is_read() -> None:
    annotated = {**layer(), "annotations": {"org.opencontainers.image.title": "a.yaml"}}
    found = parse_manifest(document(layers=[annotated] * 2_000), PATH)
    assert isinstance(found, Image)
    assert len(found.layers) == 2_000


TYPES = [LAYER, INDEX, MANIFEST, "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "text/plain"]
TITLES = ["org.opencontainers.image.title", "io.deis.oras.content.unpack"]
ANY_JSON = st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3))
DESCRIPTORS = st.fixed_dictionaries(
    {"digest": st.just(DIGEST) | ANY_JSON, "size": st.integers(0, 2**70) | ANY_JSON},
    optional={
        "mediaType": st.sampled_from(TYPES) | ANY_JSON,
        "annotations": st.dictionaries(st.sampled_from(TITLES), st.text(max_size=5) | ANY_JSON) | ANY_JSON,
        "platform": st.dictionaries(st.sampled_from(["os", "architecture", "variant"]), st.text(max_size=5)) | ANY_JSON,
    },
)
MANIFESTS = st.fixed_dictionaries(
    {"schemaVersion": st.just(2) | ANY_JSON},
    optional={
        "mediaType": st.sampled_from(TYPES) | ANY_JSON,
        "config": DESCRIPTORS | ANY_JSON,
        "layers": st.lists(DESCRIPTORS, max_size=4) | ANY_JSON,
        "manifests": st.lists(DESCRIPTORS, max_size=4) | ANY_JSON,
    },
)


@given(data=MANIFESTS.map(lambda fields: json.dumps(fields).encode()) | st.binary(max_size=60))
@settings(deadline=None)
def test_any_document_is_understood_or_refused(data: bytes) -> None:
    with suppress(BundleError):
        document = parse_manifest(data, PATH)
        if isinstance(document, Image):
            check_size(document, Limits(), PATH)
            assert len(plan_layers(document, PATH)) <= len(document.layers)
        else:
            assert choose(document, "linux/amd64", PATH) in document.manifests


CHOICES = [
    ("the one that was asked for", ("linux/arm64", "linux/amd64"), "linux/amd64", 1),
    ("one with a variant, when none is asked for", ("linux/arm/v7",), "linux/arm", 0),
    ("one without a variant rather", ("linux/arm/v7", "linux/arm"), "linux/arm", 1),
    ("just the variant that is asked for", ("linux/arm/v6", "linux/arm/v7"), "linux/arm/v7", 1),
    ("arm64 for its only variant", ("linux/arm64",), "linux/arm64/v8", 0),
    ("arm64 with its only variant written", ("linux/arm64/v8",), "linux/arm64", 0),
    ("a sole one that names no platform", ("",), "linux/amd64", 0),
    ("one that is written in upper case", ("Linux/ARM64", "Linux/AMD64"), "linux/amd64", 1),
    ("a sole one beside an attestation", ("", "unknown/unknown"), "linux/amd64", 0),
]


@pytest.mark.parametrize(
    ("platforms", "wanted", "expect"), [case[1:] for case in CHOICES], ids=map(itemgetter(0), CHOICES)
)
def test_which_image_is_taken(platforms: tuple[str, ...], wanted: str, expect: int) -> None:
    assert choose(index_of(*platforms), wanted, PATH).digest == f"sha256:{expect:064}"


NO_PLATFORM = "the index has no image with a platform; push it again"
NOT_FOUND = [
    (
        "an index without the platform",
        ("linux/s390x", "linux/arm64"),
        'the index has no image for "linux/amd64", only for "linux/arm64", "linux/s390x"; use one of these',
    ),
    (
        "a sole one of another platform",
        ("linux/arm64", "unknown/unknown"),
        'the index has no image for "linux/amd64", only for "linux/arm64"; use one of these',
    ),
    ("two that name no platform", ("", ""), NO_PLATFORM),
    ("an empty index", (), NO_PLATFORM),
]


@pytest.mark.parametrize(("platforms", "message"), [case[1:] for case in NOT_FOUND], ids=map(itemgetter(0), NOT_FOUND))
def test_when_no_image_is_taken(platforms: tuple[str, ...], message: str) -> None:
    with pytest.raises(BundleError) as caught:
        choose(index_of(*platforms), "linux/amd64", PATH)
    assert caught.value.reason is Reason.PLATFORM_NOT_FOUND
    assert caught.value.message == f"{PATH}.platform: {message}"


def test_layers_that_are_too_large_together() -> None:
    image = parse_manifest(document(layers=[layer(size=600), layer(size=600)]), PATH)
    assert isinstance(image, Image)
    with pytest.raises(BundleError, match="the layers exceed the limit of 1000 bytes") as caught:
        check_size(image, Limits(compressed_bytes=1000), PATH)
    assert caught.value.reason is Reason.CONTENT_REJECTED


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


def plan(config: str, *layers: tuple[str, Any]) -> list[tuple[bool, str]]:
    image = Image(config=describe(config) if config else None, layers=tuple(describe(*layer) for layer in layers))
    return [(layer.has_whiteouts, layer.name or layer.suffix) for layer in plan_layers(image, PATH)]


ROLES = [
    ("a layer of an image", IMAGE, (TAR + "+gzip", None), (True, "")),
    ("a layer of an image with a title", IMAGE, (TAR, {TITLE: "x"}), (True, "")),
    ("a layer without a config", "", (TAR, None), (True, "")),
    ("a layer of an artifact without a title", "a/b", (TAR + "+zstd", None), (True, "")),
    ("a file", "a/b", (TAR, {TITLE: "x.yaml"}), (False, "x.yaml")),
    ("a file of any type", EMPTY, ("text/plain", {TITLE: "x.txt"}), (False, "x.txt")),
    ("a folder", EMPTY, (TAR + "+gzip", {TITLE: "x", **UNPACK}), (False, "")),
    ("an archive that is to stay one", EMPTY, (TAR + "+gzip", {TITLE: "x.tgz"}), (False, "x.tgz")),
    ("an archive of Flux", "a/b", (FLUX, {TITLE: "x"}), (False, "")),
    ("a chart", "application/vnd.cncf.helm.config.v1+json", (CHART, None), (False, ".tgz")),
    ("a chart with a title", "a/b", (CHART, {TITLE: "x.tgz"}), (False, "x.tgz")),
    ("annotations that are no text", "a/b", (TAR, {TITLE: 1, "b": None}), (True, "")),
    ("annotations that are none", "a/b", (TAR, ["x"]), (True, "")),
]


@pytest.mark.parametrize(("config", "layer", "expect"), [case[1:] for case in ROLES], ids=map(itemgetter(0), ROLES))
def test_what_becomes_of(config: str, layer: tuple[str, Any], expect: tuple[bool, str]) -> None:
    assert plan(config, layer) == [expect]


def test_layers_keep_their_order_and_what_stands_for_nothing_is_left_out() -> None:
    found = plan("a/b", (TAR, {TITLE: "b"}), (EMPTY, None), (TAR, {TITLE: "a"}))
    assert found == [(False, "b"), (False, "a")]


NO_ROLE = [
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
    ("config", "media_type", "message"), [case[1:] for case in NO_ROLE], ids=map(itemgetter(0), NO_ROLE)
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
    assert plan_layers(Image(layers=(descriptor,)), PATH) == (Layer(descriptor=descriptor, has_whiteouts=True),)
