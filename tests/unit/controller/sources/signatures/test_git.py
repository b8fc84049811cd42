"""Commits and tags whose signatures are accepted, and those that are not, made by git with gpg and ssh-keygen."""

from __future__ import annotations

import base64
import hashlib
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from rukpak.api.plugins import Access, Signer
from rukpak.controller.sources.signatures import SignatureError, UnusableKeysError
from rukpak.controller.sources.signatures.git import OBJECT_BYTES, Keys, read_commit, read_keys, read_tag, verify
from tests.support.git_servers import GitRepository
from tests.support.signing import GpgHome, SshKey, gpg_home, read_object, sign_commit, sign_tag

PATH = "spec.sources[0].git"
NOW = time.time()


@pytest.fixture(scope="module")
def gpg(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpgHome]:
    with gpg_home(tmp_path_factory.mktemp("g") / "h") as home:
        home.make_key()
        yield home


@pytest.fixture
def ssh(tmp_path: Path) -> SshKey:
    return SshKey.make(tmp_path / "key")


@pytest.fixture(params=["sha1", "sha256"])
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> GitRepository:
    return repository_of(tmp_path, request.param)


def repository_of(tmp_path: Path, algorithm: str = "sha1") -> GitRepository:
    repository = GitRepository(tmp_path / "repository.git", algorithm=algorithm)
    repository.commit({"a.yaml": b"a: 1\n"})
    return repository


def check_commit(name: str, data: bytes, keys: Keys, access: Access) -> Signer:
    return verify(read_commit(name, data), keys, access, now=NOW)


def check_ssh(tmp_path: Path, key: SshKey, allowed: bytes, access: Access) -> Signer:
    repository = repository_of(tmp_path)
    commit = sign_commit(repository, key)
    return check_commit(commit, read_object(repository, commit), Keys(allowed_signers=allowed), access)


def named(kind: str, data: bytes, algorithm: str = "sha1") -> str:
    return hashlib.new(algorithm, b"%s %d\0%s" % (kind.encode(), len(data), data)).hexdigest()


# what is accepted


def test_a_commit_that_gpg_has_signed(repository: GitRepository, gpg: GpgHome, access: Access) -> None:
    commit = sign_commit(repository, gpg)
    keys = read_keys({"a.asc": gpg.export(), "other": b"x"})
    signer = check_commit(commit, read_object(repository, commit), keys, access)
    assert signer == Signer(by="pgp", key=gpg.fingerprints()[0], identity="shop <shop@example.org>")


def test_a_commit_that_ssh_has_signed(repository: GitRepository, ssh: SshKey, access: Access) -> None:
    commit = sign_commit(repository, ssh)
    keys = read_keys({"allowed_signers": b"# of shop\n\n" + ssh.allowed()})
    signer = check_commit(commit, read_object(repository, commit), keys, access)
    assert (signer.by, signer.identity) == ("ssh", "shop@example.org")
    assert (
        signer.key
        in subprocess.run(["ssh-keygen", "-l", "-f", ssh.path], check=True, capture_output=True).stdout.decode()
    )


def test_tags_that_are_signed(repository: GitRepository, gpg: GpgHome, ssh: SshKey, access: Access) -> None:
    keys = read_keys({"a.asc": gpg.export(), "allowed_signers": ssh.allowed()})
    commit = repository.git("rev-parse", "main")
    for signer, name, by in ((gpg, "v1", "pgp"), (ssh, "v2", "ssh")):
        tag = sign_tag(repository, signer, name)
        signed = read_tag(tag, read_object(repository, tag), tag=name, commit=commit)
        assert verify(signed, keys, access, now=NOW).by == by


@pytest.mark.parametrize(
    "options",
    [
        ["rsa", "-b", "2048"],
        ["ecdsa", "-b", "256"],
        ["ecdsa", "-b", "384"],
        ["ecdsa", "-b", "521"],
    ],
    ids=" ".join,
)
def test_a_key_of_ssh_of_each_type(tmp_path: Path, access: Access, options: list[str]) -> None:
    key = SshKey.make(tmp_path / "key", *options)
    assert check_ssh(tmp_path, key, key.allowed(), access).by == "ssh"


