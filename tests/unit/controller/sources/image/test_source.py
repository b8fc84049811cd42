"""The image source against a registry that does everything wrong."""

from __future__ import annotations

import gzip
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Limits, Network, Resolution
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.archive import write_entries
from rukpak.controller.sources.image.source import ImageSource
from tests.support.archives import tarball
from tests.support.faulty_registry import (
    DOCKER_MANIFEST,
    OCI_INDEX,
    OCI_LAYER,
    OCI_MANIFEST,
    Faults,
    FaultyRegistry,
    digest_of,
)
from tests.support.private_sources import Authority

PATH = "spec.sources[0].image"
ABSENT = "sha256:" + "0" * 64
LAYERS = (
    tarball(("manifests/a.yaml", b"a: 1\n"), ("manifests/b.yaml", b"b: 1\n")),
    tarball(("manifests/.wh.b.yaml", b""), ("manifests/c.yaml", b"c: 1\n")),
)
SOURCE = ImageSource()


@pytest.fixture
def registry() -> Iterator[FaultyRegistry]:
    with FaultyRegistry() as registry:
        registry.add_image("v1", *LAYERS)
        yield registry


def parameters(registry: FaultyRegistry, tag: str = "v1", **others: Any) -> dict[str, Any]:
    return {"ref": f"{registry.host}/org/bundle:{tag}", **others}


def fetch(registry: FaultyRegistry, digest: str, access: Access, **others: Any) -> dict[str, str]:
    """Fetch and write; return the text of each file."""
    folder = access.scratch / "out"
    folder.mkdir()
    entries = SOURCE.fetch(parameters(registry, **others), Resolution(pinned="", digest=digest), access)
    write_entries(entries, folder, access.limits, access.path)
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def failure(call: Callable[[], object]) -> BundleError:
    with pytest.raises(BundleError) as caught:
        call()
    assert re.match(re.escape(PATH) + r"(\.(ref|auth|platform))?: ", caught.value.message)
    assert "\n" not in caught.value.message
    return caught.value


# what is asked


def test_a_tag_is_resolved_by_one_head(registry: FaultyRegistry, access: Access) -> None:
    resolution = SOURCE.resolve(parameters(registry), access)
    digest = registry.add_image("v1", *LAYERS)
    assert resolution == Resolution(pinned=f"{registry.host}/org/bundle@{digest}", digest=digest)
    assert [(method, path) for method, path, _ in registry.requests] == [("HEAD", "/v2/org/bundle/manifests/v1")]


def test_a_digest_is_authorised_by_one_head(registry: FaultyRegistry, access: Access) -> None:
    digest = registry.add_image("v1", *LAYERS)
    ref = f"{registry.host}/org/bundle:ignored@{digest}"
    assert SOURCE.resolve({"ref": ref}, access).digest == digest
    assert [(method, path) for method, path, _ in registry.requests] == [("HEAD", f"/v2/org/bundle/manifests/{digest}")]


@pytest.mark.parametrize("status", [400, 403, 404, 405, 500, 501, 503])
def test_a_registry_that_does_not_answer_head_of_a_manifest_is_asked_by_get_and_remembered(
    status: int, access: Access
) -> None:
    with FaultyRegistry() as registry:
        digest = registry.add_image("v1", *LAYERS)
        registry.faults = Faults(where="/manifests/", method="HEAD", status=status)
        assert SOURCE.resolve(parameters(registry), access).digest == digest
        methods = [method for method, _, _ in registry.requests]
        assert (set(methods[:-1]), methods[-1]) == ({"HEAD"}, "GET")  # some failures are retried first
        registry.requests.clear()
        assert SOURCE.resolve(parameters(registry), access).digest == digest
        assert SOURCE.resolve({"ref": f"{registry.host}/org/bundle@{digest}"}, access).digest == digest
        assert [method for method, _, _ in registry.requests] == ["GET", "GET"]


