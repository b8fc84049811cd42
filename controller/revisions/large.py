"""Passes over large revisions: their objects are in memory only while there is room, and only during a pass.

A pass that needs such a revision while there is no room ends immediately, and is woken when it is its turn. Small
revisions are kept between passes and need no room.
"""

from __future__ import annotations

from collections.abc import Callable

from rukpak.api.plugins import MEBIBYTE, Limits
from rukpak.controller.building.revision import Size
from rukpak.controller.formats.manifests import INLINE
from rukpak.controller.sharing import Admission

_BYTES_PER_BYTE = 4
"""Bytes of memory for a byte of text: Python stores characters beyond the basic plane in 4 bytes."""
_BYTES_PER_VALUE = 210
_COPIES = 8 * MEBIBYTE
"""Size of the largest object that an API server accepts, while it is compared and sent."""
_REVISIONS = 2
"""The wanted and the previous one."""


class CrowdedError(Exception):
    """There is no room for a large revision now; the pass is woken when there is some."""


class LargeRevisions:
    """Thread-safe.

    Args:
        admission: of the memory.
        limits: of one revision.
        wake: called with the name of a BundleDeployment when it is its turn.
    """

    def __init__(self, admission: Admission, limits: Limits, wake: Callable[[str], None]) -> None:
        self._admission, self._wake = admission, wake
        # The size of the second one is not known when the first is read.
        self._least = _held(limits.text_bytes, limits.nodes)
        self._entered: dict[str, int] = {}
        """By name, the bytes that the large revisions of a pass take."""
        self._needs: dict[str, int] = {}
        """By name, the bytes that were asked for: a pass that finds that it needs more starts again."""

    def enter(self, name: str, share: str, size: Size) -> bool:
        """Hold memory for a revision before it is unpacked, if it is large; one pass at a time for each name.

        Returns: whether it is large.
        Raises: CrowdedError if the pass must end and come back.
        """
        if size.text_bytes <= INLINE.text_bytes and size.values <= INLINE.nodes:
            return False
        self._entered[name] = self._entered.get(name, 0) + _held(size.text_bytes, size.values)
        needs = max(self._entered[name], _REVISIONS * self._least) + _COPIES
        if needs > self._needs.get(name, 0):
            self._admission.release(name)
            self._needs[name] = needs
        if not self._admission.ask(name, share, self._needs[name], lambda: self._wake(name)):
            del self._entered[name]
            raise CrowdedError
        return True

    def leave(self, name: str) -> None:
        """Release the memory, or the place in the queue, of a pass that has ended."""
        self._entered.pop(name, None)
        self._needs.pop(name, None)
        self._admission.release(name)


def _held(text_bytes: int, values: int) -> int:
    return _BYTES_PER_BYTE * text_bytes + _BYTES_PER_VALUE * values
