"""What is wrong with signatures and keys, as errors of a source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.sources.signatures import SignatureError


class UnusableKeysError(ValueError):
    """The keys of the spec cannot be used. The message has the problem and the remedy, without a field path."""


@contextmanager
def checking(path: str, keys: str, before: str = "") -> Iterator[None]:
    """Translate the exceptions of a block that checks a signature.

    Args:
        path: field path of `verify`.
        keys: of the keys, below that.
        before: what problems start with.

    Raises: BundleError (VerificationFailed, InvalidVerification).
    """
    try:
        yield
    except SignatureError as error:
        raise BundleError(Reason.VERIFICATION_FAILED, f"{before}{error}", place=path) from None
    except UnusableKeysError as error:
        raise BundleError(Reason.INVALID_VERIFICATION, f"{before}{error}", place=f"{path}{keys}") from None
