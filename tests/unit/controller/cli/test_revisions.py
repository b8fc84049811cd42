"""`rukpak permissions` and `rukpak rights` of a BundleDeployment in a file, without a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from api.v1alpha2.reading import try_to_read
from controller.cli import main
from controller.cli.permissions import rights_to_read_secrets
from tests.support.web_servers import FileServer

Manifest = dict[str, Any]
RBAC = "rbac.authorization.k8s.io/v1"
BUNDLE = [
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "app"}},
    {
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "shop"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "app", "namespace": "shop"}],
    },
    {"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "shop"}},
]
ADMIN = (
    "ServiceAccount shop/app: all that ClusterRole cluster-admin allows in all namespaces (amounts to cluster-admin)"
)
Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """A function that writes a BundleDeployment of a bundle that a server has, and returns the path."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-such-file"))
    with FileServer().serving() as server:
        server.files["/bundle.json"] = json.dumps({"apiVersion": "v1", "kind": "List", "items": BUNDLE}).encode()

        def make(**spec: Any) -> str:
            source = {"kind": "http", "http": {"url": f"{server.address}/bundle.json"}}
            value = {
                "apiVersion": "core.rukpak.io/v1alpha2",
                "kind": "BundleDeployment",
                "metadata": {"name": "shop"},
                "spec": {"format": "plain", "installNamespace": "shop", "sources": [source], **spec},
            }
            path = tmp_path / "shop.json"
            path.write_text(json.dumps(value))
            return str(path)

        yield make


def test_permissions_are_shown_by_topic(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["permissions", "-f", write()]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("shop: revision sha256:")
    assert lines[1:] == [
        "Access to the API:",
        f"  {ADMIN}",
        "Objects outside the install namespace:",
        "  1 ClusterRoleBinding in the whole cluster: shop",
        "  bundle: instructs controllers of others by Widget.x.io",
    ]


def test_permissions_are_data_for_programs(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["permissions", "-f", write(), "-o", "json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["permissions"][0] == {"topic": "Access to the API", "severity": "Admin", "text": ADMIN}
    assert value["digest"].startswith("sha256:")
    assert value["rolesOnCluster"] == []


def test_rights_are_listed_and_guesses_are_pointed_out(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rights", "-f", write(serviceAccountName="installer"), "--use-secrets"]) == 0
    shown, told = capsys.readouterr()
    assert shown.splitlines() == [
        "create,delete,get,patch clusterrolebindings.rbac.authorization.k8s.io",
        'bind clusterroles.rbac.authorization.k8s.io "cluster-admin"',
        'create,delete,get,patch serviceaccounts in namespace "shop"',
        'create,delete,get,patch widgets.x.io in namespace "shop"',
    ]
    assert "warning: x.io/v1/Widget: not served" in told


def _with_secret(path: str) -> Manifest:
    value: Manifest = json.loads(Path(path).read_text())
    value["spec"]["sources"][0]["http"]["auth"] = {"secret": {"name": "login"}}
    return value


def test_rights_include_the_secrets_of_sources(write: Write) -> None:
    deployment, _ = try_to_read(_with_secret(write()))
    assert deployment
    assert [str(each) for each in rights_to_read_secrets(deployment)] == ['get secrets "login" in namespace "shop"']


def test_secrets_of_sources_are_used_only_with_consent(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(write(serviceAccountName="installer"))
    path.write_text(json.dumps(_with_secret(str(path))))
    assert main(["rights", "-f", str(path)]) == 2  # no terminal to ask
    assert "--use-secrets" in capsys.readouterr().err


def test_roles_are_printed_for_kubectl(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rights", "-f", write(), "--service-account=installer", "-o", "json"]) == 0
    items = json.loads(capsys.readouterr().out)["items"]
    assert [each["kind"] for each in items] == ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]
    assert {each["metadata"]["name"] for each in items} == {"rukpak-shop"}
    assert items[3]["subjects"] == [{"kind": "ServiceAccount", "namespace": "shop", "name": "installer"}]


class Mistake(NamedTuple):
    words: list[str]
    says: str


MISTAKES = {
    "nothing is named": Mistake(["permissions"], "specify either NAME or -f FILE"),
    "both are named": Mistake(["rights", "shop", "-f", "FILE"], "specify either NAME or -f FILE"),
    "new in a file": Mistake(["permissions", "-f", "FILE", "--new"], "requires NAME"),
    "the store for a file": Mistake(["rights", "-f", "FILE", "--from-cluster"], "--from-cluster requires NAME"),
    "two files from stdin": Mistake(
        ["rights", "-f", "-", "--capabilities", "-"], "only one file can be read from stdin"
    ),
    "no account": Mistake(["rights", "-f", "FILE"], "name an account with --service-account"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_explained(name: str, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    words, says = MISTAKES[name]
    path = write()
    assert main([path if word == "FILE" else word for word in words]) == 2
    assert says in capsys.readouterr().err
