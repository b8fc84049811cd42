"""What git, curl and ssh complain of: real words of theirs, and the reason for each."""

from __future__ import annotations

import pytest

from api.v1alpha2.conditions import Reason
from controller.sources.git.connection import parse_repository
from controller.sources.git.process import NotServedError, check_served, translate

REPOSITORY = parse_repository("https://example.org:8443/x")
HOST = "https://example.org:8443/x/"
NOT_TRUSTED = "SSL certificate verification failed: The certificate is NOT trusted."

COMPLAINTS = [
    (f"fatal: unable to access '{HOST}': Could not resolve host: example.org", "its name cannot be resolved"),
    (
        f"fatal: unable to access '{HOST}': Failed to connect to x port 1 after 0 ms: Connection refused",
        "refuses the connection",
    ),
    (f"fatal: unable to access '{HOST}': Couldn't connect to server", "refuses the connection"),
    (f"fatal: unable to access '{HOST}': Operation timed out after 1 ms", "it timed out"),
    (f"fatal: unable to access '{HOST}': Operation too slow. Less than 1000 bytes/sec", "it timed out"),
    ("ssh: connect to host h port 22: Connection timed out", "it timed out"),
    ("Timeout, server h not responding.", "it timed out"),
    (f"fatal: unable to access '{HOST}': The requested URL returned error: 429", "limits the rate of requests"),
    (f"fatal: unable to access '{HOST}': The requested URL returned error: 502", "returned a server error"),
    ("error: RPC failed; curl 18 transfer closed with outstanding read data remaining", "was closed"),
    ("fetch-pack: unexpected disconnect while reading sideband packet\nfatal: early EOF", "was closed"),
    ("fatal: something that nobody knows yet", "was closed"),
    ("server certificate verification failed. CAfile: none CRLfile: none", Reason.TLS_VERIFICATION_FAILED),
    ("SSL certificate problem: self-signed certificate", Reason.TLS_VERIFICATION_FAILED),
    ("SSL certificate problem: certificate has expired", "has a certificate that has expired by the clock of this"),
    ("SSL certificate problem: certificate is not yet valid", "has a certificate that is not valid yet by the clock"),
    (
        f"{NOT_TRUSTED} The certificate chain uses expired certificate.  (CAfile: /x CRLfile: none)",
        "has a certificate that has expired by the clock",
    ),
    (
        f"{NOT_TRUSTED} The certificate chain uses not yet valid certificate.  (CAfile: /x CRLfile: none)",
        "has a certificate that is not valid yet by the clock",
    ),
    ("server certificate expiration date has passed.", "has a certificate that has expired by the clock"),
    ("server certificate not activated yet.", "has a certificate that is not valid yet by the clock"),
    ("SSL: no alternative certificate subject name matches target host name 'h'", Reason.TLS_VERIFICATION_FAILED),
    ("gnutls_handshake() failed: An unexpected TLS packet was received.", "the TLS handshake failed"),
    (f"fatal: could not read Username for '{HOST}': terminal prompts disabled", Reason.UNAUTHORIZED),
    (f"fatal: Authentication failed for '{HOST}'", Reason.UNAUTHORIZED),
    ("The requested URL returned error: 403", Reason.UNAUTHORIZED),
    ("git@h: Permission denied (publickey).\nfatal: Could not read from remote repository.", Reason.UNAUTHORIZED),
    (f"fatal: repository '{HOST}' not found", Reason.NOT_FOUND),
    ("ERROR: Repository not found.\nfatal: Could not read from remote repository.", Reason.NOT_FOUND),
    ("fatal: '/x' does not appear to be a git repository", Reason.NOT_FOUND),
    (f"fatal: {HOST}info/refs not valid: is this a git repository?", Reason.NOT_FOUND),
    ("The requested URL returned error: 301", Reason.INSECURE_REFUSED),
    ('Protocol "http" not supported or disabled in libcurl', Reason.INSECURE_REFUSED),
    (
        "@@@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @@@\nHost key verification failed.",
        Reason.HOST_KEY_MISMATCH,
    ),
    ("No ED25519 host key is known for h and you have requested strict checking.", Reason.HOST_KEY_UNKNOWN),
    ('Load key "/x": error in libcrypto', Reason.SECRET_INVALID),
    ("fatal: dumb http transport does not support shallow capabilities", Reason.UNSUPPORTED_CONTENT),
    ("fatal: write error: No space left on device", Reason.STORAGE_FULL),
    ("fatal: Out of memory, malloc failed (tried to allocate 1 bytes)", Reason.CONTENT_REJECTED),
    ("error: object 1: hasDotgit: contains '.git'\nfatal: fsck error in packed object", Reason.CONTENT_REJECTED),
    ("fatal: pack is corrupted (SHA1 mismatch)", Reason.DIGEST_MISMATCH),
    ("fatal: inflate: data stream error (incorrect data check)", Reason.DIGEST_MISMATCH),
]


@pytest.mark.parametrize(("complaint", "expected"), COMPLAINTS, ids=[row[0][-70:] for row in COMPLAINTS])
def test_complaints(complaint: str, expected: Reason | str) -> None:
    error = translate(complaint, REPOSITORY, "spec.sources[0].git")
    subject = "spec.sources[0].git.repository: "
    if isinstance(expected, Reason):
        assert error.reason is expected
        assert error.message.startswith(f'{subject}"example.org:8443" ')
    elif expected.startswith("has a certificate that"):
        assert error.reason is Reason.TLS_VERIFICATION_FAILED
        assert error.message.startswith(f'{subject}"example.org:8443" {expected}')
    else:
        assert error.reason is Reason.UNREACHABLE
        assert error.message.startswith(f'{subject}cannot read from "example.org:8443": ')
        assert expected in error.message


@pytest.mark.parametrize(
    ("complaint", "is_absent"),
    [
        ("fatal: remote error: upload-pack: not our ref 1234", True),
        ("error: Server does not allow request for unadvertised object 1234", False),
        ("fatal: remote error: want 1234 not valid", False),
    ],
)
def test_an_object_that_is_not_served(complaint: str, is_absent: bool) -> None:
    with pytest.raises(NotServedError) as caught:
        check_served(complaint)
    assert caught.value.is_absent is is_absent


def test_other_complaints_say_nothing_about_the_object() -> None:
    check_served("fatal: early EOF")


def test_what_a_server_dictates_decides_nothing() -> None:
    complaint = "remote: Host key verification failed\nfatal: Authentication failed for 'x'"
    assert translate(complaint, REPOSITORY, "spec").reason is Reason.UNAUTHORIZED
