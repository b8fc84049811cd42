"""The BundleDeployment that a command line describes, by SOURCE, flags, or a file, over the one that exists."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from rukpak.controller.cli import main
from rukpak.controller.cli.content import is_described, make_draft
from rukpak.controller.cli.verbs import make_parser
from rukpak.controller.kube.resources import DEPLOYMENTS
from rukpak.controller.views import MisuseError
from tests.support.fake_cluster import FakeCluster


def read(*words: str) -> argparse.Namespace:
    return make_parser("install").read(["shop", *words])


def source_of(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = make_draft(read(*words)).value["spec"]["sources"][0]
    return found


def image(**block: Any) -> dict[str, Any]:
    return {"kind": "image", "image": block}


def git(**block: Any) -> dict[str, Any]:
    return {"kind": "git", "git": block}


def http(**block: Any) -> dict[str, Any]:
    return {"kind": "http", "http": block}


def chart(**block: Any) -> dict[str, Any]:
    return {"kind": "chart", "chart": block}


SOURCES: dict[str, dict[str, Any]] = {
    "oci://q.io/a:1": image(ref="q.io/a:1"),
    "--image=q.io/a:1": image(ref="q.io/a:1"),
    "--image=oci://q.io/a:1 --secret=login": image(ref="q.io/a:1", auth={"secret": {"name": "login"}}),
    "oci://q.io/a:1 --insecure-skip-tls-verify": image(ref="q.io/a:1", insecureSkipTLSVerify=True),
    "https://a/b.tgz": http(url="https://a/b.tgz"),
    "http://a/b.yaml --sha256=abc": http(url="http://a/b.yaml", sha256="abc"),
    "--http=https://a/b.tgz": http(url="https://a/b.tgz"),
    "https://a/b.git": git(repository="https://a/b.git"),
    "git@a:b/c.git --ref=v1": git(repository="git@a:b/c.git", ref="v1"),
    "ssh://git@a/b": git(repository="ssh://git@a/b"),
    "git+https://a/b/c": git(repository="https://a/b/c"),
    "git+https://a/b.git//d/e?ref=v1": git(repository="https://a/b.git", ref="v1", directory="d/e"),
    "git+https://a/b?ref=main --directory=d": git(repository="https://a/b", ref="main", directory="d"),
    "git+ssh://git@a:22/b//d": git(repository="ssh://git@a:22/b", directory="d"),
    "--git=https://a/b --ref=main --directory=d": git(repository="https://a/b", ref="main", directory="d"),
    "https://a/b --chart=web": chart(repository="https://a/b", name="web"),
    "oci://a/b --chart=web --version=~1.2": chart(repository="oci://a/b", name="web", version="~1.2"),
    "--chart=web --repository=https://a/b --sha256=c": chart(repository="https://a/b", name="web", sha256="c"),
}


@pytest.mark.parametrize("words", SOURCES)
def test_a_source_is_made_of(words: str) -> None:
    assert source_of(*words.split()) == SOURCES[words]


def test_sources_are_polled() -> None:
    found = source_of("oci://q.io/a:1", "--poll-interval=5m")
    assert found == {**image(ref="q.io/a:1"), "pollInterval": "5m"}
    assert source_of("oci://q.io/a:1", "--poll-interval=60")["pollInterval"] == "60s"
    assert source_of("oci://q.io/a:1", "--poll-interval=0")["pollInterval"] == ""


def test_what_cannot_be_polled_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text("a: 1")
    with pytest.raises(MisuseError, match="the only sources are ConfigMaps, which are watched"):
        source_of(str(tmp_path), "-n=shop", "--poll-interval=5m")
    with pytest.raises(SystemExit):
        read("oci://q.io/a:1", "--poll-interval=5s")
    assert "must be at least 30s, or 0 for never" in capsys.readouterr().err


FIRST = {"format": "helm", "sources": [image(ref="q.io/a:1")]}
EXPOSED: dict[str, tuple[dict[str, Any], tuple[str, ...], list[str]]] = {
    "a password": (FIRST, ("--set=auth.password=x",), ["spec.config.values.auth.password"]),
    "one that is there already": (
        {**FIRST, "config": {"values": {"auth": {"password": "x"}}}},
        ("--set=auth.password=x,replicas=2",),
        [],
    ),
    "another one": (
        {**FIRST, "config": {"values": {"auth": {"password": "x"}}}},
        ("--set=auth.password=y",),
        ["spec.config.values.auth.password"],
    ),
    "the name of a Secret": (FIRST, ("--set=auth.existingSecret=x",), []),
}


@pytest.mark.parametrize("case", EXPOSED)
def test_a_credential_that_flags_put_into_the_config_is_warned_of(case: str) -> None:
    spec, words, expected = EXPOSED[case]
    found = {"metadata": {"name": "shop"}, "spec": spec}
    exposed = list(make_draft(read(*words), found).describe_exposed(has_secrets=True))
    assert [text.partition(": ")[0] for text in exposed] == expected
    assert all("spec.configFrom" in text for text in exposed)


@pytest.mark.parametrize(
    ("file", "has_secrets", "expected"),
    [("a.yaml", True, 1), ("a.yaml", False, 0), ("Chart.yaml", True, 0)],
    ids=["manifests with Secrets", "manifests", "a chart"],
)
def test_secrets_that_are_put_into_config_maps_are_warned_of(
    tmp_path: Path, file: str, has_secrets: bool, expected: int
) -> None:
    (tmp_path / file).write_text("apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nname: a\nversion: 1.0.0\n")
    draft = make_draft(read(str(tmp_path), "-n=shop"))
    assert len(list(draft.describe_exposed(has_secrets=has_secrets))) == expected


MISTAKES = {
    "new": "specify SOURCE, one of --image",
    "": "specify NAME and SOURCE, or -f FILE",
    "shop --image=a --git=b": "specify one of SOURCE, --image",
    "shop oci://a/b --git=b": "specify one of SOURCE, --image",
    "shop ./folder --git=b": "specify one of SOURCE, --image",
    "shop oci://a/b -f x.yaml": "specify either SOURCE or -f FILE",
    "shop --image=a --ref=main": "--ref does not apply to a source of kind image",
    "shop --image=a --sha256=b": "--sha256 does not apply to a source of kind image",
    "shop ./folder --secret=b": "--secret does not apply to content of this machine",
    "shop ./folder --version=b": "--version does not apply to content of this machine",
    "shop --chart=web": "--chart requires --repository, or the repository as SOURCE",
    "shop git+https://a/b?ref=c --ref=d": "--ref: SOURCE says that, too",
    "shop git+https://a/b?depth=1": '"depth" is not known in the address of a repository',
    "shop oci://a/b --registry=q.io/a:1": "--registry requires a folder or packed chart as SOURCE",
    "shop ./folder --registry=q.io/a:1 --dry-run": "--dry-run pushes nothing",
    "shop - --values=-": "only one file can be read from stdin",
    "shop oci://a/b --set=a": '--set "a": key "a" has no value',
    "shop ftp://a/b.tgz": "not a kind of address that is known; SOURCE is a path, or begins with oci://",
    "shop oci://": "the address ends after the scheme",
    "shop ./folder --chart=web": "the repository of --chart begins with https:// or oci://",
    "shop /dev/null": '"/dev/null": is empty',
    "shop oci://q.io/a:1 -n other": "-n other: shop is installed in shop, which cannot be changed",
    "shop ./missing": '"./missing": No such file or directory',
    "shop q.io/a:1": "for an image or chart in a registry: oci://q.io/a:1",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes_are_told(words: str, capsys: pytest.CaptureFixture[str], cluster: object) -> None:
    assert main(["install", *words.split()]) == 2
    assert MISTAKES[words] in capsys.readouterr().err


def test_an_empty_config_replaces_the_one_on_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("{}")
    found = {"spec": {"format": "helm", "config": {"values": {"a": 1}}}}
    options = read("oci://q.io/a:1", "--config", str(tmp_path / "config.yaml"))
    assert make_draft(options, found).value["spec"]["config"] == {}


NAMELESS = f"apiVersion: {DEPLOYMENTS.api_version}\nkind: BundleDeployment\nspec: {{}}\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["install"], "metadata.name: must be the name of an object"),
        (["render", "--name=shop"], "spec.format: field required"),
    ],
    ids=["it cannot be installed", "it gets one to be rendered"],
)
def test_a_file_without_a_name_is_told(
    words: list[str], said: str, tmp_path: Path, cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shop.yaml").write_text(NAMELESS)
    before = dict(cluster.objects)
    assert main([*words, "-f", str(tmp_path / "shop.yaml")]) == 1
    assert said in capsys.readouterr().err
    assert cluster.objects == before


ADDRESSES = ["--image=UPPER:::v", "--git=./foo", "git+https://host", "git+file:///a/b"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_malformed_address_is_a_mistake_of_the_source(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", address]) in (1, 2)
    assert capsys.readouterr().err.startswith(
        ("InvalidReference: spec.sources[0].", "InvalidConfig: ", "rukpak render: ")
    )


def test_an_empty_source_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "shop", ""]) == 2
    assert "SOURCE is empty" in capsys.readouterr().err


def test_a_link_to_nothing_is_not_left_out_in_silence(tmp_path: Path, cluster: FakeCluster) -> None:
    (tmp_path / "x.yaml").symlink_to("nothing")
    with pytest.raises(MisuseError, match="which does not exist"):
        make_draft(read(str(tmp_path)))


DESCRIBING = ["./shop", "-f=a.yaml", "--git=a", "--set=a=1", "--values=a", "--config=a", "-n=a", "--service-account=a"]


@pytest.mark.parametrize("word", DESCRIBING)
def test_a_word_about_content_is_not_ignored_beside_a_name(word: str) -> None:
    assert is_described(make_parser("diff").read(["shop", word]))
    assert not is_described(make_parser("diff").read(["shop", "--to=abcdef01"]))
