"""`kubectl rukpak` as Krew installs it: an archive for this platform, and the manifest that describes it.

    .venv/bin/python -m hack.packaging.plugin FOLDER URL

FOLDER gets both; the archive will be published below URL. It has all packages, the compiled ones for the version of
Python that runs this, which its users must have; they need nothing else. A manifest for several platforms has the
entries of those that were made on each.

Manifest: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/.
"""

from __future__ import annotations

import argparse
import hashlib
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hack.image.assemble import ROOT, install_packages
from rukpak.controller.cli.content import pack
from rukpak.controller.views.texts import to_yaml

NAME = "rukpak"
PROGRAM = f"kubectl-{NAME}"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
MOST_BYTES = 64 << 20
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Names of Python to those of Go."""
EXECUTABLE = 0o755
SUMMARY = "Install bundles and keep them installed"
DESCRIPTION = """\
Shows, previews, approves, pauses, rolls back and adopts what RukPak installs on a cluster: bundles from images, git
repositories, charts and archives.
"""
# kubectl runs a link to this file. -P and -s: nothing in the working folder or the home of the user is imported.
LAUNCHER = f"""\
#!/bin/sh
folder=$(dirname "$(readlink -f "$0")")
for python in python{PYTHON} python3; do
  if "$python" -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != "{PYTHON}")' 2>/dev/null; then
    PYTHONPATH=$folder/packages exec "$python" -P -s "$folder/start.py" "$@"
  fi
done
echo "kubectl rukpak: Python {PYTHON} is missing; install it" >&2
exit 1
"""
START = f"""\
import sys

from rukpak.controller.cli import main

sys.argv[0] = "{PROGRAM}"
sys.exit(main())
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the archive and the manifest; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m hack.packaging.plugin", description="Make the plug-in for Krew.")
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="gets both files")
    parser.add_argument("url", metavar="URL", help="folder in which the archive will be published")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    archive = options.folder / f"{PROGRAM}-{version(NAME)}-{_system()}-{_machine()}-python{PYTHON}.tar.gz"
    with tempfile.TemporaryDirectory() as scratch:
        archive.write_bytes(pack(str(lay_out(Path(scratch) / NAME)), MOST_BYTES))
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    manifest = make_manifest(f"{options.url.rstrip('/')}/{archive.name}", digest)
    (options.folder / f"{NAME}.yaml").write_text(to_yaml(manifest), encoding="utf-8")
    return 0


def lay_out(folder: Path) -> Path:
    """Write what the archive contains into a folder that must not exist, and return it."""
    install_packages(folder / "packages")
    for name, text in ((PROGRAM, LAUNCHER), ("start.py", START)):
        (folder / name).write_text(text, encoding="ascii")
    (folder / PROGRAM).chmod(EXECUTABLE)
    shutil.copy(ROOT / "LICENSE", folder)
    return folder


def make_manifest(uri: str, digest: str) -> dict[str, Any]:
    """Return the manifest of the archive at an address, whose sha256 is `digest` in hex."""
    entry = {
        "selector": {"matchLabels": {"os": _system(), "arch": _machine()}},
        "uri": uri,
        "sha256": digest,
        "bin": PROGRAM,
    }
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": NAME},
        "spec": {
            "version": f"v{version(NAME)}",
            "homepage": uri.rpartition("/")[0],
            "shortDescription": SUMMARY,
            "description": DESCRIPTION,
            "caveats": f"Requires Python {PYTHON}.\n",
            "platforms": [entry],
        },
    }


def _system() -> str:
    return platform.system().lower()


def _machine() -> str:
    return MACHINES.get(platform.machine(), platform.machine())


if __name__ == "__main__":
    sys.exit(main())
