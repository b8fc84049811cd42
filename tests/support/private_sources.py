"""Sources that require credentials over TLS: registries with passwords or a token server, git repositories, files.

Registries are CNCF distribution, and serve the content of another one, to which any client may push. All have
certificates of one authority that only the tests know; user and password are the same everywhere.
"""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from rukpak.controller.playground.cluster import write_certificates
from rukpak.controller.playground.processes import Process, free_ports, wait_for
from tests.support.bundles import Manifest, bundle_of
from tests.support.git_servers import Content, GitHttpServer, GitRepository
from tests.support.registry import Files, LocalRegistry, pack
from tests.support.web_servers import FaultyServer, QuietServer

USER, PASSWORD = "robot", "correct horse"
IDENTITY_TOKEN = "identity-of-robot"
# bcrypt, the only kind that distribution reads; `htpasswd -B`.
_HTPASSWD = f"{USER}:$2a$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e\n"
_START_SECONDS = 30.0
_ISSUER, _SERVICE, _KEY = "test-issuer", "test-registry", "test-key"


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority, and a server's certificate of it for localhost and 127.0.0.1."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Authority:
        """Create one in an empty folder."""
        write_certificates(folder)
        return cls(folder)

    @property
    def pem(self) -> str:
        """What clients are to trust."""
        return (self.folder / "ca.crt").read_text(encoding="ascii")

    @property
    def certificate(self) -> Path:
        return self.folder / "kube-apiserver.crt"

    @property
    def key(self) -> Path:
        return self.folder / "kube-apiserver.key"

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


class GuardedRegistry:
    """CNCF distribution with TLS and some way of authentication.

    Args:
        folder: of its log and configuration; it exists already.
        program: the registry.
        content: the storage of another registry.
        authority: gives its certificate.
        auth: its section of the configuration; empty: everybody may read.
    """

    def __init__(self, folder: Path, program: Path, content: Path, authority: Authority, auth: dict[str, Any]) -> None:
        (port,) = free_ports(1)
        self.host = f"127.0.0.1:{port}"
        tls = {"certificate": str(authority.certificate), "key": str(authority.key)}
        configuration = {
            "version": 0.1,
            "log": {"level": "info"},
            "storage": {"filesystem": {"rootdirectory": str(content)}},
            "http": {"addr": self.host, "tls": tls},
            "auth": auth,
        }
        (folder / "registry.yaml").write_text(json.dumps(configuration), encoding="utf-8")
        # Version 3 would send traces to a collector that does not exist.
        quiet = {"OTEL_TRACES_EXPORTER": "none"}
        self._process = Process("registry", folder, [program, "serve", folder / "registry.yaml"], quiet)

    def __enter__(self) -> Self:
        self._process.start()
        wait_for(self._is_answering, _START_SECONDS, lambda: f"registry: {self._process.last_words()}")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()

    @property
    def requests(self) -> list[str]:
        """Method and path of the requests so far, in order."""
        lines = self._process.log.read_text(encoding="utf-8").splitlines()
        return [line.split('"')[1].removesuffix(" HTTP/1.1") for line in lines if line.startswith("127.0.0.1 - ")]

    def _is_answering(self) -> bool:
        if not self._process.is_running():
            raise RuntimeError(f"registry ended: {self._process.last_words()}")
        # Whether it is the right one is for the test to find out.
        connection = http.client.HTTPSConnection(self.host, timeout=5, context=ssl._create_unverified_context())
        try:
            connection.request("GET", "/v2/")
            return connection.getresponse().status in (http.client.OK, http.client.UNAUTHORIZED)
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def password_auth(folder: Path) -> dict[str, Any]:
    """Return the configuration by which a registry asks for `USER` and `PASSWORD` itself."""
    (folder / "htpasswd").write_text(_HTPASSWD, encoding="ascii")
    return {"htpasswd": {"realm": "test", "path": str(folder / "htpasswd")}}


