"""Values: read as Helm reads them, and written so that Helm reads what was meant.

Files of values are copied to names of ours: Helm splits what `--values` says at commas, takes `://` for a URL and a
leading dash for an option, and content may name its files so that Helm reads others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from api.errors import BundleError
from api.plugins import MEBIBYTE, Entry, Means
from api.v1alpha2.conditions import Reason
from controller.content.archive import write_entries
from controller.content.limits import quote
from controller.formats.budget import read_small
from controller.formats.objects import describe_type
from controller.formats.yaml.composer import NodeBudget
from controller.formats.yaml.manifests import read_documents
from controller.formats.yaml.scalars import write_key

VALUES_BYTES = MEBIBYTE
"""One file of values: they are read while Helm is not confined to do it."""
VALUES = 100_000
"""In one text of them, with what aliases repeat."""
# Helm reads JSON as YAML, where these break a line, or are refused, unless they are written as escapes.
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_FOLDER = "values"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ValuesFile:
    """A file of values, as it was checked: there may be secrets in it, so it has no repr."""

    text: bytes
    values: Mapping[str, Any]


def read_values(text: bytes, place: str) -> Mapping[str, Any]:
    """Return the values of a YAML text; of two equal keys the last one counts, as with Helm.

    Args:
        text: of one document; none is no values.
        place: where it stands: messages begin with it.

    Raises: BundleError (InvalidConfig).
    """
    try:
        documents = list(read_documents(text, place, strict=False, budget=NodeBudget(VALUES, "take some out")))
    except BundleError as error:
        raise BundleError(Reason.INVALID_CONFIG, error.message) from None
    if len(documents) > 1:
        problem = "holds more than one document, of which Helm takes the first alone; make it one"
        raise BundleError(Reason.INVALID_CONFIG, f"{place}: {problem}")
    value = documents[0].value if documents else {}
    if not isinstance(value, dict):
        problem = f"is {describe_type(value)} where a mapping is needed"
        raise BundleError(Reason.INVALID_CONFIG, f"{place}: {problem}")
    return value


def find_values_files(root: Path, names: Sequence[str]) -> list[ValuesFile]:
    """Return the files that `spec.config.valuesFiles` names, each of which holds values.

    Raises: BundleError (InvalidConfig).
    """
    return [_find_values_file(root, name, f"spec.config.valuesFiles[{index}]") for index, name in enumerate(names)]


def copy_values_files(files: Sequence[ValuesFile], means: Means) -> list[str]:
    """Write files of values to the scratch folder. Returns: their names there, none of which is out of content.

    Raises: BundleError (StorageFull; InvalidConfig over the budgets of content).
    """
    if means.scratch is None:
        raise RuntimeError("rendering a chart needs a scratch folder")
    means.occupy(sum(len(file.text) for file in files))
    folder = means.scratch / _FOLDER
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
    """Return values as JSON that is YAML to Helm, too.

    Raises: BundleError (InvalidConfig) for what JSON, or UTF-8, cannot express.
    """
    try:
        text = json.dumps(values, ensure_ascii=False, allow_nan=False, sort_keys=True)
        return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode()
    except (ValueError, TypeError, RecursionError):
        problem = "cannot be written as JSON in UTF-8; take out what is nested too deep, or is no text"
        raise BundleError(Reason.INVALID_CONFIG, f"spec.config.values: {problem}") from None


def scalars_of(value: Any) -> Iterator[str]:
    """Yield the texts and numbers among values, as text; numbers also as Go writes them, which has read a float64."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, Mapping):
            waiting.extend(reversed(list(found.values())))
        elif isinstance(found, list):
            waiting.extend(reversed(found))
        elif isinstance(found, str):
            yield found
        elif found is not None and not isinstance(found, bool):
            yield from _forms_of_number(found)


def _forms_of_number(number: float) -> Iterator[str]:
    with suppress(ValueError, OverflowError):  # digits beyond what Python writes, and what no float64 holds
        yield str(number)
        yield write_key(float(number))


def _find_values_file(root: Path, name: str, field: str) -> ValuesFile:
    path = root / name
    if any(part.is_symlink() for part in (path, *path.parents) if part.is_relative_to(root) and part != root):
        problem = f"{quote(name)} is, or is below, a link; put the file itself into the content"
        raise BundleError(Reason.INVALID_CONFIG, f"{field}: {problem}")
    if not path.is_file():
        problem = f"there is no file {quote(name)} in the content; write its path from the root, destination included"
        raise BundleError(Reason.INVALID_CONFIG, f"{field}: {problem}")
    text = read_small(path, f"{field}: {name}", VALUES_BYTES)
    return ValuesFile(text=text, values=read_values(text, f"{field}: {name}"))
