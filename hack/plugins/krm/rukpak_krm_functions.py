"""The processor `krm.rukpak.io/v1`: KRM functions, which get all objects on stdin and print those to install.

A function is an executable that the administrator has put into a folder. A BundleDeployment names it by its file and
its digest, so that the result never depends on what is in the folder. What runs is a copy whose bytes were compared
with the digest: replacing the file in between changes nothing. It is confined as every program of RukPak is: it reads
its copy and what is installed with the system, writes nothing and has no network.

The interface is that of kustomize and kpt, KRM Functions Specification v1: a ResourceList on stdin and stdout, problems
as its results. Hooks are not passed: the order in which they run is no matter of objects.

A function may write anything into its messages, also what it has read from a Secret. Therefore, a message is not shown
if it contains a text from a Secret of the bundle, and stderr is not shown if there are such texts at all.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
import signal
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rukpak.plugins import (
    BundleError,
    Document,
    Means,
    ProcessRequest,
    ProgramResult,
    ProgramVersion,
    Reason,
    Rendering,
    TextBudget,
    collect_objects,
    copy_program,
    digest_of_json,
    name_key,
    program_memory,
    quote,
    read_documents,
    run_program,
)

Object = dict[str, Any]
FOLDERS = "RUKPAK_KRM_FUNCTIONS"
"""Environment variable of the controller: folders with functions, separated by colons."""
DEFAULT_FOLDERS = "/functions"
MOST_FUNCTIONS = 8
"""Of one processor: together, they may take as long as one run of a program."""
_FIELDS = frozenset({"exec", "digest", "config", "configMap"})
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}").fullmatch
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}").fullmatch
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "TZ": "UTC"}
"""What makes results repeatable that programs of some languages would otherwise leave to chance."""
_GROUP = "config.kubernetes.io"
_PREFIX = f"internal.{_GROUP}/"
_INTERNAL = frozenset({f"{_GROUP}/index", f"{_GROUP}/path", "config.k8s.io/id"})
_FILE = "objects.yaml"
"""The path that functions see: a rendering has no files."""
_BYTES_OF_STEP = 8
"""Of output that is parsed in about a microsecond."""
_NOT_STARTED = (126, 127)
_LIMITS = (signal.SIGKILL, signal.SIGXCPU)
# YAML folds some of these in a string, and allows none of the others.
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_ERROR, _INFO = "error", "info"
_SEVERITIES = (_ERROR, "warning", _INFO)
_MOST_WARNINGS = 20
_SHOWN, _COMPARED, _LEAST = 300, 200, 4
"""Characters of a message that are shown; of a secret that are compared; of the shortest text that is secret."""
_WITHHELD = "a message that is not shown, because it contains a value of a Secret"
_TRACEBACK = "Traceback (most recent call last):"


class KRMProcessor:
    """Runs functions one after the other, each on the objects that the one before it has printed."""

    def validate(self, parameters: Mapping[str, Any], path: str) -> list[str]:
        """Return the problems of the parameters."""
        problems = _find_unknown(parameters, {"functions"}, path)
        functions = parameters.get("functions")
        if not isinstance(functions, list) or not 1 <= len(functions) <= MOST_FUNCTIONS:
            return [*problems, f"{path}.functions: must be a list of 1 to {MOST_FUNCTIONS} functions"]
        for index, function in enumerate(functions):
            problems += _find_problems(function, f"{path}.functions[{index}]")
        return problems

    def find_program(self, means: Means) -> ProgramVersion:  # noqa: ARG002 - the contract of RunsProgram
        """Return the first function by name, for all of them: version and digest are those of the list.

        Raises: BundleError (NotSupported) if there is none, or one cannot be read.
        """
        functions: dict[str, Path] = {}
        for folder in _folders():
            functions = {path.name: path for path in _list(folder)} | functions
        if not functions:
            raise BundleError(Reason.NOT_SUPPORTED, f"no functions in {_describe_folders()}; put executables there")
        digests = {name: _digest_of_file(functions[name]) for name in sorted(functions)}
        return ProgramVersion(
            path=functions[min(functions)], version=", ".join(digests), digest=digest_of_json(digests)
        )

    def program_bytes(self, means: Means) -> int:
        """Return the bytes of memory that a function may use."""
        return program_memory(means)

    def process(self, request: ProcessRequest) -> Rendering:
        """Return the rendering with the objects that the last function prints, and warnings from results of all.

        Raises: BundleError (ProcessorFailed for a function that fails, prints something else or reports an error;
            InvalidConfig for one with another digest; NotSupported for one that is not there; RenderLimitExceeded).
        """
        objects, warnings = list(request.rendering.objects), list(request.rendering.warnings)
        deadline = time.monotonic() + request.means.seconds
        for index, function in enumerate(request.parameters["functions"]):
            run = _Run(
                name=function["exec"], digest=function["digest"], place=f"{request.path}.functions[{index}]",
                request=request, given=objects, deadline=deadline,
            )  # fmt: skip
            objects, said = run.run(_config_of(function))
            warnings += said
        return replace(request.rendering, objects=objects, warnings=warnings)


def _find_unknown(value: Mapping[str, Any], known: Collection[str], path: str) -> list[str]:
    named = ", ".join(sorted(known))
    return [f"{name_key(path, key)}: unknown field; there are {named}" for key in value if key not in known]


def _find_problems(function: Any, path: str) -> list[str]:
    if not isinstance(function, dict):
        return [f"{path}: must be a mapping with exec and digest"]
    problems = _find_unknown(function, _FIELDS, path)
    name, digest = function.get("exec"), function.get("digest")
    if not isinstance(name, str) or not _NAME(name):
        problems.append(f"{path}.exec: must be the name of a file, without a folder, of letters, digits, - _ and .")
    if not isinstance(digest, str) or not _DIGEST(digest):
        problems.append(f"{path}.digest: must be sha256: and 64 hexadecimal digits, as sha256sum prints them")
    if function.get("config") is not None and function.get("configMap") is not None:
        problems.append(f"{path}: set config or configMap, not both")
    return problems + _find_config_problems(function.get("config"), function.get("configMap"), path)


def _find_config_problems(config: Any, data: Any, path: str) -> list[str]:
    if config is not None and not (isinstance(config, dict) and all(map(config.get, ("apiVersion", "kind")))):
        return [f"{path}.config: must be an object with apiVersion and kind"]
    if config is not None:
        named = {"apiVersion": config["apiVersion"], "kind": config["kind"]}
        return [f"{path}.config.{key}: must be a string" for key, text in named.items() if not isinstance(text, str)]
    if data is not None and not isinstance(data, dict):
        return [f"{path}.configMap: must be a mapping of strings"]
    wrong = (key for key, text in (data or {}).items() if not isinstance(text, str))
    return [f"{name_key(f'{path}.configMap', key)}: must be a string; put it in quotes" for key in wrong]


def _config_of(function: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the functionConfig; data become the ConfigMap that kpt makes of them."""
    if (data := function.get("configMap")) is not None:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "function-input"}, "data": data}
    config: Mapping[str, Any] | None = function.get("config")
    return config


