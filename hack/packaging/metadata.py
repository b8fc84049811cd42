"""The description of the package on an index: README.md, with links and pictures that work outside of the repository.

Run by hatchling (pyproject.toml). RUKPAK_REPOSITORY is the address of the repository, as the release knows it; without
it, as in a build on any other machine, the text is left as it is, and no addresses are added.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE = r"(?!https?:)([^)\"\s]+)"
_LINK = re.compile(rf"(\]\(){_RELATIVE}")
_PICTURE = re.compile(rf"(\bsrc(?:set)?=\"){_RELATIVE}")


class CustomMetadataHook(MetadataHookInterface):
    """Sets `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add both fields to the metadata."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = os.environ.get("RUKPAK_REPOSITORY", "").rstrip("/")
        metadata["urls"] = {}
        if repository:
            tag = f"v{metadata['version']}"
            text = make_absolute(text, repository, tag)
            metadata["urls"] = {
                "Source": repository,
                "Documentation": f"{repository}/blob/{tag}/README.md#read-on",
                "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
                "Issues": f"{repository}/issues",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def make_absolute(readme: str, repository: str, ref: str) -> str:
    """Return a README whose links and pictures are those of the repository at a ref."""
    linked = _LINK.sub(lambda found: f"{found[1]}{repository}/blob/{ref}/{_to_path(found[2])}", readme)
    return _PICTURE.sub(lambda found: f"{found[1]}{repository}/raw/{ref}/{found[2]}", linked)


def _to_path(link: str) -> str:
    # An index gives headings no anchors: links to them go to the README of the repository.
    return f"README.md{link}" if link.startswith("#") else link
