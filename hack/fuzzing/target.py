"""A target: a parser, and what has to hold for any bytes.

What is declared (`BundleError`, `Rejection`, …) a target catches; whatever else comes out of it is a defect, and so are
a broken invariant, and work that is more than linear in the input.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

from api.errors import BundleError
from controller.content.limits import Rejection
from controller.kube.encoding import encode

BASE_SECONDS = 2.0
"""What any input may cost in processor time: a collection of garbage, the first import of a codec."""
BYTE_SECONDS = 100e-6
"""What each byte of it may cost on top, with room for instrumentation."""
MESSAGE_CHARACTERS = 32 * 1024
"""Of one failure: what is longer fits no condition."""

_MEMORY_FILES = Path("/dev/shm")  # noqa: S108 - of the kernel, not of a shared folder; without it the usual place


class BrokenError(AssertionError):
    """What has to hold does not. Not an `assert`, which `python -O` leaves out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A parser under test.

    Args:
        name: of the folder or list of kept inputs.
        check: parses the bytes and raises nothing unless there is a defect.
        covers: what is parsed, for a person.
        words: of the language, that a fuzzer would not come by soon.
    """

    name: str
    check: Callable[[bytes], None]
    covers: str
    words: tuple[bytes, ...] = ()

    def run(self, data: bytes) -> None:
        """Check one input, and that it costs no more than its size allows.

        Raises: whatever is a defect.
        """
        begun = time.thread_time()
        self.check(data)
        spent = time.thread_time() - begun
        allowed = BASE_SECONDS + BYTE_SECONDS * len(data)
        expect(spent <= allowed, f"{spent:.1f} s of CPU time for {len(data)} bytes")


def expect(is_so: bool, what: str) -> None:
    """Raise BrokenError with what does not hold."""
    if not is_so:
        raise BrokenError(what)


class refusals:  # noqa: N801 - read as a word, like contextlib.suppress
    """Take what the code under test may refuse, as it may be told, and nothing else.

    Args:
        others: exceptions that are declared besides BundleError and Rejection.
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
    """Check that a condition can hold a message."""
    expect(bool(message), "an empty message")
    expect("\r" not in message and "\0" not in message, f"a message with control characters: {message!r}")
    expect(len(message) <= MESSAGE_CHARACTERS, f"a message of {len(message)} characters")
    encode(message)  # lone surrogates do not get into status


@contextmanager
def scratch() -> Iterator[Path]:
    """Hand out an empty folder, in memory where there is such a place."""
    with TemporaryDirectory(dir=_MEMORY_FILES if _MEMORY_FILES.is_dir() else None, prefix="rukpak-fuzz-") as folder:
        yield Path(folder)
