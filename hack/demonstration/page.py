"""The page in the demonstration: states that are worth a look, and the pictures of it in README.md."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import ViewportSize

from hack.demonstration.shell import CommandError
from hack.demonstration.stage import NAMESPACE, Stage
from tests.support.browser import find_program, launch_program

SIZE: ViewportSize = {"width": 1200, "height": 720}
SETTLED = {"overview": "tbody tr:nth-child(6)", "graph": ".box .drift", "panel": ".pod:nth-of-type(5)"}
"""By the names of pictures, what is there once all of it is."""
MISSING = """\
apiVersion: core.rukpak.io/v1alpha2
kind: BundleDeployment
metadata: {{name: search}}
spec: {{format: helm, installNamespace: {namespace},
  sources: [{{kind: image, image: {{ref: "{repository}:v9"}}}}]}}"""
LATE = """\
apiVersion: core.rukpak.io/v1alpha2
kind: BundleDeployment
metadata: {{name: billing}}
spec: {{format: helm, installNamespace: {namespace}, dependsOn: [{{name: search}}],
  sources: [{{kind: image, image: {{ref: "{repository}:chart"}}}}]}}"""


def prepare(stage: Stage) -> None:
    """Bring BundleDeployments of the demonstration into states that a page shows.

    Raises: CommandError.
    """
    shell, repository = stage.shell, f"{stage.registry_host}/demo"
    shell.tell("\n== The page: drift, a revision that waits for approval, and what is missing")
    shell.run("rukpak pause demo --wait")
    shell.run(f"kubectl -n {NAMESPACE} scale deployment/web --replicas=5")
    shell.run("kubectl wait --timeout=60s --for=condition=Drifted bd/demo")
    shell.run("""kubectl patch bd shop --type=merge -p '{"spec": {"approval": "Manual"}}'""")
    shell.run("""kubectl patch bd shop --type=merge -p '{"spec": {"config": {"values": {"greeting": "hello"}}}}'""")
    reason = '{.status.conditions[?(@.type=="Installed")].reason}'
    shell.run(f"kubectl wait --timeout=60s --for=jsonpath='{reason}'=AwaitingApproval bd/shop")
    for manifest in (MISSING, LATE):
        shell.run(f"kubectl apply -f - <<'EOF'\n{manifest.format(namespace=NAMESPACE, repository=repository)}\nEOF")
    shell.run("kubectl wait --timeout=60s --for=condition=Stalled bd/search")
    shell.run("rukpak status")


@contextmanager
def serve(stage: Stage, *flags: str) -> Iterator[subprocess.Popen[str]]:
    """Run `rukpak ui`, which prints its address."""
    command = ["rukpak", "ui", *flags]
    stage.shell.tell(f"$ {' '.join(command)}")
    environment = os.environ | stage.shell.environment
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)


def show(stage: Stage) -> None:
    """Keep the page open until the user interrupts."""
    with serve(stage) as process:
        assert process.stdout is not None  # noqa: S101 -- for the type checker: it is a pipe
        url = process.stdout.readline().strip()
        origin, views = url.partition("?")[0], list_views(stage)
        stage.shell.tell(f"{url}\nand, once that is open in a browser, there:")
        stage.shell.tell(f"{origin}{views['graph']}   what belongs to demo, as a graph")
        stage.shell.tell(f"{origin}{views['panel']}   the Deployment that somebody has scaled, and its pods")
        for line in process.stdout:
            stage.shell.tell(line.rstrip("\n"))


def list_views(stage: Stage) -> dict[str, str]:
    """Return the addresses of what is worth a look, by the names of their pictures.

    Raises: CommandError.
    """
    uid = stage.shell.look(f"kubectl -n {NAMESPACE} get deployment web -o jsonpath='{{.metadata.uid}}'")
    return {"overview": "#/", "graph": "#/bd/demo/graph", "panel": f"#/bd/demo/object/{uid}"}


def take_pictures(stage: Stage, folder: Path) -> None:
    """Write a picture of each view, light and dark.

    Raises: CommandError without a Chromium.
    """
    program = find_program()
    if program is None:
        raise CommandError("no Chromium on PATH to take pictures with")
    with serve(stage, "--no-browser", "--read-only") as process, launch_program(program) as browser:
        assert process.stdout is not None  # noqa: S101 -- for the type checker: it is a pipe
        url, views = process.stdout.readline().strip(), list_views(stage)
        for scheme in ("light", "dark"):
            page = browser.new_context(color_scheme=scheme, viewport=SIZE, reduced_motion="reduce").new_page()
            page.goto(url)
            page.wait_for_url(lambda now: "token=" not in now)  # it leads to the page
            for name, view in views.items():
                page.evaluate("view => { location.hash = view }", view)
                page.locator(SETTLED[name]).first.wait_for()
                page.wait_for_timeout(2000)  # marks of what has changed fade
                page.screenshot(path=folder / f"page-{name}-{scheme}.png")
