"""A target: a parser, and what must hold for any bytes.

A target catches declared errors (`BundleError`, `Rejection`, …). Any other exception is a defect, as are broken
invariants and work that is more than linear in the input.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

from rukpak.api.errors import BundleError
from rukpak.controller.content.limits import Rejection
from rukpak.controller.kube.encoding import encode

BASE_SECONDS = 2.0
"""CPU time of any input, such as for garbage collection or the first import of a codec."""
BYTE_SECONDS = 100e-6
"""Additional CPU time per byte, with reserve for instrumentation."""
MESSAGE_CHARACTERS = 32 * 1024
"""Length of a message: a longer one does not fit into a condition."""

_MEMORY_FILES = Path("/dev/shm")  # noqa: S108 - of the kernel, not of a shared folder; without it the usual place


class BrokenError(AssertionError):
    """An invariant is broken. Not an `assert`, which `python -O` removes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A parser under test.

    Args:
        name: of the folder or list of saved inputs.
        check: parses the bytes, and raises only for a defect.
        covers: a description of what is parsed.
        words: of the language, which a fuzzer would not find soon.
    """

    name: str
    check: Callable[[bytes], None]
    covers: str
    words: tuple[bytes, ...] = ()

    def run(self, data: bytes) -> None:
        """Check one input, and that it costs no more than its size allows.

        Raises: any exception that is a defect.
        """
        begun = time.thread_time()
        self.check(data)
        spent = time.thread_time() - begun
        allowed = BASE_SECONDS + BYTE_SECONDS * len(data)
        expect(spent <= allowed, f"{spent:.1f} s of CPU time for {len(data)} bytes")


def expect(is_so: bool, what: str) -> None:
    """Check an invariant.

    Raises: BrokenError, with a description of the invariant.
    """
    if not is_so:
        raise BrokenError(what)


class refusals:  # noqa: N801 - read as a word, like contextlib.suppress
    """Catch declared errors of the code under test, and check their messages.

    Args:
        others: declared exceptions in addition to BundleError and Rejection.
    """

    def __init__(self, *others: type[Exception]) -> None:
        self._declared = (BundleError, Rejection, *others)

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        """Look at what was raised. Returns: whether it is declared."""
        if not isinstance(error, self._declared):
            return False
        check_message(error.message if isinstance(error, BundleError) else str(error))
        return True


def check_message(message: str) -> None:
    """Check that a message fits into a condition."""
    expect(bool(message), "an empty message")
    expect("\r" not in message and "\0" not in message, f"a message with control characters: {message!r}")
    expect(len(message) <= MESSAGE_CHARACTERS, f"a message of {len(message)} characters")
    encode(message)  # status cannot contain lone surrogates


@contextmanager
def scratch() -> Iterator[Path]:
    """Provide an empty folder, in memory if possible."""
    with TemporaryDirectory(dir=_MEMORY_FILES if _MEMORY_FILES.is_dir() else None, prefix="rukpak-fuzz-") as folder:
        yield Path(folder)
