"""The chart that the parameters of a source ask for, which of its versions that is, and the files of its archive.

The files are without the folder of the chart's name, so that Chart.yaml is at the root.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from api.errors import BundleError
from api.plugins import Access, Entry, Resolution
from api.v1alpha2.conditions import Reason
from controller.content.compression import is_compressed
from controller.content.limits import Rejection, quote
from controller.content.tar import read_tar
from controller.sources.http.source import strip_components, without_ignore_file
from controller.sources.versions.ranges import Range
from controller.sources.versions.selection import Check, Choice, checked, similar
from controller.sources.versions.version import parse_loosely, parse_version

_SHA256 = re.compile(r"[0-9a-f]{64}")
_HEAD_BYTES = 512
_CHART = "Chart.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartRequest:
    """A chart, as the spec names it."""

    name: str
    version: str
    """Exact, or a range; '' for the highest release."""
    digest: str
    """Of the packaged chart; '' for any."""

    @property
    def is_exact(self) -> bool:
        """Whether the spec names one version, which no downgrade guard refuses."""
        return parse_version(self.version) is not None

    def choose(self, versions: Iterable[str], path: str, check: Check) -> str:
        """Return the version to use, as Helm chooses it: the one that is named, else the highest in the range.

        Args:
            versions: those of the chart; read once, and not kept.
            path: of the source in the spec; starts messages.
            check: called often; raises to stop.

        Raises: BundleError (NotFound, with the nearest versions).
        """
        choice, is_named = Choice(Range(self.version), parse_loosely), False
        for version in checked(versions, check):
            is_named = is_named or version == self.version
            choice.see(version)
        if is_named:
            return self.version
        if choice.highest:
            return choice.highest
        problem = f"chart {quote(self.name)} has {self._describe_lack()}; {choice.describe_nearest()}"
        raise BundleError(Reason.NOT_FOUND, f"{path}.version: {problem}; correct it, or publish a version")

    def _describe_lack(self) -> str:
        if not self.version:
            return "no version that is not a pre-release"
        return (
            f"no version {quote(self.version)}" if self.is_exact else f"no version in the range {quote(self.version)}"
        )

    def unknown(self, names: Iterable[str], path: str, check: Check) -> BundleError:
        """Return the error for a repository without the chart, with similar names among those that it has."""
        close = similar(self.name, names, check)
        told = f"; similar names are {', '.join(map(quote, close))}" if close else ""
        problem = f"the repository has no chart {quote(self.name)}{told}"
        return BundleError(Reason.NOT_FOUND, f"{path}.name: {problem}; correct it, or publish the chart")

    def pin(self, repository: str, version: str, digest: str, validator: str = "") -> Resolution:
        """Return the resolution for one version of the chart."""
        chosen = "" if self.is_exact else version
        pinned = f"{repository}/{self.name}:{version}@{digest}"
        return Resolution(pinned=pinned, digest=digest, version=chosen, validator=validator, reference=version)


def parse_request(parameters: Mapping[str, Any]) -> ChartRequest:
    """Return what valid parameters ask for."""
    sha256 = parameters.get("sha256") or ""
    return ChartRequest(
        name=parameters["name"],
        version=parameters.get("version") or "",
        digest=f"sha256:{sha256}" if sha256 else "",
    )


def request_problems(parameters: Mapping[str, Any], path: str) -> list[str]:
    """Return what is wrong with version and sha256, each with its field path below `path`."""
    problems = []
    version, sha256 = parameters.get("version") or "", parameters.get("sha256") or ""
    try:
        Range(version)
    except ValueError as error:
        problems.append(f"{path}.version: {quote(version)} {error}")
    if sha256 and not _SHA256.fullmatch(sha256):
        problems.append(f"{path}.sha256: {quote(sha256)} is not 64 hexadecimal digits; correct it")
    return problems


def pinned_version(resolution: Resolution) -> str:
    """Return the version that a resolution names."""
    return resolution.pinned.rpartition("@")[0].rpartition(":")[2]


def read_chart(file: BinaryIO, access: Access) -> Iterator[Entry]:
    """Yield the entries of a packaged chart, which is verified already.

    Raises: BundleError (ContentRejected; UnsupportedContent for anything else than a packaged chart).
    """
    head = file.read(_HEAD_BYTES)
    file.seek(0)
    if not is_compressed(head):
        raise _unsupported(access, "is not a tar archive with gzip")
    has_chart = False
    try:
        for entry in strip_components(without_ignore_file(read_tar(file, access.limits)), 1, access.limits):
            has_chart = has_chart or entry.path == _CHART
            yield entry
    except Rejection as rejection:  # by the reader, or thrown by the writer
        raise rejection.at(access.path) from None
    if not has_chart:
        raise _unsupported(access, f"has no {_CHART} in its folder")


def _unsupported(access: Access, problem: str) -> BundleError:
    message = f'{access.path}: the packaged chart {problem}; publish what "helm package" writes'
    return BundleError(Reason.UNSUPPORTED_CONTENT, message)
