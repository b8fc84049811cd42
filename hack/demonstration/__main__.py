"""hack/demo: runs the demonstration and cleans up, also on Ctrl-C and on failure."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from hack.demonstration import page
from hack.demonstration.shell import CommandError, Shell
from hack.demonstration.stage import DEFINITION, NAMESPACE, PLUGIN, OwnStage, RefusedError, Stage, UserStage
from rukpak.controller.playground.binaries import MissingError
from rukpak.controller.playground.processes import wait_for
from rukpak.controller.playground.programs import read_settings
from tests.support.private_sources import PASSWORD, USER, PrivateSources

NAME = "demo"
WAIT = "kubectl wait --timeout=60s"
FAILS_IN = "25s"
"""How long a rollout is waited for that will not succeed."""
REPLICAS = "{.spec.replicas}"
LINE_END = '{"\\n"}'
BUNDLE = "hack/demonstration/bundle"
CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {{name: from-{kind}}}
"""
ON_FAILURE = '{"spec": {"onFailure": {"action": "RollBack"}, "approval": null}}'
OPERATOR = """\
apiVersion: core.rukpak.io/v1alpha2
kind: BundleDeployment
metadata: {{name: greeter}}
spec: {{format: registry-v1, installNamespace: {namespace},
  sources: [{{kind: image, image: {{ref: "{repository}:operator"}}}}]}}"""
THREE = """\
apiVersion: core.rukpak.io/v1alpha2
kind: BundleDeployment
metadata: {{name: three}}
spec:
  format: plain
  installNamespace: {namespace}
  sources:
  - {{kind: image, destination: a, image: {{ref: "{image}", auth: {{secret: {{name: login}}}}}}}}
  - {{kind: git, destination: b, git: {{repository: "{repository}", ref: main, auth: {{secret: {{name: login}}}}}}}}
  - {{kind: http, destination: c, http: {{url: "{file}", auth: {{secret: {{name: login}}}}}}}}"""


def tell(stage: Stage, *, keep: bool) -> None:
    """Run all steps; with `keep`, all before the deletion.

    Raises: CommandError, MissingError, RefusedError.
    """
    shell = stage.shell
    shell.tell("== A cluster")
    stage.set_up()
    shell.tell("\n== RukPak: a CustomResourceDefinition and the controller")
    _start(stage)
    shell.tell("\n== A folder becomes a running bundle with one command")
    _install(shell)
    shell.tell("\n== A user edits a managed object: the edit is reverted")
    _repair(shell)
    shell.tell("\n== Changed and installed again: something changes, something is added, something is pruned")
    _upgrade(shell)
    shell.tell("\n== A wrong image: rolled back, corrected, and the rollback undone")
    _roll_back(stage)
    shell.tell("\n== Paused: an edit is kept and reported; resumed: it is reverted")
    _pause_and_resume(shell)
    shell.tell("\n== A version that wants a new permission: it waits, is looked at, and is approved")
    _approve(shell)
    if stage.has_real_node:
        shell.tell("\n== A release that crashes after it has started: it is rolled back by itself")
        _crash(stage)
    shell.tell("\n== What kubectl has applied is adopted in place")
    _adopt(shell)
    shell.tell(
        "\n== A registry, from which a Helm chart with a hook and an operator bundle (registry-v1) are installed"
    )
    _install_formats(stage)
    shell.tell("\n== Three sources in one, each with credentials: an image, a repository and a file")
    _install_three(stage)
    if not keep:
        shell.tell("\n== Deleted: only the Job of the hook remains, as with Helm")
        _delete(stage)


def _start(stage: Stage) -> None:
    shell = stage.shell
    shell.run("kubectl apply --server-side -k config/crd")
    # kubectl wait fails while there are no conditions; a user is not that fast.
    wait_for(lambda: shell.look(f"kubectl get {DEFINITION} -o jsonpath='{{.status.conditions}}'"), 60, "conditions")
    shell.run(f"{WAIT} --for=condition=Established {DEFINITION}")
    stage.start_controller()
    stage.add_plugin()


def _install(shell: Shell) -> None:
    shell.run(f"rukpak install {NAME} {BUNDLE}/v1 -n {NAMESPACE} --yes --wait")
    shell.run("rukpak status")
    shell.run(f"rukpak tree {NAME}")


def _repair(shell: Shell) -> None:
    _edit_replicas(shell, 7)
    shell.run(f"{WAIT} -n {NAMESPACE} --for=jsonpath='{REPLICAS}'=2 deployment/web")


def _upgrade(shell: Shell) -> None:
    shell.run(f"rukpak install {NAME} {BUNDLE}/v2 --yes --wait")
    shell.run(f"{WAIT} -n {NAMESPACE} --for=delete configmap/banner")
    shell.run(f"rukpak history {NAME}")


