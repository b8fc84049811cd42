"""An index of a chart repository like that of Bitnami, and requests for it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

CHARTS, VERSIONS = 130, 200

_ENTRY = """\
  - annotations:
      category: Infrastructure
      images: |
        - name: {name}
          image: docker.io/example/{name}:{version}-debian-12-r4
        - name: os-shell
          image: docker.io/example/os-shell:12-debian-12-r7
      licenses: Apache-2.0
    apiVersion: v2
    appVersion: {version}
    created: "2026-01-02T03:04:05.678901234Z"
    dependencies:
    - name: common
      repository: oci://registry-1.docker.io/examplecharts
      tags:
      - common
      version: 2.x.x
    description: {name} is an open source program. It does many things for many people, and this line is long enough
      to be folded.
    digest: {digest}
    home: https://example.com
    icon: https://example.com/assets/stacks/{name}/img/{name}-stack-220x234.png
    keywords:
    - {name}
    - server
    maintainers:
    - name: Example, Inc. All Rights Reserved.
      url: https://github.com/example/charts
    name: {name}
    sources:
    - https://github.com/example/charts/tree/main/example/{name}
    urls:
    - https://charts.example.com/example/{name}-{version}.tgz
    version: {version}
"""


def write_index(path: Path) -> None:
    """Write an index of 30 MiB: 130 charts with 200 versions each."""
    with path.open("w", encoding="utf-8") as file:
        file.write("apiVersion: v1\nentries:\n")
        file.writelines(_entries())


def _entries() -> Iterator[str]:
    for number in range(CHARTS):
        name = f"chart-{number}"
        yield f"  {name}:\n"
        for patch in range(VERSIONS):
            version = f"1.{patch // 20}.{patch % 20}"
            digest = hashlib.sha256(f"{name} {version}".encode()).hexdigest()
            yield _ENTRY.format(name=name, version=version, digest=digest)