def test_what_get_does_not_find_either_is_not_there(registry: FaultyRegistry, access: Access) -> None:
    error = failure(lambda: SOURCE.resolve(parameters(registry, "v9"), access))
    assert (error.reason, 'has no tag "v9"' in error.message) == (Reason.NOT_FOUND, True)
    registry.requests.clear()
    SOURCE.resolve(parameters(registry), access)
    assert [method for method, _, _ in registry.requests] == ["HEAD"]  # a GET that fails tells nothing about HEAD


def test_a_registry_that_refuses_large_pages_is_left_to_choose_their_size(
    registry: FaultyRegistry, access: Access
) -> None:
    registry.add_image("1.0.0", *LAYERS)
    registry.faults = Faults(where="/tags/list", status=400, times=1)
    assert SOURCE.resolve({"ref": f"{registry.host}/org/bundle", "semver": "1.x"}, access).version == "1.0.0"
    asked = [path for _, path, _ in registry.requests]
    assert asked[:2] == ["/v2/org/bundle/tags/list?n=1000", "/v2/org/bundle/tags/list"]


def test_a_fetch_never_asks_for_a_tag(registry: FaultyRegistry, access: Access) -> None:
    digest = registry.add_image("v1", *LAYERS)
    registry.add_image("v1", tarball(("moved", b"")))
    assert fetch(registry, digest, access) == {"manifests/a.yaml": "a: 1\n", "manifests/c.yaml": "c: 1\n"}
    assert not any(path.endswith("/v1") for _, path, _ in registry.requests)


@pytest.mark.parametrize("faults", [Faults(no_digest=True), Faults(headers={"Docker-Content-Digest": "nonsense"})])
def test_without_a_digest_header_the_manifest_is_read(faults: Faults, registry: FaultyRegistry, access: Access) -> None:
    digest = registry.add_image("v1", *LAYERS)
    registry.faults = faults
    assert SOURCE.resolve(parameters(registry), access).digest == digest


def test_without_head_the_manifest_is_read(registry: FaultyRegistry, access: Access) -> None:
    digest = registry.add_image("v1", *LAYERS)
    registry.faults = Faults(status=405, times=1)
    assert SOURCE.resolve(parameters(registry), access).digest == digest


# what is understood


@pytest.mark.parametrize("docker", [False, True], ids=["OCI", "Docker"])
@pytest.mark.parametrize("compression", ["", "gzip", "zstd"])
def test_layers_of_every_kind(compression: str, docker: bool, registry: FaultyRegistry, access: Access) -> None:
    digest = registry.add_image("x", *LAYERS, compression=compression, docker=docker)
    assert fetch(registry, digest, access) == {"manifests/a.yaml": "a: 1\n", "manifests/c.yaml": "c: 1\n"}


@pytest.mark.parametrize("docker", [False, True], ids=["OCI", "Docker"])
def test_an_index_leads_to_the_image_of_the_platform(docker: bool, registry: FaultyRegistry, access: Access) -> None:
    images = {name: registry.add_image(name, tarball((name, b""))) for name in ("amd64", "arm64")}
    digest = registry.add_index("x", {f"linux/{name}": image for name, image in images.items()}, docker=docker)
    assert fetch(registry, digest, access, platform="linux/arm64") == {"arm64": ""}


@pytest.mark.parametrize("platform", [{}, {"os": "", "architecture": ""}, None])
def test_an_empty_platform_is_none(platform: object, registry: FaultyRegistry, access: Access) -> None:
    digest = registry.add_image("v1", *LAYERS)
    size = len(registry.manifests[digest][1])
    entry = {"mediaType": OCI_MANIFEST, "digest": digest, "size": size, "platform": platform}
    index = registry.add_manifest("x", OCI_INDEX, manifests=[entry])
    assert len(fetch(registry, index, access)) == 2