def _roll_back(stage: Stage) -> None:
    shell, folder = stage.shell, stage.folder / "wrong"
    shell.run(f"cp -r {BUNDLE}/v2 {folder} && sed -i s/pause:3.10/pause:missing/ {folder}/manifests/*.yaml")
    shell.run(f"rukpak install {NAME} {folder} --yes --wait --timeout {FAILS_IN} || echo not ready")
    shell.run(f"rukpak rollback {NAME} --wait")
    shell.run(f"rukpak push {BUNDLE}/v2 {NAME}")
    shell.run(f"rukpak rollback {NAME} --undo --yes --wait")


def _pause_and_resume(shell: Shell) -> None:
    shell.run(f"rukpak pause {NAME} --wait")
    _edit_replicas(shell, 5)
    shell.run(f"{WAIT} --for=condition=Drifted bd/{NAME}")
    shell.run(f"rukpak status {NAME} | tail -n 4")
    shell.run(f"rukpak resume {NAME}")
    shell.run(f"{WAIT} -n {NAMESPACE} --for=jsonpath='{REPLICAS}'=3 deployment/web")


def _approve(shell: Shell) -> None:
    policy = '{"spec": {"approval": "NewPermissions"}}'
    shell.run(f"kubectl patch bd {NAME} --type=merge -p '{policy}'")
    shell.run(f"rukpak push {BUNDLE}/v3 {NAME}")
    reason = '{.status.conditions[?(@.type=="Installed")].reason}'
    shell.run(f"{WAIT} --for=jsonpath='{reason}'=AwaitingApproval bd/{NAME}")
    shell.run(f"rukpak permissions {NAME} --new")
    shell.run(f"rukpak diff {NAME} | head -n 20")
    shell.run(f"rukpak approve {NAME} --yes --wait")


def _crash(stage: Stage) -> None:
    shell, folder = stage.shell, stage.folder / "crashing"
    steps = "[sleep, 2s, tell, cannot open database, exit, '3']"
    edit = rf"s|^\( *\)image: .*|&\n\1args: {steps}|"
    shell.run(f'cp -r {BUNDLE}/v3 {folder} && sed -i "{edit}" {folder}/manifests/*.yaml')
    shell.run(f"kubectl patch bd {NAME} --type=merge -p '{ON_FAILURE}'")
    shell.run(f"rukpak push {folder} {NAME}")
    shell.run(f"{WAIT} --for=condition=RolledBack bd/{NAME}")
    shell.run(f"rukpak status {NAME}")
    shell.run(f"{WAIT} -n {NAMESPACE} --for=condition=Available deployment/web")
    shell.run(f"rukpak history {NAME}")
    shell.run(f"kubectl -n {NAMESPACE} get pods -l app=web")
    shell.run(f"rukpak push {BUNDLE}/v3 {NAME}")


def _adopt(shell: Shell) -> None:
    shell.run(f"kubectl apply -n {NAMESPACE} -f {BUNDLE}/legacy")
    shell.run(f"rukpak adopt legacy --from kubectl -n {NAMESPACE} -l app=legacy --yes")
    shell.run("rukpak status legacy | head -n 3")


def _install_three(stage: Stage) -> None:
    shell = stage.shell
    with stage.serve_private_sources() as sources:
        manifest = THREE.format(namespace=NAMESPACE, **_fill(sources))
        login = f"--from-literal=username={USER} --from-literal=password='{PASSWORD}'"
        authority = sources.authority.folder / "ca.crt"
        shell.run(f"kubectl -n {NAMESPACE} create secret generic login {login} --from-file={authority}")
        shell.run(f"kubectl apply -f - <<'EOF'\n{manifest}\nEOF")
        shell.run(f"{WAIT} --for=condition=Ready bd/three")
        shell.run(f"kubectl -n {NAMESPACE} get configmap -l core.rukpak.io/bundle-deployment=three -o name | xargs")
        shell.run("kubectl delete bd three --timeout=60s")


def _install_formats(stage: Stage) -> None:
    shell, repository = stage.shell, f"{stage.start_registry()}/{NAME}"
    shell.run(f"rukpak package {BUNDLE}/chart {repository}:chart --insecure-skip-tls-verify")
    shell.run(f"rukpak package {BUNDLE}/operator {repository}:operator --insecure-skip-tls-verify")
    shell.run(f"rukpak install shop oci://{repository}:chart -n {NAMESPACE} --set greeting=welcome --yes --wait")
    manifest = OPERATOR.format(namespace=NAMESPACE, repository=repository)
    shell.run(f"kubectl apply -f - <<'EOF'\n{manifest}\nEOF")
    shell.run(f"{WAIT} --for=condition=Ready bd/greeter")
    shell.run("rukpak status")
    shell.run(f"kubectl -n {NAMESPACE} get job/shop-stock configmap/shop-till deployment/greeter -o name | xargs")


