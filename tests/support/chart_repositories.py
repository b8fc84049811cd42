"""Chart repositories for tests: packed charts and their index.yaml, as `helm repo index` writes it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from tests.support.charts import pack

TEMPLATE = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {version: "{{ .Chart.Version }}", chart: "{{ .Chart.Name }}"}
"""


def packed_chart(name: str, version: str, *, template: str = TEMPLATE, more: str = "") -> bytes:
    """Return a packed chart; `more` is added to its Chart.yaml."""
    about = f"apiVersion: v2\nname: {name}\nversion: {version}\n{more}"
    return pack({f"{name}/Chart.yaml": about.encode(), f"{name}/templates/settings.yaml": template.encode()})


def entry_of(name: str, version: str, archive: bytes | None, **fields: Any) -> dict[str, Any]:
    """Return the entry of a packed chart in an index, with its digest if the archive is given."""
    digest = {"digest": hashlib.sha256(archive).hexdigest()} if archive else {}
    entry = {"apiVersion": "v2", "name": name, "version": version, "urls": [f"{name}-{version}.tgz"]}
    return {**entry, **digest, **fields}


def index_of(entries: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the index of entries."""
    charts: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries:
        charts.setdefault(entry["name"], []).append(entry)
    index = {"apiVersion": "v1", "entries": charts, "generated": "2026-01-02T03:04:05.678Z"}
    return yaml.safe_dump(index, sort_keys=False).encode()


def repository_of(name: str, *versions: str, folder: str = "") -> dict[str, bytes]:
    """Return the files of a repository with one chart, by path on a server."""
    archives = {version: packed_chart(name, version) for version in versions}
    files = {f"{folder}/{name}-{version}.tgz": archive for version, archive in archives.items()}
    index = index_of(entry_of(name, version, archive) for version, archive in archives.items())
    return {**files, f"{folder}/index.yaml": index}
