"""The files of a packaged chart, without the folder of its name, so that Chart.yaml is at the root."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from api.errors import BundleError
from api.plugins import Access, Entry
from api.v1alpha2.conditions import Reason
from controller.content.compression import is_compressed
from controller.content.limits import Rejection
from controller.content.tar import read_tar
from controller.sources.http.body import strip_components, without_ignore_file

_HEAD_BYTES = 512
_CHART = "Chart.yaml"


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