def test_a_token_server_may_be_named_by_a_path_of_the_registry(access: Access, tmp_path: Path) -> None:
    authority = Authority.make(tmp_path)
    with FaultyRegistry(authority.server_context()) as registry:
        registry.wants_token, registry.realm = True, "/token"
        digest = registry.add_image("v1", *LAYERS)
        assert SOURCE.resolve(parameters(registry, certificateData=authority.pem), access).digest == digest
        assert {path.partition("?")[0] for _, path, _ in registry.requests} == {"/token", "/v2/org/bundle/manifests/v1"}


def test_a_web_page_in_place_of_a_manifest_is_told(registry: FaultyRegistry, access: Access) -> None:
    page = b"\n<!DOCTYPE html><html><title>Log in</title></html>"
    digest = registry.add_document("x", "text/html", page)
    error = failure(lambda: fetch(registry, digest, access))
    assert error.reason is Reason.UNSUPPORTED_CONTENT
    assert "answered with a web page" in error.message


def test_an_archive_that_is_pushed_with_the_type_of_a_layer_is_unpacked(
    registry: FaultyRegistry, access: Access
) -> None:
    """As by `oras push host/repository bundle.tar.gz:application/vnd.oci.image.layer.v1.tar+gzip`."""
    config = registry.add_blob(b"{}", "application/vnd.unknown.config.v1+json")
    layer = registry.add_blob(gzip.compress(tarball(("manifests/a.yaml", b"a: 1\n"))), OCI_LAYER + "+gzip")
    layer["annotations"] = {"org.opencontainers.image.title": "bundle.tar.gz"}
    digest = registry.add_manifest("x", OCI_MANIFEST, config=config, layers=[layer])
    assert fetch(registry, digest, access) == {"manifests/a.yaml": "a: 1\n"}


def nested_indexes(registry: FaultyRegistry) -> dict[str, str]:
    images = {name: registry.add_image(name, tarball((name, b""))) for name in ("amd64", "arm64")}
    inner = {name: registry.add_index(f"i-{name}", {f"linux/{name}": image}) for name, image in images.items()}
    both = registry.add_index("both", {f"linux/{name}": image for name, image in images.items()})
    noted = registry.add_index("noted", {"linux/arm64": images["arm64"], "unknown/unknown": images["amd64"]})
    return {
        "alone": registry.add_index("x", {"": both}),
        "for its platform": registry.add_index("x", {f"linux/{name}": digest for name, digest in inner.items()}),
        "twice": registry.add_index("x", {"": registry.add_index("y", {"": both})}),
        "beside an image for another platform": registry.add_index("x", {"linux/amd64": images["amd64"], "": both}),
        "with an attestation": registry.add_index("x", {"": noted}),
        "beside an attestation": registry.add_index("x", {"": both, "unknown/unknown": images["amd64"]}),
    }


NESTED = (
    "alone", "for its platform", "twice", "beside an image for another platform", "with an attestation",
    "beside an attestation",
)  # fmt: skip


@pytest.mark.parametrize("name", NESTED)
def test_an_index_inside_an_index_leads_to_the_image_of_the_platform(
    name: str, registry: FaultyRegistry, access: Access
) -> None:
    digest = nested_indexes(registry)[name]
    assert fetch(registry, digest, access, platform="linux/arm64") == {"arm64": ""}
    other = Resolution(pinned="", digest=digest)
    missing = failure(lambda: list(SOURCE.fetch(parameters(registry, platform="linux/s390x"), other, access)))
    assert missing.reason is Reason.PLATFORM_NOT_FOUND


def test_the_right_one_of_several_indexes_without_a_platform_is_found(registry: FaultyRegistry, access: Access) -> None:
    inner = []
    for name in ("amd64", "arm64"):
        digest = registry.add_index(name, {f"linux/{name}": registry.add_image(name, tarball((name, b"")))})
        inner.append({"mediaType": OCI_INDEX, "digest": digest, "size": len(registry.manifests[digest][1])})
    assert fetch(registry, registry.add_manifest("x", OCI_INDEX, manifests=inner), access, platform="linux/arm64") == {
        "arm64": ""
    }


