"""The format helm: find the chart, copy its files, run Helm, read its output.

Pure except for charts with random values (`randAlphaNum`, `genCA`, `now`); the revision store keeps the rendered
objects, so equal inputs are rendered once. `lookup` finds nothing, and `.Release` is that of a first installation, or
of an upgrade if `spec.config` says so. In addition to the cluster's API versions, Helm counts those that it was built
with as served: `helm template` cannot leave them out. A chart that asks for an API group whose kinds are not known is
not rendered.

`controller/apply` runs hooks and obeys the annotation `helm.sh/resource-policy`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from api.errors import BundleError
from api.plugins import MEBIBYTE, Capabilities, ContentTree, Means, ProgramVersion, Rendering, RenderRequest
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote
from controller.formats.budget import LargeTextError, TextBudget
from controller.formats.helm.chart import (
    Chart,
    find_chart,
    find_refused,
    gather_chart,
    name_chart,
    refuse_foreign_references,
)
from controller.formats.helm.failures import explain, needs_lookup, refuse_what_is_read
from controller.formats.helm.output import find_unknown_hooks, read_output, refuse_unknown_groups
from controller.formats.helm.program import ProgramFinder, RunResult, run_guarded, scratch_of
from controller.formats.helm.values import (
    NAME_CHARACTERS,
    Configuration,
    copy_values_files,
    find_name_problem,
    find_problems,
    find_values_files,
    read_configuration,
    write_values,
)
from controller.formats.recognition import covers
from controller.formats.values import merge_values
from controller.processes.memory_limit import RESERVED_BYTES

LEAST_BYTES = 64 * MEBIBYTE
"""Memory that Helm needs for the smallest chart, with some margin."""
_CHART, _OUTPUT, _WARNING = "chart", "output", "warning"
"""In the scratch folder: the folder of the chart, and if they are kept the output of Helm and the warning about it."""
_VERSIONS_AT_ONCE = 200
# Helm reads the list as CSV, which an aggregated API server could break or extend with the names of its kinds.
_VERSION = re.compile(r"[A-Za-z0-9.-]+(?:/[A-Za-z0-9.-]+){0,2}")


class HelmFormat:
    """Renders charts. Thread-safe."""

    reads_part = True

    def __init__(self) -> None:
        self._finder = ProgramFinder()

    def validate(self, config: Mapping[str, Any]) -> list[str]:
        """Return the problems of `spec.config`."""
        return find_problems(config)

    def place_config(self, values: Mapping[str, Any], config: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the config with more values, over those of its files and below its own."""
        return {**config, "values": merge_values(values, read_configuration(config).values)}

    def suggest_namespace(self, tree: ContentTree, config: Mapping[str, Any]) -> str:  # noqa: ARG002 - the contract of Format
        """Return the default of Helm."""
        return "default"

    def find_program(self, means: Means) -> ProgramVersion:
        """Return the helm program.

        Raises: BundleError (NotSupported) if there is none, or it is neither Helm 3 nor Helm 4.
        """
        return self._finder.find(means)

    def program_bytes(self, means: Means) -> int:
        """Return the bytes of memory that Helm may use."""
        return max(means.memory_bytes - RESERVED_BYTES, LEAST_BYTES)

    def render(self, request: RenderRequest) -> Rendering:
        """Return the objects of the chart, those of `crds/` first, and its hooks in Helm's order.

        A chart may render nothing, which is a warning; hooks without objects are not.

        Raises: BundleError (NoContent without a chart, InvalidBundle, InvalidConfig, RenderFailed,
            RenderLimitExceeded; NotSupported without Helm; APIUnavailable for an API group whose kinds are not
            known; the reason of what must not be read and is), LargeTextError.
        """
        configuration, means = read_configuration(request.config), request.means
        release = _release_name(request.name, configuration)
        chart = find_chart(request.tree, means.limits)
        kept = scratch_of(means) / _OUTPUT
        kept_warning = scratch_of(means) / _WARNING
        if kept.exists():
            output, warning = kept.read_bytes(), kept_warning.read_text(encoding="utf-8")
        else:
            result = self._template(request, configuration, release, chart)
            output, warning = result.output, _describe_unknown_hooks(result.stderr)
        try:
            rendering = read_output(output, TextBudget.of(means), skip_tests=configuration.skip_tests)
        except LargeTextError:
            means.occupy(len(output))
            kept_warning.write_text(warning, encoding="utf-8")
            kept.write_bytes(output)  # for the child that reads it, so that Helm does not run twice
            raise
        is_empty = not (rendering.objects or rendering.hooks)
        nothing = f"{name_chart(chart.path)}: chart renders no objects with these values" if is_empty else ""
        return replace(rendering, warnings=tuple(filter(None, (warning, nothing))))

    def _template(self, request: RenderRequest, configuration: Configuration, release: str, chart: Chart) -> RunResult:
        """Return the result of `helm template`, which has succeeded."""
        means = request.means
        refused = find_refused(request.tree, chart)
        root, limits, copy = request.tree.root, means.limits, scratch_of(means) / _CHART
        folder = gather_chart(root, chart, copy, limits, means.occupy, refused=refused)
        request.tree.check(lambda path: any(covers(path, name) for name in configuration.values_files))
        files = find_values_files(root, configuration.values_files)
        values = write_values(configuration.values)
        texts = [values, *(file.text for file in files)]
        refuse_what_is_read(refused, folder, texts)
        refuse_foreign_references(folder, chart.path)
        refuse_unknown_groups(folder, texts, request.capabilities.unknown, chart.path)
        arguments = [
            *("template", release, f"./{_CHART}", "--namespace", request.install_namespace),
            *_capability_arguments(request.capabilities),
            *(["--include-crds"] if configuration.include_crds else []),
            *(["--no-hooks"] if configuration.disable_hooks else []),
            *(["--is-upgrade"] if configuration.is_upgrade else []),
            *(argument for name in copy_values_files(files, means) for argument in ("--values", name)),
            *("--values", "-"),
        ]
        helm = self._finder.find(means)
        result = run_guarded([str(helm.path), *arguments], values, means, chart.path)
        if result.status:
            given = [configuration.values, *(file.values for file in files)]
            raise explain(result, chart.path, given, partial(needs_lookup, folder))
        return result


