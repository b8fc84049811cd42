"""What the API server says when it, its etcd or a server behind it is in trouble, and what is made of that.

The rows of controller/apply/README.md, Replies that are about no object: each reply is a real one.
"""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.playground.cluster import ControlPlane, read_token
from rukpak.controller.playground.processes import Process, wait_for
from tests.support.bundles import SECONDS, Manifest, config_map
from tests.support.inside import ApiError, ApplyFailure, Client, Response, User, classify, connect, key_of
from tests.support.objects import labelled, make

MANAGER = "rukpak/x"
QUOTA_BYTES = 24_000_000
MEBIBYTE = 1 << 20
FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
THREADS = 16


@pytest.fixture
def client(fresh_cluster: ControlPlane) -> Client:
    return connect(kubeconfig=str(fresh_cluster.kubeconfig), user_agent="rukpak-test")


def path_of(name: str = "") -> str:
    return f"/api/v1/namespaces/default/configmaps/{name}".rstrip("/")


def placed(manifest: Manifest) -> Manifest:
    return labelled(manifest, namespace="default")


def apply(client: Client, name: str, color: str = "blue") -> Response:
    return client.apply(path_of(name), placed(config_map(name, color=color)), manager=MANAGER, force=True)


def refusal(attempt: Callable[[], object], manifest: Manifest) -> tuple[ApiError, ApplyFailure]:
    """Return the reply to an attempt, and what is made of it."""
    with pytest.raises(ApiError) as caught:
        attempt()
    return caught.value, classify(caught.value, key_of(placed(manifest)), install_namespace="default")


# the API server


@pytest.fixture
def busy(client: Client) -> Iterator[Client]:
    """Sends as somebody of whom the API server takes hardly more than one request at a time."""
    limits = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0}
    limited = {"type": "Limited", "limited": {**limits, "limitResponse": {"type": "Reject"}}}
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    subject = {"kind": "ServiceAccount", "serviceAccount": {"name": "busy", "namespace": "default"}}
    flow = {
        "priorityLevelConfiguration": {"name": "hardly-any"},
        "matchingPrecedence": 2,
        "rules": [{"subjects": [subject], "resourceRules": [everything]}],
    }
    version = "flowcontrol.apiserver.k8s.io/v1"
    level = make(version, "PriorityLevelConfiguration", "hardly-any", spec=limited)
    client.create(f"{FLOWS}/prioritylevelconfigurations", level)
    client.create(f"{FLOWS}/flowschemas", make(version, "FlowSchema", "hardly-any", spec=flow))
    yield client.acting_as(User.service_account("default", "busy"))
    client.delete(f"{FLOWS}/flowschemas/hardly-any")
    client.delete(f"{FLOWS}/prioritylevelconfigurations/hardly-any")


def test_who_asks_for_too_much_at_once_is_told_when_to_come_again(busy: Client) -> None:
    refused: list[ApiError] = []

    def ask(_: int) -> None:
        with suppress(ApiError):  # it may not: that is said later
            try:
                apply(busy, "a")
            except ApiError as error:
                refused.extend([error] if error.status == 429 else [])
                raise

    def is_refused() -> bool:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(ask, range(THREADS * 4)))
        return bool(refused)

    wait_for(is_refused, SECONDS, "429")
    failure = classify(refused[0], key_of(placed(config_map("a"))), install_namespace="default")
    assert (failure.reason, failure.retry_after) == (Reason.API_UNAVAILABLE, 1)
    assert "the API server answered 429" in failure.message