def test_a_registry_on_this_machine_with_a_private_certificate_is_told(access: Access, tmp_path: Path) -> None:
    authority = Authority.make(tmp_path)
    with FaultyRegistry(authority.server_context()) as registry:
        digest = registry.add_image("v1", *LAYERS)
        error = failure(lambda: SOURCE.resolve(parameters(registry), access))
        assert error.reason is Reason.TLS_VERIFICATION_FAILED
        assert "; set certificateData, or ca.crt in the Secret of auth, to the certificate of" in error.message
        (tmp_path / "other").mkdir()
        other = parameters(registry, certificateData=Authority.make(tmp_path / "other").pem)
        error = failure(lambda: SOURCE.resolve(other, access))
        assert error.message.endswith("; check certificateData, or ca.crt in the Secret of auth")
        assert SOURCE.resolve(parameters(registry, certificateData=authority.pem), access).digest == digest


def test_blobs_may_be_elsewhere_by_https(access: Access, tmp_path: Path) -> None:
    authority = Authority.make(tmp_path)
    with FaultyRegistry(authority.server_context()) as registry, FaultyRegistry(authority.server_context()) as other:
        digest = registry.add_image("v1", *LAYERS)
        other.blobs = dict(registry.blobs)
        registry.faults = Faults(where="/blobs/", redirect=f"https://{other.host}")
        assert len(fetch(registry, digest, access, certificateData=authority.pem)) == 2


def test_blobs_of_a_plain_registry_are_nowhere_else(registry: FaultyRegistry, access: Access) -> None:
    digest = registry.add_image("v1", *LAYERS)
    with FaultyRegistry() as other:
        other.blobs = dict(registry.blobs)
        registry.faults = Faults(where="/blobs/", redirect=f"http://{other.host}")
        assert failure(lambda: fetch(registry, digest, access)).reason is Reason.INSECURE_REFUSED
        assert other.requests == []


def test_a_registry_that_is_not_allowed_is_not_asked(registry: FaultyRegistry, access: Access) -> None:
    registry.add_image("v1", *LAYERS)
    limited = replace(access, network=Network(allowed_hosts=("quay.io",)))
    error = failure(lambda: SOURCE.resolve(parameters(registry), limited))
    assert error.reason is Reason.INSECURE_REFUSED
    assert f'.ref: host "{registry.host}" is not in --allowed-hosts' in error.message
    assert registry.requests == []


def test_a_mirror_is_not_for_users_to_name_and_always_allowed(registry: FaultyRegistry, access: Access) -> None:
    digest = registry.add_image("v1", *LAYERS)
    network = Network(allowed_hosts=("quay.io", "docker.io"), registry_mirrors={"quay.io": registry.host})
    mirrored = replace(access, network=network)
    assert SOURCE.resolve({"ref": "quay.io/org/bundle:v1"}, mirrored).digest == digest
    error = failure(lambda: SOURCE.resolve(parameters(registry), mirrored))
    assert error.reason is Reason.INSECURE_REFUSED


def test_progress_is_told_in_bytes_of_all_layers(registry: FaultyRegistry, access: Access) -> None:
    told: list[tuple[int, int]] = []
    digest = registry.add_image("v1", *LAYERS)
    fetch(registry, digest, replace(access, progress=lambda done, total: told.append((done, total))))
    size = sum(map(len, registry.blobs.values()))
    assert told[-1] == (size, size)
    assert told == sorted(told)


def test_an_image_without_layers_has_no_entries(registry: FaultyRegistry, access: Access) -> None:
    assert fetch(registry, registry.add_image("x"), access) == {}


# what fails while resolving