def _fill(sources: PrivateSources) -> dict[str, str]:
    """Put one ConfigMap into each of three sources; return their addresses."""
    made = {kind: {f"{kind}.yaml": CONFIG_MAP.format(kind=kind).encode()} for kind in ("image", "git", "http")}
    sources.public.push_image("three", "v1", [made["image"]])
    sources.put_files("three", made["git"], made["http"])
    return {
        "image": f"{sources.registry.host}/three:v1",
        "repository": f"{sources.git.url}/three.git",
        "file": f"{sources.files.address}/three.tar.gz",
    }


def _delete(stage: Stage) -> None:
    shell = stage.shell
    shell.run(f"kubectl delete bd {NAME} shop greeter legacy --timeout=60s")
    _show_objects(shell)
    if stage.has_brought_the_api:
        shell.run("rukpak uninstall --delete --yes")


def _edit_replicas(shell: Shell, count: int) -> None:
    """Edit the Deployment, and show the new value."""
    edit = f'{{"spec": {{"replicas": {count}}}}}'
    shell.run(f"kubectl -n {NAMESPACE} patch deployment web -p '{edit}' -o jsonpath='{REPLICAS}{LINE_END}'")


def _show_objects(shell: Shell) -> None:
    """Show the objects with the label of managed objects."""
    kinds = "deployment,service,configmap,poddisruptionbudget"
    shell.run(f"kubectl -n {NAMESPACE} get {kinds} -l core.rukpak.io/bundle-deployment={NAME} -o name | xargs")


SIGNAL_STATUS = 128
"""The exit status that a shell reports for a signal is this plus the number of the signal."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration and return the exit status."""
    options = _parser().parse_args(arguments)
    for number in SIGNALS:
        signal.signal(number, _exit)
    settings = read_settings()
    try:
        own = OwnStage(settings, has_real_node=options.node)
        stage = UserStage(settings, _kubeconfig(options)) if options.kubeconfig else own
        return _give(stage, options)
    except (FileNotFoundError, MissingError, RefusedError) as error:
        print(f"hack/demo: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hack/demo", description="Demonstrate RukPak on a real control plane.")
    parser.add_argument("--keep", action="store_true", help="leave everything running, and print how to stop it")
    parser.add_argument("--ui", action="store_true", help="at the end, keep a page about it open until Ctrl-C")
    parser.add_argument("--pictures", metavar="FOLDER", type=Path, help="write pictures of that page")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--node", action="store_true", help="run its pods on a real node (as root), and let one crash")
    where.add_argument("--kubeconfig", metavar="FILE", help="use this cluster (current context)")
    parser.add_argument("--paths-from", type=Path, default=Path(), help=argparse.SUPPRESS)
    return parser


def _kubeconfig(options: argparse.Namespace) -> Path:
    path: Path = options.paths_from / options.kubeconfig
    return path.resolve(strict=True)


def _give(stage: Stage, options: argparse.Namespace) -> int:
    begun, kept, keep = time.monotonic(), False, options.keep
    try:
        tell(stage, keep=keep or options.ui or options.pictures is not None)
        _show_page(stage, options)
        if keep:
            stage.keep()
            kept = True
    except (CommandError, TimeoutError, RuntimeError) as error:
        print(f"hack/demo: {error}\n{stage.last_words()}".rstrip(), file=sys.stderr)
        return 1
    finally:
        _ignore_signals()
        if not kept:
            stage.take_down()
    seconds = time.monotonic() - begun
    print(
        f"\n== Left running\n{_explain(stage)}"
        if keep
        else f"\n== Cleaned up: {stage.brought} are gone ({seconds:.0f} s)"
    )
    return 0


def _show_page(stage: Stage, options: argparse.Namespace) -> None:
    if options.ui or options.pictures:
        page.prepare(stage)
    if options.pictures:
        page.take_pictures(stage, options.paths_from / options.pictures)
    if options.ui:
        page.show(stage)


def _explain(stage: Stage) -> str:
    registry = f"A bundle of your own: rukpak package FOLDER {stage.registry_host}/NAME:TAG"
    return f"{registry}\nTo use it:\n{stage.explain_use()}\n{PLUGIN}\nTo stop it:\n{stage.explain_end()}"


def _exit(number: int, _frame: object) -> None:
    raise SystemExit(SIGNAL_STATUS + number)


def _ignore_signals() -> None:
    """Clean up completely, even if Ctrl-C is pressed repeatedly."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
