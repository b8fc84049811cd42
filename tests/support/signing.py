"""Signers of commits, tags and charts: the real gpg and ssh-keygen with keys of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.charts import packaged_helm
from tests.support.git_servers import GitRepository


@dataclass(frozen=True, slots=True, kw_only=True)
class GpgHome:
    """A home of gpg with the keys that are made in it, without passphrases."""

    folder: Path

    def run(self, *arguments: str, stdin: bytes = b"", at: str = "") -> bytes:
        """Run gpg, if `at` is given with that time (20200131T000000), and return its output."""
        clock = [f"--faked-system-time={at}"] if at else []
        answers = ["--batch", "--yes", "--no-tty", "--quiet", "--pinentry-mode=loopback", "--passphrase="]
        command = ["gpg", f"--homedir={self.folder}", *clock, *answers, *arguments]
        return subprocess.run(command, input=stdin, check=True, capture_output=True).stdout

    def make_key(self, algorithm: str = "ed25519", *, expires: str = "never", name: str = "shop", at: str = "") -> str:
        """Make a key for signing, and return its fingerprint."""
        self.run("--quick-generate-key", f"{name} <{name}@example.org>", algorithm, "sign", expires, at=at)
        return self.fingerprints()[-1]

    def fingerprints(self) -> list[str]:
        """Return the fingerprints of the keys and their subkeys."""
        listed = self.run("--list-keys", "--with-colons").decode().splitlines()
        return [line.split(":")[9] for line in listed if line.startswith("fpr:")]

    def revoke(self, fingerprint: str) -> None:
        """Revoke a key, by the certificate that gpg has made with it."""
        certificate = (self.folder / "openpgp-revocs.d" / f"{fingerprint}.rev").read_bytes()
        self.run("--import", stdin=certificate.replace(b":-----BEGIN", b"-----BEGIN"))

    def export(self, *fingerprints: str) -> bytes:
        """Return public keys, armored."""
        return self.run("--export", "--armor", *fingerprints)

    def sign(self, data: bytes, *options: str, at: str = "") -> bytes:
        """Return an armored signature of its own."""
        return self.run("--detach-sign", "--armor", *options, stdin=data, at=at)

    @property
    def program(self) -> Path:
        """A program for git, which is gpg with this home."""
        script = self.folder / "gpg-for-git"
        script.write_text(f'#!/bin/sh\nexec gpg --homedir "{self.folder}" "$@"\n', encoding="utf-8")
        script.chmod(0o700)
        return script


@contextmanager
def gpg_home(folder: Path) -> Iterator[GpgHome]:
    """Provide a home of gpg in a new folder, whose path must be short; its agent is ended afterwards."""
    if shutil.which("gpg") is None:
        pytest.skip("needs gpg to sign: install gnupg")
    folder.mkdir(mode=0o700)
    try:
        yield GpgHome(folder=folder)
    finally:
        subprocess.run(["gpgconf", "--homedir", str(folder), "--kill", "all"], check=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SshKey:
    """A key of ssh-keygen, without a passphrase."""

    path: Path

    @classmethod
    def make(cls, path: Path, algorithm: str = "ed25519", *options: str) -> SshKey:
        """Make a key in a new file."""
        subprocess.run(["ssh-keygen", "-q", "-t", algorithm, *options, "-N", "", "-f", str(path)], check=True)
        return cls(path=path)

    @property
    def public(self) -> str:
        """Type and key."""
        return " ".join(self.path.with_name(f"{self.path.name}.pub").read_text(encoding="ascii").split()[:2])

    def allowed(self, principal: str = "shop@example.org", options: str = "") -> bytes:
        """Return a line of allowed_signers."""
        return f"{principal} {options} {self.public}\n".encode()


def sign_commit(repository: GitRepository, signer: GpgHome | SshKey, commit: str = "refs/heads/main") -> str:
    """Commit the files of a commit again, signed, on main; return its name."""
    made = repository.git(*_settings(signer), "commit-tree", "-S", "-m", "signed", f"{commit}^{{tree}}")
    repository.git("update-ref", "refs/heads/main", made)
    return made


def sign_tag(repository: GitRepository, signer: GpgHome | SshKey, name: str, commit: str = "refs/heads/main") -> str:
    """Add a signed tag; return the name of its object."""
    repository.git(*_settings(signer), "tag", "-s", "-m", "signed", name, commit)
    return repository.git("rev-parse", f"refs/tags/{name}")


def _settings(signer: GpgHome | SshKey) -> list[str]:
    if isinstance(signer, GpgHome):
        key = {"gpg.program": str(signer.program), "user.signingKey": signer.fingerprints()[-1]}
    else:
        key = {"gpg.format": "ssh", "user.signingKey": str(signer.path)}
    return [word for name, value in key.items() for word in ("-c", f"{name}={value}")]


def read_object(repository: GitRepository, name: str) -> bytes:
    """Return the content of a commit or tag."""
    kind = repository.git("cat-file", "-t", name)
    command = ["git", f"--git-dir={repository.folder}", "cat-file", kind, name]
    return subprocess.run(command, check=True, capture_output=True, env={"PATH": os.environ["PATH"]}).stdout


def sign_chart(signer: GpgHome, folder: Path) -> Path:
    """Package a chart with a provenance file beside it, as `helm package --sign` does; return the archive."""
    keyring = signer.folder / "secring.gpg"
    keyring.write_bytes(signer.run("--export-secret-keys"))
    target = folder.parent / "packaged"
    options = ["--sign", "--key=shop", f"--keyring={keyring}", f"--destination={target}"]
    subprocess.run([packaged_helm(), "package", folder, *options], check=True, capture_output=True)
    return next(target.glob("*.tgz"))
