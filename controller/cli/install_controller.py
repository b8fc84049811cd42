"""`rukpak install-controller`: the API and the controller on a cluster, from manifests that the package contains.

They are those of config/default and config/restricted, applied server-side with one field manager, so that running it
again upgrades. Nothing is applied before everything was tried as a dry run, and shown.

Not here: the Helm chart, and what config/ has beside these two. `uninstall` removes what this installs.
"""

from __future__ import annotations

import argparse
import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rukpak.api import names
from rukpak.api.proxies import HTTPS_PROXY, NO_PROXY, parse_proxy
from rukpak.controller.apply.order import position_of
from rukpak.controller.cli.command import confirm, connect, tell
from rukpak.controller.cli.deployments import wait_while
from rukpak.controller.cli.installation import LABEL, Level, check_cluster, describe_cluster, find_loss
from rukpak.controller.content.limits import one_line
from rukpak.controller.formats.manifests import read_documents
from rukpak.controller.kube.client import Client
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.errors import attempt
from rukpak.controller.kube.resources import GroupVersionKind
from rukpak.controller.observe.health.rules import assess
from rukpak.controller.observe.health.verdict import Context, State
from rukpak.controller.observe.records import key_of
from rukpak.controller.views import FailedError, MisuseError
from rukpak.controller.views.access import Manifest, read_holder, read_if_exists, with_pods
from rukpak.controller.views.texts import name_of, to_yaml

