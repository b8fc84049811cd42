"""Chart repositories for tests: packed charts and their index.yaml, as `helm repo index` writes it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from tests.support.charts import pack
from tests.support.faulty_registry import OCI_MANIFEST, FaultyRegistry

CHART = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
CHART_CONFIG = "application/vnd.cncf.helm.config.v1+json"
PROVENANCE = "application/vnd.cncf.helm.chart.provenance.v1.prov"

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


def add_chart(registry: FaultyRegistry, name: str, version: str, archive: bytes = b"") -> str:
    """Add a chart as `helm push` stores it, with provenance; return the digest of the packaged chart."""
    archive = archive or packed_chart(name, version)
    config = registry.add_blob(json.dumps({"name": name, "version": version}).encode(), CHART_CONFIG)
    layers = [registry.add_blob(b"signed", PROVENANCE), registry.add_blob(archive, CHART)]
    registry.add_manifest(version.replace("+", "_"), OCI_MANIFEST, config=config, layers=layers)
    return f"sha256:{hashlib.sha256(archive).hexdigest()}"


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
