from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator

import pytest

from hack.bench.soak import verdict
from hack.bench.soak.churn import KINDS, VERSIONS, FailingNetwork, Sources, content, expected, manifests, version_of
from hack.bench.soak.verdict import Sample, find_trends


def samples(*resident: float) -> list[Sample]:
    return [Sample(resident=each, descriptors=9, threads=7, stored=1.5, revisions=1.0) for each in resident]


# trends


@pytest.mark.parametrize(
    ("resident", "is_flat"),
    [
        pytest.param([80.0] * 20, True, id="constant"),
        pytest.param([80.0 + number % 5 for number in range(20)], True, id="noise"),
        pytest.param([80.0 + number for number in range(20)], False, id="growth"),
        pytest.param([80.0 + number + number % 3 for number in range(20)], False, id="growth within noise"),
        pytest.param([80.0 + number / 100 for number in range(20)], True, id="less than a hundredth"),
        pytest.param([80.0 - number for number in range(20)], True, id="shrinks"),
    ],
)
def test_a_trend_is_what_is_beyond_noise(resident: list[float], is_flat: bool) -> None:
    assert find_trends(samples(*resident))["resident"].is_flat is is_flat


def test_a_trend_says_how_much_was_added() -> None:
    trend = find_trends(samples(10, 12, 14))["resident"]
    assert (trend.mean, trend.change, round(trend.deviation, 9)) == (12, 4, 0)


# contents


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_version_is_known_by_the_sources(kind: str, version: str, networks: dict[str, FailingNetwork]) -> None:
    assert version_of([Sources(networks).entry(kind, version)]) == version


@pytest.fixture
def networks() -> Iterator[dict[str, FailingNetwork]]:
    with FailingNetwork("127.0.0.1:9", 1) as network:
        yield dict.fromkeys(KINDS, network)


def test_versions_differ_in_content_and_in_extent() -> None:
    first, second = ({each["metadata"]["name"]: content(each) for each in manifests(v)} for v in VERSIONS[:2])
    assert first["settings"] == second["settings"]
    assert first["release"] != second["release"]
    assert set(first) - set(second) == {"only-v1"}


def test_a_source_without_a_version_is_refused() -> None:
    with pytest.raises(ValueError, match="no version"):
        version_of([{"kind": "image", "image": {"ref": "example.com/soak:latest"}}])


# the verdict

DEPLOYMENT = {"spec": {"installNamespace": "a", "sources": [{"image": {"ref": "example.com/soak:v1"}}]}}
WANTED = expected(DEPLOYMENT)
SETTINGS = ("ConfigMap", "a", "settings")


@pytest.mark.parametrize(
    ("found", "faults"),
    [
        pytest.param({"a": WANTED}, [], id="as it should be"),
        pytest.param({"a": {**WANTED, SETTINGS: {"color": "red"}}}, ["is {'color': 'red'}"], id="edited"),
        pytest.param({"a": {key: WANTED[key] for key in WANTED if key != SETTINGS}}, ["is missing"], id="missing"),
        pytest.param({"a": {**WANTED, ("ConfigMap", "a", "only-v2"): {}}}, ["a/only-v2 is left over"], id="left over"),
        pytest.param({"a": WANTED, "gone": {SETTINGS: {}}}, ["gone: ConfigMap a/settings is left over"], id="orphan"),
        pytest.param({}, ["is missing"] * len(WANTED), id="nothing"),
    ],
)
def test_objects_are_compared_by_owner(found: dict[str, verdict.Objects], faults: list[str]) -> None:
    compared = verdict.compare({"a": WANTED}, found)
    assert len(compared) == len(faults)
    assert all(part in fault for fault, part in zip(compared, faults, strict=True))


@pytest.mark.parametrize(
    ("kept", "stored", "faults"),
    [
        ({"a": 1}, {"a": 1}, 0),
        ({"a": 2}, {"a": 2}, 0),
        ({"a": 1}, {"a": 2}, 1),
        ({"a": 1}, {}, 1),
        ({"a": 1}, {"a": 1, "gone": 1}, 1),
        pytest.param({"a": 3}, {"a": 3}, 1, id="more than the history may have"),
    ],
)
def test_revisions_are_stored_that_a_status_names(kept: dict[str, int], stored: dict[str, int], faults: int) -> None:
    assert len(verdict.compare_revisions(kept, Counter(stored))) == faults


# the network


def test_a_network_that_does_not_fail_relays_both_ways() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, FailingNetwork(_address(server), 1) as network:
        address, _, port = network.host.rpartition(":")
        with socket.create_connection((address, int(port))) as client:
            connection, _ = server.accept()
            with connection:
                client.sendall(b"question")
                assert connection.recv(8) == b"question"
                connection.sendall(b"answer")
                assert client.recv(6) == b"answer"


def test_a_network_that_fails_refuses_some_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, FailingNetwork(_address(server), 1) as network:
        network.fail(failing=True)
        address, _, port = network.host.rpartition(":")
        for _ in range(100):
            with socket.create_connection((address, int(port))) as client:
                client.settimeout(0.2)
                try:
                    if not client.recv(1):
                        return
                except TimeoutError:
                    continue
    pytest.fail("none was refused")


def _address(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"
