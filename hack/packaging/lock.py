"""hack/requirements.txt: everything that hack/ and the image install, directly or not, by version and hash.

It is resolved by uv for all versions of Python that pyproject.toml allows and for all machines at once, and names no
index; pip needs nothing else to install it. Its sections stand in the order of `SECTIONS`; a package that two of them
need is in the first, so that a section is complete together with those before it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from hack.packaging.base import BaseError, check_base, renew_base

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "hack/requirements.txt"
SECTIONS: Mapping[str, tuple[str, ...]] = {
    "controller": ("--extra=sigstore", "--extra=expressions"),
    "build": ("--group=build",),
    "development": ("--all-extras", "--group=dev"),
    "tools": ("--group=tools",),
}
"""By name the options of uv for what a section adds to the dependencies of the project."""
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = ("x86_64-manylinux_2_28", "aarch64-manylinux_2_28")
RESOLUTIONS: Mapping[str, str] = {"newest": "highest", "oldest": "lowest-direct"}
"""What `hack/test --dependencies` offers, by uv's name."""
HEADER = """\
# Made by hack/lock from pyproject.toml: every package that hack/ and the image install, for CPython 3.11 to 3.14 on
# Linux, x86-64 and arm64. Each section needs those before it. `pip install .` takes ranges instead.
"""


class LockError(Exception):
    """The lock was not made; the message says why."""


def main(arguments: Sequence[str]) -> None:
    """Write the lock and print what has moved, or with `--print newest|oldest` print a resolution.

    With `--base` write the image that the Dockerfiles build on, or with `--check-base` check that it is not too old.

    Raises: SystemExit with what to do.
    """
    try:
        match arguments:
            case []:
                renew()
            case ["--base"]:
                print(renew_base(PYTHONS[-1]))
            case ["--check-base"]:
                check_base(PYTHONS[-1], datetime.now(UTC))
            case ["--print", resolution] if resolution in RESOLUTIONS:
                print(resolve(RESOLUTIONS[resolution]), end="")
            case _:
                raise SystemExit("usage: hack/lock [--base | --check-base | --print newest|oldest]")
    except (LockError, BaseError) as error:
        raise SystemExit(f"hack/lock: {error}") from None


def renew() -> None:
    """Resolve to the newest versions, check that all have wheels, and replace the lock.

    Raises: LockError.
    """
    text = resolve(RESOLUTIONS["newest"])
    for python in PYTHONS:
        for platform in PLATFORMS:
            check_wheels(text, python, platform)
    before = read_versions(LOCK.read_text(encoding="utf-8")) if LOCK.exists() else {}
    LOCK.write_text(text, encoding="utf-8")
    print("\n".join(describe_moves(before, read_versions(text))))


def resolve(resolution: str) -> str:
    """Return a lock with the versions that uv's `resolution` prefers. Raises: LockError."""
    # uv takes one extra or all of them.
    everything = [option for options in SECTIONS.values() for option in options if not option.startswith("--extra=")]
    blocks = split(_compile(resolution, "--generate-hashes", *everything))
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as constraints:
        constraints.write("\n".join(block for name in blocks for block in blocks[name]))
        constraints.flush()
        return HEADER + "".join(_sections(blocks, resolution, constraints.name))


def _sections(blocks: dict[str, list[str]], resolution: str, constraints: str) -> list[str]:
    texts, done = [], set[str]()
    for section, options in SECTIONS.items():
        names = split(_compile(resolution, f"--constraints={constraints}", *options))
        added = [block for name in blocks if name in names and name not in done for block in blocks[name]]
        texts.append(f"\n# Section: {section}\n" + "\n".join(added) + "\n")
        done |= names.keys()
    return texts


def _compile(resolution: str, *options: str) -> str:
    fixed = ("--universal", "--no-header", "--no-annotate", "--only-binary=:all:", "--quiet", "--no-config")
    versions = (f"--python-version={PYTHONS[0]}", f"--resolution={resolution}")
    return _run_uv("pip", "compile", *fixed, *versions, *options, "pyproject.toml")


def check_wheels(text: str, python: str, platform: str) -> None:
    """Check that each package of a lock has a wheel for one version of Python on one platform. Raises: LockError."""
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text(text, encoding="utf-8")
        where = (f"--python-version={python}", f"--python-platform={platform}", f"--target={folder}/packages")
        fixed = ("--dry-run", "--quiet", "--no-config", "--only-binary=:all:", "--require-hashes")
        _run_uv("pip", "install", *fixed, *where, f"--requirements={requirements}")


def _run_uv(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "uv", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise LockError(f"uv {' '.join(arguments[:2])} failed:\n{done.stderr.strip()}")
    return done.stdout


def split(text: str) -> dict[str, list[str]]:
    """Return the requirements of a file by normalised name: a name has several where markers tell them apart."""
    blocks: dict[str, list[str]] = {}
    for block in re.findall(r"^[a-z0-9].*(?:\n .*)*", text, re.MULTILINE):
        blocks.setdefault(block.partition("==")[0], []).append(block)
    return blocks


def read_versions(text: str) -> dict[str, str]:
    """Return the versions of a lock by name; several of one name are joined."""
    named = {name: [re.split(r"==|[ ;]", block)[1] for block in blocks] for name, blocks in split(text).items()}
    return {name: ", ".join(versions) for name, versions in named.items()}


def describe_moves(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return a line for each package whose version is another one now."""
    moved = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    lines = [f"{name}: {before.get(name, 'new')} -> {after.get(name, 'not needed any more')}" for name in moved]
    return lines or ["nothing moves"]


if __name__ == "__main__":
    main(sys.argv[1:])
