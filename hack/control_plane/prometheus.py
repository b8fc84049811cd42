"""Prometheus beside a control plane, on a loopback port with its data in a folder."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rukpak.controller.playground.processes import Process, free_ports, wait_for

PROMETHEUS_SECONDS = 150.0
PROMETHEUS_CONFIGURATION = """\
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
- job_name: rukpak
  static_configs: [{{targets: [{targets}]}}]
"""


class Prometheus:
    """One Prometheus.

    Args:
        folder: for all files; must exist.
        program: prometheus.
        targets: HOST:PORT to scrape.
        rules: file with groups of rules.
    """

    def __init__(self, folder: Path, program: Path, targets: Sequence[str], rules: Path) -> None:
        (port,) = free_ports(1)
        self._url = f"http://127.0.0.1:{port}"
        configuration = folder / "prometheus.yaml"
        quoted = ", ".join(f'"{target}"' for target in targets)
        configuration.write_text(PROMETHEUS_CONFIGURATION.format(rules=rules, targets=quoted), encoding="utf-8")
        options = [f"--config.file={configuration}", f"--storage.tsdb.path={folder}/data"]
        address = f"--web.listen-address=127.0.0.1:{port}"
        self._process = Process("prometheus", folder, [program, *options, address])

    def start(self) -> None:
        """Start it and wait until it responds.

        Raises: TimeoutError.
        """
        self._process.start()
        wait_for(self._is_ready, PROMETHEUS_SECONDS, lambda: f"prometheus: {self._process.last_words()}")

    def stop(self) -> None:
        self._process.kill()

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Return labels and value of each current sample of an expression."""
        answer = self._get(f"/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
        return [(each["metric"], float(each["value"][1])) for each in answer["data"]["result"]]

    def value(self, expression: str) -> float | None:
        """Return the value of an expression with at most one sample."""
        samples = self.query(expression)
        return samples[0][1] if samples else None

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)  # noqa: PLR2004 - HTTP
        except OSError:
            return False

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self._url}{path}", timeout=10) as answer:
            return json.load(answer)
