"""Objects as YAML text that people read: fields in their order, texts of several lines as blocks, no anchors."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as literal blocks."""


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def write_documents(manifests: Iterable[Any]) -> str:
    """Return the documents, separated by `---`."""
    return "---\n".join(write(each) for each in manifests)


def write(value: Any) -> str:
    """Return one document."""
    unshared = json.loads(json.dumps(value))  # PyYAML would write anchors for shared values
    text: str = yaml.dump(unshared, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
    return text
