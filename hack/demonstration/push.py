"""python -m hack.demonstration.push FOLDER HOST/REPOSITORY:TAG: push a folder as an image with one layer.

Only for registries that accept anonymous pushes over plain http, like the one of the demonstration. For others, use any
tool that pushes images.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tests.support.registry import RegistryClient


def main(arguments: Sequence[str] | None = None) -> None:
    """Push the folder, and print the image with its digest."""
    parser = argparse.ArgumentParser(prog="python -m hack.demonstration.push")
    parser.add_argument("folder", type=Path, help="folder with the content of the image")
    parser.add_argument("image", metavar="HOST/REPOSITORY:TAG")
    options = parser.parse_args(arguments)
    host, _, rest = options.image.partition("/")
    repository, _, tag = rest.partition(":")
    digest = RegistryClient(host).push_image(repository, tag, [read_files(options.folder)])
    print(f"{host}/{repository}@{digest}")


def read_files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


if __name__ == "__main__":
    main()
