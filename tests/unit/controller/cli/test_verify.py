"""`rukpak verify` of files on a server, without a cluster."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rukpak.controller.cli import main
from rukpak.controller.cli.command import FAILED, MISUSE
from tests.support.cosigned import FileSigner, make_key, pem_of
from tests.support.deployments import observed
from tests.support.fake_cluster import FakeCluster
from tests.support.web_servers import FileServer

BODY = b"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"
DIGEST = f"sha256:{hashlib.sha256(BODY).hexdigest()}"


class Desk:
    """A server with a signed and an unsigned file, and a BundleDeployment of files on it."""

    def __init__(self, server: FileServer, folder: Path) -> None:
        self.server, self.signer, self._file = server, FileSigner(), folder / "shop.yaml"
        server.files |= {"/a.yaml": BODY, "/a.yaml.sigstore.json": self.signer.sign(BODY), "/b.yaml": BODY}

    def source(self, name: str, verify: dict[str, Any] | None = None) -> dict[str, Any]:
        verify = self.signer.verify if verify is None else verify
        block = {"url": f"{self.server.address}/{name}"} | ({"verify": verify} if verify else {})
        return {"kind": "http", "destination": name.partition(".")[0], "http": block}

    def run(self, *sources: dict[str, Any], options: tuple[str, ...] = (), **parts: Any) -> int:
        spec = {"format": "plain", "sources": sources}
        value = {"apiVersion": "core.rukpak.io/v1alpha2", "kind": "BundleDeployment", "metadata": {"name": "shop"}}
        self._file.write_text(json.dumps({**value, "spec": spec, **parts}))
        return main(["verify", "-f", str(self._file), *options])


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-such-file"))
    with FileServer().serving() as server:
        yield Desk(server, tmp_path)


def test_who_has_signed_is_printed(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    assert desk.run(desk.source("a.yaml")) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"http {desk.server.address}/a.yaml",
        f"  {DIGEST}",
        f"  signed by {desk.signer.name} (cosign)",
    ]


def test_each_source_that_lacks_a_signature_is_told(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    sources = desk.source("b.yaml"), desk.source("a.yaml"), desk.source("c.yaml", verify={})
    assert desk.run(*sources) == FAILED
    first, _, _, signed, last = capsys.readouterr().out.splitlines()
    assert first.startswith("not verified: spec.sources[0].http.verify: ")
    assert "/b.yaml.sigstore.json" in first
    assert signed == f"  signed by {desk.signer.name} (cosign)"
    assert last == "not verified: spec.sources[2].http: nobody has to sign it; say who in verify"
    assert "/c.yaml" not in desk.server.requested


def test_the_output_for_programs(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    assert desk.run(desk.source("a.yaml"), desk.source("c.yaml", verify={}), options=("-o", "json")) == FAILED
    signed, unsigned = json.loads(capsys.readouterr().out)["sources"]
    assert (signed["digest"], signed["verified"]["key"]) == (DIGEST, desk.signer.name)
    assert unsigned == {"problem": "spec.sources[1].http: nobody has to sign it; say who in verify"}


UNSIGNABLE = {"kind": "configMap", "destination": "b", "configMap": {"name": "a"}}


def test_what_cannot_be_signed_is_told_and_is_no_failure(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    assert desk.run(desk.source("a.yaml"), UNSIGNABLE) == 0
    *_, signed, told = capsys.readouterr().out.splitlines()
    assert signed == f"  signed by {desk.signer.name} (cosign)"
    assert told == "not checked: spec.sources[1].configMap: sources of this kind cannot be signed"
    assert desk.run(UNSIGNABLE, options=("-o", "json")) == 0
    [value] = json.loads(capsys.readouterr().out)["sources"]
    assert value == {"note": "spec.sources[0].configMap: sources of this kind cannot be signed"}
    assert desk.run(desk.source("c.yaml", verify={}), UNSIGNABLE) == FAILED


def test_what_cannot_be_signed_fails_where_an_administrator_demands_it(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    option = f"--require-verified=*={tmp_path}"
    assert desk.run(UNSIGNABLE, options=(option,)) == FAILED
    assert "sources of this kind have none" in capsys.readouterr().out


def test_what_status_records_is_checked_anew(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    """It was signed when it was resolved; the server has another file now."""
    assert desk.run(desk.source("a.yaml"), options=("-o", "json")) == 0
    [pin] = json.loads(capsys.readouterr().out)["sources"]
    desk.server.files |= {"/a.yaml": BODY + b" ", "/a.yaml.sigstore.json": desk.signer.sign(BODY + b" ")}
    assert desk.run(desk.source("a.yaml"), status={"sources": [pin]}) == FAILED
    assert "not verified: spec.sources[0].http" in capsys.readouterr().out
    assert desk.run(desk.source("a.yaml")) == 0


def test_what_an_administrator_demands_is_checked_as_well(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = tmp_path / "acme.pub"
    keys.write_text(pem_of(make_key()))
    host = desk.server.address.removeprefix("http://")
    option = f"--require-verified={host}/*={keys}"
    assert desk.run(desk.source("a.yaml"), options=(option,)) == FAILED
    assert "none of the keys has made the signature" in capsys.readouterr().out
    keys.write_text(pem_of(desk.signer.key))
    desk.server.files["/b.yaml.sigstore.json"] = FileSigner().sign(BODY)
    sources = desk.source("a.yaml"), desk.source("b.yaml", verify={})
    assert desk.run(*sources, options=(option,)) == FAILED
    _, _, signed, refused = capsys.readouterr().out.splitlines()
    assert signed == f"  signed by {desk.signer.name} (cosign)"
    assert refused.startswith("not verified: spec.sources[1].http: --require-verified of the administrator: ")
    assert main(["verify", "-f", "x", "--require-verified=x"]) == MISUSE


@pytest.mark.parametrize("words", [(), ("shop", "-f", "shop.yaml")], ids=["neither", "both"])
def test_a_name_or_a_file_is_needed(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", *words]) == MISUSE
    assert "specify NAME or -f FILE" in capsys.readouterr().err


def test_one_on_the_cluster_is_verified_by_name(
    desk: Desk, cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.put(observed(spec={"sources": [desk.source("a.yaml"), desk.source("b.yaml")]}))
    assert main(["verify", "shop"]) == FAILED
    _, _, signed, refused = capsys.readouterr().out.splitlines()
    assert signed == f"  signed by {desk.signer.name} (cosign)"
    assert refused.startswith("not verified: spec.sources[1].http")
    cluster.put(observed(spec={"sources": [desk.source("a.yaml")]}))
    assert main(["verify", "shop"]) == 0


@pytest.mark.usefixtures("cluster")
def test_one_that_does_not_exist_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "other"]) == FAILED
    assert 'rukpak verify: BundleDeployment "other" not found' in capsys.readouterr().err
