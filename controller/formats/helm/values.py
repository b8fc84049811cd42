"""`spec.config` of a chart, and values, read, merged and written the way Helm reads them, also for `spec.configFrom`.

Values files are copied under generated names: Helm splits the argument of `--values` at commas and treats `://` as a
URL and a leading dash as an option, so file names from content could make it read other files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from glob import glob
from io import BytesIO
from pathlib import Path
from typing import Any

from rukpak.api.errors import BundleError
from rukpak.api.plugins import MEBIBYTE, Entry, Limits, Means
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.archive import write_entries
from rukpak.controller.content.limits import Rejection, check_path, name_key, quote
from rukpak.controller.formats.composer import NodeBudget, write_number
from rukpak.controller.formats.manifests import find_duplicate_key, read_documents, read_small
from rukpak.controller.formats.objects import describe_type
from rukpak.controller.formats.programs import scratch_of

VALUES_BYTES = MEBIBYTE
"""Size of one file, which this process reads."""
# Helm reads JSON as YAML, in which these characters end a line or are refused unless they are escaped.
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
MATCHES = 256
"""Files that one pattern may match."""
_MAGIC = re.compile(r"[*?\[]")
_FOLDER = "values"
NAME_CHARACTERS = 53
"""Helm's limit for the name of a release, which leaves room for suffixes."""
# ValidateReleaseName in pkg/chartutil/validate_name.go of Helm.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PATH = "spec.config"
_NEVER = "Never"
_LOOKUP = ("OnRender", _NEVER)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ValuesFile:
    """A values file that was checked; without repr, since it may contain secrets."""

    text: bytes
    values: Mapping[str, Any]
    warning: str = ""
    """About a key that is there twice; Helm takes the last one, without a word."""


def name_values_files(root: Path, configuration: Configuration) -> list[tuple[str, str]]:
    """Return the paths of the files that `spec.config.valuesFiles` lists, each after the field that names it.

    Those that a pattern matches are in the order of their paths. What exists under the name of a pattern is meant.

    Raises: BundleError (InvalidConfig for one that is missing, unless that is allowed).
    """
    found: list[tuple[str, str]] = []
    for index, name in enumerate(configuration.values_files):
        field = f"{_PATH}.valuesFiles[{index}]"
        matches = _match(root, name)
        if len(matches) > MATCHES:
            raise BundleError(Reason.INVALID_CONFIG, f"{quote(name)} matches more than {MATCHES} files", place=field)
        if not (matches or configuration.ignore_missing):
            which = f"no file matches {quote(name)}" if _MAGIC.search(name) else f"no file {quote(name)}"
            problem = f"{which} in the content; use its path from the root, including the destination"
            raise BundleError(Reason.INVALID_CONFIG, problem, place=field)
        found += [(field, match) for match in matches]
    return found


def _match(root: Path, name: str) -> list[str]:
    path = root / name
    if path.is_symlink() or path.is_file():
        return [name]
    # Other than Path.glob, it leaves out hidden files and goes through no tree for **, whose cost would have no bound.
    found = glob(name, root_dir=root) if _MAGIC.search(name) else []  # noqa: PTH207
    return sorted(each for each in found if not (root / each).is_dir())


def may_be_listed(path: str, name: str) -> bool:
    """Whether a path is one that an item of `spec.config.valuesFiles` names or matches, or a folder above such ones."""
    elements, patterns = path.split("/"), name.split("/")
    pairs = list(zip(elements, patterns, strict=False))
    return len(elements) <= len(patterns) and all(
        element == pattern
        # As in a shell, a wildcard does not stand for the dot of hidden files.
        or (fnmatchcase(element, pattern) and element.startswith(".") == pattern.startswith("."))
        for element, pattern in pairs
    )