def test_an_api_whose_own_server_is_away(client: Client) -> None:
    version = "away.example.com/v1"
    spec = {"group": "away.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10}
    spec |= {"insecureSkipTLSVerify": True, "service": {"name": "nobody", "namespace": "default"}}
    client.create(SERVICES, make("apiregistration.k8s.io/v1", "APIService", "v1.away.example.com", spec=spec))
    thing = make(version, "Thing", "a")
    path = f"/apis/{version}/namespaces/default/things/a"

    def status() -> int:
        try:
            return client.get(path).status
        except ApiError as error:
            return error.status

    try:
        wait_for(lambda: status() == 503, SECONDS, "503")
        error, failure = refusal(lambda: client.apply(path, placed(thing), manager=MANAGER, force=True), thing)
    finally:
        client.delete(f"{SERVICES}/v1.away.example.com")
    assert (error.status, error.reason) == (503, "")  # plain text
    assert failure.reason is Reason.API_UNAVAILABLE
    assert failure.message.endswith("the API server answered 503")


def write_kubeconfig(cluster: ControlPlane, folder: Path, token: Path) -> Path:
    access = {"server": cluster.server, "certificate-authority": str(cluster.folder / "ca.crt")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "a", "cluster": access}],
        "users": [{"name": "a", "user": {"tokenFile": str(token)}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
    }
    (folder / "kubeconfig").write_text(json.dumps(config))
    return folder / "kubeconfig"


def test_a_token_that_has_changed_is_read_again_once(fresh_cluster: ControlPlane, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("of yesterday")
    client = connect(kubeconfig=str(write_kubeconfig(fresh_cluster, tmp_path, token)), user_agent="rukpak-test")
    token.write_text(read_token(fresh_cluster.folder))
    assert apply(client, "token").status in (200, 201)

    token.write_text("of yesterday")
    other = connect(kubeconfig=str(tmp_path / "kubeconfig"), user_agent="rukpak-test")
    error, failure = refusal(lambda: apply(other, "token"), config_map("token"))
    assert error.status == 401
    assert failure.reason is Reason.API_UNAVAILABLE
    assert failure.message.endswith("the API server rejected the credentials of the controller")


# etcd


@contextmanager
def stopped(process: Process) -> Iterator[None]:
    """Let a process hang."""
    assert process._child
    os.kill(process._child.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process._child.pid, signal.SIGCONT)


def test_while_etcd_hangs_writes_hang_and_the_cache_answers(client: Client, fresh_cluster: ControlPlane) -> None:
    apply(client, "hangs")

    def change(color: str, *query: tuple[str, str | int], seconds: float) -> Response:
        body, asked = placed(config_map("hangs", color=color)), [("fieldManager", MANAGER), ("force", "true"), *query]
        timeout = (5.0, seconds)
        return client.request(
            "PATCH",
            path_of("hangs"),
            query=asked,
            body=body,
            content_type="application/apply-patch+yaml",
            timeout=timeout,
        )

    with stopped(fresh_cluster.components["etcd"]):
        cached = client.request("GET", path_of(), query=[("resourceVersion", "0")], timeout=(5, 5)).value["items"]
        assert "hangs" in {each["metadata"]["name"] for each in cached}
        silent, unanswered = refusal(lambda: change("red", seconds=2), config_map("hangs"))
        late, timed_out = refusal(lambda: change("red", ("timeout", "1s"), seconds=20), config_map("hangs"))
    assert (silent.status, late.status) == (0, 504)
    assert {unanswered.reason, timed_out.reason} == {Reason.API_UNAVAILABLE}
    assert unanswered.message.endswith("the API server did not answer")
    # What got no reply may have happened, or not.
    wait_for(lambda: apply(client, "hangs", "red").status == 200, SECONDS, "it is applied again")
    assert client.get(path_of("hangs")).value["data"] == {"color": "red"}


@pytest.fixture
def small_etcd(fresh_cluster: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane whose etcd has little room; afterwards it has as much as ever."""
    usual = fresh_cluster.components["etcd"]
    fresh_cluster.stop("etcd")
    command = [*usual._command, f"--quota-backend-bytes={QUOTA_BYTES}"]
    fresh_cluster.components["etcd"] = Process("etcd", fresh_cluster.folder, command)
    fresh_cluster.start("etcd")
    yield fresh_cluster
    fresh_cluster.stop("etcd")
    fresh_cluster.components["etcd"] = usual
    fresh_cluster.start("etcd")


def ask_etcd(cluster: ControlPlane, path: str, body: Manifest) -> Manifest:
    request = urllib.request.Request(f"{cluster.etcd}/v3/{path}", data=json.dumps(body).encode())
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
        value: Manifest = json.load(answer)
        return value


def fill(client: Client) -> list[str]:
    """Make objects until there is no room; returns the names of those that were made."""
    made: list[str] = []
    while len(made) < 2 * QUOTA_BYTES // MEBIBYTE:
        big = config_map(f"big-{len(made)}", text="x" * (MEBIBYTE - 100))
        try:
            client.apply(path_of(big["metadata"]["name"]), placed(big), manager=MANAGER, force=True)
        except ApiError as error:
            assert "mvcc: database space exceeded" in error.message
            return made
        made.append(big["metadata"]["name"])
    raise AssertionError("there is still room")


def make_room(cluster: ControlPlane) -> None:
    """Compact and defragment etcd: what was deleted takes no room any more."""
    everything = {"key": "AA==", "range_end": "AA==", "limit": 1}
    revision = ask_etcd(cluster, "kv/range", everything)["header"]["revision"]
    ask_etcd(cluster, "kv/compaction", {"revision": revision, "physical": True})
    ask_etcd(cluster, "maintenance/defragment", {})


def disarm(cluster: ControlPlane) -> None:
    alarms: list[dict[str, Any]] = ask_etcd(cluster, "maintenance/alarm", {"action": "GET"})["alarms"]
    for alarm in alarms:
        ask_etcd(cluster, "maintenance/alarm", {**alarm, "action": "DEACTIVATE"})


def test_a_full_etcd_takes_deletions_alone_until_it_is_made_room_in_and_disarmed(
    client: Client, small_etcd: ControlPlane
) -> None:
    apply(client, "kept")
    made = fill(client)

    error, failure = refusal(lambda: apply(client, "kept", "red"), config_map("kept"))
    assert (error.status, failure.reason) == (500, Reason.API_UNAVAILABLE)
    assert failure.retry_after == 60
    assert "the database of the API server is full" in failure.message
    assert client.get(path_of("kept")).value["data"] == {"color": "blue"}
    assert apply(client, "kept").status == 200  # changes nothing
    for name in made:
        client.delete(path_of(name))

    refusal(lambda: apply(client, "kept", "red"), config_map("kept"))
    make_room(small_etcd)
    refusal(lambda: apply(client, "kept", "red"), config_map("kept"))
    disarm(small_etcd)
    wait_for(lambda: apply(client, "kept", "red").status == 200, SECONDS, "it is taken")
