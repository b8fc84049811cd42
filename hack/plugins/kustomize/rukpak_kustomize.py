"""The format kustomize.rukpak.io/v1: a kustomization, built by kustomize, or by the one in kubectl.

Whatever kustomize would read is looked up first, from kustomization to kustomization: what is not in the content, and
what would need a network, a container or another program, is refused with file and field. kustomize then runs on the
content itself, where it can read nothing else, write nothing, start nothing and connect to nothing: a reference that
this module did not find fails.

Messages contain no values of Secrets in the content, which kustomize quotes: on failure, the manifests are read here.

Pure: objects depend on the content and `spec.config.path`. There are no other options: whatever an option could set is
set in a kustomization, and images and metadata also by processors.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from pathlib import Path
from typing import Any, NamedTuple

from rukpak.plugins import (
    MEBIBYTE,
    BundleError,
    ContentTree,
    Document,
    LargeTextError,
    Means,
    ProgramFinder,
    ProgramResult,
    ProgramVersion,
    Reason,
    Rendering,
    RenderRequest,
    TextBudget,
    collect_objects,
    name_key,
    program_memory,
    quote,
    read_documents,
    run_program,
)

_KUSTOMIZE = "kustomize"
_NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
"""Of kustomizations; a folder may have one of them."""
_PATH = "spec.config.path"
_TARGET, _OUTPUT = "kustomization", "output"
"""In the scratch folder: a link to the folder that is built, and the output if it is kept."""
_GO_RUNTIME = 2  # exit status of Go's runtime
_NAMESPACE_BYTES = MEBIBYTE  # of a kustomization that is read for its namespace, in each pass
_NAMESPACE = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_SHOWN_PLACES = 6
_VERSION = re.compile(r"\bv5\.\d+\.\d+\S*")
_REMEDY = "install kustomize 5, or kubectl 1.27 or later, which contains it"


class KustomizeFormat:
    """Builds a kustomization. Thread-safe."""

    reads_part = True

    def __init__(self) -> None:
        self._kustomize = ProgramFinder(_KUSTOMIZE, ["version"], _find_version, remedy=_REMEDY)
        self._kubectl = ProgramFinder("kubectl", ["version", "--client"], _find_version, remedy=_REMEDY)

    def validate(self, config: Mapping[str, Any]) -> list[str]:
        """Return the problems of `spec.config`."""
        unknown = [f"{name_key('spec.config', key)}: unknown key; path is the only one" for key in sorted(config)]
        if "path" not in config:
            return unknown
        others = [problem for problem, key in zip(unknown, sorted(config), strict=True) if key != "path"]
        problem = _find_path_problem(config["path"])
        return [f"{_PATH}: {problem}", *others] if problem else others

    def suggest_namespace(self, tree: ContentTree, config: Mapping[str, Any]) -> str:
        """Return the namespace that the kustomization sets, or the default of kubectl."""
        files = [file for folder in _find_folders(tree, config) for file in _list_files(tree, folder)]
        if len(files) != 1 or (tree.root / files[0]).stat().st_size > _NAMESPACE_BYTES:
            return "default"
        try:
            documents = list(read_documents((tree.root / files[0]).read_bytes(), files[0]))
        except BundleError:  # which rendering reports
            return "default"
        namespace = _mapping(documents[0].value).get("namespace") if documents else None
        return namespace if isinstance(namespace, str) and _NAMESPACE.fullmatch(namespace) else "default"

    def find_program(self, means: Means) -> ProgramVersion:
        """Return the program that builds: kustomize, or kubectl where there is none of a version that is supported.

        Raises: BundleError (NotSupported) if there is neither, or the administrator has named a kustomize that is not.
        """
        return self._find(means)[0]

    def _find(self, means: Means) -> tuple[ProgramVersion, str]:
        """Return the program that builds, and its command for that."""
        try:
            return self._kustomize.find(means, "spec.format"), "build"
        except BundleError:
            if _KUSTOMIZE in means.programs:
                raise
        return self._kubectl.find(means, "spec.format"), "kustomize"

    def program_bytes(self, means: Means) -> int:
        """Return the bytes of memory that kustomize may use."""
        return program_memory(means)

    def render(self, request: RenderRequest) -> Rendering:
        """Return the objects of the kustomization, in the order of kustomize.

        Raises: BundleError (NoContent without a kustomization; InvalidBundle with file and field; InvalidConfig;
            RenderFailed; RenderLimitExceeded; NotSupported without kustomize; the reason of what must not be read and
            is), LargeTextError.
        """
        means = request.means
        if means.scratch is None:
            raise RuntimeError("running kustomize needs a scratch folder")
        kept = means.scratch / _OUTPUT
        output = kept.read_bytes() if kept.exists() else self._build(request, means.scratch)
        budget = TextBudget.of(means)
        try:
            budget.charge_text(len(output), "the output of kustomize", is_manifest=False)
            return Rendering(objects=collect_objects(read_documents(output, "the output of kustomize", budget=budget)))
        except LargeTextError:
            if not kept.exists():
                means.occupy(len(output))
                kept.write_bytes(output)  # for the child that reads it, so that kustomize does not run twice
            raise

    def _build(self, request: RenderRequest, scratch: Path) -> bytes:
        tree, means = request.tree, request.means
        folder = _find_folder(tree, request.config)
        content = _Content(tree, means)
        content.find(folder)
        target = scratch / _TARGET  # names of content must not be arguments
        target.unlink(missing_ok=True)
        target.symlink_to(tree.root.resolve() / folder)
        program, build = self._find(means)
        command = [str(program.path), build, f"./{_TARGET}", "--load-restrictor", "LoadRestrictionsRootOnly"]
        result = run_program(command, means, subject=quote(content.files[folder]), read=(tree.root.resolve(),))
        if result.status:
            raise content.explain(result, folder)
        return result.output


def _find_version(text: str) -> str:
    """Return the version of kustomize in what it, or kubectl, prints; empty if it is not version 5."""
    line = next((line for line in text.splitlines() if line.startswith("Kustomize Version:")), text)
    found = _VERSION.search(line)
    return found[0] if found else ""


def _find_path_problem(path: Any) -> str:
    if not isinstance(path, str):
        return "must be a string, the path of a folder in the content"
    if path.startswith("/") or ".." in path.split("/"):
        return f'{quote(path)} leaves the content; write it without ".." and without a leading slash'
    return "" if path else 'must not be empty; write "." for the root of the content'


# the content


def _find_folders(tree: ContentTree, config: Mapping[str, Any]) -> list[str]:
    """Return the folders with a kustomization among those that may be built."""
    return [place for place in _list_places(tree, config) if _list_files(tree, place)]


def _list_places(tree: ContentTree, config: Mapping[str, Any]) -> list[str]:
    """Return the folder in the config, or the destinations."""
    return [_normalize(config["path"])] if "path" in config else list(dict.fromkeys(tree.destinations))


def _find_folder(tree: ContentTree, config: Mapping[str, Any]) -> str:
    """Return the folder to build.

    Raises: BundleError (NoContent, InvalidConfig; the reason of what must not be read).
    """
    places = _list_places(tree, config)
    _check(tree, [_join(place, name) for place in places for name in _NAMES])
    found = _find_folders(tree, config)
    if len(found) == 1:
        return found[0]
    if found:
        problem = f"required: there are kustomizations in {_quote_all(found)}; choose one"
        raise BundleError(Reason.INVALID_CONFIG, f"{_PATH}: {problem}")
    field = f"{_PATH}: " if "path" in config else ""
    problem = f"no kustomization in {_quote_all(places)}; {_suggest(tree)}{tree.describe_refused()}"
    raise BundleError(Reason.NO_CONTENT, f"{field}{problem}")


def _quote_all(places: Sequence[str]) -> str:
    """Return the first of some folders for a message."""
    return ", ".join(quote(place or ".") for place in places[:_SHOWN_PLACES])


def _suggest(tree: ContentTree) -> str:
    """Return what to do about a kustomization that was not found: where there are others."""
    places: list[str] = []
    for path, folders, files in os.walk(tree.root):
        folders.sort()
        if any(name in files for name in _NAMES):
            places.append("/".join(Path(path).relative_to(tree.root).parts))
        if len(places) == _SHOWN_PLACES:
            break
    if places:
        return f"set {_PATH} to one of {_quote_all(places)}"
    return f"add a {_NAMES[0]}, or correct spec.format"


def _list_files(tree: ContentTree, folder: str) -> list[str]:
    """Return the kustomizations in a folder."""
    return [path for path in (_join(folder, name) for name in _NAMES) if _is_file(tree.root / path)]


def _find_file(tree: ContentTree, folder: str) -> str:
    """Return the only kustomization in a folder that has one.

    Raises: BundleError (InvalidBundle) if there are more.
    """
    found = _list_files(tree, folder)
    if len(found) > 1:
        problem = f"{found[0]} is a second kustomization in the same folder; remove one"
        raise BundleError(Reason.INVALID_BUNDLE, f"{found[1]}: {problem}")
    return found[0]


def _check(tree: ContentTree, paths: Iterable[str]) -> None:
    """Refuse a tree if one of the paths, or a folder above it, must not be read. Raises: BundleError."""
    read = {parent for path in paths for parent in (path, *map(str, Path(path).parents))}
    tree.check(read.__contains__)


def _is_file(path: Path) -> bool:
    return os.path.isfile(path)  # noqa: PTH113 - unlike Path.is_file, no exception for a name that is too long


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112 - as in _is_file


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _normalize(path: str) -> str:
    """Return a path in normal form; '' is the root."""
    normal = posixpath.normpath(path)
    return "" if normal == "." else normal


# what kustomize would read


class _Use(Enum):
    """What kustomize does with a path."""

    DATA = auto()
    """Reads a file of any kind."""
    LINES = auto()
    """Reads a file with a variable in each line."""
    MANIFEST = auto()
    """Reads a file with YAML."""
    RESOURCE = auto()
    """Reads a file with objects, or builds a folder."""
    COMPONENT = auto()
    """Builds a folder."""
    PLUGIN = auto()
    """Reads a file with the configuration of plug-ins, or builds it from a folder."""


# As kustomize's loader decides; git clones whatever looks so before a folder of that name is tried.
_REMOTE_FILE = re.compile(r"https?:", re.IGNORECASE)
_REMOTE_FOLDER = re.compile(
    r"(?:git::)?(?:(?:ssh|https?|file)://|[a-z][a-z0-9-]*@|github\.com[/:][^/]+/+[^/])|git::", re.IGNORECASE
)
_REMOTE_REMEDY = "add its content as another source with a destination, and refer to it by its path"
_CHARTS = ("helmCharts", "helmChartInflationGenerator")
_CHART_REMEDY = (
    'install the chart with a BundleDeployment of its own, with a source "chart" and spec.format "helm", or add the '
    'output of "helm template" to the content'
)
_PLUGIN_REMEDY = "run it before publishing the content, or as a processor of the BundleDeployment"
_USES = {
    "resources": _Use.RESOURCE,
    "bases": _Use.RESOURCE,
    "components": _Use.COMPONENT,
    "crds": _Use.MANIFEST,
    "configurations": _Use.MANIFEST,
    "generators": _Use.PLUGIN,
    "transformers": _Use.PLUGIN,
    "validators": _Use.PLUGIN,
    "patchesStrategicMerge": _Use.MANIFEST,
}
"""Fields of a kustomization that are lists of paths."""
_PATCHES = ("patches", "patchesJson6902", "replacements")
"""Fields that are lists of mappings with `path`."""
_GENERATORS = ("configMapGenerator", "secretGenerator")


class _Reference(NamedTuple):
    """A path in a file."""

    field: str
    text: str
    use: _Use


class _Build(NamedTuple):
    """A folder that is built."""

    folder: str
    owner: str | None = None
    """If the objects of the folder configure plug-ins: the folder of the kustomization that uses these, from where they
    read files."""


def _references_of_kustomization(value: Mapping[str, Any]) -> Iterator[_Reference]:
    for name, use in _USES.items():
        yield from _list_references(value.get(name), name, use)
    yield from _references(_mapping(value.get("openapi")).get("path"), "openapi.path", _Use.DATA)
    for name in _PATCHES:
        for place, patch in _mappings(value.get(name), name):
            yield from _references(patch.get("path"), f"{place}.path", _Use.MANIFEST)
    for name in _GENERATORS:
        for place, generator in _mappings(value.get(name), name):
            yield from _references_of_generator(generator, f"{place}.")


def _references_of_generator(value: Mapping[str, Any], place: str = "") -> Iterator[_Reference]:
    for field, text, use in _list_references(value.get("files"), f"{place}files", _Use.DATA):
        yield _Reference(field, text if text.count("=") > 1 else text.rpartition("=")[2], use)
    yield from _list_references(value.get("envs"), f"{place}envs", _Use.LINES)
    yield from _references(value.get("env"), f"{place}env", _Use.LINES)


def _references_of_plugin(value: Mapping[str, Any]) -> Iterator[_Reference]:
    """Yield the paths in the configuration of a plug-in that is built into kustomize."""
    yield from _references_of_generator(value)
    yield from _references(value.get("path"), "path", _Use.MANIFEST)
    yield from _list_references(value.get("paths"), "paths", _Use.MANIFEST)
    for place, item in _mappings(value.get("replacements"), "replacements"):
        yield from _references(item.get("path"), f"{place}.path", _Use.MANIFEST)


def _list_references(value: Any, place: str, use: _Use) -> Iterator[_Reference]:
    for index, item in enumerate(_sequence(value)):
        yield from _references(item, f"{place}[{index}]", use)


def _references(value: Any, place: str, use: _Use) -> Iterator[_Reference]:
    if isinstance(value, str) and value:
        yield _Reference(place, value, use)


def _mappings(value: Any, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    return ((f"{place}[{index}]", _mapping(item)) for index, item in enumerate(_sequence(value)))


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_inline(text: str) -> bool:
    """Return whether a text where a path may be is a manifest itself."""
    return "\n" in text.strip() or text.lstrip().startswith(("{", "["))


class _Content:
    """What a build reads of the content, found from kustomization to kustomization.

    Args:
        tree: the content.
        means: how large its files may be, and whether somebody still waits.
    """

    def __init__(self, tree: ContentTree, means: Means) -> None:
        self._tree, self._means, self._budget = tree, means, TextBudget.of(means)
        self._root = tree.root.resolve()
        self._built: set[_Build] = set()
        self._read: set[str] = set()
        self._documents: list[Document] = []
        self._manifests: dict[str, None] = {}
        self._lines: dict[str, None] = {}
        self.files: dict[str, str] = {}
        """The kustomization of each folder that is built."""

    def find(self, folder: str) -> None:
        """Find what is read to build a folder that has a kustomization.

        Raises: BundleError (InvalidBundle with the file and the field; the reason of what must not be read),
            LargeTextError.
        """
        waiting = [_Build(folder)]
        while waiting:
            if self._means.cancelled.is_set():
                raise BundleError(Reason.RENDER_FAILED, "canceled: the result is no longer needed")
            build = waiting.pop()
            if build not in self._built:
                self._built.add(build)
                waiting += self._enter(build)
        _check(self._tree, self._read)

    def _enter(self, build: _Build) -> Iterator[_Build]:
        """Yield what else is built for a kustomization."""
        folder, owner = build
        file = self.files[folder] = _find_file(self._tree, folder)
        self._read.update(_join(folder, name) for name in _NAMES)
        for document in self._parse(file):
            value = _mapping(document.value)
            for name in filter(value.get, _CHARTS):
                raise _invalid(file, name, f"kustomize must not run Helm; {_CHART_REMEDY}")
            for reference in _references_of_kustomization(value):
                if reference.use is _Use.PLUGIN:
                    yield from self._follow(folder, file, reference, folder)
                elif reference.use is _Use.RESOURCE and owner is not None:
                    yield from self._follow(folder, file, reference._replace(use=_Use.PLUGIN), owner)
                else:
                    yield from self._follow(folder, file, reference)

    def _follow(self, folder: str, file: str, reference: _Reference, owner: str | None = None) -> Iterator[_Build]:
        """Yield what is built if a path, relative to a folder, is one of a folder."""
        field, text, use = reference
        if use in (_Use.MANIFEST, _Use.PLUGIN) and _is_inline(text):
            if owner is not None:
                self._configure(owner, file, field, self._parse_text(text, f"{file}: {field}"))
            return
        path = self._locate(folder, file, reference)
        self._read.add(path)
        if use in (_Use.DATA, _Use.LINES):
            self._tree.check_prepared(path, f"{file}: {field}")
        if _is_folder(self._root / path):
            yield _Build(path, owner)
        elif owner is not None:
            self._configure(owner, path, "", self._parse(path))
        elif use is _Use.LINES:
            self._lines[path] = None
        elif use is not _Use.DATA:
            self._manifests[path] = None

    def _configure(self, folder: str, file: str, field: str, documents: Iterable[Document]) -> None:
        """Check the configurations of plug-ins, and what they read, relative to a folder."""
        for document in documents:
            value = _mapping(document.value)
            kind = value.get("kind")
            if kind == "HelmChartInflationGenerator":
                raise _invalid(file, field, f"kustomize must not run Helm; {_CHART_REMEDY}")
            if value.get("apiVersion") != "builtin":
                what = f"{quote(str(kind))} is a container, a program or a function, which kustomize must not run"
                raise _invalid(file, field, f"{what}; {_PLUGIN_REMEDY}")
            for reference in _references_of_plugin(value):
                place = ".".join(filter(None, (field, reference.field)))
                list(self._follow(folder, file, reference._replace(field=place)))  # only files

    def _locate(self, folder: str, file: str, reference: _Reference) -> str:
        """Return the path of what a reference in a file leads to, relative to a folder.

        Raises: BundleError (InvalidBundle; the reason of what must not be read).
        """
        field, text, use = reference
        if use is _Use.DATA and text.count("=") > 1:
            raise _invalid(file, field, f'{quote(text)} has a key or a file with "=" in its name; rename it')
        if _REMOTE_FILE.match(text):
            raise _invalid(file, field, f"{quote(text)} is remote, and is not fetched; {_REMOTE_REMEDY}")
        path = _normalize(_join(folder, text))
        if text.startswith("/") or path.split("/")[0] == "..":
            raise _invalid(file, field, f"{quote(text)} leaves the content; add what it names to the content")
        is_built = use in (_Use.RESOURCE, _Use.COMPONENT, _Use.PLUGIN)
        if _is_file(self._root / path):
            return path
        if is_built and _REMOTE_FOLDER.match(text):
            raise _invalid(file, field, f"{quote(text)} is remote, and is not fetched; {_REMOTE_REMEDY}")
        if is_built and _list_files(self._tree, path):
            return path
        _check(self._tree, [path, *(_join(path, name) for name in _NAMES if is_built)])
        if is_built and _is_folder(self._root / path):
            raise _invalid(file, field, f"{quote(text)} is a folder without a kustomization; add a {_NAMES[0]} to it")
        raise _invalid(file, field, f"{quote(text)} does not exist; correct the path{self._tree.describe_refused()}")

    def _parse(self, file: str) -> Iterator[Document]:
        text = self._budget.read(self._root / file, file)
        for document in read_documents(text, file, strict=False, budget=self._budget):
            self._documents.append(document)
            yield document

    def _parse_text(self, text: Any, place: str) -> Iterator[Document]:
        data = text.encode() if isinstance(text, str) else b""
        for document in read_documents(data, place, strict=False, budget=self._budget):
            self._documents.append(document)
            yield document

    def explain(self, result: ProgramResult, folder: str) -> BundleError:
        """Return the error for a failed build of a folder, without values of Secrets and without paths of this machine.

        Raises: LargeTextError.
        """
        file = self.files[folder]
        if result.status < 0 or (result.status == _GO_RUNTIME and "panic:" not in result.stderr):
            problem = "building needs more memory or processor time than allowed"
            remedy = "simplify the kustomization, or raise --render-mebibytes or --render-timeout"
            return BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{file}: {problem}; {remedy}")
        try:
            secrets = {_one_line(text) for text in self._find_secrets()}
        except BundleError as error:  # what kustomize could not read either, with file and line
            return error
        said = find_message(result.stderr)
        is_whole, said = len(said) <= _READ, said[:_READ]
        for path, shown in ((f"{self._root}/", ""), (str(self._root), ".")):
            said = said.replace(path, shown)
        *_, where, what = ("", said) if _NESTED.search(said) is None else _NESTED.split(said)
        file = self.files.get(_normalize(where), file) if where else file
        for pattern, shown in _NOISE:
            what = pattern.sub(shown, what)
        what = _redact(_one_line(what), secrets, is_whole=is_whole)
        return BundleError(Reason.INVALID_BUNDLE, f"{file}: {what or 'kustomize failed without a message'}")

    def _find_secrets(self) -> Iterator[str]:
        """Yield the values of Secrets in all that is read.

        Raises: BundleError (InvalidBundle) for what is no YAML; LargeTextError.
        """
        for file in self._manifests:
            list(self._parse(file))
        for document in self._documents:  # grows by those that are inline
            yield from _secrets_in(document.value)
            for place, text in _inline_patches(document.value):
                list(self._parse_text(text, f"{document.file}: {place}"))
        for file in self._lines:
            for line in self._budget.read(self._root / file, file).decode(errors="replace").splitlines():
                yield _value_of(line)


# failures


_LAST_ERROR = re.compile(r"(?m)^[Ee]rror: ")
# Some builds of kubectl log their last error as klog does, with the time and a process id; one with several lines as a
# block.
_PREFIX = r"(?m)^[EFIW]\d{4} [\d:.]+ +\d+ \S+:\d+\] "
_LOGGED = re.compile(rf'{_PREFIX}"[^"\n]*" err=(?:("(?:[^"\\\n]|\\.)*")|<\n((?:\t.*\n?)*))')


def find_message(stderr: str) -> str:
    """Return the last error in what kustomize or kubectl has printed."""
    if found := _LOGGED.findall(stderr):
        quoted, block = found[-1]
        try:
            return str(json.loads(quoted)) if quoted else block.replace("\t", "")
        except ValueError:  # Go quotes a few characters in other ways
            return str(quoted).strip('"')
    return re.sub(_PREFIX, "", _LAST_ERROR.split(stderr)[-1])


_NESTED = re.compile(r"(?:recursed accumulation of|couldn't make target for) path '([^']*)': ")
"""Before an error in another kustomization than the one that is built."""
_NOISE = (
    (re.compile(r" with config: `.*`", re.DOTALL), ""),  # all of the configuration of a generator
    (re.compile(r"\bmap\[[^\]]*\]interface \{\}\{.*\}", re.DOTALL), "an object"),  # a whole object, as Go prints it
    (re.compile(r"\b0x[0-9a-f]+\b|/\S*/kustomize-[0-9]+"), "…"),  # addresses and folders, which differ each time
    (re.compile(r"accumulating resources: accumulation err='(.*)': must build at directory: .*", re.DOTALL), r"\1"),
)
"""What a message does not need: that a file is no folder, either."""
_READ, _SHOWN = 16 * 1024, 600  # characters of a message
_LEAST_SECRET = 4  # characters: shorter ones are part of many words
_LONG_SECRET = 200  # characters by which a longer one is found
_MOST_SECRETS = 20_000
_WITHHELD = "kustomize failed; its message is not shown because the content has too many Secrets; build it to see it"


def _secrets_in(value: Any) -> Iterator[str]:
    """Yield the values of Secrets in a document: an object, a kustomization, or a patch of either kind."""
    if isinstance(value, list):  # a JSON patch
        for operation in map(_mapping, value):
            yield from _scalars_of(operation.get("value"))
        return
    found = _mapping(value)
    generators = [_mapping(item) for item in _sequence(found.get("secretGenerator"))]
    if found.get("kind") == "Secret":
        yield from _scalars_of([found.get("data"), found.get("stringData")])
    for generator in (*generators, found):
        yield from (_value_of(text) for text in _sequence(generator.get("literals")) if isinstance(text, str))
    for item in _sequence(found.get("items")):
        yield from _secrets_in(item)


def _scalars_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _scalars_of(item)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


def _value_of(line: str) -> str:
    """Return the value of `key=value`; all of it if it is not of this form."""
    key, equals, value = line.partition("=")
    return value.strip("'\"") if equals else key


def _inline_patches(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the field and the text of each manifest in a kustomization, or in the configuration of a plug-in."""
    found = _mapping(value)
    for name in ("patches", "patchesJson6902"):
        for place, patch in _mappings(found.get(name), name):
            yield f"{place}.patch", patch.get("patch", "")
    for index, text in enumerate(_sequence(found.get("patchesStrategicMerge"))):
        yield f"patchesStrategicMerge[{index}]", text if isinstance(text, str) and _is_inline(text) else ""
    yield "patch", found.get("patch", "")


def _redact(line: str, secrets: Collection[str], *, is_whole: bool) -> str:
    """Return a text without secrets, shortened; if it is not whole, one may be cut at its end."""
    if len(secrets) > _MOST_SECRETS:
        return _WITHHELD
    for text in sorted(secrets, key=len, reverse=True):
        for form in (text, json.dumps(text, ensure_ascii=False)[1:-1], b64encode(text.encode()).decode()):
            if len(form) > _LONG_SECRET and form[:_LONG_SECRET] in line:
                line, is_whole = f"{line[: line.index(form[:_LONG_SECRET])]}…", True  # whatever comes after it
            elif len(form) >= _LEAST_SECRET:
                line = line.replace(form, "…")
    line = line if is_whole else line[:-_LONG_SECRET]
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"


def _one_line(text: str) -> str:
    """Return a text with whitespace and control characters collapsed to single spaces."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


def _invalid(file: str, place: str, problem: str) -> BundleError:
    return BundleError(Reason.INVALID_BUNDLE, f"{': '.join(filter(None, (file, place)))}: {problem}")