def read_values_file(root: Path, name: str, field: str) -> ValuesFile:
    """Return a file that `name_values_files` has found.

    Raises: BundleError (InvalidConfig; RenderLimitExceeded for a file that is too large).
    """
    path = root / name
    if any(part.is_symlink() for part in (path, *path.parents) if part.is_relative_to(root) and part != root):
        problem = f"{quote(name)} is a link, or in a directory that is one; replace it with the file itself"
        raise BundleError(Reason.INVALID_CONFIG, problem, place=field)
    text = read_small(path, f"{field}: {name}", VALUES_BYTES)
    values = read_values(text, f"{field}: {name}")
    duplicate = find_duplicate_key(text, NodeBudget(VALUES, "remove some"))
    return ValuesFile(text=text, values=values, warning=f"{field}: {name}:{duplicate}" if duplicate else "")


def copy_values_files(files: Sequence[ValuesFile], means: Means) -> list[str]:
    """Write values files to the scratch folder, and return their generated names there.

    Raises: BundleError (StorageFull; InvalidConfig above the limits of content).
    """
    means.occupy(sum(len(file.text) for file in files))
    folder = scratch_of(means) / _FOLDER
    folder.mkdir()
    entries = (
        Entry(path=f"{index}.yaml", size=len(file.text), data=BytesIO(file.text)) for index, file in enumerate(files)
    )
    try:
        write_entries(entries, folder, means.limits, "spec.config.valuesFiles")
    except BundleError as error:
        if error.reason is not Reason.CONTENT_REJECTED:
            raise
        raise BundleError(Reason.INVALID_CONFIG, error.message) from None
    return [f"{_FOLDER}/{index}.yaml" for index in range(len(files))]


def write_values(values: Mapping[str, Any]) -> bytes:
    """Return values as JSON that is also YAML for Helm.

    Raises: BundleError (InvalidConfig) for values that JSON or UTF-8 cannot express.
    """
    try:
        text = json.dumps(values, ensure_ascii=False, allow_nan=False, sort_keys=True)
        return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode()
    except (ValueError, TypeError, RecursionError):
        problem = "cannot be written as JSON in UTF-8; remove values that are nested too deep or not valid Unicode"
        raise BundleError(Reason.INVALID_CONFIG, f"spec.config.values: {problem}") from None


def scalars_of(value: Any, *, with_keys: bool = False) -> Iterator[str]:
    """Yield the strings and numbers among values, as text; numbers also as Go writes the float64 that it read.

    Args:
        value: any JSON.
        with_keys: yield the keys of mappings, too.
    """
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, Mapping):
            waiting.extend(reversed(list(found.values())))
            if with_keys:
                yield from map(str, found)
        elif isinstance(found, list):
            waiting.extend(reversed(found))
        elif isinstance(found, str):
            yield found
        elif found is not None and not isinstance(found, bool):
            yield from _forms_of_number(found)