RESOLVING = [
    (
        "a tag that is not there",
        Faults(status=404, where="/manifests/"),
        Reason.NOT_FOUND,
        'has no tag "v1"; push it, or correct the tag',
    ),
    (
        "a repository that is not there",
        Faults(status=404),
        Reason.NOT_FOUND,
        "does not exist; correct its name, or push to it",
    ),
    ("a repository for others", Faults(status=403), Reason.UNAUTHORIZED, "requires credentials, or does not exist"),
    ("a registry that wants a login", Faults(status=401), Reason.UNAUTHORIZED, "set a Secret with credentials"),
    ("a registry that is ill", Faults(status=502), Reason.UNREACHABLE, "status 502"),
    ("one that wants us to wait", Faults(status=429, headers={"Retry-After": "60"}), Reason.UNREACHABLE, "status 429"),
    ("a registry that answers oddly", Faults(status=418), Reason.UNREACHABLE, "status 418"),
]


@pytest.mark.parametrize(
    ("faults", "reason", "message"), [case[1:] for case in RESOLVING], ids=map(itemgetter(0), RESOLVING)
)
def test_resolving_fails_for(
    faults: Faults, reason: Reason, message: str, registry: FaultyRegistry, access: Access
) -> None:
    registry.faults = faults
    error = failure(lambda: SOURCE.resolve(parameters(registry), access))
    assert error.reason is reason
    assert message in error.message
    assert registry.host in error.message


@pytest.mark.parametrize("tag", ["1.x", "v1.2.X"])
def test_a_range_as_a_tag_is_told_to_be_none(tag: str, registry: FaultyRegistry, access: Access) -> None:
    registry.faults = Faults(status=404, where="/manifests/")
    error = failure(
        lambda: SOURCE.resolve({**parameters(registry), "ref": f"{registry.host}/org/bundle:{tag}"}, access)
    )
    assert f'has no tag "{tag}"; use one tag or a digest, or semver for a range of versions' in error.message


def test_a_failure_is_told_in_the_same_words_again(registry: FaultyRegistry, access: Access) -> None:
    registry.faults = Faults(status=500)
    messages = {failure(lambda: SOURCE.resolve(parameters(registry), access)).message for _ in range(2)}
    assert len(messages) == 1


def test_a_registry_on_this_machine_may_be_forbidden(registry: FaultyRegistry, access: Access) -> None:
    access = replace(access, network=Network(allow_loopback=False))
    error = failure(lambda: SOURCE.resolve(parameters(registry), access))
    assert error.reason is Reason.INSECURE_REFUSED
    assert error.message.startswith(f'{PATH}.ref: the address of "127.0.0.1" is not allowed: it is a loopback address')
    assert registry.requests == []


def test_a_chart_without_a_config_has_no_name(registry: FaultyRegistry, access: Access) -> None:
    chart = registry.add_blob(b"x", "application/vnd.cncf.helm.chart.content.v1.tar+gzip")
    digest = registry.add_manifest("x", OCI_MANIFEST, layers=[chart])
    assert failure(lambda: fetch(registry, digest, access)).reason is Reason.UNSUPPORTED_CONTENT


def chart_of(registry: FaultyRegistry, config: bytes, chart: bytes) -> str:
    layer = registry.add_blob(chart, "application/vnd.cncf.helm.chart.content.v1.tar+gzip")
    described = registry.add_blob(config, "application/vnd.cncf.helm.config.v1+json")
    return registry.add_manifest("x", OCI_MANIFEST, config=described, layers=[layer])


def test_a_chart_is_one_file(registry: FaultyRegistry, access: Access) -> None:
    digest = chart_of(registry, b'{"name":"demo","version":"1.0.0"}', b"archive")
    assert fetch(registry, digest, access) == {"demo-1.0.0.tgz": "archive"}


