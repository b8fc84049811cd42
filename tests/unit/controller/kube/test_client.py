from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from urllib3.exceptions import SystemTimeWarning

from rukpak.controller.content.limits import describe_bytes
from rukpak.controller.kube.client import SHORTEST_SECONDS, TOO_LARGE, Client, Fence, Transport
from rukpak.controller.kube.configuration import Configuration, User
from rukpak.controller.kube.encoding import APPLY_PATCH, MERGE_PATCH, METADATA, METADATA_LIST
from rukpak.controller.kube.errors import ApiError, ConfigurationError
from rukpak.controller.playground.processes import wait_for
from tests.support.clock import Clock
from tests.support.fake_api import FakeApi, Fault

FOOS = "/apis/x.io/v1/foos"
FOO = f"{FOOS}/a"


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi(FOOS) as api:
        api.put(FOOS, "a")
        yield api


def loader(api: FakeApi, tokens: list[str]) -> Callable[[], Configuration]:
    """Return what reads another token each time, and the last one for ever."""

    def load() -> Configuration:
        token = tokens[0]
        del tokens[: len(tokens) > 1]
        return Configuration(host=api.url, authorize=lambda: token)

    return load


def test_a_clock_that_is_far_behind_is_not_reported_for_each_connection(api: FakeApi) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Client(Transport(loader(api, ["token"])))
        warnings.warn("way off", SystemTimeWarning, stacklevel=1)
    assert caught == []


WRITES: dict[str, tuple[Callable[[Client], object], str, dict[str, str], dict[str, str]]] = {
    "an apply is strict": (
        lambda client: client.apply(FOO, {}, manager="rukpak/a", force=True),
        "PATCH",
        {"fieldManager": "rukpak/a", "force": "true", "fieldValidation": "Strict"},
        {"Content-Type": APPLY_PATCH, "Accept": METADATA},
    ),
    "an apply may be tried, without force, in full": (
        lambda client: client.apply(FOO, {}, manager="m", force=False, dry_run=True, metadata=False),
        "PATCH",
        {"fieldManager": "m", "force": "false", "fieldValidation": "Strict", "dryRun": "All"},
        {"Content-Type": APPLY_PATCH, "Accept": "application/json"},
    ),
    "a merge patch": (
        lambda client: client.merge_patch(FOO, {}, manager="m"),
        "PATCH",
        {"fieldManager": "m"},
        {"Content-Type": MERGE_PATCH, "Accept": "application/json"},
    ),
    "a merge patch without a manager": (
        lambda client: client.merge_patch(FOO, {}, metadata=True),
        "PATCH",
        {},
        {"Content-Type": MERGE_PATCH, "Accept": METADATA},
    ),
    "a creation": (
        lambda client: client.create(FOOS, {"metadata": {"name": "b"}}, manager="m"),
        "POST",
        {"fieldManager": "m"},
        {"Content-Type": "application/json", "Accept": "application/json"},
    ),
    "a read of metadata": (lambda client: client.get(FOO, metadata=True), "GET", {}, {"Accept": METADATA}),
    "a list of metadata": (
        lambda client: list(client.list(FOOS, metadata=True, label_selector="a=b,c", field_selector="x!=y")),
        "GET",
        {"limit": "500", "labelSelector": "a=b,c", "fieldSelector": "x!=y"},
        {"Accept": METADATA_LIST},
    ),
}


@pytest.mark.parametrize("name", WRITES)
def test_what_goes_out(name: str, api: FakeApi) -> None:
    call, method, query, headers = WRITES[name]
    call(api.client())
    request = api.received[-1]
    assert (request.method, request.query) == (method, query)
    assert {key: request.header(key) for key in headers} == {key: [value] for key, value in headers.items()}


@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        ({}, {"propagationPolicy": "Background"}),
        (
            {"uid": "u", "resource_version": "7", "propagation": "Foreground"},
            {"propagationPolicy": "Foreground", "preconditions": {"uid": "u", "resourceVersion": "7"}},
        ),
    ],
    ids=["whatever it is", "only the one that was judged"],
)
def test_a_delete(arguments: dict[str, Any], body: dict[str, Any], api: FakeApi) -> None:
    api.client().delete(FOO, **arguments)
    assert json.loads(api.received[-1].body) == body


def test_a_user_is_acted_as(api: FakeApi) -> None:
    api.client(user_agent="rukpak/1").acting_as(User("bob", groups=("g", "h"))).get(FOO)
    request = api.received[-1]
    assert request.header("Impersonate-User") == ["bob"]
    assert request.header("Impersonate-Group") == ["g", "h"]
    assert request.header("User-Agent") == ["rukpak/1"]


