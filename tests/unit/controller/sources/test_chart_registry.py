"""Charts in a registry: tags as versions, the layer that is the chart, and what is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Credentials, Limits, Network, RegistryCredentials, Resolution
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.archive import write_entries
from rukpak.controller.sources.chart import ChartSource
from tests.support.charts import CHART, CHART_CONFIG, add_chart, packed_chart
from tests.support.faulty_registry import OCI_INDEX, OCI_MANIFEST, FaultyRegistry, digest_of
from tests.support.private_sources import Authority

PATH = "spec.sources[0].chart"
SOURCE = ChartSource()
VERSIONS = ("1.0.0", "1.2.0", "1.10.0", "1.10.0+build.1", "2.0.0-rc.1")


@pytest.fixture
def registry() -> Iterator[FaultyRegistry]:
    with FaultyRegistry() as registry:
        registry.digests = {version: add_chart(registry, "web", version) for version in VERSIONS}  # type: ignore[attr-defined]
        yield registry


def parameters(registry: FaultyRegistry, **more: Any) -> dict[str, Any]:
    return {"repository": f"oci://{registry.host}/charts", "name": "web", **more}


def resolve(parameters: Mapping[str, Any], access: Access) -> Resolution:
    assert not SOURCE.validate(parameters, PATH)
    return SOURCE.resolve(parameters, access)


def failure(call: Callable[[], object], reason: Reason) -> str:
    with pytest.raises(BundleError) as caught:
        call()
    assert caught.value.reason is reason, caught.value.message
    assert caught.value.message.startswith(PATH)
    return caught.value.message


def asked(registry: FaultyRegistry) -> list[str]:
    return [path.removeprefix("/v2/charts/web/").partition("?")[0] for _, path, _ in registry.requests]


def with_access(access: Access, **options: Any) -> Access:
    fields = {name: getattr(access, name) for name in ("path", "deadline", "cancelled", "scratch")}
    return Access(**fields, **options)


CHOSEN = {"": "1.10.0", "~1.0": "1.0.0", "<1.10": "1.2.0", ">=2.0.0-0": "2.0.0-rc.1", ">=1.0.0-0 <1.3.0": "1.2.0"}


@pytest.mark.parametrize("version", CHOSEN)
def test_a_range_is_pinned_by_the_digest_of_the_packaged_chart(
    version: str, registry: FaultyRegistry, access: Access
) -> None:
    found = resolve(parameters(registry, version=version), access)
    assert found.version.partition("+")[0] == CHOSEN[version]
    digest = registry.digests[found.version]  # type: ignore[attr-defined]
    assert (found.pinned, found.digest) == (f"oci://{registry.host}/charts/web:{found.version}@{digest}", digest)
    assert asked(registry) == ["tags/list", f"manifests/{found.version.replace('+', '_')}"]


def test_a_version_that_the_spec_names_is_asked_for_alone(registry: FaultyRegistry, access: Access) -> None:
    found = resolve(parameters(registry, version="1.10.0+build.1"), access)
    assert (found.version, found.pinned.partition("@")[0]) == ("", f"oci://{registry.host}/charts/web:1.10.0+build.1")
    assert asked(registry) == ["manifests/1.10.0_build.1"]


@pytest.mark.parametrize("version", ["1.0.0", "~1.0"])
def test_the_content_is_the_directory_of_the_chart(version: str, registry: FaultyRegistry, access: Access) -> None:
    wanted = parameters(registry, version=version)
    found = resolve(wanted, access)
    folder = access.scratch / "to"
    folder.mkdir()
    write_entries(SOURCE.fetch(wanted, found, access), folder, Limits(), PATH)
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == [
        "Chart.yaml",
        "templates/settings.yaml",
    ]
    assert asked(registry)[-1] == f"blobs/{found.digest}"


def test_what_is_near_is_named(registry: FaultyRegistry, access: Access) -> None:
    message = failure(lambda: resolve(parameters(registry, version="9.9.9"), access), Reason.NOT_FOUND)
    assert message.startswith(f'{PATH}.version: chart "web" has no version "9.9.9"; the nearest are "2.0.0-rc.1", ')
    message = failure(lambda: resolve(parameters(registry, version=">=9"), access), Reason.NOT_FOUND)
    assert message.startswith(f'{PATH}.version: chart "web" has no version in the range ">=9"; the nearest are')


def test_the_digest_of_the_spec(registry: FaultyRegistry, access: Access) -> None:
    digest = registry.digests["1.0.0"].removeprefix("sha256:")  # type: ignore[attr-defined]
    assert resolve(parameters(registry, version="1.0.0", sha256=digest), access).digest == f"sha256:{digest}"
    message = failure(lambda: resolve(parameters(registry, sha256="0" * 64), access), Reason.DIGEST_MISMATCH)
    assert message.startswith(f'{PATH}.sha256: version "1.10.0')


def test_a_blob_that_was_changed_is_not_unpacked(registry: FaultyRegistry, access: Access) -> None:
    wanted = parameters(registry, version="1.0.0")
    found = resolve(wanted, access)
    registry.blobs[found.digest] = packed_chart("web", "6.6.6")
    failure(lambda: list(SOURCE.fetch(wanted, found, access)), Reason.DIGEST_MISMATCH)


def test_a_blob_that_is_too_large(registry: FaultyRegistry, access: Access) -> None:
    wanted = parameters(registry, version="1.0.0")
    found = resolve(wanted, access)
    small = with_access(access, limits=Limits(compressed_bytes=10))
    message = failure(lambda: list(SOURCE.fetch(wanted, found, small)), Reason.CONTENT_REJECTED)
    assert message == f"{PATH}.repository: the packaged chart exceeds the limit of 10 bytes; make it smaller"


def test_a_blob_that_is_gone(registry: FaultyRegistry, access: Access) -> None:
    wanted = parameters(registry, version="1.0.0")
    found = resolve(wanted, access)
    del registry.blobs[found.digest]
    message = failure(lambda: list(SOURCE.fetch(wanted, found, access)), Reason.PINNED_CONTENT_GONE)
    assert message.startswith(f'{PATH}.repository: repository "charts/web" at "{registry.host}" no longer has blob')


def test_what_is_no_chart(registry: FaultyRegistry, access: Access) -> None:
    registry.add_image("3.0.0", b"")
    registry.add_index("4.0.0", {"linux/amd64": registry.add_image("x", b"")})
    config = registry.add_blob(b"{}", CHART_CONFIG)
    registry.add_manifest("5.0.0", OCI_MANIFEST, config=config, layers=[registry.add_blob(b"a", CHART)] * 2)
    registry.add_manifest("6.0.0", OCI_INDEX, config=config, layers=[])
    problems = {
        "3.0.0": "it contains something else than a Helm chart; use kind image",
        "4.0.0": "it contains something else than a Helm chart",
        "5.0.0": "the artifact has 2 packaged charts in place of one",
        "6.0.0": "the manifest has the unsupported media type",
    }
    for version, problem in problems.items():
        wanted = parameters(registry, version=version)
        message = failure(lambda: resolve(wanted, access), Reason.UNSUPPORTED_CONTENT)  # noqa: B023
        assert message.startswith(f"{PATH}.repository: {problem}")


def test_credentials_of_both_shapes(tmp_path: Path, access: Access) -> None:
    authority = Authority.make(tmp_path)
    with FaultyRegistry(authority.server_context()) as registry:
        registry.logins = {"robot": "canary"}
        add_chart(registry, "web", "1.0.0")
        wanted = parameters(registry, certificateData=authority.pem)
        for_folder = RegistryCredentials(registry=f"{registry.host}/charts", username="robot", password="canary")
        for login in (Credentials(username="robot", password="canary"), Credentials(registries=(for_folder,))):
            assert resolve(wanted, with_access(access, credentials=login)).version == "1.0.0"
        message = failure(lambda: resolve(wanted, access), Reason.UNAUTHORIZED)
        assert "requires credentials" in message
        bearer = with_access(access, credentials=Credentials(bearer_token="canary"))
        message = failure(lambda: resolve(wanted, bearer), Reason.SECRET_INVALID)
        assert 'key "bearerToken"' in message
        assert "canary" not in message


def test_a_mirror_is_asked_and_the_pin_keeps_the_name(registry: FaultyRegistry, access: Access) -> None:
    network = Network(registry_mirrors={"charts.example.com": f"{registry.host}/mirrored"})
    wanted = {"repository": "oci://charts.example.com/charts", "name": "web", "version": "1.0.0"}
    found = resolve(wanted, with_access(access, network=network))
    assert found.pinned.startswith("oci://charts.example.com/charts/web:1.0.0@sha256:")
    assert registry.requests[-1][1] == "/v2/mirrored/charts/web/manifests/1.0.0"


def test_only_allowed_hosts_are_asked(registry: FaultyRegistry, access: Access) -> None:
    network = Network(allowed_hosts=("charts.example.com",))
    message = failure(
        lambda: resolve(parameters(registry), with_access(access, network=network)), Reason.INSECURE_REFUSED
    )
    assert message.startswith(f"{PATH}.repository: host")
    assert not registry.requests


def test_a_chart_in_an_index_is_found_also_beside_an_image(registry: FaultyRegistry, access: Access) -> None:
    digest, manifest = registry.digests["1.0.0"], digest_of(registry.manifests["1.0.0"][1])  # type: ignore[attr-defined]
    image = registry.add_image("x", b"")
    indexes = {
        "3.0.0": registry.add_index("3.0.0", {"": manifest}),
        "3.1.0": registry.add_index("3.1.0", {"linux/amd64": image, "": manifest}),
        "3.2.0": registry.add_index("3.2.0", {"": manifest, "linux/amd64": image, "linux/arm64": image}),
    }
    for version in indexes:
        assert resolve(parameters(registry, version=version), access).digest == digest


def test_a_chart_of_an_older_helm_is_read(registry: FaultyRegistry, access: Access) -> None:
    config = registry.add_blob(b"{}", CHART_CONFIG)
    layer = registry.add_blob(b"a", "application/tar+gzip")
    registry.add_manifest("3.0.0", OCI_MANIFEST, config=config, layers=[layer])
    assert resolve(parameters(registry, version="3.0.0"), access).digest == layer["digest"]
