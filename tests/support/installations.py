"""RukPak as `kubectl apply -k` installs it: the controller runs as a process, with the token of its account in the pod.

So it has exactly the rights of config/, and the options of the Deployment, but for what only a pod has: its addresses
and the folder of its store.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.processes import make_owned_folder, take_away, wait_for
from tests.support.bundles import DEPLOYMENTS, ROOT, SECONDS, Manifest, World, is_answered
from tests.support.controller import Controller
from tests.support.inside import connect, read_documents
from tests.support.registry import RegistryClient

CONFIG = ROOT / "config"
NAMESPACE = "rukpak-system"
ACCOUNT = "rukpak"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
OF_THE_POD = ("--store=", "--metrics-address=", "--probe-address=")

Right = tuple[str, str, str]
"""Group, resource with its subresource, verb."""


def kustomize(cluster: ControlPlane, folder: str) -> list[Manifest]:
    """Return the objects of a folder of config/."""
    text = cluster.kubectl("kustomize", str(CONFIG / folder))
    return [document.value for document in read_documents(text.encode(), folder)]


def kubeconfig_of(cluster: ControlPlane, folder: Path, namespace: str, account: str) -> Path:
    """Write a kubeconfig with a token of a ServiceAccount; return its path."""
    token = cluster.kubectl("create", "token", account, f"--namespace={namespace}").strip()
    value = json.loads(cluster.kubectl("config", "view", "--raw", "--minify", "--flatten", "--output=json"))
    value["users"][0]["user"] = {"token": token}
    path = folder / "kubeconfig"
    path.write_text(json.dumps(value), encoding="utf-8")
    path.chmod(0o600)
    return path


def container_of(cluster: ControlPlane, namespace: str = NAMESPACE) -> Manifest:
    """Return the container of the Deployment that is installed."""
    text = cluster.kubectl("get", "deployment", ACCOUNT, f"--namespace={namespace}", "--output=json")
    container: Manifest = json.loads(text)["spec"]["template"]["spec"]["containers"][0]
    return container


@contextmanager
def install(
    cluster: ControlPlane, registry: RegistryClient, running: Path, folder: str, *options: str
) -> Iterator[World]:
    """Apply a folder of config/, to which nothing of RukPak is there yet, and run its controller."""
    cluster.kubectl("apply", "-k", str(CONFIG / folder))
    with run_installed(cluster, registry, running, *options) as world:
        yield world


@contextmanager
def run_installed(
    cluster: ControlPlane, registry: RegistryClient, running: Path, *options: str, namespace: str = NAMESPACE
) -> Iterator[World]:
    """Start the controller as the account and with the options of the Deployment that is installed.

    Args:
        cluster: with RukPak.
        registry: of the bundles.
        running: folder in which everything that runs has a folder of its own.
        options: of `rukpak run`, besides those of the Deployment.
        namespace: of the Deployment.
    """
    own = make_owned_folder(running, "controller")
    arguments = [each for each in container_of(cluster, namespace)["args"][1:] if not each.startswith(OF_THE_POD)]
    kubeconfig = kubeconfig_of(cluster, own, namespace, ACCOUNT)
    controller = Controller(own, kubeconfig, *arguments, *options, environment={})
    client = connect(kubeconfig=str(cluster.kubeconfig), user_agent="tests")
    world = World(cluster=cluster, registry=registry, controller=controller, store=own / "store", client=client)
    try:
        wait_for(lambda: is_answered(client, DEPLOYMENTS), SECONDS, "BundleDeployments served")
        controller.start()
        yield world
    finally:
        controller.kill()
        print(controller.log)
        take_away(own)


# what the controller asked for, and what came of it


def own_requests(events: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the requests of the controller's account for itself, those that it made as a tenant left out."""
    ours = (event for event in events if event["user"]["username"] == USER)
    return [event for event in ours if "impersonatedUser" not in event]


def refused(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the requests that RBAC or a policy did not allow."""
    return [
        f"{event['verb']} {event['requestURI']}"
        for event in events
        if (event.get("responseStatus") or {}).get("code") == 403
    ]


def used_rights(events: Iterable[Mapping[str, Any]]) -> set[Right]:
    """Return the rights that the controller has made use of."""
    found: set[Right] = set()
    for event in (each for each in events if each["user"]["username"] == USER):
        if "impersonatedUser" in event:
            found.add(("", "serviceaccounts", "impersonate"))
            continue
        about = event.get("objectRef") or {}
        resource = "/".join(filter(None, (about.get("resource", ""), about.get("subresource"))))
        found.add((about.get("apiGroup", ""), resource, event["verb"]))
        if event["verb"] == "watch" and "sendInitialEvents=true" in event["requestURI"]:
            found.add((about.get("apiGroup", ""), resource, "list"))  # by which older servers have to be asked instead
        if event["verb"] == "patch" and event["responseStatus"]["code"] == 201:
            found.add((about.get("apiGroup", ""), resource, "create"))  # an apply of what is not there takes both
    return found


def granted_rights(cluster: ControlPlane) -> set[Right]:
    """Return what the roles that are bound to the controller's account allow, in any namespace."""
    listed = cluster.kubectl("get", "roles,clusterroles,rolebindings,clusterrolebindings", "-A", "--output=json")
    items = json.loads(listed)["items"]
    roles = {_key(each["kind"], each["metadata"]): each.get("rules") or [] for each in items if "roleRef" not in each}
    bound = [each for each in items if "roleRef" in each and _is_bound(each)]
    return {
        (group, resource, verb)
        for binding in bound
        for rule in roles[_key(binding["roleRef"]["kind"], binding["roleRef"] | _namespace_of(binding))]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def _is_bound(binding: Manifest) -> bool:
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    return any(each == subject for each in binding.get("subjects") or ())


def _namespace_of(binding: Manifest) -> dict[str, str]:
    return {"namespace": binding["metadata"].get("namespace", "")}


def _key(kind: str, about: Mapping[str, str]) -> tuple[str, str, str]:
    return kind, about.get("namespace", "") if kind == "Role" else "", about["name"]
