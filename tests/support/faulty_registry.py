"""A small OCI registry for faults that a real one cannot produce on demand.

In memory: the read side of the distribution API, anonymous, by password or by token; and faults: any status, headers
and bodies that trickle, bodies that are cut, encoded or too long, blobs that were changed, redirects, foreign token
servers, tags without a digest header. Standalone: `python -m tests.support.faulty_registry` serves one bundle until
interrupted.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from tests.support import zstd
from tests.support.archives import tarball
from tests.support.web_servers import QuietServer

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
OCI_LAYER = "application/vnd.oci.image.layer.v1.tar"
DOCKER_LAYER = "application/vnd.docker.image.rootfs.diff.tar"


def _compress(data: bytes, compression: str) -> bytes:
    if compression == "gzip":
        return gzip.compress(data, mtime=0)
    return zstd.compress(data) if compression == "zstd" else data


def digest_of(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


@dataclass
class Faults:
    """What goes wrong, for requests whose path contains `where`."""

    where: str = "/v2/"
    method: str = ""
    """Of the requests that get the status; empty: any."""
    status: int = 0
    times: int = 1_000_000
    """How many requests get that status; later ones succeed."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Additional headers."""
    cut_after: int = -1
    """The connection ends after this many bytes of the body."""
    trickle: str = ""
    """`header` or `body` is sent byte by byte, slowly and without end."""
    redirect: str = ""
    """Beginning of another URL that is redirected to."""
    no_digest: bool = False
    """No Docker-Content-Digest."""
    body: bytes | None = None
    """Sent instead."""