def string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def integer(value: int) -> bytes:
    return string(value.to_bytes(value.bit_length() // 8 + 1))


APPLICATION = b"ssh:"


def sign_with_hardware(algorithm: str, payload: bytes) -> tuple[str, bytes]:
    """Return a public key and a signature as a security key makes it (PROTOCOL.u2f, PROTOCOL.sshsig of OpenSSH)."""
    message = b"SSHSIG" + string(b"git") + string(b"") + string(b"sha512") + string(hashlib.sha512(payload).digest())
    counter = struct.pack(">BI", 1, 7)
    signed = hashlib.sha256(APPLICATION).digest() + counter + hashlib.sha256(message).digest()
    if algorithm == "ed25519":
        kind, key = b"sk-ssh-ed25519@openssh.com", ed25519.Ed25519PrivateKey.generate()
        public = string(kind) + string(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
        signature = key.sign(signed)
    else:
        kind, own = b"sk-ecdsa-sha2-nistp256@openssh.com", ec.generate_private_key(ec.SECP256R1())
        point = own.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        public = string(kind) + string(b"nistp256") + string(point)
        signature = b"".join(map(integer, decode_dss_signature(own.sign(signed, ec.ECDSA(hashes.SHA256())))))
    public += string(APPLICATION)
    blob = string(kind) + string(signature) + counter
    whole = (
        b"SSHSIG"
        + struct.pack(">I", 1)
        + string(public)
        + string(b"git")
        + string(b"")
        + string(b"sha512")
        + string(blob)
    )
    lines = b"-----BEGIN SSH SIGNATURE-----\n" + base64.encodebytes(whole) + b"-----END SSH SIGNATURE-----"
    return f"{kind.decode()} {base64.b64encode(public).decode()}", lines


@pytest.mark.parametrize("algorithm", ["ed25519", "ecdsa"])
def test_a_key_in_hardware(tmp_path: Path, access: Access, algorithm: str) -> None:
    repository = repository_of(tmp_path)
    payload = read_object(repository, repository.git("rev-parse", "main"))
    public, signature = sign_with_hardware(algorithm, payload)
    data = with_header(payload, b"gpgsig", signature)
    keys = Keys(allowed_signers=f"shop@example.org {public}\n".encode())
    assert check_commit(named("commit", data), data, keys, access).by == "ssh"


def with_header(data: bytes, key: bytes, value: bytes) -> bytes:
    head, _, body = data.partition(b"\n\n")
    return b"%s\n%s %s\n\n%s" % (head, key, value.strip().replace(b"\n", b"\n "), body)


def test_a_signature_whose_last_line_is_empty(tmp_path: Path, gpg: GpgHome, ssh: SshKey, access: Access) -> None:
    """As in what GitHub signs itself."""
    repository = repository_of(tmp_path)
    keys = read_keys({"a.asc": gpg.export(), "allowed_signers": ssh.allowed()})
    for name in (sign_commit(repository, gpg), sign_commit(repository, ssh)):
        data = read_object(repository, name).replace(b" SIGNATURE-----\n\n", b" SIGNATURE-----\n \n\n")
        assert named("commit", data) != name
        assert check_commit(named("commit", data), data, keys, access).by in ("pgp", "ssh")


def test_a_merge_of_a_signed_tag(tmp_path: Path, gpg: GpgHome, ssh: SshKey, access: Access) -> None:
    """The tag with its signature is a header of the commit, and part of what is signed."""
    repository = repository_of(tmp_path)
    tag = read_object(repository, sign_tag(repository, gpg, "v1")).rstrip(b"\n")
    merge = with_header(read_object(repository, repository.git("rev-parse", "main")), b"mergetag", tag)
    unsigned = repository.git("hash-object", "-w", "-t", "commit", "--stdin", stdin=merge)
    with pytest.raises(SignatureError, match="the commit is not signed"):
        read_commit(unsigned, merge)
    signed = with_header(merge, b"gpgsig", gpg.sign(merge))
    assert check_commit(named("commit", signed), signed, read_keys({"a.asc": gpg.export()}), access).by == "pgp"
    stripped = with_header(read_object(repository, repository.git("rev-parse", "main")), b"gpgsig", gpg.sign(merge))
    with pytest.raises(SignatureError, match="the signature is of something else"):
        check_commit(named("commit", stripped), stripped, read_keys({"a.asc": gpg.export()}), access)


def test_a_commit_in_two_formats_has_a_signature_of_each(tmp_path: Path, gpg: GpgHome, access: Access) -> None:
    """Each is of the commit without both (gitformat-signature of git's transition to SHA-256)."""
    repository = repository_of(tmp_path)
    payload = read_object(repository, repository.git("rev-parse", "main"))
    data = with_header(with_header(payload, b"gpgsig", gpg.sign(payload)), b"gpgsig-sha256", gpg.sign(b"of the other"))
    assert check_commit(named("commit", data), data, read_keys({"a.asc": gpg.export()}), access).by == "pgp"


def test_messages_and_encodings_as_people_have_them(tmp_path: Path, gpg: GpgHome, access: Access) -> None:
    repository = repository_of(tmp_path)
    base = read_object(repository, repository.git("rev-parse", "main")).partition(b"\n\n")[0]
    keys = read_keys({"a.asc": gpg.export()})
    for payload in (
        base + b"\n\n",
        base + b"\n\nfirst\n\nsecond\n",
        base + b"\n\nends of lines\r\nof windows\r\n",
        base + b"\nencoding ISO-8859-1\n\n\xe4\xf6\n",
        base + b"\n\n-----BEGIN PGP SIGNATURE-----\n\nx\n-----END PGP SIGNATURE-----\n",
        base + b"\n\n \n gpgsig x\n",
    ):
        data = with_header(payload, b"gpgsig", gpg.sign(payload).replace(b"\n", b"\r\n"))
        assert check_commit(named("commit", data), data, keys, access).by == "pgp"


# what is refused


def test_an_unsigned_commit_and_tag(repository: GitRepository) -> None:
    commit = repository.git("rev-parse", "main")
    tag = repository.tag("v1", commit)
    with pytest.raises(SignatureError, match="the commit is not signed; sign it, or set object: Tag"):
        read_commit(commit, read_object(repository, commit))
    with pytest.raises(SignatureError, match="the tag is not signed; sign it, or set object: Commit"):
        read_tag(tag, read_object(repository, tag), tag="v1", commit=commit)


def test_a_signature_that_was_copied_from_another_commit(
    tmp_path: Path, gpg: GpgHome, ssh: SshKey, access: Access
) -> None:
    repository = repository_of(tmp_path)
    keys = read_keys({"a.asc": gpg.export(), "allowed_signers": ssh.allowed()})
    signed = [
        read_commit(name, read_object(repository, name))
        for name in (sign_commit(repository, gpg), sign_commit(repository, ssh))
    ]
    other = read_object(repository, repository.commit({"a.yaml": b"a: 2\n"}))
    for each in signed:
        data = with_header(other, b"gpgsig", each.signature)
        with pytest.raises(SignatureError, match="the signature is of something else"):
            check_commit(named("commit", data), data, keys, access)


def test_an_old_tag_that_is_served_under_a_new_name(tmp_path: Path, gpg: GpgHome) -> None:
    repository = repository_of(tmp_path)
    old = sign_tag(repository, gpg, "v1")
    with pytest.raises(SignatureError, match='the tag was made as "v1"'):
        read_tag(old, read_object(repository, old), tag="v2", commit=repository.git("rev-parse", "main"))


def test_a_tag_of_another_commit_or_of_a_tag(tmp_path: Path, gpg: GpgHome) -> None:
    repository = repository_of(tmp_path)
    commit = repository.git("rev-parse", "main")
    inner = sign_tag(repository, gpg, "inner")
    outer = sign_tag(repository, gpg, "outer", "refs/tags/inner")
    for name, tag, target in ((inner, "inner", "0" * 40), (outer, "outer", commit), (outer, "outer", inner)):
        with pytest.raises(SignatureError, match="the tag is not one of the commit itself"):
            read_tag(name, read_object(repository, name), tag=tag, commit=target)


def test_an_object_that_is_not_what_its_name_says(repository: GitRepository, gpg: GpgHome) -> None:
    commit = sign_commit(repository, gpg)
    other = read_object(repository, repository.commit({"a.yaml": b"a: 2\n"}))
    with pytest.raises(SignatureError, match="the commit is not what its name says"):
        read_commit(commit, other)


TREE, WHO = b"tree " + b"0" * 40 + b"\n", b"t <t@example.org> 1700000000 +0000\n"
AUTHOR, COMMITTER = b"author " + WHO, b"committer " + WHO
SIGNATURE = b"gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n"


@pytest.mark.parametrize(
    "data",
    [
        TREE + TREE + AUTHOR + COMMITTER + SIGNATURE + b"\n",
        TREE + AUTHOR + COMMITTER + SIGNATURE + TREE + b"\n",
        AUTHOR + TREE + COMMITTER + SIGNATURE + b"\n",
        TREE + COMMITTER + SIGNATURE + b"\n",
        TREE + AUTHOR + COMMITTER + SIGNATURE + SIGNATURE + b"\n",
        TREE + AUTHOR + COMMITTER + SIGNATURE + COMMITTER + b"\n",
        TREE + AUTHOR + b"committer t\n" + SIGNATURE + b"\n",
        TREE + AUTHOR + COMMITTER + b"x\0y z\n" + SIGNATURE + b"\n",
        TREE + AUTHOR + COMMITTER + b"novalue\n" + SIGNATURE + b"\n",
        b" " + TREE + AUTHOR + COMMITTER + SIGNATURE + b"\n",
        b"\n" + TREE + AUTHOR + COMMITTER + SIGNATURE + b"\n",
        TREE + AUTHOR + COMMITTER + SIGNATURE,
        b"",
        TREE + AUTHOR + COMMITTER + SIGNATURE + b"\n" + b"x" * OBJECT_BYTES,
    ],
    ids=[
        "two trees",
        "a second tree after the signature",
        "another order",
        "no author",
        "two signatures",
        "two committers",
        "no time",
        "a NUL",
        "a header without a value",
        "it begins with a continuation",
        "it begins with an empty line",
        "no empty line",
        "empty",
        "too large",
    ],
)
def test_a_commit_that_git_does_not_write(data: bytes) -> None:
    with pytest.raises(SignatureError):
        read_commit(named("commit", data), data)


def test_a_tag_whose_message_has_a_key(tmp_path: Path, gpg: GpgHome, access: Access) -> None:
    repository = repository_of(tmp_path)
    commit = repository.git("rev-parse", "main")
    head = read_object(repository, repository.tag("v1", commit)).partition(b"\n\n")[0]
    message = head + b"\n\nThe key is:\n" + gpg.export()
    data = message + gpg.sign(message)
    signed = read_tag(named("tag", data), data, tag="v1", commit=commit)
    assert verify(signed, read_keys({"a.asc": gpg.export()}), access, now=NOW).by == "pgp"


def test_a_tag_with_several_signatures(tmp_path: Path, gpg: GpgHome) -> None:
    repository = repository_of(tmp_path)
    tag = read_object(repository, sign_tag(repository, gpg, "v1"))
    data = tag + gpg.sign(tag)
    with pytest.raises(SignatureError, match="the tag has several signatures"):
        read_tag(named("tag", data), data, tag="v1", commit=repository.git("rev-parse", "main"))


@pytest.mark.parametrize(
    ("label", "problem"),
    [
        (b"SIGNED MESSAGE", "X.509"),
        (b"PGP MESSAGE", "of an unknown type"),
        (b"CERTIFICATE", "of an unknown type"),
        (b"SSH SIGNATURE", "signed with an SSH key, and the Secret has none"),
        (b"PGP SIGNATURE", "signed with OpenPGP, and the Secret has no such key"),
    ],
)
def test_a_signature_of_another_type(access: Access, label: bytes, problem: str) -> None:
    data = TREE + AUTHOR + COMMITTER + SIGNATURE.replace(b"PGP SIGNATURE", label) + b"\n"
    with pytest.raises(SignatureError, match=problem):
        check_commit(named("commit", data), data, Keys(), access)


def signed_by(key: SshKey, payload: bytes, folder: Path) -> bytes:
    (folder / "payload").write_bytes(payload)
    subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-n", "git", "-f", key.path, folder / "payload"], check=True)
    return with_header(payload, b"gpgsig", (folder / "payload.sig").read_bytes())


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ('namespaces="file"', "its key is not for git"),
        ('valid-before="20231001"', "that allowed_signers does not have, or not for that time"),
        ('valid-after="20231201"', "that allowed_signers does not have, or not for that time"),
        ("cert-authority", "that allowed_signers does not have"),
    ],
)
def test_a_key_of_ssh_for_something_else(
    tmp_path: Path, ssh: SshKey, access: Access, options: str, problem: str
) -> None:
    """The commit says that it was made on 14 November 2023."""
    data = signed_by(ssh, TREE + AUTHOR + COMMITTER + b"\n", tmp_path)
    assert check_commit(named("commit", data), data, Keys(allowed_signers=ssh.allowed()), access).by == "ssh"
    with pytest.raises(SignatureError, match=problem):
        check_commit(named("commit", data), data, Keys(allowed_signers=ssh.allowed(options=options)), access)


def test_a_key_of_ssh_that_nobody_allows(tmp_path: Path, ssh: SshKey, access: Access) -> None:
    other = SshKey.make(tmp_path / "other")
    for allowed in (other.allowed(), b"garbage\n", b"shop ssh-ed25519 garbage\n"):
        with pytest.raises(SignatureError, match="that allowed_signers does not have"):
            check_ssh(tmp_path / str(len(allowed)), ssh, allowed, access)


def test_a_commit_of_the_future(tmp_path: Path, ssh: SshKey, access: Access) -> None:
    data = signed_by(ssh, (TREE + AUTHOR + COMMITTER + b"\n").replace(b"17000", b"97000"), tmp_path)
    with pytest.raises(SignatureError, match="from the future"):
        check_commit(named("commit", data), data, Keys(allowed_signers=ssh.allowed()), access)


@pytest.mark.parametrize("text", [b"x", b"-----END SSH SIGNATURE-----\n-----BEGIN SSH SIGNATURE-----\n"])
def test_a_damaged_signature_of_ssh(ssh: SshKey, access: Access, text: bytes) -> None:
    damaged = b"gpgsig -----BEGIN SSH SIGNATURE-----\n " + text.strip().replace(b"\n", b"\n ") + b"\n"
    data = TREE + AUTHOR + COMMITTER + damaged + b"\n"
    with pytest.raises(SignatureError, match="the signature is damaged"):
        check_commit(named("commit", data), data, Keys(allowed_signers=ssh.allowed()), access)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (b"ssh-ed25519 AAAA me@acme", "an SSH key, which belongs into allowed_signers"),
        (b"---- BEGIN SSH2 PUBLIC KEY ----", "an SSH key in the form of RFC 4716"),
        (b"-----BEGIN CERTIFICATE-----", "a certificate, and X.509 is not supported"),
    ],
)
def test_keys_in_a_form_that_cannot_be_used_are_named(text: bytes, form: str) -> None:
    with pytest.raises(UnusableKeysError, match=f'; "id.pub" is {form}'):
        read_keys({"id.pub": text})


def test_allowed_signers_may_have_a_byte_order_mark() -> None:
    assert read_keys({"allowed_signers": b"\xef\xbb\xbfme ssh-ed25519 AAAA\n"}).allowed_signers.startswith(b"me ")


@pytest.mark.parametrize("secret", [{}, {"key": b"x"}, {"allowed_signers": b" \n"}, {"a.pub": b"ssh-ed25519 AAAA"}])
def test_a_secret_without_keys(secret: dict[str, bytes]) -> None:
    with pytest.raises(UnusableKeysError, match=r"the Secret has no keys; add OpenPGP keys as \*.asc, or SSH keys"):
        read_keys(secret)