CHART = b'{"name":"demo","version":"1.0.0"}'
CHARTS = [
    ("another config", {CHART: CHART.replace(b"demo", b"evil")}, CHART, Reason.DIGEST_MISMATCH),
    ("another chart of the same size", {b"archive": b"ARCHIVE"}, CHART, Reason.DIGEST_MISMATCH),
    ("a shorter chart", {b"archive": b"arch"}, CHART, Reason.DIGEST_MISMATCH),
    ("a longer chart", {b"archive": b"archives"}, CHART, Reason.DIGEST_MISMATCH),
    ("an endless config", {}, bytes((1 << 20) + 1), Reason.CONTENT_REJECTED),
]


@pytest.mark.parametrize(("changed", "config", "reason"), [case[1:] for case in CHARTS], ids=map(itemgetter(0), CHARTS))
def test_a_chart_that_cannot_be_used(
    changed: dict[bytes, bytes], config: bytes, reason: Reason, registry: FaultyRegistry, access: Access
) -> None:
    digest = chart_of(registry, config, b"archive")
    registry.blobs.update({digest_of(old): new for old, new in changed.items()})
    assert failure(lambda: fetch(registry, digest, access)).reason is reason


def test_a_reference_that_cannot_be_one(registry: FaultyRegistry, access: Access) -> None:
    error = failure(lambda: SOURCE.resolve({"ref": "quay.io/Foo"}, access))
    assert error.reason is Reason.INVALID_REFERENCE
    assert 'image reference "quay.io/Foo" has a repository' in error.message


# what fails while fetching

FETCHING = [
    ("a manifest that is gone", Faults(where="/manifests/", status=404), Reason.PINNED_CONTENT_GONE),
    ("a blob that is gone", Faults(where="/blobs/", status=404), Reason.PINNED_CONTENT_GONE),
    ("a repository that was closed", Faults(status=403), Reason.UNAUTHORIZED),
    ("another manifest", Faults(where="/manifests/", body=b"{}"), Reason.DIGEST_MISMATCH),
    ("a cut manifest", Faults(where="/manifests/", cut_after=20), Reason.UNREACHABLE),
    ("an endless manifest", Faults(where="/manifests/", body=bytes((4 << 20) + 1)), Reason.CONTENT_REJECTED),
    ("a blob that is no archive", Faults(where="/blobs/", body=b"x" * 50), Reason.DIGEST_MISMATCH),
    ("an empty blob", Faults(where="/blobs/", body=b""), Reason.DIGEST_MISMATCH),
    ("another archive", Faults(where="/blobs/", body=gzip.compress(tarball(("x", b"1")))), Reason.DIGEST_MISMATCH),
    (
        "another archive with a bad name",
        Faults(where="/blobs/", body=tarball(("../x", b""))[:600]),
        Reason.DIGEST_MISMATCH,
    ),
    ("a longer blob", Faults(where="/blobs/", body=bytes(5000)), Reason.DIGEST_MISMATCH),
    ("a cut blob", Faults(where="/blobs/", cut_after=20), Reason.UNREACHABLE),
    ("an encoded blob", Faults(where="/blobs/", headers={"Content-Encoding": "gzip"}), Reason.UNSUPPORTED_CONTENT),
    ("a registry that is ill", Faults(where="/blobs/", status=500), Reason.UNREACHABLE),
]


@pytest.mark.parametrize(("faults", "reason"), [case[1:] for case in FETCHING], ids=map(itemgetter(0), FETCHING))
def test_fetching_fails_for(faults: Faults, reason: Reason, registry: FaultyRegistry, access: Access) -> None:
    digest = registry.add_image("v1", *LAYERS)
    registry.faults = faults
    assert failure(lambda: fetch(registry, digest, access)).reason is reason


def test_a_bad_name_in_the_right_blob_is_rejected(registry: FaultyRegistry, access: Access) -> None:
    digest = registry.add_image("x", tarball(("../x", b"")))
    error = failure(lambda: fetch(registry, digest, access))
    assert error.reason is Reason.CONTENT_REJECTED
    assert 'entry "../x" leaves its directory' in error.message


