"""Servers beside a control plane, on loopback ports with their data in a folder: an OCI registry and Prometheus."""

from __future__ import annotations

import http.client
import json
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hack.control_plane.processes import Process, free_ports
from hack.control_plane.waiting import wait_for

REGISTRY_SECONDS = 90.0
HOST = "registry.host"
REGISTRY_CONFIGURATION = """\
version: 0.1
log: {{level: info, accesslog: {{disabled: false}}}}
storage:
  filesystem: {{rootdirectory: "{folder}/content"}}
  delete: {{enabled: true}}
http: {{addr: "127.0.0.1:{port}"}}
"""


def registry_of(folder: Path) -> str | None:
    """Return host and port of the registry that was made in a folder; None if there is none."""
    return (folder / HOST).read_text(encoding="ascii") if (folder / HOST).exists() else None


class Registry:
    """A registry with plain http, without authentication, which allows pushes and deletions.

    Args:
        folder: for all files; must exist.
        program: the registry.
    """

    def __init__(self, folder: Path, program: Path) -> None:
        self._folder = folder
        (self._port,) = free_ports(1)
        self.host = f"127.0.0.1:{self._port}"
        (folder / HOST).write_text(self.host, encoding="ascii")
        configuration = folder / "registry.yaml"
        configuration.write_text(REGISTRY_CONFIGURATION.format(folder=folder, port=self._port), encoding="utf-8")
        # Version 3 would send traces to a collector that does not exist.
        quiet = {"OTEL_TRACES_EXPORTER": "none"}
        self._process = Process("registry", folder, [program, "serve", configuration], quiet)

    @property
    def log(self) -> Path:
        """Return the log file, which has a line for each request."""
        return self._process.log

    @property
    def content(self) -> Path:
        """Return the folder of its content, which another registry may serve."""
        return self._folder / "content"

    def start(self) -> None:
        """Start it on the same port with the same content, and wait until it responds.

        Raises: TimeoutError; RuntimeError with the end of its log if it exits.
        """
        self._process.start()
        wait_for(self._is_answering, REGISTRY_SECONDS, lambda: f"registry: {self._process.last_words()}")

    def stop(self) -> None:
        self._process.kill()

    def _is_answering(self) -> bool:
        if not self._process.is_running():
            raise RuntimeError(f"registry ended: {self._process.last_words()}")
        connection = http.client.HTTPConnection(self.host, timeout=5)
        try:
            connection.request("GET", "/v2/")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


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
