"""Signatures of content: pure functions from bytes and keys to who has signed (`Signer`), or why nobody has.

In: what a source has read, and what `verify` names (`Trusted`). Out: a `Signer`, or `SignatureError`, which says what
is wrong in the words of a condition. Not here: reading signatures from servers, which the kinds of sources do, and when
they are checked (../README.md).

    cosign    signatures of cosign, with keys and without
    git       commits and tags, by OpenPGP and SSH keys
    openpgp   for git, by gpgv, and provenance files of charts
    programs  gpgv and ssh-keygen, confined
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason


class SignatureError(ValueError):
    """A signature that is not accepted: what is wrong, in lower case, without the field path."""


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
