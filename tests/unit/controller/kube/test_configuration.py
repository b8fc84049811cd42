from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rukpak.controller.kube import configuration as module
from rukpak.controller.kube.configuration import Configuration, find_loader
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
    assert configuration.authorize() == f"Bearer {SECRET}"
    assert configuration.pool == 7
    assert SECRET not in repr(configuration)


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
    (tmp_path / "token").write_text("t\n")
    monkeypatch.setattr(module, "SERVICE_ACCOUNT", str(tmp_path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    with pytest.raises(ConfigurationError, match="ServiceAccount token"):
        load(None)  # without the certificates to trust
    (tmp_path / "ca.crt").write_text("pem")
    found = load(None)
    assert (found.host, found.authorize(), found.authorities) == ("https://[fd00::1]:443", "Bearer t", "pem")
    write("home/.kube/config", "https://home.example")
    assert load(None, "x").host == "https://home.example"


def test_a_token_in_a_file_is_read_again_when_it_may_have_been_renewed(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("a")
    authorize = load(write(user={"tokenFile": "token"})).authorize
    token.write_text("b")
    assert authorize() == "Bearer a"
    monkeypatch.setattr(module, "TOKEN_SECONDS", 0)
    assert authorize() == "Bearer b"
    for unlink in (lambda: token.write_text(""), token.unlink):
        unlink()
        with pytest.raises(ConfigurationError, match="token"):
            authorize()


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
    "a file that it names is missing": ({"cluster": {"certificate-authority": "no.crt"}}, "No such file"),
    "a file with a token is missing": ({"user": {"tokenFile": "no"}}, "cannot be read"),
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
    assert not load(write(server="http://127.0.0.1:8001", contexts=[context])).authorize()


def test_a_plug_in_gives_a_token(write: Write) -> None:
    reply = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "abc"}}
    plugin = {"apiVersion": reply["apiVersion"], "command": "echo", "args": [json.dumps(reply)]}
    assert load(write(user={"exec": plugin})).authorize() == "Bearer abc"


def test_a_client_certificate_is_a_credential(write: Write) -> None:
    data = base64.b64encode(b"pem").decode()
    configuration = load(write(user={"client-certificate-data": data, "client-key-data": data}))
    assert configuration.certificate == "pem\npem"


def test_a_password_is_a_credential(write: Write) -> None:
    assert load(write(user={"username": "a", "password": "b"})).authorize() == "Basic YTpi"


def test_files_are_beside_the_kubeconfig_that_names_them(write: Write, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/ca.crt").write_text("pem")
    assert load(write("elsewhere/config", cluster={"certificate-authority": "ca.crt"})).authorities == "pem"


@pytest.mark.parametrize(
    ("server", "cluster", "proxy"),
    [
        ("https://api.example", {}, "http://proxy.example:3128"),
        ("https://127.0.0.1:6443", {}, ""),
        ("https://localhost:6443", {}, ""),
        ("https://[::1]:6443", {}, ""),
        ("https://api.intern.example", {}, ""),
        ("https://127.0.0.1:6443", {"proxy-url": "http://mine.example"}, "http://mine.example"),
    ],
    ids=["another host", "loopback", "localhost", "loopback, IPv6", "without proxy", "one that the kubeconfig names"],
)
def test_proxies_follow_the_rules_of_kubectl(
    server: str, cluster: dict[str, str], proxy: str, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "intern.example")
    assert load(write(server=server, cluster=cluster)).proxy == proxy
