"""kubectl with the kubeconfig of a cluster."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SECONDS = 120


class KubectlError(Exception):
    """kubectl failed.

    Attributes:
        stderr: its output.
    """

    def __init__(self, arguments: tuple[str, ...], stderr: str) -> None:
        super().__init__(f"kubectl {' '.join(arguments)}: {stderr.strip()}")
        self.stderr = stderr


class Cluster:
    """A cluster: a control plane of ours, or an existing one.

    Args:
        kubeconfig: with the current context to use.
        kubectl: the program.
        cache: folder for discovery of kubectl; not shared, because ports are reused.
    """

    def __init__(self, *, kubeconfig: Path, kubectl: Path, cache: Path) -> None:
        self.kubeconfig = kubeconfig
        self._kubectl = kubectl
        self._cache = cache

    @property
    def server(self) -> str:
        """Return the address of the API server."""
        return self.kubectl("config", "view", "--minify", "--output=jsonpath={.clusters[0].cluster.server}")

    def kubectl(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002 -- as subprocess.run has it
        """Run kubectl with `input` on its standard input, and return what it printed.

        Raises: KubectlError.
        """
        done = subprocess.run(
            [self._kubectl, *arguments],
            # Variables instead of flags, because `kubectl diff` and plug-ins inherit them.
            env=os.environ | {"KUBECONFIG": str(self.kubeconfig), "KUBECACHEDIR": str(self._cache)},
            input=input or "",
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if done.returncode:
            raise KubectlError(arguments, done.stderr)
        return done.stdout
