"""`rukpak plugin new`: a package with a plug-in that works, to begin with. What it consists of is in `templates/`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from string import Template

from rukpak.controller.views import FailedError, MisuseError

TEMPLATES = Path(__file__).with_name("templates")
_SUFFIX = ".template"
# What the API accepts as the name of a plug-in: a domain and a name.
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
_WORD = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_VERSION = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")


def main(options: argparse.Namespace) -> int:
    """Write a package, and say what to do next."""
    words = name_things(options.name, options.kind)
    folder = Path(options.folder or words["distribution"])
    write_package(folder, options.kind, words)
    print(f"{folder}: a {options.kind} for {options.name}; see README.md")
    print(f'pip install --editable "{folder}[test]" && (cd {folder} && pytest)')
    return 0


def name_things(name: str, kind: str) -> Mapping[str, str]:
    """Return what templates need, from a name such as `example.com/ini` or `ini.example.com/v1`.

    Raises: MisuseError for what is no name of a plug-in.
    """
    domain, _, rest = name.partition("/")
    # The name of an API group says what it is in its domain, and ends with a version.
    word = domain.partition(".")[0] if _VERSION.fullmatch(rest) else rest
    if not (_DOMAIN.fullmatch(domain) and _WORD.fullmatch(word)):
        raise MisuseError(f'"{name}" is not <domain>/<name>, as in example.com/ini or ini.example.com/v1')
    return {
        "name": name,
        "kind": kind,
        "distribution": f"rukpak-{word}",
        "module": f"rukpak_{word.replace('-', '_')}",
        "plugin": "".join(part.capitalize() for part in [*word.split("-"), kind]),
        "release": version("rukpak"),
        # Sources of kind http are archives or manifests.
        "pack": "tar -czf content.tar.gz *.properties && " if kind == "format" else "",
    }


def write_package(folder: Path, kind: str, words: Mapping[str, str]) -> None:
    """Write the files of a package to a folder that does not exist or is empty.

    Raises: FailedError if anything is there, or cannot be written.
    """
    try:
        if folder.exists() and any(folder.iterdir()):
            raise FailedError(f"{folder} is not empty; name another one with --folder")
        for templates in (TEMPLATES / "all", TEMPLATES / kind):
            for template in sorted(templates.rglob(f"*{_SUFFIX}")):
                path = folder / Template(str(template.relative_to(templates))[: -len(_SUFFIX)]).substitute(words)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(Template(template.read_text(encoding="utf-8")).substitute(words), encoding="utf-8")
    except OSError as error:
        raise FailedError(f"{folder}: {error.strerror}; name another one with --folder") from None
