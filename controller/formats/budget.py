"""Budgets for the text that a format parses: bytes of one file, bytes and values of one revision.

The memory that parsing needs was measured, so that it can be reserved in advance (sharing.py). Text with
characters outside the basic plane needs 4 bytes for each, and three copies exist while it is parsed, made applicable or
compressed. A value needs 300 bytes while it is created and 210 afterwards: measured with JSON mappings of short
strings, the worst of the shapes tried.

formats/yaml/composer.py counts the values.
"""

from __future__ import annotations

from pathlib import Path

from api.errors import BundleError
from api.plugins import MEBIBYTE, Limits, Means
from api.v1alpha2.conditions import Reason
from controller.content.limits import describe_bytes, quote
from controller.formats.yaml.composer import ALIAS_ALLOWANCE, ALIAS_RATIO, NodeBudget, OverBudgetError

BYTES_PER_BYTE = 12
"""Memory per byte of text while it becomes a revision."""
BYTES_PER_VALUE = 320
"""Memory per value."""
INLINE = Limits(manifest_bytes=4 * MEBIBYTE, text_bytes=4 * MEBIBYTE, nodes=100_000)
"""Limits for parsing in the controller's own process; a child takes 0.3 s to start."""


class LargeTextError(Exception):
    """There is more text than this process may parse; `size` is the number of bytes charged so far."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


def estimate(text_bytes: int, limits: Limits) -> int:
    """Return the maximum memory, in bytes, for rendering that much text to a revision."""
    text = min(text_bytes, limits.text_bytes)
    values = text // 2 * (1 + ALIAS_RATIO) + ALIAS_ALLOWANCE  # at least a digit and a comma each
    return BYTES_PER_BYTE * text + BYTES_PER_VALUE * min(values, limits.nodes)


class TextBudget(NodeBudget):
    """What may still be parsed for one revision. All text is charged before it is read.

    Args:
        limits: of one file, of all files, and of their values.
        inline: raise LargeTextError above INLINE.
    """

    __slots__ = ("_charged", "_inline", "_limits")

    def __init__(self, limits: Limits, *, inline: bool = False) -> None:
        nodes = min(limits.nodes, INLINE.nodes) if inline else limits.nodes
        super().__init__(nodes, _remedy(limits), limits.text_bytes)
        self._limits, self._inline, self._charged = limits, inline, 0

    @classmethod
    def of(cls, means: Means) -> TextBudget:
        """Return the budget of one rendering."""
        return cls(means.limits, inline=means.inline)

    def read(self, path: Path, file: str) -> bytes:
        """Return the bytes of a file, which messages name `file`.

        Raises: BundleError (RenderLimitExceeded), LargeTextError.
        """
        self.charge_text(path.stat().st_size, file)
        return path.read_bytes()

    def charge_text(self, size: int, file: str, *, is_manifest: bool = True) -> None:
        """Deduct `size` bytes of text, which messages name `file`.

        The limit for one file applies to a text that `is_manifest`, not to one that combines many files.

        Raises: BundleError (RenderLimitExceeded), LargeTextError.
        """
        limits = self._limits
        self._charged += size
        if is_manifest and size > limits.manifest_bytes:
            raise _exceeded(file, f"exceeds the limit of {describe_bytes(limits.manifest_bytes)} for one file", limits)
        if self._charged > limits.text_bytes:
            problem = f"exceeds the limit of {describe_bytes(limits.text_bytes)} for all files"
            raise _exceeded(file, problem, limits)
        if self._inline and self._charged > INLINE.text_bytes:
            raise LargeTextError(self._charged)

    def exceeded(self, line: int) -> OverBudgetError:
        """Return the error for too many values.

        Raises: LargeTextError if they are too many only for this process.
        """
        if self._inline and self._limits.nodes > INLINE.nodes:
            raise LargeTextError(self._charged)
        return super().exceeded(line)


def read_small(path: Path, place: str, most: int) -> bytes:
    """Return the bytes of a file other than a manifest, at most `most`; messages start with `place`.

    Raises: BundleError (RenderLimitExceeded).
    """
    if path.stat().st_size > most:
        problem = f"exceeds the limit of {describe_bytes(most)} for this file; make it smaller"
        raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{place}: {problem}")
    return path.read_bytes()


def _exceeded(file: str, problem: str, limits: Limits) -> BundleError:
    return BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{quote(file)}: {problem}; {_remedy(limits)}")


def _remedy(limits: Limits) -> str:
    is_usual = limits.text_bytes >= Limits().text_bytes and limits.nodes >= Limits().nodes
    return "split the bundle" if is_usual else "split the bundle or give the controller more memory"
