"""Values, read and written the way Helm reads them.

Values files are copied under generated names: Helm splits the argument of `--values` at commas and treats `://` as a
URL and a leading dash as an option, so file names from content could make it read other files.
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
from controller.formats.helm.child import scratch_of
from controller.formats.values import read_values
from controller.formats.yaml.scalars import write_number

VALUES_BYTES = MEBIBYTE
"""Of one file, which this process reads."""
# Helm reads JSON as YAML, in which these characters end a line or are refused unless they are escaped.
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_FOLDER = "values"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ValuesFile:
    """A values file that was checked; without repr, since it may contain secrets."""

    text: bytes
    values: Mapping[str, Any]


def find_values_files(root: Path, names: Sequence[str]) -> list[ValuesFile]:
    """Return the files that `spec.config.valuesFiles` lists.

    Raises: BundleError (InvalidConfig; RenderLimitExceeded for a file that is too large).
    """
    return [_find_values_file(root, name, f"spec.config.valuesFiles[{index}]") for index, name in enumerate(names)]


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


def scalars_of(value: Any) -> Iterator[str]:
    """Yield the strings and numbers among values, as text; numbers also as Go writes the float64 that it read."""
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
    with suppress(ValueError, OverflowError):  # more digits than Python writes, or too large for a float64
        yield str(number)
        yield write_number(float(number))


def _find_values_file(root: Path, name: str, field: str) -> ValuesFile:
    path = root / name
    if any(part.is_symlink() for part in (path, *path.parents) if part.is_relative_to(root) and part != root):
        problem = f"{quote(name)} is a link, or in a directory that is one; replace it with the file itself"
        raise BundleError(Reason.INVALID_CONFIG, f"{field}: {problem}")
    if not path.is_file():
        problem = f"no file {quote(name)} in the content; use its path from the root, including the destination"
        raise BundleError(Reason.INVALID_CONFIG, f"{field}: {problem}")
    text = read_small(path, f"{field}: {name}", VALUES_BYTES)
    return ValuesFile(text=text, values=read_values(text, f"{field}: {name}"))
