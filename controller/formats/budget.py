"""How much text a format may parse: bytes of one file, bytes and values of all that makes one revision.

What parsing takes is measured, so that memory can be held before it is used (sharing/memory.py). A text with characters
beyond the basic plane takes 4 bytes for each, and three copies of it exist while it is parsed, made applicable or
compressed. A value takes 210 bytes for as long as the revision is worked on, and 300 while it is made: that is for a
JSON mapping of short texts, the worst of the shapes that were tried.

Not here: counting values (formats/yaml/composer.py), which file is read (the formats).
"""

from __future__ import annotations

from pathlib import Path

from api.errors import BundleError
from api.plugins import MEBIBYTE, Limits, Means
from api.v1alpha2.conditions import Reason
from controller.content.limits import describe_bytes, quote
from controller.formats.yaml.composer import ALIAS_ALLOWANCE, ALIAS_RATIO, NodeBudget, OverBudgetError

BYTES_PER_BYTE = 12
"""Of memory, for a byte of text while it becomes a revision."""
BYTES_PER_VALUE = 320
"""Of memory, for each value."""
INLINE = Limits(manifest_bytes=4 * MEBIBYTE, text_bytes=4 * MEBIBYTE, nodes=100_000)
"""What is parsed in the process of the controller: another one takes 0.3 s to start."""


class LargeTextError(Exception):
    """There is more text than may be parsed in this process.

    Args:
        size: bytes that were asked for until now.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


def estimate(text_bytes: int, limits: Limits) -> int:
    """Return how many bytes of memory it takes at most to make a revision of so much text."""
    text = min(text_bytes, limits.text_bytes)
    values = text // 2 * (1 + ALIAS_RATIO) + ALIAS_ALLOWANCE  # at least a digit and a comma each
    return BYTES_PER_BYTE * text + BYTES_PER_VALUE * min(values, limits.nodes)


class TextBudget(NodeBudget):
    """What may still be parsed for one revision. Every text is charged before it is read.

    Args:
        limits: of one file, of all, and of their values.
        inline: raise LargeTextError for more than INLINE.
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
        """Return the bytes of a file, which messages call `file`.

        Raises: BundleError (RenderLimitExceeded), LargeTextError.
        """
        self.charge_text(path.stat().st_size, file)
        return path.read_bytes()

    def charge_text(self, size: int, file: str, *, is_manifest: bool = True) -> None:
        """Take the bytes of a text away.

        Args:
            size: bytes.
            file: its name in messages.
            is_manifest: whether it is one file, and not many in one text.

        Raises: BundleError (RenderLimitExceeded), LargeTextError.
        """
        limits = self._limits
        self._charged += size
        if is_manifest and size > limits.manifest_bytes:
            raise _exceeded(file, f"is over the budget of {describe_bytes(limits.manifest_bytes)} for one file", limits)
        if self._charged > limits.text_bytes:
            problem = f"brings what is parsed over the budget of {describe_bytes(limits.text_bytes)}"
            raise _exceeded(file, problem, limits)
        if self._inline and self._charged > INLINE.text_bytes:
            raise LargeTextError(self._charged)

    def exceeded(self, line: int) -> OverBudgetError:
        """Return the refusal of what has too many values.

        Raises: LargeTextError if that is too many for this process alone.
        """
        if self._inline and self._limits.nodes > INLINE.nodes:
            raise LargeTextError(self._charged)
        return super().exceeded(line)


def read_small(path: Path, place: str, most: int) -> bytes:
    """Return the bytes of a file that is parsed beside the manifests.

    Args:
        path: of the file.
        place: what messages begin with.
        most: bytes that it may have.

    Raises: BundleError (RenderLimitExceeded).
    """
    if path.stat().st_size > most:
        problem = f"is over the budget of {describe_bytes(most)} for a file of its kind; make it smaller"
        raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{place}: {problem}")
    return path.read_bytes()


def _exceeded(file: str, problem: str, limits: Limits) -> BundleError:
    return BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{quote(file)}: {problem}; {_remedy(limits)}")


def _remedy(limits: Limits) -> str:
    is_usual = limits.text_bytes >= Limits().text_bytes and limits.nodes >= Limits().nodes
    return "split the bundle" if is_usual else "split the bundle, or give the controller more memory"