# where functions are


def _folders() -> list[Path]:
    return [Path(folder) for folder in os.environ.get(FOLDERS, DEFAULT_FOLDERS).split(os.pathsep) if folder]


def _describe_folders() -> str:
    return " and ".join(f'"{folder}"' for folder in _folders()) or f"any folder, since {FOLDERS} names none"


def _list(folder: Path) -> list[Path]:
    with suppress(OSError):
        return [path for path in folder.iterdir() if _NAME(path.name) and path.is_file()]
    return []


def _digest_of_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError as error:
        problem = f'"{path}" cannot be read: {error.strerror}'
        raise BundleError(Reason.NOT_SUPPORTED, f"{problem}; correct its permissions") from None


@dataclass(frozen=True, kw_only=True)
class _Run:
    """One run of one function."""

    name: str
    digest: str
    place: str
    """Of the function in the spec, with which each message starts."""
    request: ProcessRequest
    given: Sequence[Object]
    deadline: float
    """Of all functions of the processor, in seconds of `time.monotonic`."""

    def run(self, config: Mapping[str, Any] | None) -> tuple[list[Object], list[str]]:
        """Return the objects that the function prints, and its warnings."""
        means = self.request.means
        text = _encode({**_LIST, "items": _with_places(self.given), **({"functionConfig": config} if config else {})})
        with TemporaryDirectory(dir=means.scratch, prefix="function-") as folder:
            # A folder of its own: that of the rendering may contain more than a function should see.
            own = replace(means, scratch=Path(folder))
            result = self._call(self._copy(own, Path(folder) / self.name), own, text)
        self._check_end(result)
        if result.status:
            raise self._explain(result, str(Path(folder).resolve()))
        made = self._read(result.output)
        results = self._results(made)
        if errors := _errors_in(results):
            raise self._refused(errors)
        return self._objects(made), self._warnings(results)

    def _copy(self, means: Means, copy: Path) -> Path:
        """Return a copy of the function; of several files with its name, that with its digest."""
        found = []
        for folder in _folders():
            if not (folder / self.name).is_file():
                continue
            found.append(copy_program(folder / self.name, copy, means))
            if found[-1] == self.digest:
                return copy
            copy.unlink()
        if not found:
            problem = f'no function "{self.name}" in {_describe_folders()}'
            remedy = "correct the name, or have the administrator install it"
            raise BundleError(Reason.NOT_SUPPORTED, f"{self.place}.exec: {problem}; {remedy}")
        problem = f'"{self.name}" has another digest here, {" or ".join(dict.fromkeys(found))}'
        remedy = "correct it, or have the administrator install what it names"
        raise BundleError(Reason.INVALID_CONFIG, f"{self.place}.digest: {problem}; {remedy}")

    def _call(self, program: Path, means: Means, text: bytes) -> ProgramResult:
        left = replace(means, seconds=max(self.deadline - time.monotonic(), 0.0))
        try:
            return run_program([str(program)], left, subject=self.place, text=text, environment=_ENVIRONMENT)
        except BundleError:
            if time.monotonic() < self.deadline:
                raise
            # With the time that was left, the message would differ each time.
            problem = f"timed out: {quote(self.name)} and what ran before it take more than {means.seconds:g} s"
            remedy = "simplify the bundle or raise --render-timeout"
            raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{self.place}: {problem}; {remedy}") from None

    def _check_end(self, result: ProgramResult) -> None:
        """Refuse the result of a function that has not ended by itself, or was not started."""
        if result.status in _NOT_STARTED:
            remedy = "a function is a single file for this machine, whose interpreter is installed with the system"
            raise self._failed(f"cannot be started, or failed with status {result.status}: {remedy}")
        if -result.status in _LIMITS:
            problem = f"{quote(self.name)} needs more memory or processor time than allowed"
            remedy = "simplify the bundle, or raise --render-mebibytes or --render-timeout"
            raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{self.place}: {problem}; {remedy}")
        if result.status < 0:
            raise self._failed(f"crashed ({_name_signal(-result.status)}); report it to its author")

    def _explain(self, result: ProgramResult, folder: str) -> BundleError:
        """Return the error of a function that has failed: its results, or else what it says on stderr."""
        with suppress(_InvalidOutputError):
            if errors := _errors_in(self._results(self._read(result.output))):
                return self._refused(errors)
        problem = f"failed with status {result.status}"
        if self._secrets:
            return self._failed(f"{problem}; what it says is not shown, because the bundle contains Secrets")
        said = _find_line(result.stderr.replace(f"{folder}/", ""))
        return self._failed(f"{problem}: {said}" if said else f"{problem} without a message")

    def _failed(self, problem: str) -> BundleError:
        return BundleError(Reason.PROCESSOR_FAILED, f"{quote(self.name)}: {problem}", place=self.place)

    def _invalid(self, problem: str) -> _InvalidOutputError:
        return _InvalidOutputError(Reason.PROCESSOR_FAILED, f"{quote(self.name)}: printed {problem}", place=self.place)

    def _read(self, output: bytes) -> Object:
        """Return the ResourceList that was printed."""
        self.request.charge(len(output), len(output) // _BYTES_OF_STEP)
        budget = TextBudget.of(self.request.means)
        try:
            documents = [each.value for each in read_documents(output, "output", budget=budget)]
        except BundleError as error:
            if error.reason is not Reason.INVALID_BUNDLE:
                raise
            raise self._invalid(f"no YAML or JSON: {self._hide(error.message)}") from None
        found = documents[0] if len(documents) == 1 else None
        if not isinstance(found, dict) or found.get("kind") != _LIST["kind"]:
            raise self._invalid("no ResourceList, or more than that; it must print one, and everything else to stderr")
        if not str(found.get("apiVersion")).startswith(f"{_GROUP}/"):
            raise self._invalid(f"a ResourceList of another version than {_LIST['apiVersion']}")
        return found

    def _objects(self, made: Object) -> list[Object]:
        items = made.get("items")
        if not isinstance(items, list):
            raise self._invalid("no items; to delete all objects, it must print an empty list")
        documents = [Document(_without_places(item), "items", index) for index, item in enumerate(items)]
        try:
            return collect_objects(documents)
        except BundleError as error:
            raise self._invalid(f"an invalid object: {self._hide(error.message)}") from None

    def _results(self, made: Object) -> list[Object]:
        """Return the results, each with a severity and a message."""
        found = made.get("results")
        if isinstance(found, dict):  # of functions that were built with kyaml before 0.11
            found = found.get("items")
        results = found if isinstance(found, list) else []
        if found is not None and found is not results:
            raise self._invalid("results that are no list")
        complete = [{"severity": _INFO, **each} for each in results if isinstance(each, dict)]
        if len(complete) != len(results) or not all(isinstance(each.get("message"), str) for each in complete):
            raise self._invalid("a result without a message")
        if any(each["severity"] not in _SEVERITIES for each in complete):
            raise self._invalid("a result with a severity that is not error, warning or info")
        return complete

    def _describe(self, result: Object) -> str:
        """Return a result on one line: `ConfigMap a/settings: data.color: must be blue`."""
        about = _mapping(result.get("resourceRef"))
        about = {**about, **_mapping(about.get("metadata"))}  # in the older form
        name = "/".join(filter(None, (_text(about.get("namespace")), _text(about.get("name")))))
        path = _text(_mapping(result.get("field")).get("path"))
        parts = (" ".join(filter(None, (_text(about.get("kind")), name))), path, result["message"])
        return self._hide(": ".join(filter(None, parts)))

    def _refused(self, errors: Sequence[Object]) -> BundleError:
        others = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        return self._failed(f"{self._describe(errors[0])}{others}")

    def _warnings(self, results: Sequence[Object]) -> list[str]:
        said = [f"{self.place}: {quote(self.name)}: {self._describe(each)}" for each in results[:_MOST_WARNINGS]]
        left = len(results) - len(said)
        return [*said, f"{self.place}: {left} more results"] if left else said

    def _hide(self, text: str) -> str:
        """Return what may be shown of a text, on one line."""
        line = _one_line(text[: 4 * (_SHOWN + _COMPARED)])
        compared = line[: _SHOWN + _COMPARED]
        if any(secret in compared for secret in self._secrets):
            return _WITHHELD
        return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"

    @cached_property
    def _secrets(self) -> set[str]:
        """Return the starts of texts that no message may contain: of lines of Secrets, but for names of objects."""
        texts = [*self.request.rendering.secrets, *(text for item in self.given for text in _texts_of_secret(item))]
        lines = {_one_line(line)[:_COMPARED] for text in texts for line in text.splitlines()}
        return {line for line in lines if len(line) >= _LEAST} - set(_names(self.given))


class _InvalidOutputError(BundleError):
    """A function has printed what it must not."""


_LIST: Mapping[str, Any] = {"apiVersion": f"{_GROUP}/v1", "kind": "ResourceList"}


def _errors_in(results: Iterable[Object]) -> list[Object]:
    return [each for each in results if each["severity"] == _ERROR]


def _encode(value: Any) -> bytes:
    """Return JSON that every reader of YAML reads as it is meant."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _NOT_IN_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode()


def _with_places(objects: Iterable[Object]) -> list[Object]:
    """Return objects with the annotations by which functions tell where they are from."""
    result = []
    for index, item in enumerate(objects):
        metadata, place = item["metadata"], {f"{_PREFIX}path": _FILE, f"{_PREFIX}index": str(index)}
        if isinstance(notes := metadata.get("annotations") or {}, dict):
            metadata = {**metadata, "annotations": {**notes, **place}}
        result.append({**item, "metadata": metadata})
    return result


def _without_places(item: Any) -> Any:
    """Return an object without the annotations of `_with_places`, and others that are for the same purpose."""
    metadata = _mapping(_mapping(item).get("metadata"))
    notes = _mapping(metadata.get("annotations"))
    kept = {key: note for key, note in notes.items() if key not in _INTERNAL and not key.startswith(_PREFIX)}
    if len(kept) == len(notes):
        return item
    rest = {key: value for key, value in metadata.items() if key != "annotations"}
    return {**item, "metadata": {**rest, **({"annotations": kept} if kept else {})}}


def _texts_of_secret(item: Object) -> Iterator[str]:
    if (item.get("apiVersion"), item.get("kind")) != ("v1", "Secret"):
        return
    for text in _mapping(item.get("stringData")).values():
        yield _text(text)
    for text in map(_text, _mapping(item.get("data")).values()):
        yield text
        with suppress(binascii.Error, ValueError):
            yield base64.b64decode(text).decode()


def _names(objects: Iterable[Object]) -> Iterator[str]:
    for item in objects:
        yield from (item["kind"], item["metadata"]["name"], item["metadata"].get("namespace") or "")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _one_line(text: str) -> str:
    words = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(words.split())


def _find_line(stderr: str) -> str:
    """Return the line of stderr that says most: the first one, but of a traceback of Python the last one."""
    lines = [line for line in map(_one_line, stderr.splitlines()) if line]
    line = next(iter(lines), "")
    return (lines[-1] if line == _TRACEBACK else line)[:_SHOWN]


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
