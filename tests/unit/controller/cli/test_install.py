"""The BundleDeployment that the flags of `rukpak install` describe."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from controller.cli import main
from controller.cli.install import make_deployment
from controller.cli.verbs import make_parser


class Case(NamedTuple):
    name: str
    words: list[str]
    source: dict[str, Any]
    spec: dict[str, Any]


CASES = [
    Case("an image", ["--image=q.io/a:1"], {"kind": "image", "image": {"ref": "q.io/a:1"}}, {"format": "plain"}),
    Case(
        "with a scheme",
        ["--image=oci://q.io/a:1"],
        {"kind": "image", "image": {"ref": "q.io/a:1"}},
        {"format": "plain"},
    ),
    Case(
        "a repository",
        ["--git=https://a/b", "--ref=main", "--directory=d", "--secret=login"],
        {
            "kind": "git",
            "git": {
                "repository": "https://a/b",
                "ref": "main",
                "directory": "d",
                "auth": {"secret": {"name": "login"}},
            },
        },
        {"format": "plain"},
    ),
    Case(
        "a file, with the other fields of the spec",
        ["--http=https://a/b.tgz", "--sha256=abc", "--format=helm", "-n", "shop", "--approval=Manual"],
        {"kind": "http", "http": {"url": "https://a/b.tgz", "sha256": "abc"}},
        {"format": "helm", "installNamespace": "shop", "approval": "Manual"},
    ),
    Case(
        "a chart",
        ["--chart=web", "--repository=https://a/b", "--version=~1.2", "--format=helm"],
        {"kind": "chart", "chart": {"repository": "https://a/b", "name": "web", "version": "~1.2"}},
        {"format": "helm"},
    ),
    Case(
        "an account",
        ["--image=q.io/a:1", "-n=shop", "--service-account=deployer"],
        {"kind": "image", "image": {"ref": "q.io/a:1"}},
        {"format": "plain", "installNamespace": "shop", "serviceAccountName": "deployer"},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_flags_become_fields(case: Case) -> None:
    made = make_deployment(make_parser("install").read(["shop", *case.words]))
    assert made["metadata"] == {"name": "shop"}
    assert made["spec"] == {**case.spec, "sources": [case.source]}


def test_config_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("values: {replicas: 2}")
    made = make_deployment(make_parser("install").read(["shop", "--image=q.io/a:1", f"--config={path}"]))
    assert made["spec"]["config"] == {"values": {"replicas": 2}}


MISTAKES = {
    "no source": (["shop"], "specify one of --image, --git, --http and --chart"),
    "two sources": (["shop", "--image=a", "--git=b"], "specify one of --image, --git, --http and --chart"),
    "a flag of another source": (["shop", "--image=a", "--ref=main"], "--ref does not apply to --image"),
    "a flag of two other sources": (["shop", "--image=a", "--sha256=b"], "--sha256 does not apply to --image"),
    "a chart without a repository": (["shop", "--chart=web"], "--chart requires --repository"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_found_before_a_cluster_is_asked(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    words, says = MISTAKES[name]
    assert main(["install", *words]) == 2
    assert says in capsys.readouterr().err