@pytest.mark.parametrize("name", ["../x", "x"])
def test_a_blob_that_was_changed_is_that_and_not_judged(name: str, registry: FaultyRegistry, access: Access) -> None:
    digest = registry.add_image("x", tarball(("12/x", b"1"), ("y", bytes(100_000))), compression="")
    (blob,) = set(registry.blobs) - {d for d, data in registry.blobs.items() if data[:2] == b"\x1f\x8b"}
    changed = tarball((f"{name:4}".strip(), b"1"), ("y", bytes(100_000)))
    registry.blobs[blob] = changed.ljust(len(registry.blobs[blob]), b"\0")
    assert failure(lambda: fetch(registry, digest, access)).reason is Reason.DIGEST_MISMATCH


def test_a_size_that_is_too_small_is_a_mismatch(registry: FaultyRegistry, access: Access) -> None:
    layer = registry.add_blob(LAYERS[0], OCI_LAYER)
    digest = registry.add_manifest("x", OCI_MANIFEST, layers=[{**layer, "size": 10}])
    assert failure(lambda: fetch(registry, digest, access)).reason is Reason.DIGEST_MISMATCH


def odd_images(registry: FaultyRegistry) -> dict[str, str]:
    deep = registry.add_image("v1", *LAYERS)
    for number in range(4):
        deep = registry.add_index(f"i{number}", {"": deep})
    foreign = {"mediaType": "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", "digest": ABSENT, "size": 1}
    other = {"mediaType": "application/vnd.in-toto+json", "digest": ABSENT, "size": 1}
    return {
        "an index in an index in two more": deep,
        "a foreign layer": registry.add_manifest("x", DOCKER_MANIFEST, layers=[foreign]),
        "a layer of another type": registry.add_manifest("x", OCI_MANIFEST, layers=[other]),
        "schema version 1": registry.add_document("x", "application/json", b'{"schemaVersion":1}'),
        "no manifest": registry.add_document("x", "application/json", b"hello"),
        "an index that is called an image": registry.add_manifest("x", OCI_MANIFEST, manifests=[]),
        "an image that is called an index": registry.add_manifest("x", OCI_INDEX, layers=[]),
    }


ODD = [
    "an index in an index in two more", "a foreign layer", "a layer of another type", "schema version 1", "no manifest",
    "an index that is called an image", "an image that is called an index",
]  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_what_is_not_supported(name: str, registry: FaultyRegistry, access: Access) -> None:
    digest = odd_images(registry)[name]
    assert failure(lambda: fetch(registry, digest, access)).reason is Reason.UNSUPPORTED_CONTENT
    assert not any("/blobs/" in path for _, path, _ in registry.requests)


def test_an_index_without_the_platform_lists_what_it_has(registry: FaultyRegistry, access: Access) -> None:
    image = registry.add_image("v1", *LAYERS)
    digest = registry.add_index("x", {"linux/arm64": image, "linux/s390x": image, "unknown/unknown": image})
    error = failure(lambda: fetch(registry, digest, access))
    assert error.reason is Reason.PLATFORM_NOT_FOUND
    assert error.message == (
        f'{PATH}.platform: the index has no image for "linux/amd64", only for "linux/arm64", "linux/s390x"; '
        "use one of these"
    )


def test_layers_over_the_budget_are_not_fetched(registry: FaultyRegistry, access: Access) -> None:
    digest = registry.add_image("v1", *LAYERS)
    access = replace(access, limits=Limits(compressed_bytes=100))
    assert failure(lambda: fetch(registry, digest, access)).reason is Reason.CONTENT_REJECTED
    assert not any("/blobs/" in path for _, path, _ in registry.requests)