class FaultyRegistry:
    """Serves on a free loopback port inside `with`.

    Args:
        tls: of the server; None for plain http.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.faults = Faults()
        self.wants_token = False
        self.logins: dict[str, str] = {}
        """User to password. If set, the registry or its token server requires them by Basic."""
        self.login_for = ""
        """Part of the paths that require them; empty: all."""
        self.identity_tokens: set[str] = set()
        """Identity tokens that the token server accepts."""
        self.stranger_status = 0
        """Status without a challenge for requests without Authorization, except for the base of the API."""
        self.has_open_base = False
        """Anyone may read the base of the API."""
        self.refusal = 401
        """Status for an Authorization that is not accepted."""
        self.lists_referrers = False
        """Whether it has the API of OCI 1.1."""
        self.realm = ""
        """Of the challenge; default: this registry's own."""
        self.token_answer: bytes | None = None
        """Sent instead of a token."""
        self.token_uses = 1_000_000
        """After so many a token is refused."""
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        """Method, path, headers."""
        self.forms: list[dict[str, str]] = []
        """What was posted."""
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, tuple[str, bytes]] = {}
        """By tag and by digest."""
        self._tokens: dict[str, int] = {}
        self._scheme = "http" if tls is None else "https"
        self._stop = threading.Event()
        self._server = QuietServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"registry": self}))
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.host = f"127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._server.shutdown()
        self._server.server_close()

    # what it holds

    def add_blob(self, data: bytes, media_type: str) -> dict[str, Any]:
        self.blobs[digest_of(data)] = data
        return {"mediaType": media_type, "digest": digest_of(data), "size": len(data)}

    def add_image(
        self, tag: str, *layers: bytes, compression: str = "gzip", docker: bool = False, **document: Any
    ) -> str:
        """Add an image of these tar archives, with more fields of its manifest; return its digest."""
        suffix = f"{'.' if docker else '+'}{compression}" if compression else ""
        media_type = (DOCKER_LAYER if docker else OCI_LAYER) + suffix
        descriptors = [self.add_blob(_compress(layer, compression), media_type) for layer in layers]
        return self.add_manifest(tag, DOCKER_MANIFEST if docker else OCI_MANIFEST, layers=descriptors, **document)

    def add_index(self, tag: str, platforms: Mapping[str, str], *, docker: bool = False, **document: Any) -> str:
        """Add an index of platform to digest of an image; the platform '' is not written. Return its digest."""
        entries = []
        for platform, digest in platforms.items():
            media_type, data = self.manifests[digest]
            entry: dict[str, Any] = {"mediaType": media_type, "digest": digest, "size": len(data)}
            if platform:
                keys = ("os", "architecture", "variant")
                entry["platform"] = dict(zip(keys, platform.split("/"), strict=False))
            entries.append(entry)
        return self.add_manifest(tag, DOCKER_LIST if docker else OCI_INDEX, manifests=entries, **document)

    def add_manifest(self, tag: str, media_type: str, **document: Any) -> str:
        document = {"schemaVersion": 2, "mediaType": media_type, **document}
        return self.add_document(tag, media_type, json.dumps(document).encode())

    def add_document(self, tag: str, media_type: str, data: bytes) -> str:
        for name in (tag, digest_of(data)):
            self.manifests[name] = (media_type, data)
        return digest_of(data)

    # what it answers

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.requests.append((request.command, request.path, dict(request.headers)))
        path = urlsplit(request.path).path
        authorization = request.headers.get("Authorization", "")
        if path == "/token":
            admitted = self._is_admitted(request, authorization)
            self._send(request, 200 if admitted else 401, self._make_token() if admitted else b"{}", {})
        elif self.wants_token and not self._is_authorized(authorization):
            realm = self.realm or f"{self._scheme}://{self.host}/token"
            challenge = f'Bearer realm="{realm}",service="registry",scope="repository:bundle:pull"'
            self._refuse(request, authorization, challenge)
        elif self.logins and self.login_for in path and not self.wants_token and not self._is_login(authorization):
            self._refuse(request, authorization, 'Basic realm="registry"')
        elif self._has_status(request.command, path):
            self.faults.times -= 1
            self._send(request, self.faults.status, b"{}", self.faults.headers)
        elif self.faults.where in path and self.faults.redirect:
            self._send(request, 307, b"", {"Location": self.faults.redirect + request.path})
        else:
            self._send_content(request, path)

    def _has_status(self, method: str, path: str) -> bool:
        faults = self.faults
        is_meant = faults.where in path and faults.method in ("", method)
        return is_meant and bool(faults.status) and faults.times > 0

    def _refuse(self, request: BaseHTTPRequestHandler, authorization: str, challenge: str) -> None:
        is_base = urlsplit(request.path).path == "/v2/"
        status = self.refusal if authorization else 401
        if is_base and self.has_open_base:
            status = 200
        elif self.stranger_status and not authorization and not is_base:
            status, challenge = self.stranger_status, ""
        self._send(
            request, status, b'{"errors":[]}', {"WWW-Authenticate": challenge} if status == 401 and challenge else {}
        )

    def _is_admitted(self, request: BaseHTTPRequestHandler, authorization: str) -> bool:
        """Whether the token server gives a token to this request."""
        if request.command == "POST":
            form = dict(parse_qsl(request.rfile.read(int(request.headers["Content-Length"])).decode()))
            self.forms.append(form)
            return form.get("refresh_token") in self.identity_tokens
        return not (self.logins or self.identity_tokens) or self._is_login(authorization)

    def _is_login(self, authorization: str) -> bool:
        known = (f"{user}:{password}".encode() for user, password in self.logins.items())
        return authorization in {f"Basic {base64.b64encode(login).decode()}" for login in known}

    def _send_content(self, request: BaseHTTPRequestHandler, path: str) -> None:
        kind, name = path.rsplit("/", 2)[1:]
        faults = self.faults if self.faults.where in path else Faults()
        if kind == "manifests" and name in self.manifests:
            media_type, data = self.manifests[name]
            headers = {"Content-Type": media_type, "Docker-Content-Digest": digest_of(data), **faults.headers}
            if faults.no_digest:
                del headers["Docker-Content-Digest"]
            self._send(request, 200, data, headers, faults)
        elif kind == "referrers" and self.lists_referrers:
            index = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": self._referrers_of(name)}
            self._send(request, 200, json.dumps(index).encode(), {"Content-Type": OCI_INDEX}, faults)
        elif path.endswith("/tags/list"):
            tags = [tag for tag in self.manifests if ":" not in tag]
            self._send(request, 200, json.dumps({"name": "any", "tags": tags}).encode(), {})
        elif kind == "blobs" and name in self.blobs:
            self._send(request, 200, self.blobs[name], faults.headers, faults)
        else:
            self._send(request, 404, b'{"errors":[{"code":"NOT_FOUND"}]}', {})

    def _referrers_of(self, digest: str) -> list[dict[str, Any]]:
        found = []
        for name, (media_type, data) in self.manifests.items():
            document = json.loads(data)
            if name.startswith("sha256:") and document.get("subject", {}).get("digest") == digest:
                entry = {"mediaType": media_type, "digest": name, "size": len(data)}
                about = {key: document[key] for key in ("artifactType", "annotations") if key in document}
                about.setdefault("artifactType", document.get("config", {}).get("mediaType", ""))
                found.append({**entry, **about})
        return found

    def _make_token(self) -> bytes:
        token = f"token-{len(self._tokens)}"
        self._tokens[token] = self.token_uses
        return json.dumps({"token": token}).encode() if self.token_answer is None else self.token_answer

    def _is_authorized(self, header: str) -> bool:
        token = header.removeprefix("Bearer ")
        self._tokens[token] = self._tokens.get(token, 0) - 1
        return self._tokens[token] >= 0

    def _send(
        self,
        request: BaseHTTPRequestHandler,
        status: int,
        body: bytes,
        headers: Mapping[str, str],
        faults: Faults | None = None,
    ) -> None:
        faults = faults or Faults()
        body = body if faults.body is None else faults.body
        request.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            request.send_header(name, value)
        if faults.trickle == "header":
            self._trickle(request, b"X-Slow: " + bytes(b"x" * 10_000))
            return
        request.end_headers()
        if request.command == "HEAD":
            return
        if faults.trickle == "body":
            self._trickle(request, body)
        elif faults.cut_after >= 0:
            request.wfile.write(body[: faults.cut_after])
            request.close_connection = True
        else:
            request.wfile.write(body)

    def _trickle(self, request: BaseHTTPRequestHandler, data: bytes) -> None:
        request.flush_headers()
        for byte in data:
            request.wfile.write(bytes((byte,)))
            if self._stop.wait(0.05):
                break
        request.close_connection = True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the client acknowledges a head that comes alone 40 ms later
    registry: FaultyRegistry

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        self.registry.answer(self)

    do_HEAD = do_POST = do_GET  # noqa: N815 - http.server's names


if __name__ == "__main__":
    with FaultyRegistry() as registry:
        registry.add_image("v1", tarball(("manifests/configmap.yaml", b"apiVersion: v1\nkind: ConfigMap\n")))
        print(f"serving {registry.host}/bundle:v1 until interrupted")
        threading.Event().wait()
