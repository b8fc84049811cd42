"""What people do to hundreds of BundleDeployments, at random: the same seed does the same."""

from __future__ import annotations

import gzip
import json
import random
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from hack.bench.api import BUNDLE_DEPLOYMENTS
from rukpak.api import names
from rukpak.controller.kube.client import ApiError, Client
from rukpak.controller.kube.errors import attempt
from tests.support.git_servers import GitHttpServer, GitRepository
from tests.support.registry import Files, RegistryClient, pack
from tests.support.web_servers import FileServer

PIECE = 64 * 1024
MOST_BYTES = 4096
SLOW_SECONDS = 2.0


class FailingNetwork:
    """A TCP proxy on a free loopback port between `with` and its end.

    While it fails, a connection is refused, is cut after some bytes, or is slow, each with the same probability as
    that nothing happens to it.

    Args:
        host: `address:port` that is connected to.
        seed: of what happens to a connection.
    """

    def __init__(self, host: str, seed: int) -> None:
        address, _, port = host.rpartition(":")
        self._upstream = (address, int(port))
        self._dice = random.Random(seed)  # noqa: S311 - chance, not secrecy
        self._is_failing = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.host = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def fail(self, *, failing: bool) -> None:
        """Let connections that are opened from now on fail, or none of them."""
        (self._is_failing.set if failing else self._is_failing.clear)()

    def _accept(self) -> None:
        with suppress(OSError):  # the listener was closed
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection, self._roll()), daemon=True).start()

    def _roll(self) -> str:
        return self._dice.choice(("refuse", "cut", "slow", "relay")) if self._is_failing.is_set() else "relay"

    def _serve(self, connection: socket.socket, fate: str) -> None:
        with closing(connection), suppress(OSError):
            if fate == "refuse":
                return
            if fate == "slow":
                threading.Event().wait(SLOW_SECONDS)
            with closing(socket.create_connection(self._upstream)) as upstream:
                threading.Thread(target=_copy, args=(connection, upstream, None), daemon=True).start()
                _copy(upstream, connection, random.Random().randrange(MOST_BYTES) if fate == "cut" else None)  # noqa: S311


def _copy(source: socket.socket, target: socket.socket, most: int | None) -> None:
    """Copy until one side hangs up, or until that many bytes."""
    with suppress(OSError):
        while data := source.recv(PIECE):
            target.sendall(data[:most])
            if most is not None:
                most -= min(most, len(data))
                if not most:
                    break
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


Manifest = dict[str, Any]
Identity = tuple[str, str, str]
"""Kind, namespace, and name of an object."""

VERSIONS = ("v1", "v2", "v3", "v4")
PLURALS = {"ConfigMap": "configmaps", "ServiceAccount": "serviceaccounts", "Deployment": "deployments"}


def manifests(version: str) -> list[Manifest]:
    """Return the objects of a version: one is always equal, two change, and one exists in this version only."""
    labels = {"app": "soak"}
    container = {"name": "app", "image": f"example.com/{version}"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    deployment = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return [
        _object("v1", "ConfigMap", "settings", data={"color": "blue"}),
        _object("v1", "ConfigMap", "release", data={"version": version}),
        _object("v1", "ConfigMap", f"only-{version}", data={"version": version}),
        _object("v1", "ServiceAccount", "app"),
        _object("apps/v1", "Deployment", "app", spec=deployment),
    ]


def expected(deployment: Mapping[str, Any]) -> dict[Identity, object]:
    """Return the content of each object that a BundleDeployment has to hold, by its spec."""
    version = version_of(deployment["spec"]["sources"])
    namespace = deployment["spec"]["installNamespace"]
    return {(each["kind"], namespace, each["metadata"]["name"]): content(each) for each in manifests(version)}


def version_of(sources: object) -> str:
    """Return the version that the sources of a BundleDeployment name.

    Raises: ValueError if they name none.
    """
    found = re.search(r"\bv[1-9]\b", str(sources))
    if not found:
        raise ValueError(f"no version in {sources}")
    return found[0]


def content(manifest: Mapping[str, Any]) -> object:
    """Return what tells versions of an object apart."""
    match manifest["kind"]:
        case "ConfigMap":
            return manifest["data"]
        case "Deployment":
            return manifest["spec"]["template"]["spec"]["containers"][0]["image"]
        case _:
            return None


def collection(kind: str) -> str:
    """Return the path of the objects of a kind in all namespaces."""
    return f"{'/apis/apps/v1' if kind == 'Deployment' else '/api/v1'}/{PLURALS[kind]}"


def _object(api_version: str, kind: str, name: str, **fields: Any) -> Manifest:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


REPOSITORY = "soak"
KINDS = ("image", "git", "http")


class Sources:
    """All versions, at one server for each kind of source.

    Args:
        networks: the way to each server, by kind.
    """

    def __init__(self, networks: Mapping[str, FailingNetwork]) -> None:
        self._networks = networks

    def entry(self, kind: str, version: str) -> dict[str, Any]:
        """Return the entry of spec.sources that fetches a version."""
        host = self._networks[kind].host
        match kind:
            case "image":
                return {"kind": kind, kind: {"ref": f"{host}/{REPOSITORY}:{version}"}}
            case "git":
                return {"kind": kind, kind: {"repository": f"http://{host}/{REPOSITORY}.git", "ref": version}}
            case _:
                return {"kind": kind, kind: {"url": f"http://{host}/{version}.tar.gz"}}

    def fail(self, *, failing: bool) -> None:
        """Let the networks fail from now on, or no longer."""
        for network in self._networks.values():
            network.fail(failing=failing)


@contextmanager
def serve_sources(folder: Path, registry: RegistryClient, seed: int) -> Iterator[Sources]:
    """Serve all versions until the end of the block.

    Args:
        folder: for the git repository.
        registry: that the images are pushed to.
        seed: of the failures of the networks.
    """
    repository, files = GitRepository(folder / f"{REPOSITORY}.git"), FileServer()
    for version in VERSIONS:
        content = _files(version)
        registry.push_image(REPOSITORY, version, [content])
        repository.tag(version, repository.commit(dict(content.items()), orphan=True))
        files.files[f"/{version}.tar.gz"] = gzip.compress(pack(content), mtime=0)
    with ExitStack() as stack:
        git = stack.enter_context(GitHttpServer(folder))
        stack.enter_context(files.serving())
        hosts = {"image": registry.host, "git": urlsplit(git.url).netloc, "http": urlsplit(files.address).netloc}
        networks = {kind: stack.enter_context(FailingNetwork(host, seed)) for kind, host in hosts.items()}
        yield Sources(networks)


def _files(version: str) -> Files:
    return {f"manifests/{number}.json": json.dumps(each).encode() for number, each in enumerate(manifests(version))}


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
        """Let every BundleDeployment that exists go on; some may still be being deleted.

        Raises: ApiError.
        """
        for deployment in self._client.list(BUNDLE_DEPLOYMENTS):
            attempt(partial(self._change, deployment["metadata"]["name"], paused=False), HTTPStatus.NOT_FOUND)

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
