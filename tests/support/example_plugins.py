"""Plug-ins that keep what all plug-ins promise, and those that break it only in another process."""

from __future__ import annotations

import hashlib
import io
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from rukpak.plugins import (
    Access,
    BundleError,
    ContentTree,
    Entry,
    Prepared,
    PrepareRequest,
    ProcessRequest,
    Proxy,
    Reason,
    Rendering,
    RenderRequest,
    Resolution,
    TextBudget,
    digest_of,
)


def problems(parameters: Mapping[str, Any], path: str) -> list[str]:
    found = [f"{path}: only color and the like" for key in parameters if key not in ("color", "url")]
    wrong = [key for key in ("color", "url") if not isinstance(parameters.get(key, ""), str)]
    return found + [f"{path}.{key}: must be text" for key in wrong]


class ExampleFormat:
    """Each file becomes a ConfigMap."""

    reads_part = True

    def validate(self, config: Mapping[str, Any]) -> list[str]:
        return problems(config, "spec.config")

    def suggest_namespace(self, tree: ContentTree, config: Mapping[str, Any]) -> str:
        return "example"

    def place_config(self, values: Mapping[str, Any], config: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**values, **config}

    def render(self, request: RenderRequest) -> Rendering:
        request.tree.check(lambda _: True)
        budget, root = TextBudget.of(request.means), request.tree.root
        files = sorted(path for path in root.rglob("*") if path.is_file())
        found = {str(path.relative_to(root)): budget.read(path, path.name) for path in files}
        try:
            return Rendering(objects=[config_map(name, data.decode()) for name, data in found.items()])
        except UnicodeDecodeError:
            raise BundleError(Reason.INVALID_BUNDLE, "a file is not UTF-8; convert it") from None


def config_map(name: str, text: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}}


class ForgetfulFormat(ExampleFormat):
    """Depends on what differs from process to process."""

    def validate(self, config: Mapping[str, Any]) -> list[str]:
        return [f"spec.config: {hash('color')}"]

    def render(self, request: RenderRequest) -> Rendering:
        return Rendering(objects=[config_map("a", str(hash("color")))])


class ExampleProcessor:
    """Adds an annotation, and what is in a Secret to a file."""

    def validate(self, parameters: Mapping[str, Any], path: str) -> list[str]:
        return problems(parameters, path)

    def find_secrets(self, parameters: Mapping[str, Any]) -> list[str]:
        return ["key"]

    def process(self, request: ProcessRequest) -> Rendering:
        request.charge(1, 1)
        self.check(request)
        changed = [
            {**item, "metadata": {**item["metadata"], "annotations": dict(request.parameters)}}
            for item in request.rendering.objects
        ]
        return replace(request.rendering, objects=changed)

    def prepare(self, request: PrepareRequest) -> Prepared:
        self.check(request)
        return Prepared(files={"a.txt": b"decrypted"}, secrets=("decrypted",))

    def check(self, request: ProcessRequest | PrepareRequest) -> None:
        if request.secrets["key"].get("key") != b"open sesame":
            raise BundleError(Reason.INVALID_CONFIG, f'{request.path}: Secret "key" does not fit; correct it')


class ExampleSource:
    """Reads a ConfigMap as if it was a server at this machine, which is asked by its name."""

    def validate(self, parameters: Mapping[str, Any], path: str) -> list[str]:
        return problems(parameters, path)

    def identity(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"url": parameters["url"].lower()}

    def origin(self, parameters: Mapping[str, Any]) -> str:
        return str(parameters["url"]).lower()

    def resolve(self, parameters: Mapping[str, Any], access: Access) -> Resolution:
        return Resolution(pinned=parameters["url"], digest=digest_of(repr(sorted(ask(access).items())).encode()))

    def content_key(self, parameters: Mapping[str, Any], resolution: Resolution) -> str:
        return resolution.digest

    def fetch(self, parameters: Mapping[str, Any], resolution: Resolution, access: Access) -> Iterator[Entry]:
        files = ask(access)
        if digest_of(repr(sorted(files.items())).encode()) != resolution.digest:
            raise BundleError(Reason.DIGEST_MISMATCH, f"{access.path}: the content has changed; resolve it again")
        yield from entries_of(files)


class ForgetfulSource(ExampleSource):
    """Depends on what differs from process to process."""

    def identity(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"url": hash("url")}


def entries_of(files: Mapping[str, bytes]) -> Iterator[Entry]:
    for path, data in files.items():
        yield Entry(path=path, size=len(data), data=io.BytesIO(data))


def ask(access: Access) -> Mapping[str, bytes]:
    """Return the files of the server, as far as the network and the user are allowed."""
    if access.network.proxies.https and not access.network.allowed_hosts:
        raise refused_by(access.network.proxies.https, access.path)
    if access.network.allowed_hosts or not access.network.allow_loopback:
        raise BundleError(Reason.INSECURE_REFUSED, f"{access.path}: this host is not allowed")
    if access.credentials is None or access.credentials.password != "secret":
        raise BundleError(Reason.UNAUTHORIZED, f"{access.path}: other credentials are wanted")
    files = access.config_map("server").files
    if "hang" in files:
        while time.monotonic() < access.deadline:
            time.sleep(0.01)
        raise BundleError(Reason.UNREACHABLE, f"{access.path}: the server says nothing")
    access.progress(sum(map(len, files.values())), 0)
    return files


def refused_by(proxy: Proxy, path: str) -> BundleError:
    """Ask a proxy that connects to nothing."""
    with socket.create_connection((proxy.host, proxy.port), timeout=10) as peer:
        lines = ("CONNECT files.example.com:443 HTTP/1.1", f"Proxy-Authorization: {proxy.authorization}", "", "")
        peer.sendall("\r\n".join(lines).encode())
        peer.recv(1)
    return BundleError(Reason.UNREACHABLE, f"{path}: proxy {proxy.authority} does not connect to this server")


def unique() -> str:
    """Return another text each time."""
    return hashlib.sha256(str(time.perf_counter_ns()).encode()).hexdigest()


def broken(plugin: type[Any], **methods: Callable[..., Any]) -> type[Any]:
    """Return a plug-in whose methods are replaced."""
    return type(f"Broken{plugin.__name__}", (plugin,), {**methods})