def test_every_request_carries_the_token(api: FakeApi) -> None:
    Client(Transport(loader(api, ["Bearer t"]))).get(FOO)
    assert api.received[-1].header("Authorization") == ["Bearer t"]


def test_after_a_401_the_token_is_read_again_and_the_request_sent_once_more(api: FakeApi) -> None:
    client = Client(Transport(loader(api, ["Bearer old", "Bearer new"])))
    api.faults = [Fault(401)]
    assert client.create(FOOS, {"metadata": {"name": "b"}}).status == 201
    assert [request.header("Authorization") for request in api.received] == [["Bearer old"], ["Bearer new"]]
    assert api.received[0].body == api.received[1].body


def test_a_token_that_stays_refused_is_not_read_for_every_request(api: FakeApi) -> None:
    now = [0.0]
    client = Client(Transport(loader(api, ["Bearer t"]), clock=lambda: now[0]))
    for elapsed, requests in ((0, 2), (1, 1), (11, 2)):
        now[0] += elapsed
        api.faults = [Fault(401), Fault(401)][:requests]
        api.received.clear()
        with pytest.raises(ApiError, match="401 Unauthorized"):
            client.get(FOO)
        assert len(api.received) == requests


@pytest.mark.parametrize(
    "address", ["api.example:6443", "ftp://api.example", "https://", "https://[::1", "https://x:99999"]
)
def test_what_is_no_address_of_a_server_is_refused_at_once(address: str) -> None:
    with pytest.raises(ConfigurationError, match="API server address"):
        Client(Transport(lambda: Configuration(host=address)))


def test_a_server_below_a_path_is_asked_there(api: FakeApi) -> None:
    client = Client(Transport(lambda: Configuration(host=f"{api.url}/apis")))
    assert client.get(FOO.removeprefix("/apis")).value["metadata"]["name"] == "a"


def test_a_server_behind_a_proxy_over_plain_http_is_named_in_the_request(api: FakeApi) -> None:
    client = Client(Transport(lambda: Configuration(host="http://api.example", proxy=api.url)))
    client.get(FOO)
    assert api.received[-1].header("Host") == ["api.example"]


def test_a_kubeconfig_that_is_gone_leaves_the_401(api: FakeApi) -> None:
    load, reads = loader(api, ["t"]), [0]

    def once() -> Configuration:
        reads[0] += 1
        if reads[0] > 1:
            raise ConfigurationError("gone")
        return load()

    client = Client(Transport(once))
    api.faults = [Fault(401)]
    with pytest.raises(ApiError, match="401"):
        client.get(FOO)


def test_a_token_that_cannot_be_read_is_an_error_not_an_anonymous_request(api: FakeApi) -> None:
    def fail() -> str:
        raise ConfigurationError("/var/run/token")

    with pytest.raises(ApiError, match="NoCredential"):
        Client(Transport(lambda: Configuration(host=api.url, authorize=fail))).get(FOO)
    assert api.received == []


def test_a_reply_other_than_2xx_is_an_error_with_all_that_the_status_says(api: FakeApi) -> None:
    api.faults = [Fault(429, {"Retry-After": "2"}, details={"causes": [{"field": "f"}]})]
    with pytest.raises(ApiError) as caught:
        api.client().get(FOO)
    assert (caught.value.status, caught.value.retry_after, caught.value.causes[0].field) == (429, 2, "f")


def test_a_redirect_is_not_followed(api: FakeApi) -> None:
    api.faults = [Fault(302, {"Location": f"{api.url}{FOO}"}, b"")]
    with pytest.raises(ApiError, match="302"):
        api.client().get(FOO)
    assert len(api.received) == 1


def test_warnings_come_back(api: FakeApi) -> None:
    api.faults = [Fault(200, {"Warning": '299 - "v1 is deprecated"'}, b"{}")]
    assert api.client().get(FOO).warnings == ("v1 is deprecated",)


def test_an_answer_that_is_not_json_is_an_error(api: FakeApi) -> None:
    api.faults = [Fault(200, {}, b"<html>")]
    with pytest.raises(ApiError, match="NotUnderstood"):
        api.client().get(FOO)


def test_an_answer_without_a_body_has_no_value(api: FakeApi) -> None:
    api.faults = [Fault(204, {}, b"")]
    assert api.client().delete(FOO).value is None


