"""What people do to hundreds of BundleDeployments, at random: the same seed does the same."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from api import names
from controller.kube.client import ApiError, Client
from hack.bench.api import BUNDLE_DEPLOYMENTS
from hack.bench.soak.contents import VERSIONS
from hack.bench.soak.sources import KINDS, Sources

STORE = f"/api/v1/namespaces/{names.DEFAULT_NAMESPACE}/secrets"
SOMEBODY = "soak"
HISTORY_LIMIT = 1
"""Small, so that after a third of the run most BundleDeployments keep as many revisions as they may."""
CROWD = 16
"""Edits at once."""
GARBLED = {"managedKinds": ["no kind"], "revision": "?"}


class Churn:
    """Operations on BundleDeployments, as an administrator.

    Attributes:
        done: how often each operation was carried out, and how often the API server refused or was away.
    """

    def __init__(self, client: Client, sources: Sources, count: int, seed: int) -> None:
        self._client, self._sources = client, sources
        self._dice = random.Random(seed)  # noqa: S311 - chance, not secrecy
        self._names = [f"soak-{number:03}" for number in range(count)]
        self._operations: dict[str, tuple[int, Callable[[str], object]]] = {
            "create or upgrade": (8, self.install),
            "pause": (1, lambda name: self._change(name, paused=True)),
            "resume": (2, lambda name: self._change(name, paused=False)),
            "delete": (1, lambda name: self._client.delete(f"{BUNDLE_DEPLOYMENTS}/{name}")),
            "delete, and keep the objects": (1, self._orphan),
            "edit an object": (4, self._edit),
            "delete an object": (3, lambda name: self._client.delete(_settings(name))),
            "wipe the status": (1, lambda name: self._write_status(name, None)),
            "garble the status": (1, lambda name: self._write_status(name, GARBLED)),
            "strip the finalizers": (1, self._strip_finalizers),
            "delete a revision Secret": (1, lambda name: self._client.delete(self._revision(name))),
            "corrupt a revision Secret": (1, self._corrupt_revision),
        }
        self.done: Counter[str] = Counter()

    def install_all(self) -> None:
        """Create every BundleDeployment."""
        for name in self._names:
            self.install(name)

    def step(self) -> None:
        """Carry out one operation on one BundleDeployment; that it was refused, or nobody answered, is counted."""
        weights = [weight for weight, _ in self._operations.values()]
        [title] = self._dice.choices(list(self._operations), weights)
        try:
            self._operations[title][1](self._dice.choice(self._names))
            self.done[title] += 1
        except LookupError:
            self.done["nothing there"] += 1
        except ApiError as error:
            self.done[f"refused with {error.status}" if error.status else "not answered"] += 1

    def edit_all(self) -> None:
        """Edit an object of every BundleDeployment at once: nothing that follows needs more threads and connections."""
        with ThreadPoolExecutor(CROWD) as pool:
            self.done["edit an object"] += sum(pool.map(self._try_to_edit, self._names))

    def _try_to_edit(self, name: str) -> bool:
        try:
            self._edit(name)
        except ApiError:
            return False
        return True

    def resume_all(self) -> None:
        """Let every BundleDeployment that exists go on.

        Raises: ApiError.
        """
        for deployment in self._client.list(BUNDLE_DEPLOYMENTS):
            self._change(deployment["metadata"]["name"], paused=False)

    # operations

    def install(self, name: str) -> None:
        """Create a BundleDeployment, or change its sources to any version at any server."""
        kind, version = self._dice.choice(KINDS), self._dice.choice(VERSIONS)
        spec = {
            "format": "plain",
            "installNamespace": name,
            "revisionHistoryLimit": HISTORY_LIMIT,
            "sources": [self._sources.entry(kind, version)],
        }
        body = {"apiVersion": f"{names.GROUP}/v1alpha2", "kind": names.KIND, "metadata": {"name": name}, "spec": spec}
        self._client.apply(f"{BUNDLE_DEPLOYMENTS}/{name}", body, manager=SOMEBODY, force=True)

    def _change(self, name: str, **spec: object) -> None:
        self._client.merge_patch(f"{BUNDLE_DEPLOYMENTS}/{name}", {"spec": spec}, manager=f"{SOMEBODY}-pause")

    def _orphan(self, name: str) -> None:
        """Delete a BundleDeployment so that the next one of its name takes its objects back."""
        self._change(name, deletionPolicy="Orphan")
        self._client.delete(f"{BUNDLE_DEPLOYMENTS}/{name}")

    def _edit(self, name: str) -> None:
        self._client.merge_patch(_settings(name), {"data": {"color": "red"}}, manager=SOMEBODY)

    def _write_status(self, name: str, status: object) -> None:
        self._client.merge_patch(f"{BUNDLE_DEPLOYMENTS}/{name}/status", {"status": status}, manager=SOMEBODY)

    def _strip_finalizers(self, name: str) -> None:
        body = {"metadata": {"finalizers": None}}
        self._client.merge_patch(f"{BUNDLE_DEPLOYMENTS}/{name}", body, manager=SOMEBODY)

    def _revision(self, name: str) -> str:
        found = list(self._client.list(STORE, label_selector=f"{names.REVISION_LABEL}={name}"))
        return f"{STORE}/{self._dice.choice(found)['metadata']['name']}"

    def _corrupt_revision(self, name: str) -> None:
        path = self._revision(name)
        keys = self._client.get(path).value["data"]
        self._client.merge_patch(path, {"data": dict.fromkeys(keys, "Z2FyYmFnZQ==")}, manager=SOMEBODY)


def _settings(name: str) -> str:
    return f"/api/v1/namespaces/{name}/configmaps/settings"
