"""An OCI registry beside a control plane, on a loopback port with its content in a folder."""

from __future__ import annotations

import http.client
from pathlib import Path

from rukpak.controller.playground.processes import Process, free_ports
from rukpak.controller.playground.waiting import wait_for

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
        """Kill it."""
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
