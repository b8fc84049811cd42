"""What Helm needs of memory, against what the Deployment of config/manager leaves it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from api.plugins import MEBIBYTE, Limits, Means
from controller.formats.helm.format import HelmFormat
from controller.formats.yaml.manifests import read_documents
from controller.processes.memory_limit import MemoryLimit
from controller.settings import Settings
from tests.support.charts import chart_of, render, write

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
