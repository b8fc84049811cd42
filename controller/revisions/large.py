"""Passes over large revisions: their objects are in memory only while there is room, and no longer than a pass.

A pass that needs such a revision while others have the room ends at once, and is woken when its turn has come. Small
ones are kept between passes and cost nothing here.

Not here: making revisions (build/builder.py).
"""

from __future__ import annotations

from collections.abc import Callable

from api.plugins import MEBIBYTE, Limits
from controller.build.revision import Size
from controller.formats.budget import INLINE
from controller.sharing.admission import Admission

_BYTES_PER_BYTE = 4
"""Of memory, for a byte of text in an object that is held: characters beyond the basic plane."""
_BYTES_PER_VALUE = 210
_COPIES = 8 * MEBIBYTE
"""Of the largest object that an API server takes, while it is compared and sent."""
_REVISIONS = 2
"""The wanted one, and the one before it."""


class CrowdedError(Exception):
    """There is no room for a large revision now; the pass is woken when there is."""


class LargeRevisions:
    """Thread-safe.

    Args:
        admission: of the memory.
        limits: of the revisions that are made.
        wake: called with the name of a BundleDeployment whose turn has come.
    """

    def __init__(self, admission: Admission, limits: Limits, wake: Callable[[str], None]) -> None:
        self._admission, self._wake = admission, wake
        # The size of the second one is not known when the first is read.
        self._least = _held(limits.text_bytes, limits.nodes)
        self._entered: dict[str, int] = {}
        """By name, what the large revisions of a pass take."""
        self._needs: dict[str, int] = {}
        """By name, what was asked for: more, where a pass has found out that it needs more, and begins once more."""

    def enter(self, name: str, share: str, size: Size) -> bool:
        """Hold the memory for the revisions of a pass before a large one is unpacked; used by one pass at a time.

        Returns: whether it is large.
        Raises: CrowdedError if the pass has to come back.
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
        """Give the memory back, or the place in the line: the pass holds no large revision any more."""
        self._entered.pop(name, None)
        self._needs.pop(name, None)
        self._admission.release(name)


def _held(text_bytes: int, values: int) -> int:
    return _BYTES_PER_BYTE * text_bytes + _BYTES_PER_VALUE * values