MANAGER = "rukpak-install-controller"
DEFAULT, RESTRICTED = "install.yaml", "install-restricted.yaml"
RESTRICTION = "--require-service-account"
HELM_RELEASE = "meta.helm.sh/release-name"
CREATED, CONFIGURED, UNCHANGED, DELETED = "created", "configured", "unchanged", "deleted"
_WAITED_FOR = ("CustomResourceDefinition", "Deployment")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What happens to an object of RukPak."""

    manifest: Manifest
    path: str
    outcome: str
    """As kubectl says it, in the past tense."""

    def __str__(self) -> str:
        """Return the line that kubectl would print."""
        return f"{name_of(self.manifest)} {self.outcome}"


def main(options: argparse.Namespace) -> int:
    """Install or upgrade API and controller, or print their manifests; return the exit status.

    Raises: MisuseError for a proxy that cannot be used, and without a terminal for the question; FailedError, ApiError,
        ConfigurationError.
    """
    read = partial(read_manifests, image=options.image, namespace=options.namespace)
    wanted = add_proxy(read(restricted=options.restricted), options)
    if options.output:
        print("---\n".join(map(to_yaml, wanted)), end="")
        return 0
    client = connect(options)
    discovery = Discovery(client)
    plan = [*make_plan(client, discovery, wanted)]
    if options.restricted:
        plan += find_superseded(client, discovery, plan, read(restricted=False))
    if options.dry_run:
        print("".join(f"{step} (server dry run)\n" for step in plan), end="", flush=True)
        return 0
    if any(step.outcome != UNCHANGED for step in plan):
        _announce(client, options, plan)
        confirm(options, "canceled; nothing was changed")
    carry_out(client, plan)
    outcomes = {step.manifest["kind"]: step.outcome for step in plan}
    if options.https_proxy and outcomes["Secret"] != UNCHANGED and outcomes["Deployment"] == UNCHANGED:
        tell(f'run "kubectl -n {options.namespace} rollout restart deployment/rukpak", which then uses the proxy')
    if not options.wait:
        tell('run "rukpak check" to see whether the controller runs, and what is missing')
        return 0
    if left := _wait(client, plan, options.timeout):
        raise FailedError(f'timed out: {left}; "kubectl -n {options.namespace} describe pods" shows more')
    _tell_findings(client, options.namespace)
    return 0


def read_manifests(*, restricted: bool, image: str, namespace: str) -> list[Manifest]:
    """Return the objects of RukPak in the order in which they are applied, with this image, in this namespace."""
    text = find_manifests(RESTRICTED if restricted else DEFAULT).read_text(encoding="utf-8")
    moved = text.replace(names.DEFAULT_NAMESPACE, namespace).encode()
    found = [document.value for document in read_documents(moved, DEFAULT)]
    images = [_with_image(each, image) if each["kind"] == "Deployment" else each for each in found]
    # As the objects of bundles: a pod that is created before its account fails once.
    return sorted(images, key=lambda each: position_of(key_of(each)))


def add_proxy(manifests: Sequence[Manifest], options: argparse.Namespace) -> list[Manifest]:
    """Return the manifests with the Secret that the Deployment takes its proxy from; without one it stays as it is.

    Raises: MisuseError.
    """
    if not options.https_proxy:
        return [*manifests]
    try:
        parse_proxy(options.https_proxy)
    except ValueError as error:
        raise MisuseError(f"--https-proxy: {error}") from None
    values = {HTTPS_PROXY: options.https_proxy, NO_PROXY: options.no_proxy}
    secret: Manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": names.PROXY, "namespace": options.namespace, "labels": dict([LABEL.split("=")])},
        "type": "Opaque",
        "data": {name: base64.b64encode(value.encode()).decode() for name, value in values.items()},
    }
    first = next(index for index, each in enumerate(manifests) if each["kind"] == "Deployment")
    return [*manifests[:first], secret, *manifests[first:]]


def find_manifests(name: str) -> Path:
    """Return the path of a file of manifests: beside this module in an installed package, else that of the sources."""
    installed = Path(__file__).with_name(name)
    return installed if installed.exists() else Path(__file__).resolve().parents[2] / "config" / name


def _with_image(deployment: Manifest, image: str) -> Manifest:
    spec = deployment["spec"]
    pod = spec["template"]["spec"]
    containers = [{**each, "image": image} for each in pod["containers"]]
    template = {**spec["template"], "spec": {**pod, "containers": containers}}
    return {**deployment, "spec": {**spec, "template": template}}


# what would change


def make_plan(client: Client, discovery: Discovery, wanted: Sequence[Manifest]) -> Iterator[Step]:
    """Yield what an apply of each object would do, as the API server answers a dry run.

    Raises: FailedError if the cluster does not serve a kind, Helm manages an object, the API is of a newer release, or
        a controller would lose its restriction; ApiError if the API server would refuse an object.
    """
    for manifest in wanted:
        path = _path(discovery, manifest)
        found = read_if_exists(client, path)
        if found:
            _check_present(found.value, manifest)
        apply = partial(client.apply, path, manifest, manager=MANAGER, force=True, dry_run=True, metadata=False)
        applied = attempt(apply, HTTPStatus.NOT_FOUND)  # of its namespace, which is still to be created
        if found is None or applied is None:
            yield Step(manifest=manifest, path=path, outcome=CREATED)
        else:
            is_same = _content(applied.value) == _content(found.value)
            yield Step(manifest=manifest, path=path, outcome=UNCHANGED if is_same else CONFIGURED)


def _path(discovery: Discovery, manifest: Manifest) -> str:
    resource = discovery.resource(GroupVersionKind.of(manifest))
    if resource is None:
        raise FailedError(f"the cluster does not serve {manifest['apiVersion']} {manifest['kind']}; use a newer one")
    return resource.path(manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"])


def _check_present(found: Mapping[str, Any], manifest: Manifest) -> None:
    if found["metadata"].get("deletionTimestamp"):
        raise FailedError(f"{name_of(manifest)} is being deleted; run it again when it is gone")
    release = (found["metadata"].get("annotations") or {}).get(HELM_RELEASE)
    if release:
        raise FailedError(f'{name_of(manifest)} is managed by the Helm release "{release}"; use helm upgrade')
    if manifest["kind"] == "CustomResourceDefinition" and (loss := find_loss(found)):
        remedy = "use the release that it is of"
        raise FailedError(f"the API of the cluster has {loss}, which this release does not know; {remedy}")
    if manifest["kind"] == "Deployment" and is_restricted(found) and not is_restricted(manifest):
        raise FailedError(
            f"{name_of(manifest)} is restricted to accounts of tenants; pass --restricted, or uninstall it"
        )


def is_restricted(deployment: Mapping[str, Any]) -> bool:
    """Return whether the controller of a Deployment installs bundles only as their ServiceAccounts."""
    containers: Sequence[Mapping[str, Any]] = deployment["spec"]["template"]["spec"]["containers"]
    return any(RESTRICTION in (each.get("args") or ()) for each in containers)


def _content(value: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: each for key, each in value.items() if key not in ("metadata", "status")}
    metadata = value["metadata"]
    return {**kept, "labels": metadata.get("labels"), "annotations": metadata.get("annotations")}


def find_superseded(
    client: Client, discovery: Discovery, plan: Sequence[Step], default: Sequence[Manifest]
) -> list[Step]:
    """Return the deletion of what only the default installation has: the permission to install anything.

    Nothing is deleted the other way around, since policies also go with the default installation.

    Raises: ApiError.
    """
    kept = {step.path for step in plan}
    found = [Step(manifest=each, path=_path(discovery, each), outcome=DELETED) for each in default]
    return [step for step in found if step.path not in kept and read_if_exists(client, step.path)]


def _announce(client: Client, options: argparse.Namespace, plan: Sequence[Step]) -> None:
    tell(f"Installing RukPak {version('rukpak')} on {describe_cluster(client, options)}")
    holder = read_holder(client, options.namespace)
    if holder and holder.version not in ("", version("rukpak")):
        tell(f"  release {holder.version} of the controller is replaced")
    for step in plan:
        if step.outcome != UNCHANGED:
            tell(f"  {step}")


# the change


def carry_out(client: Client, plan: Sequence[Step]) -> None:
    """Apply each object, and print what became of it; what has to go is last.

    Raises: ApiError.
    """
    for step in plan:
        if step.outcome == DELETED:
            attempt(partial(client.delete, step.path), HTTPStatus.NOT_FOUND)
        else:
            client.apply(step.path, step.manifest, manager=MANAGER, force=True)
        print(step, flush=True)


def _wait(client: Client, plan: Sequence[Step], seconds: float) -> str:
    waited_for = [step for step in plan if step.manifest["kind"] in _WAITED_FOR]
    return wait_while(lambda: next(filter(None, (describe_progress(client, step) for step in waited_for)), ""), seconds)


def describe_progress(client: Client, step: Step) -> str:
    """Return what an object still lacks, and why; empty if it is healthy.

    Raises: ApiError, except where its pods may not be read.
    """
    found = read_if_exists(client, step.path)
    if found is None:
        return f"{name_of(step.manifest)} was deleted"
    verdict = assess(found.value, Context())
    if verdict.state is State.HEALTHY:
        return ""
    said = with_pods(client, found.value, verdict)
    if said is verdict:
        return f"{name_of(step.manifest)}: {verdict.text or verdict.reason}"
    return f"{name_of(step.manifest)}: {': '.join(filter(None, (said.reason, said.text)))}"


def _tell_findings(client: Client, namespace: str) -> None:
    for subject, found in check_cluster(client, namespace):
        if found.level is not Level.OK:
            tell(one_line(f"{found.level.value}: {subject}: {found.text}"))