def _forms_of_number(number: float) -> Iterator[str]:
    with suppress(ValueError, OverflowError):  # more digits than Python writes, or too large for a float64
        yield str(number)
        yield write_number(float(number))


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The options of a chart."""

    values: Mapping[str, Any] = field(default_factory=dict)
    """Override those of the files."""
    values_files: tuple[str, ...] = ()
    """Paths and patterns of paths in the content tree; later files override earlier ones."""
    ignore_missing: bool = False
    release_name: str = ""
    """'': the name of the BundleDeployment."""
    include_crds: bool = True
    """Whether `crds/` is rendered."""
    skip_tests: bool = True
    """If false, tests run as hooks after installing and upgrading."""
    disable_hooks: bool = False
    """Whether hooks, including tests, are left out."""
    looks_up: bool = True
    """Whether `lookup` finds objects of the cluster, where it may."""
    is_upgrade: bool = False
    """Whether `.Release.IsUpgrade` is true instead of `.Release.IsInstall`; all hooks are rendered either way."""


def find_problems(config: Mapping[str, Any]) -> list[str]:
    """Return the problems of `spec.config`, each starting with its field path, sorted by key."""
    problems: list[str] = []
    for key, value in sorted(config.items()):
        if key not in _OPTIONS:
            known = ", ".join(sorted(_OPTIONS))
            problems.append(f'{name_key(_PATH, key)}: unknown key; the format "helm" has the keys {known}')
        elif value is not None:
            problems += (f"{_PATH}.{key}{problem}" for problem in _OPTIONS[key][1](value))
    return problems


def read_configuration(config: Mapping[str, Any]) -> Configuration:
    """Return the options in a valid `spec.config`; null means not set."""
    given: dict[str, Any] = {field: config[key] for key, (field, _) in _OPTIONS.items() if config.get(key) is not None}
    if isinstance(values := given.get("values"), str):
        given["values"] = read_values(_encode(values), f"{_PATH}.values")
    given["values_files"] = tuple(check_path(name, Limits()) for name in given.get("values_files", ()))
    given["looks_up"] = given.get("looks_up") != _NEVER
    return Configuration(**given)


def find_name_problem(name: str) -> str:
    """Return why Helm rejects the name of a release; empty if it does not."""
    if len(name) > NAME_CHARACTERS:
        return f"has {len(name)} characters, but Helm allows {NAME_CHARACTERS}"
    if not _NAME.fullmatch(name):
        return "must consist of lower-case letters, digits, dashes and dots, and start and end with a letter or digit"
    return ""


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # invalid text is reported when it is read


def _check_values(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        try:
            read_values(_encode(value), "")
        except BundleError as error:
            yield error.message
    elif not isinstance(value, dict):
        yield f": must be a mapping or its YAML text, not {describe_type(value)}"


def _check_files(value: Any) -> Iterator[str]:
    if not isinstance(value, list):
        yield f": must be a list of paths, not {describe_type(value)}"
        return
    for index, name in enumerate(value):
        if not isinstance(name, str):
            yield f"[{index}]: must be a path, not {describe_type(name)}"
        elif not _is_plain_path(name):
            yield f'[{index}]: must be a path relative to the root of the content, without ".."'


def _is_plain_path(name: str) -> bool:
    try:
        return bool(check_path(name, Limits()))
    except Rejection:
        return False


def _check_name(value: Any) -> Iterator[str]:
    if not isinstance(value, str):
        yield f": must be a string, not {describe_type(value)}"
    elif problem := find_name_problem(value):
        yield f": {problem}; change it"


def _check_boolean(value: Any) -> Iterator[str]:
    if not isinstance(value, bool):
        yield f": must be true or false, not {describe_type(value)}"


def _check_lookup(value: Any) -> Iterator[str]:
    if value not in _LOOKUP:
        yield f": must be {' or '.join(_LOOKUP)}"


_OPTIONS: Mapping[str, tuple[str, Callable[[Any], Iterator[str]]]] = {
    "disableHooks": ("disable_hooks", _check_boolean),
    "ignoreMissingValuesFiles": ("ignore_missing", _check_boolean),
    "includeCRDs": ("include_crds", _check_boolean),
    "isUpgrade": ("is_upgrade", _check_boolean),
    "lookup": ("looks_up", _check_lookup),
    "releaseName": ("release_name", _check_name),
    "skipTests": ("skip_tests", _check_boolean),
    "values": ("values", _check_values),
    "valuesFiles": ("values_files", _check_files),
}
"""Keys of `spec.config` to the fields of `Configuration`, and what checks their values."""


VALUES = 100_000
"""Values in one text, including those that aliases repeat."""


def read_values(text: bytes, place: str) -> Mapping[str, Any]:
    """Return the values in one YAML document, or none for an empty text; as in Helm, the last of equal keys wins.

    Messages start with `place`.

    Raises: BundleError (InvalidConfig).
    """
    try:
        documents = list(read_documents(text, place, strict=False, budget=NodeBudget(VALUES, "remove some")))
    except BundleError as error:
        raise BundleError(Reason.INVALID_CONFIG, error.message) from None
    if len(documents) > 1:
        problem = "contains more than one document, of which Helm reads only the first; combine them"
        raise BundleError(Reason.INVALID_CONFIG, f"{place}: {problem}")
    value = documents[0].value if documents else {}
    if not isinstance(value, dict):
        raise BundleError(Reason.INVALID_CONFIG, f"{place}: must be a mapping, not {describe_type(value)}")
    return value


def merge_values(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return both values as Helm merges several values files: mappings are merged, everything else is replaced.

    A null above stays, since it removes a default of the chart.
    """
    merged = dict(below)
    for key, value in above.items():
        known = merged.get(key)
        merged[key] = merge_values(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return merged