class TokenServer:
    """A token server as registries have one: for user and password, and for an identity token (OAuth 2.0).

    Args:
        authority: gives its certificate.
    """

    def __init__(self, authority: Authority) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.asked: list[str] = []
        """Method and scope of the requests so far."""
        self.lifetime = 300
        """Seconds that a token is good for; distribution grants 60 more."""
        self._server = QuietServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"tokens": self}))
        self._server.socket = authority.server_context().wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_port}/token"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def auth(self, folder: Path) -> dict[str, Any]:
        """Return the configuration by which a registry sends to this server and believes it."""
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "EC", "crv": "P-256", "kid": _KEY, "alg": "ES256", "use": "sig"}
        point = {"x": _encode(numbers.x.to_bytes(32, "big")), "y": _encode(numbers.y.to_bytes(32, "big"))}
        (folder / "jwks.json").write_text(json.dumps({"keys": [{**key, **point}]}), encoding="ascii")
        settings = {"realm": self.url, "service": _SERVICE, "issuer": _ISSUER, "jwks": str(folder / "jwks.json")}
        return {"token": {**settings, "signingalgorithms": ["ES256"]}}

    def answer(self, method: str, authorization: str, asked: dict[str, str]) -> dict[str, str] | None:
        """Return a token for what is asked for, or None if the caller may not have one."""
        self.asked.append(f"{method} {asked.get('scope', '')}")
        login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if method == "POST":
            admitted = asked.get("grant_type") == "refresh_token" and asked.get("refresh_token") == IDENTITY_TOKEN
            return {"access_token": self._make_token(asked["scope"])} if admitted else None
        return {"token": self._make_token(asked["scope"])} if authorization == f"Basic {login}" else None

    def _make_token(self, scope: str) -> str:
        kind, name, actions = scope.split(":")
        now = int(time.time())
        claims = {
            "iss": _ISSUER,
            "aud": _SERVICE,
            "sub": USER,
            "iat": now,
            "nbf": now,
            "exp": now + self.lifetime,
            "access": [{"type": kind, "name": name, "actions": actions.split(",")}],
        }
        parts = ({"alg": "ES256", "typ": "JWT", "kid": _KEY}, claims)
        text = ".".join(_encode(json.dumps(part).encode()) for part in parts)
        r, s = decode_dss_signature(self._key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{text}.{_encode(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the client acknowledges a head that comes alone 40 ms later
    tokens: TokenServer

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        self._answer(urlsplit(self.path).query)

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

    def _answer(self, form: str) -> None:
        asked = {name: values[0] for name, values in parse_qs(form).items()}
        found = self.tokens.answer(self.command, self.headers.get("Authorization", ""), asked)
        body = json.dumps(found or {"errors": []}).encode()
        self.send_response(200 if found else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
FORGE = {"uploadpack.allowFilter": "true", "uploadpack.allowAnySHA1InWant": "true"}


@dataclass(frozen=True, kw_only=True)
class PrivateSources:
    """The servers. What they hold is put there by `put_image`, `put_repository` and `put_file`."""

    authority: Authority
    public: LocalRegistry
    """Takes what `registry` serves."""
    registry: GuardedRegistry
    git: GitHttpServer
    files: FaultyServer

    def put_image(self, name: str, *manifests: Manifest) -> str:
        """Push a bundle; return its digest."""
        return self.public.push_image(name, "v1", [bundle_of(*manifests)])

    def put_repository(self, name: str, *manifests: Manifest) -> GitRepository:
        """Make a repository with a bundle in the directory `deploy` of its branch main."""
        repository = GitRepository(self.git.root / f"{name}.git", config=FORGE)
        commit_bundle(repository, *manifests)
        return repository

    def put_file(self, name: str, *manifests: Manifest, tag: str = '"1"', **faults: Any) -> bytes:
        """Put an archive of a bundle there; return it."""
        body = archive_of(*manifests)
        self.files.add(f"/{name}.tar.gz", body, **{"tag": tag, "authorization": BASIC, **faults})
        return body

    def put_files(self, name: str, committed: Files, archived: Files) -> None:
        """Make a repository of files at its root, and an archive of others, under one name."""
        repository = GitRepository(self.git.root / f"{name}.git", config=FORGE)
        repository.commit({str(path): data for path, data in committed.items()})
        self.files.add(f"/{name}.tar.gz", gzip.compress(pack(archived), mtime=0), authorization=BASIC)

    # entries of spec.sources

    def image(self, name: str, secret: Mapping[str, str] | None, **block: Any) -> Manifest:
        return _entry("image", {"ref": f"{self.registry.host}/{name}:v1"}, secret, block)

    def repository(self, name: str, secret: Mapping[str, str] | None, **block: Any) -> Manifest:
        address = {"repository": f"{self.git.url}/{name}.git", "ref": "main", "directory": "deploy"}
        return _entry("git", address, secret, block)

    def file(self, name: str, secret: Mapping[str, str] | None, **block: Any) -> Manifest:
        return _entry("http", {"url": f"{self.files.address}/{name}.tar.gz"}, secret, block)

    # what Secrets hold

    @property
    def basic(self) -> dict[str, str]:
        """Of use everywhere."""
        return {"username": USER, "password": PASSWORD, "ca.crt": self.authority.pem}

    @property
    def docker_config(self) -> dict[str, str]:
        """As `kubectl create secret docker-registry` makes it, and the authority."""
        auths = {self.registry.host: {"username": USER, "password": PASSWORD}}
        return {".dockerconfigjson": json.dumps({"auths": auths}), "ca.crt": self.authority.pem}


def _entry(
    kind: str, address: Mapping[str, Any], secret: Mapping[str, str] | None, block: Mapping[str, Any]
) -> Manifest:
    auth = {"auth": {"secret": dict(secret)}} if secret else {}
    return {"kind": kind, kind: {**address, **auth, **block}}


def archive_of(*manifests: Manifest) -> bytes:
    """Return a bundle as tar.gz."""
    return gzip.compress(pack(bundle_of(*manifests)), mtime=0)


def commit_bundle(repository: GitRepository, *manifests: Manifest, branch: str = "main") -> str:
    """Commit a bundle; return the name of the commit."""
    files: dict[str | bytes, Content] = {f"deploy/{path}": data for path, data in bundle_of(*manifests).items()}
    return repository.commit(files, branch=branch)


def secret_manifest(namespace: str, name: str, values: Mapping[str, str], kind: str = "Opaque") -> Manifest:
    """Return a Secret."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": kind,
        "metadata": {"namespace": namespace, "name": name},
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
    }


@contextmanager
def serve_private_sources(folder: Path, program: Path, public: LocalRegistry) -> Iterator[PrivateSources]:
    """Start the servers.

    Args:
        folder: of everything; empty.
        program: the registry.
        public: registry that takes the content.
    """
    for name in ("authority", "registry", "git"):
        (folder / name).mkdir()
    authority = Authority.make(folder / "authority")
    guard = password_auth(folder / "registry")
    with (
        GuardedRegistry(folder / "registry", program, public.content, authority, guard) as registry,
        GitHttpServer(folder / "git", authority.server_context()) as git,
        FaultyServer(authority.server_context()) as files,
    ):
        git.wants_basic(USER, PASSWORD)
        yield PrivateSources(authority=authority, public=public, registry=registry, git=git, files=files)
