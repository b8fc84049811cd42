"""The Dockerfile against what else says the same: the Deployment, the Helm of the tests, .dockerignore."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from hack.control_plane.builds import HELM
from hack.packaging.base import FILES, read_base
from hack.packaging.lock import PYTHONS
from rukpak.controller.formats.manifests import read_documents
from rukpak.controller.playground.programs import Settings

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
USER = "65532"


def instructions() -> list[tuple[str, str]]:
    """Return the instructions, each with its arguments on one line."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", TEXT, flags=re.MULTILINE))
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in joined.splitlines() if line.strip()]


def arguments_of(name: str) -> list[str]:
    return [arguments for instruction, arguments in instructions() if instruction == name]


def pod() -> dict[str, Any]:
    data = (ROOT / "config/manager/deployment.yaml").read_bytes()
    [deployment] = [document.value for document in read_documents(data, "deployment.yaml")]
    spec: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return spec


def test_its_helm_is_the_one_that_tests_use() -> None:
    [helm, *_] = arguments_of("RUN")
    version = Settings(cache=Path()).helm_version
    assert helm.endswith(f' -X {HELM}/internal/version.version=v{version}" {HELM}/cmd/helm@v{version}')
    assert helm.startswith("CGO_ENABLED=0 GOBIN=/programs go install -trimpath -ldflags ")


def test_it_builds_on_the_newest_python_of_the_lock_as_the_images_with_plug_ins_do() -> None:
    bases = [re.findall(r"^ARG BASE=(.+)$", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE) for name in FILES]
    assert bases == [[read_base()]] * len(FILES)
    version = re.escape(PYTHONS[-1])
    assert re.fullmatch(rf"python:{version}\.\d+-slim-bookworm(@sha256:[0-9a-f]{{64}})?", read_base())


def test_it_starts_the_controller_without_a_shell() -> None:
    assert [json.loads(text) for text in arguments_of("ENTRYPOINT")] == [["python", "-m", "rukpak"]]
    assert [json.loads(text) for text in arguments_of("CMD")] == [["run"]]


def test_its_user_and_ports_are_those_of_the_deployment() -> None:
    context, [container] = pod()["securityContext"], pod()["containers"]
    assert arguments_of("USER") == [f"{USER}:{USER}"]
    assert (str(context["runAsUser"]), str(context["runAsGroup"])) == (USER, USER)
    ports = sorted(str(port["containerPort"]) for port in container["ports"])
    assert arguments_of("EXPOSE") == [" ".join(ports)]


def test_what_is_copied_is_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for arguments in [given for given in arguments_of("COPY") if not given.startswith("--from=")]:
        for source in arguments.split()[:-1]:
            assert f"!{source}{'**' if source.endswith('/') else ''}" in ignored
            assert (ROOT / source).exists()
