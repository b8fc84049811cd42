"""Signatures of content: pure functions from bytes and keys to who has signed (`Signer`), or why nobody has.

In: what a source has read, and what `verify` names (`Trusted`). Out: a `Signer`, or `SignatureError`, which says what
is wrong in the words of a condition. Not here: reading signatures from servers, which the kinds of sources do, and when
they are checked (../README.md).

    cosign      signatures of cosign, with keys and without
    git         commits and tags, by OpenPGP and SSH keys
    provenance  charts in repositories
    openpgp     for git and provenance, by gpgv
    programs    gpgv and ssh-keygen, confined
    verdicts    errors of sources
"""

from __future__ import annotations


class SignatureError(ValueError):
    """A signature that is not accepted: what is wrong, in lower case, without the field path."""