def test_an_unchanged_document_has_status_304(api: FakeApi) -> None:
    api.documents["/version"] = ({"a": 1}, '"tag"')
    client = api.client()
    tag = client.get("/version").headers["ETag"]
    assert client.request("GET", "/version", if_none_match=tag).status == 304


def test_a_server_that_is_gone_is_an_error_and_nothing_is_retried(api: FakeApi) -> None:
    client = api.client()
    api.__exit__(None, None, None)
    with pytest.raises(ApiError) as caught:
        client.get(FOO)
    assert (caught.value.status, caught.value.reason, caught.value.transient) == (0, "Unreachable", True)


def test_a_server_that_does_not_answer_is_given_up(api: FakeApi) -> None:
    api.frozen.set()
    with pytest.raises(ApiError, match="ReadTimeoutError"):
        api.client().request("GET", FOO, timeout=(1, 0.1))


def test_a_body_that_is_cut_is_an_error(api: FakeApi) -> None:
    api.faults = [Fault(200, {"Content-Length": "10", "Connection": "close"}, b"{}")]
    with pytest.raises(ApiError, match="Unreachable"):
        api.client().request("GET", FOO, timeout=(1, 0.5))


def test_an_error_whose_body_is_cut_keeps_its_status(api: FakeApi) -> None:
    api.faults = [Fault(503, {"Content-Length": "10", "Connection": "close"}, b"{}")]
    with pytest.raises(ApiError, match="503"):
        api.client().request("GET", FOO, timeout=(1, 0.5))


def test_every_request_is_told_with_its_status(api: FakeApi) -> None:
    told: list[tuple[str, str, int]] = []
    client = api.client()
    client.transport.on_request = lambda *request: told.append(request)
    api.faults = [Fault(200, {}, b"{}"), Fault(500)]
    client.get(FOO)
    with pytest.raises(ApiError):
        client.delete(FOO)
    client.transport.on_request = lambda *request: told.append(("later", *request[1:]))
    api.frozen.set()
    with pytest.raises(ApiError):
        client.request("GET", FOO, timeout=(1, 0.1))
    assert told == [("GET", client.host, 200), ("DELETE", client.host, 500), ("later", client.host, 0)]


def test_connections_are_used_again(api: FakeApi) -> None:
    client = api.client()
    for _ in range(3):
        client.get(FOO)
        with pytest.raises(ApiError):
            client.get(f"{FOOS}/none")
    assert len(api._sockets) == 1


def names(items: Iterator[dict[str, Any]]) -> list[str]:
    return [item["metadata"]["name"] for item in items]


def test_a_list_is_read_page_by_page_as_it_is_needed(api: FakeApi) -> None:
    for name in "bcde":
        api.put(FOOS, name)
    items = api.client().list(FOOS, limit=2)
    assert next(items)["metadata"]["name"] == "a"
    assert len(api.received) == 1
    assert names(items) == list("bcde")
    assert len(api.received) == 3


def test_a_list_that_expires_is_read_once_more_without_pages_and_each_object_told_once(api: FakeApi) -> None:
    for name in "bcde":
        api.put(FOOS, name)
    items = api.client().list(FOOS, limit=2)
    seen = [next(items)["metadata"]["name"], next(items)["metadata"]["name"]]
    api.compact()
    assert seen + names(items) == list("abcde")
    assert "limit" not in api.received[-1].query


def test_a_list_that_expires_again_is_an_error(api: FakeApi) -> None:
    api.put(FOOS, "b")
    items = api.client().list(FOOS, limit=1)
    next(items)
    api.faults = [Fault(410), Fault(410)]
    with pytest.raises(ApiError, match="410"):
        next(items)


def test_a_page_says_whether_there_is_more(api: FakeApi) -> None:
    api.put(FOOS, "b")
    page = next(api.client().pages(FOOS, limit=1))
    assert (names(iter(page.items)), page.more) == (["a"], True)
    assert next(api.client().pages(FOOS, limit=2)).more is False


def test_of_a_page_that_is_too_large_the_rest_is_not_read_and_the_client_goes_on(api: FakeApi) -> None:
    client = api.client()
    whole = len(json.dumps(client.request("GET", FOOS, query=[("limit", 1)]).value))
    assert len(next(client.pages(FOOS, limit=1, max_bytes=whole)).items) == 1
    with pytest.raises(ApiError) as caught:
        next(client.pages(FOOS, limit=1, max_bytes=whole - 1))
    assert (caught.value.reason, caught.value.message) == (
        TOO_LARGE,
        f"the reply is larger than {describe_bytes(whole - 1)}",
    )
    assert len(next(client.pages(FOOS, limit=1)).items) == 1


