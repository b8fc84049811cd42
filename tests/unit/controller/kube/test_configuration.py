from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import Configuration

from rukpak.controller.kube import configuration as module
from rukpak.controller.kube.configuration import find_loader
from rukpak.controller.kube.errors import ConfigurationError

SECRET = "do-not-show-this"
Write = Callable[..., str]


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a kubeconfig with one context; a member that is None is left out."""

    def write(name: str = "config", server: str = "https://api.example:6443", **changes: Any) -> str:
        value = {
            "clusters": [{"name": "c", "cluster": {"server": server, **changes.pop("cluster", {})}}],
            "users": [{"name": "u", "user": changes.pop("user", {"token": SECRET})}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
            **changes,
        }
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({key: member for key, member in value.items() if member is not None}))
        return str(path)

    return write


def load(kubeconfig: str | None, context: str | None = None) -> Configuration:
    return find_loader(kubeconfig, context, 7)()


def test_a_kubeconfig_that_is_named_is_used(write: Write) -> None:
    configuration = load(write())
    assert configuration.host == "https://api.example:6443"
    assert configuration.api_key["BearerToken"] == f"Bearer {SECRET}"
    assert (configuration.connection_pool_maxsize, configuration.retries) == (7, False)


def test_the_variable_comes_before_the_home_directory(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("home/.kube/config", "https://home.example")
    assert load(None).host == "https://home.example"
    monkeypatch.setenv("KUBECONFIG", write("other", "https://variable.example"))
    assert load(None).host == "https://variable.example"


def test_several_files_are_merged(write: Write) -> None:
    first = write("first", contexts=None, users=None, **{"current-context": None})
    second = write("second", clusters=None)
    assert load(f"{first}:{second}").host == "https://api.example:6443"


def test_the_service_account_of_a_pod_is_used_where_no_kubeconfig_is_named(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("t")
    monkeypatch.setattr(module, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.raises(ConfigurationError, match="ServiceAccount token"):
        load(None)  # the package looks for the token elsewhere, and finds none
    write("home/.kube/config", "https://home.example")
    assert load(None, "x").host == "https://home.example"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no context is chosen": ({"current-context": None}, "current-context is not set"),
    "the context does not exist": ({"current-context": "y"}, 'no context "y"'),
    "the cluster does not exist": ({"clusters": []}, 'no cluster "c"'),
    "the user does not exist": ({"users": None}, 'no user "u"'),
    "the user has no credential": ({"user": {}}, "no supported credential"),
    "the user has a credential of an unknown kind": (
        {"user": {"auth-provider": {"name": "azure"}}},
        "no supported credential",
    ),
    "a certificate without its key": ({"user": {"client-certificate-data": "Zm9v"}}, "no supported credential"),
    "the plug-in fails": (
        {"user": {"exec": {"apiVersion": "v1", "command": "false"}}},
        "plugin returned no credential",
    ),
    "the plug-in is missing": (
        {"user": {"exec": {"apiVersion": "v1", "command": "/no/such"}}},
        "returned no credential",
    ),
    "it asks to act as another user": ({"user": {"token": SECRET, "as": "bob"}}, '"as" is not supported'),
    "a file that it names is missing": ({"cluster": {"certificate-authority": "no.crt"}}, "File does not exist"),
    "a member has the wrong type": ({"contexts": {"a": SECRET}}, "."),
    "an entry has no name": ({"users": [{"user": {"token": SECRET}}]}, "."),
    "data is not base64": ({"cluster": {"certificate-authority-data": "Zm9"}}, "not a valid kubeconfig"),
    "a token would go over plain http": ({"server": "http://api.example"}, "plain http"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_requests_are_never_anonymous_nor_as_another(name: str, write: Write) -> None:
    changes, message = REFUSED[name]
    with pytest.raises(ConfigurationError, match=message) as caught:
        load(write(**changes))
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


NOT_KUBECONFIGS = {
    "empty": "",
    "list": "- a",
    "open": "{",
    "cut": "a: [",
    "binary": "\0",
    "deep": "[" * 500 + "]" * 500,
}


@pytest.mark.parametrize("content", NOT_KUBECONFIGS.values(), ids=NOT_KUBECONFIGS)
def test_a_file_that_is_no_kubeconfig_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(content)
    with pytest.raises(ConfigurationError, match=r'^kubeconfig ".*/config": '):
        load(str(tmp_path / "config"))


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no such file"):
        load(str(tmp_path / "none"))
    with pytest.raises(ConfigurationError, match="Is a directory"):
        load(str(tmp_path))


def test_a_proxy_on_this_machine_adds_the_credential(write: Write) -> None:
    context = {"name": "x", "context": {"cluster": "c"}}
    assert not load(write(server="http://127.0.0.1:8001", contexts=[context])).api_key


def test_a_plug_in_gives_a_token(write: Write) -> None:
    reply = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "abc"}}
    plugin = {"apiVersion": reply["apiVersion"], "command": "echo", "args": [json.dumps(reply)]}
    assert load(write(user={"exec": plugin})).api_key["BearerToken"] == "Bearer abc"


def test_a_client_certificate_is_a_credential(write: Write) -> None:
    data = base64.b64encode(b"pem").decode()
    configuration = load(write(user={"client-certificate-data": data, "client-key-data": data}))
    assert Path(str(configuration.cert_file)).read_bytes() == b"pem"


def test_the_token_is_read_again_by_the_package_and_the_guard_stays(write: Write) -> None:
    configuration = load(write())
    for _ in range(3):
        assert configuration.get_api_key_with_prefix("BearerToken") == f"Bearer {SECRET}"
    assert configuration.refresh_api_key_hook.__module__ == module.__name__


@pytest.mark.parametrize(
    ("server", "cluster", "proxy"),
    [
        ("https://api.example", {}, "http://proxy.example:3128"),
        ("https://127.0.0.1:6443", {}, None),
        ("https://localhost:6443", {}, None),
        ("https://[::1]:6443", {}, None),
        ("https://127.0.0.1:6443", {"proxy-url": "http://mine.example"}, "http://mine.example"),
    ],
    ids=["another host", "loopback", "localhost", "loopback, IPv6", "one that the kubeconfig names"],
)
def test_proxies_follow_the_rules_of_kubectl(
    server: str, cluster: dict[str, str], proxy: str | None, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "intern.example")
    configuration = load(write(server=server, cluster=cluster))
    assert (configuration.proxy or None) == proxy
