"""The format helm: find the chart, gather its files, let Helm render them, read what it wrote.

Pure but for charts that throw dice (`randAlphaNum`, `genCA`, `now`): what is rendered is kept by the revision store,
and nobody renders equal inputs twice. `lookup` finds nothing, `.Release` is that of a first installation, always.
Helm counts the API versions that it was built with as served, beside those of the cluster: `helm template` has no
way to leave them out.

Not here: running hooks and keeping what `helm.sh/resource-policy` keeps (controller/apply reads that annotation).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from api.errors import BundleError
from api.plugins import MEBIBYTE, Capabilities, ContentTree, Means, Rendering, RenderRequest
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote
from controller.formats.budget import LargeTextError, TextBudget
from controller.formats.helm.chart import Chart, find_chart, gather_chart
from controller.formats.helm.child import RunResult, run_guarded, scratch_of
from controller.formats.helm.configuration import (
    NAME_CHARACTERS,
    Configuration,
    find_name_problem,
    find_problems,
    read_configuration,
)
from controller.formats.helm.failures import explain
from controller.formats.helm.output import read_output
from controller.formats.helm.program import ProgramFinder
from controller.formats.helm.schemas import refuse_foreign_references
from controller.formats.helm.values import copy_values_files, find_values_files, write_values
from controller.processes.memory_limit import RESERVED_BYTES
from controller.sharing.places import Places

LEAST_BYTES = 64 * MEBIBYTE
"""Memory that Helm needs for the smallest chart, and some."""
_CHART, _OUTPUT = "chart", "output"
"""The folder of the chart in the scratch folder, and what Helm made of it, where that is kept."""
_AT_ONCE = 4
"""Children, each of which may take two processors: with more of them all would take longer than they may."""
_VERSIONS_AT_ONCE = 200
# Helm reads the list as CSV: an aggregated API server may name its kinds so that it is none, or another.
_VERSION = re.compile(r"[A-Za-z0-9.-]+(?:/[A-Za-z0-9.-]+){0,2}")


class HelmFormat:
    """Renders charts. Thread-safe."""

    def __init__(self) -> None:
        self._finder = ProgramFinder()
        self._places = Places(_AT_ONCE)

    def validate(self, config: Mapping[str, Any]) -> list[str]:
        """Return what is wrong with `spec.config`."""
        return find_problems(config)

    def suggest_namespace(self, tree: ContentTree, config: Mapping[str, Any]) -> str:  # noqa: ARG002 - the contract of Format
        """Return what Helm takes where nobody says."""
        return "default"

    def program_bytes(self, means: Means) -> int:
        """Return what Helm may use of its address space before it fails."""
        return max(means.memory_bytes - RESERVED_BYTES, LEAST_BYTES)

    def render(self, request: RenderRequest) -> Rendering:
        """Return the objects of the one chart, those of its `crds/` first, and its hooks in Helm's order.

        Raises: BundleError (NoContent, InvalidBundle, InvalidConfig, RenderFailed, RenderLimitExceeded; NotSupported
            without Helm), LargeTextError.
        """
        configuration, means = read_configuration(request.config), request.means
        release = _release_name(request.name, configuration)
        chart = find_chart(request.tree, means.limits)
        kept = scratch_of(means) / _OUTPUT
        output = kept.read_bytes() if kept.exists() else self._template(request, configuration, release, chart)
        try:
            rendering = read_output(output, TextBudget.of(means), skip_tests=configuration.skip_tests)
        except LargeTextError:
            means.occupy(len(output))
            kept.write_bytes(output)  # to be read elsewhere: Helm is not run again for it
            raise
        if not rendering.objects:
            problem = "the chart renders no objects with these values; correct spec.config"
            raise BundleError(Reason.NO_CONTENT, f"{quote(chart.path)}: {problem}")
        return rendering

    def _template(self, request: RenderRequest, configuration: Configuration, release: str, chart: Chart) -> bytes:
        """Return what Helm makes of a chart."""
        means = request.means
        folder = gather_chart(request.tree.root, chart, scratch_of(means) / _CHART, means.limits, means.occupy)
        refuse_foreign_references(folder, chart.path)
        files = find_values_files(request.tree.root, configuration.values_files)
        arguments = [
            *("template", release, f"./{_CHART}", "--namespace", request.install_namespace),
            *_capability_arguments(request.capabilities),
            *(["--include-crds"] if configuration.include_crds else []),
            *(["--no-hooks"] if configuration.disable_hooks else []),
            *(argument for name in copy_values_files(files, means) for argument in ("--values", name)),
            *("--values", "-"),
        ]
        result = self._run(arguments, write_values(configuration.values), means, chart.path)
        if result.status:
            raise explain(result, chart.path, [configuration.values, *(file.values for file in files)])
        return result.output

    def _run(self, arguments: list[str], values: bytes, means: Means, chart: str) -> RunResult:
        with self._places.place(means.tenant, means.cancelled) as is_our_turn:
            if not is_our_turn:
                raise BundleError(Reason.RENDER_FAILED, "stopped: the result is not needed any more")
            helm = self._finder.find(means)
            return run_guarded([str(helm), *arguments], values, means, chart)


def _release_name(deployment: str, configuration: Configuration) -> str:
    """Return the name of the release, which is checked where it is the BundleDeployment's.

    Raises: BundleError (InvalidConfig).
    """
    if configuration.release_name:
        return configuration.release_name
    if find_name_problem(deployment):
        problem = f"is needed, since the name of the BundleDeployment {find_name_problem(deployment)}"
        remedy = f"write one of at most {NAME_CHARACTERS} characters"
        raise BundleError(Reason.INVALID_CONFIG, f"spec.config.releaseName: {problem}; {remedy}")
    return deployment


def _capability_arguments(capabilities: Capabilities) -> Iterator[str]:
    """Yield what makes `.Capabilities` those of the cluster: charts ask for a version, and for a kind of it."""
    yield from ("--kube-version", capabilities.kubernetes_version)
    versions: set[str] = set()
    for group, version, kind in capabilities.kinds:
        api = f"{group}/{version}" if group else version
        versions.update((api, f"{api}/{kind}"))
    for batch in _batches(sorted(filter(_VERSION.fullmatch, versions))):
        yield from ("--api-versions", ",".join(batch))


def _batches(versions: list[str]) -> Iterator[list[str]]:
    """Yield versions in lists that fit into one argument each: Linux allows 128 KiB."""
    for start in range(0, len(versions), _VERSIONS_AT_ONCE):
        yield versions[start : start + _VERSIONS_AT_ONCE]