def test_null_for_the_items_of_a_list_is_none(api: FakeApi) -> None:
    api.faults = [Fault(200, {}, b'{"metadata": {}, "items": null}')]
    assert list(api.client().list(FOOS)) == []


def test_many_threads_share_a_client(api: FakeApi) -> None:
    client, failures = api.client(), []

    def work() -> None:
        try:
            for _ in range(10):
                assert client.get(FOO).value["metadata"]["name"] == "a"
        except Exception as error:  # noqa: BLE001 - reported below
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert len(api.received) == 80


def admits(fence: Fence) -> bool:
    try:
        with fence.admit():
            return True
    except ApiError as error:
        assert error.reason == "NotLeading"
        return False


def test_it_is_shut_at_first_and_lets_through_until_its_time_is_over() -> None:
    clock = Clock()
    fence = Fence(clock)
    assert not admits(fence)
    fence.open_until(1010)
    assert admits(fence)
    clock.now = 1010 - SHORTEST_SECONDS / 2
    assert not admits(fence)
    fence.open_until(1020)
    assert admits(fence)


def test_a_write_is_told_how_long_it_may_take() -> None:
    fence = Fence(Clock())
    fence.open_until(1007)
    with fence.admit() as seconds:
        assert seconds == 7


def test_once_shut_it_stays_shut() -> None:
    fence = Fence(Clock())
    fence.shut()
    fence.open_until(1010)
    assert not admits(fence)
    assert fence.seconds_left() == 0


def test_shutting_tells_whether_writes_are_still_under_way() -> None:
    fence = Fence(Clock())
    fence.open_until(1010)
    leave = threading.Event()

    def write() -> None:
        with fence.admit():
            leave.wait(60)

    thread = threading.Thread(target=write)
    thread.start()
    wait_for(lambda: fence._under_way, 60, "the write has started")
    assert not fence.shut(0.01)
    leave.set()
    assert fence.shut(5)
    thread.join()


def test_a_write_that_may_not_be_sent_is_not_sent_and_reads_are_free() -> None:
    fence = Fence()
    with FakeApi("/apis/x.io/v1/foos") as api:
        client = api.client(fence=fence)
        with pytest.raises(ApiError, match="NotLeading"):
            client.create("/apis/x.io/v1/foos", {"metadata": {"name": "a"}})
        client.get("/apis/x.io/v1/foos")
        assert [each.method for each in api.received] == ["GET"]


def test_a_write_ends_before_the_time_of_the_leader_is_over() -> None:
    fence = Fence()
    with FakeApi("/apis/x.io/v1/foos") as api:
        client = api.client(fence=fence)
        api.frozen.set()
        fence.open_until(fence._clock() + 0.5)
        with pytest.raises(ApiError, match="Unreachable"):
            client.create("/apis/x.io/v1/foos", {"metadata": {"name": "a"}})
        assert fence.shut()


@pytest.mark.parametrize("name", ["", " ", "\t", "a\nImpersonate-Group: system:masters", "a\r", "\x00", "ä"], ids=repr)
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="impersonation"):
        User(name)


def test_an_empty_group_or_extra_is_refused() -> None:
    with pytest.raises(ValueError, match="impersonation"):
        User("a", groups=("",))
    with pytest.raises(ValueError, match="impersonation"):
        User("a", extra={"scopes": ("",)})


def test_groups_are_repeated_headers_and_keys_of_extra_are_quoted() -> None:
    user = User("a", groups=("g", "h"), extra={"example.org/x": ("1", "2")})
    assert list(user.headers()) == [
        ("Impersonate-User", "a"),
        ("Impersonate-Group", "g"),
        ("Impersonate-Group", "h"),
        ("Impersonate-Extra-example.org%2Fx", "1"),
        ("Impersonate-Extra-example.org%2Fx", "2"),
    ]


def test_a_service_account_is_a_user() -> None:
    assert User.service_account("ns", "sa") == User("system:serviceaccount:ns:sa")


@pytest.mark.parametrize(("namespace", "name"), [("", "sa"), ("ns", ""), ("ns", "a:b"), ("a:b", "c")])
def test_a_service_account_that_is_none_is_refused(namespace: str, name: str) -> None:
    with pytest.raises(ValueError, match="cannot be a ServiceAccount"):
        User.service_account(namespace, name)
