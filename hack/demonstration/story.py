"""What is shown, in order. Each step is the commands that a user would type; every wait has a deadline."""

from __future__ import annotations

from hack.control_plane.waiting import wait_for
from hack.demonstration.shell import Shell
from hack.demonstration.stage import DEFINITION, NAMESPACE, Stage

NAME = "demo"
WAIT = "kubectl wait --timeout=60s"
REPLICAS = "{.spec.replicas}"
LINE_END = '{"\\n"}'
MANIFEST = """\
apiVersion: core.rukpak.io/v1alpha2
kind: BundleDeployment
metadata: {{name: {name}}}
spec:
  format: plain
  installNamespace: {namespace}
  sources:
  - kind: image
    image: {{ref: "{image}"}}"""


def tell(stage: Stage, *, keep: bool) -> None:
    """Tell all of it; with `keep` up to the deletion.

    Raises: CommandError, MissingError, RefusedError.
    """
    shell = stage.shell
    shell.tell("== A cluster, and a registry with two versions of a bundle")
    stage.set_up()
    repository = _publish(stage)
    shell.tell("\n== RukPak: its one CustomResourceDefinition, and the controller")
    _start(stage)
    shell.tell("\n== Installed by one kubectl apply")
    _install(shell, f"{repository}:v1")
    shell.tell("\n== Somebody edits a managed object: it is put back")
    _repair(shell)
    shell.tell("\n== Paused: an edit stays, and is reported")
    _pause(shell)
    shell.tell("\n== Resumed: the edit is put back")
    _resume(shell)
    shell.tell("\n== Upgraded: something changes, something is added, something is pruned")
    _upgrade(shell, f"{repository}:v2")
    if not keep:
        shell.tell("\n== Deleted: nothing of it is left")
        _delete(shell)


def _publish(stage: Stage) -> str:
    """Push both versions of the bundle, and return the repository."""
    repository = f"{stage.start_registry()}/{NAME}"
    push = f".venv/bin/python -m hack.demonstration.push hack/demonstration/bundle/$v {repository}:$v"
    stage.shell.run(f"for v in v1 v2; do {push}; done")
    return repository


def _start(stage: Stage) -> None:
    shell = stage.shell
    shell.run("kubectl apply --server-side -k config/crd")
    # kubectl wait fails while there are no conditions at all: a person is not that fast.
    wait_for(lambda: shell.look(f"kubectl get {DEFINITION} -o jsonpath='{{.status.conditions}}'"), 60, "conditions")
    shell.run(f"{WAIT} --for=condition=Established {DEFINITION}")
    stage.start_controller()


def _install(shell: Shell, image: str) -> None:
    manifest = MANIFEST.format(name=NAME, namespace=NAMESPACE, image=image)
    shell.run(f"kubectl apply -f - <<'EOF'\n{manifest}\nEOF")
    shell.watch(f"kubectl get bd {NAME} --watch", until=lambda line: line.split()[3:4] == ["True"])
    _show_objects(shell)


def _repair(shell: Shell) -> None:
    _edit_replicas(shell, 7)
    shell.run(f"{WAIT} -n {NAMESPACE} --for=jsonpath='{REPLICAS}'=2 deployment/web")


def _pause(shell: Shell) -> None:
    shell.run(f"{_set_paused('true')} && {WAIT} --for=condition=Paused bd/{NAME}")
    _edit_replicas(shell, 5)
    shell.run(f"{WAIT} --for=condition=Drifted bd/{NAME}")
    shell.run(f"kubectl -n {NAMESPACE} get deployment web -o jsonpath='{REPLICAS}{LINE_END}'")


def _resume(shell: Shell) -> None:
    shell.run(_set_paused("false"))
    shell.run(f"{WAIT} -n {NAMESPACE} --for=jsonpath='{REPLICAS}'=2 deployment/web")


def _upgrade(shell: Shell, image: str) -> None:
    change = f'[{{"op": "replace", "path": "/spec/sources/0/image/ref", "value": "{image}"}}]'
    shell.run(f"kubectl patch bd {NAME} --type=json -p '{change}'")
    shell.run(f"{WAIT} --for=condition=Ready bd/{NAME}")
    shell.run(f"{WAIT} -n {NAMESPACE} --for=delete configmap/banner")
    _show_objects(shell)
    shell.run(f"kubectl -n {NAMESPACE} get configmap settings -o jsonpath='{{.data.greeting}}{LINE_END}'")


def _delete(shell: Shell) -> None:
    shell.run(f"kubectl delete bd {NAME} --timeout=60s")
    _show_objects(shell)


def _edit_replicas(shell: Shell, count: int) -> None:
    """Edit the Deployment, and show the value that the edit left."""
    edit = f'{{"spec": {{"replicas": {count}}}}}'
    shell.run(f"kubectl -n {NAMESPACE} patch deployment web -p '{edit}' -o jsonpath='{REPLICAS}{LINE_END}'")


def _set_paused(value: str) -> str:
    return f'kubectl patch bd {NAME} --type=merge -p \'{{"spec": {{"paused": {value}}}}}\''


def _show_objects(shell: Shell) -> None:
    """Show what carries the label of managed objects."""
    kinds = "deployment,service,configmap,poddisruptionbudget"
    shell.run(f"kubectl -n {NAMESPACE} get {kinds} -l core.rukpak.io/bundle-deployment={NAME} -o name | xargs")