def test_a_bomb_is_refused(registry: FaultyRegistry, access: Access) -> None:
    digest = registry.add_image("x", tarball(("z", bytes(40 << 20))))
    error = failure(lambda: fetch(registry, digest, access))
    assert error.reason is Reason.CONTENT_REJECTED
    assert "more than the limit of 200 times its size" in error.message


def test_a_slow_blob_ends_at_the_deadline(registry: FaultyRegistry, access: Access) -> None:
    digest = registry.add_image("v1", *LAYERS)
    registry.faults = Faults(where="/blobs/", trickle="body")
    started = time.monotonic()
    error = failure(lambda: fetch(registry, digest, replace(access, deadline=started + 1)))
    assert error.reason is Reason.UNREACHABLE
    assert time.monotonic() - started < 60


def test_a_fetch_that_nobody_waits_for_stops(registry: FaultyRegistry, access: Access) -> None:
    digest = registry.add_image("x", tarball(*((str(i), bytes(100_000)) for i in range(9))), compression="")
    entries = SOURCE.fetch(parameters(registry), Resolution(pinned="", digest=digest), access)
    next(entries)
    access.cancelled.set()
    assert "no longer needed" in failure(lambda: list(entries)).message


def test_no_thread_is_left_behind(registry: FaultyRegistry, access: Access) -> None:
    digest = registry.add_image("v1", *LAYERS)
    entries = SOURCE.fetch(parameters(registry), Resolution(pinned="", digest=digest), access)
    next(entries)
    timers = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
    entries.close()  # type: ignore[attr-defined]
    for timer in timers:
        timer.join(60)
    assert not any(timer.is_alive() for timer in timers)


# parameters

INVALID = [
    ("a bad reference", {"ref": "x y"}, 'p.ref: image reference "x y" has a repository'),
    ("no reference", {}, 'p.ref: image reference "" has a repository'),
    ("a bad digest", {"ref": "a@sha256:1"}, "p.ref: image reference"),
    ("a bad platform", {"ref": "a", "platform": "amd64"}, 'p.platform: "amd64" is not os/architecture'),
    ("a bad CA", {"ref": "a", "certificateData": "x"}, "p.certificateData: not a bundle of PEM certificates"),
]


@pytest.mark.parametrize(("given", "message"), [case[1:] for case in INVALID], ids=map(itemgetter(0), INVALID))
def test_what_is_wrong_with_parameters(given: dict[str, Any], message: str) -> None:
    (problem,) = SOURCE.validate(given, "p")
    assert problem.startswith(message)


def test_all_problems_are_told() -> None:
    given = {"ref": "", "platform": "x", "certificateData": "x"}
    assert len(SOURCE.validate(given, "p")) == 3


def test_good_parameters() -> None:
    assert SOURCE.validate({"ref": f"quay.io/a/b:v1@{digest_of(b'')}", "platform": "linux/arm/v7"}, "p") == []


def test_spellings_of_one_name_have_one_identity() -> None:
    short, full = (
        SOURCE.identity({"ref": "nginx"}),
        SOURCE.identity({"ref": "docker.io/library/nginx:latest", "platform": "linux/amd64"}),
    )
    assert short == full == {"ref": "docker.io/library/nginx:latest", "platform": "linux/amd64"}


def test_a_tag_beside_a_digest_and_how_it_is_reached_are_no_identity() -> None:
    pinned = f"quay.io/a/b@{ABSENT}"
    other = {"ref": f"quay.io/a/b:v2@{ABSENT}", "insecureSkipTLSVerify": True, "certificateData": "x"}
    assert SOURCE.identity({"ref": pinned}) == SOURCE.identity(other)


def test_content_differs_by_platform() -> None:
    resolution = Resolution(pinned="", digest=ABSENT)
    assert SOURCE.content_key({}, resolution) == f"{ABSENT}|linux/amd64"
    assert SOURCE.content_key({"platform": "linux/arm64"}, resolution) == f"{ABSENT}|linux/arm64"