def _describe_unknown_hooks(said: str) -> str:
    """Return the warning about objects that Helm has left out; empty for none."""
    if not (events := find_unknown_hooks(said)):
        return ""
    listed = ", ".join(map(quote, events))
    remedy = "CustomResourceDefinitions belong into crds/" if "crd-install" in events else "correct helm.sh/hook"
    return f"objects with a hook that Helm does not know ({listed}) are left out; {remedy}"


def _release_name(deployment: str, configuration: Configuration) -> str:
    """Return the name of the release: by default that of the BundleDeployment, which is checked here.

    Raises: BundleError (InvalidConfig).
    """
    if configuration.release_name:
        return configuration.release_name
    if problem := find_name_problem(deployment):
        message = f"spec.config.releaseName: required: the name of the BundleDeployment {problem}"
        raise BundleError(Reason.INVALID_CONFIG, f"{message}; set one of at most {NAME_CHARACTERS} characters")
    return deployment


def _capability_arguments(capabilities: Capabilities) -> Iterator[str]:
    """Yield the arguments for `.Capabilities`: charts ask for a version, or for a kind in it."""
    yield from ("--kube-version", capabilities.kubernetes_version)
    versions: set[str] = set()
    for group, version, kind in capabilities.kinds:
        api = f"{group}/{version}" if group else version
        versions.update((api, f"{api}/{kind}"))
    known = sorted(filter(_VERSION.fullmatch, versions))
    for start in range(0, len(known), _VERSIONS_AT_ONCE):  # an argument has at most 128 KiB on Linux
        yield from ("--api-versions", ",".join(known[start : start + _VERSIONS_AT_ONCE]))
