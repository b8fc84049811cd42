"""What servers do where specifications leave them free, with the clients that people use as the measure.

The table is in controller/sources/README.md, with the tests that show each row without other programs. A case that says
why is one in which we refuse what the client reads.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Credentials, Source
from rukpak.controller.content.archive import write_entries
from rukpak.controller.playground.programs import Settings
from rukpak.controller.sources.chart import ChartSource
from rukpak.controller.sources.git.source import GitSource
from rukpak.controller.sources.http import HttpSource
from rukpak.controller.sources.image.source import ImageSource
from tests.support import zstd
from tests.support.archives import tarball
from tests.support.charts import CHART, CHART_CONFIG, entry_of, index_of, packed_chart
from tests.support.faulty_registry import DOCKER_LIST, DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST, digest_of
from tests.support.git_servers import ENVIRONMENT, GitHttpServer, GitRepository
from tests.support.other_programs import UnavailableError, obtain_crane
from tests.support.private_sources import Authority
from tests.support.web_servers import Answer, Asked, Framing, OddServer, Reply

pytestmark = pytest.mark.thorough  # builds a program with Go first

ENCODINGS = ("", "Identity", "utf-8", "aws-chunked")
"""Content encodings that change nothing."""
REDIRECTS = (301, 302, 303, 307, 308)
Files = dict[str, bytes]
Change = Callable[[Asked, Reply], Reply | None]
"""Makes a response odd; None: as it was changed in place."""


@dataclass(frozen=True)
class Case:
    """What a server does, and why we refuse it, if we do although the client does not."""

    name: str
    change: Change = lambda _, __: None
    stricter: str = ""


def with_change(answer: Answer, change: Change) -> Answer:
    def changed(asked: Asked) -> Reply:
        reply = answer(asked)
        return change(asked, reply) or reply

    return changed


def where(part: str, change: Change) -> Change:
    """Change responses for paths that contain a part."""
    return lambda asked, reply: change(asked, reply) if part in asked.path else None


def header(name: str, value: str | bytes | None) -> Change:
    def change(_: Asked, reply: Reply) -> None:
        reply.headers.pop(name, None)
        if value is not None:
            reply.headers[name] = value

    return change


def framed(framing: Framing) -> Change:
    def change(_: Asked, reply: Reply) -> None:
        reply.framing = framing

    return change


def status(number: int) -> Change:
    def change(_: Asked, reply: Reply) -> None:
        reply.status = number

    return change


def gzipped(asked: Asked, reply: Reply) -> None:
    """Encode a body although nobody has asked for that."""
    if asked.method != "HEAD":
        reply.body, reply.headers["Content-Encoding"] = gzip.compress(reply.body), "gzip"


def moved(number: int) -> Change:
    """Redirect to a path relative to the server."""

    def change(asked: Asked, _: Reply) -> Reply | None:
        if "moved" in asked.path:
            return None
        folder, _slash, name = asked.path.rpartition("/")
        return Reply(status=number, headers={"Location": f"{folder}/moved/{name}"})

    return change


def ours(source: Source, parameters: Mapping[str, Any], folder: Path, **access: Any) -> Files | None:
    """Return what a source reads; None if it refuses."""
    scratch, content = folder / "scratch", folder / "content"
    scratch.mkdir()
    content.mkdir()
    own = Access(
        path="spec.sources[0].kind",
        deadline=time.monotonic() + 250,
        cancelled=threading.Event(),
        scratch=scratch,
        **access,
    )
    try:
        entries = source.fetch(parameters, source.resolve(parameters, own), own)
        write_entries(entries, content, own.limits, own.path)
    except BundleError:
        return None
    return files_of(content)


def files_of(folder: Path) -> Files:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and ".git" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def run(*command: str | Path, **variables: str) -> bytes | None:
    """Return the output of a client; None if it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    done = subprocess.run(command, env=environment | variables, capture_output=True, check=False, timeout=120)
    return None if done.returncode else done.stdout


def agree(case: Case | Document, found: Files | None, wanted: Files | None) -> None:
    assert wanted is not None
    assert found == (None if case.stricter else wanted)


# images


@pytest.fixture(scope="session")
def crane(settings: Settings) -> Path:
    try:
        return obtain_crane(settings)
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authority"))


PLAIN_LAYER = tarball(("manifests/a.yaml", b"a: 1\n"))
LAYER = gzip.compress(PLAIN_LAYER, mtime=0)
HALF = len(PLAIN_LAYER) // 2
FRAME = b"\x50\x2a\x4d\x18" + (10).to_bytes(4, "little") + b"0123456789"
"""A frame that readers skip: builders put tables of contents into such (zstd:chunked)."""
GZIP_TYPE, ZSTD_TYPE = (f"application/vnd.oci.image.layer.v1.tar+{name}" for name in ("gzip", "zstd"))


def describe(data: bytes, media_type: str, **others: Any) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest_of(data), "size": len(data), **others}


def image(layer: bytes = LAYER, media_type: str = GZIP_TYPE, **others: Any) -> dict[str, Any]:
    """Return a manifest; fields that are ... are left out."""
    config = describe(CONFIG, "application/vnd.oci.image.config.v1+json")
    layers = [describe(layer, media_type)]
    document = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config, "layers": layers, **others}
    return {key: value for key, value in document.items() if value is not ...}


CONFIG = json.dumps(
    {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [digest_of(PLAIN_LAYER)]}}
).encode()


MANIFEST = json.dumps(image()).encode()


def registry(document: Any, *more: bytes, tags: Any = ("v1",)) -> Answer:
    """Return what a registry answers that has a manifest by the tag v1, and blobs; both may also be in `more`."""
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    by_digest = {digest_of(each): each for each in (data, CONFIG, LAYER, *more)}

    def answer(asked: Asked) -> Reply:
        name = asked.place.rpartition("/")[2]
        found = data if name == "v1" else by_digest.get(name)
        if asked.place == "/v2/":
            return Reply(body=b"{}")
        if asked.place.endswith("/tags/list"):
            return Reply(headers={"Content-Type": "application/json"}, body=json.dumps({"tags": tags}).encode())
        if found is None:
            return Reply(status=404, body=b'{"errors":[]}')
        if "/blobs/" in asked.path:
            return Reply(body=found)
        document = json.loads(found)
        kind = document.get("mediaType") or (OCI_INDEX if "manifests" in document else OCI_MANIFEST)
        return Reply(headers={"Content-Type": kind, "Docker-Content-Digest": digest_of(found)}, body=found)

    return answer


def exported(crane: Path, reference: str, **variables: str) -> Files | None:
    archive = run(crane, "export", reference, "-", **variables)
    if archive is None:
        return None
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        found = ((member.name, tar.extractfile(member)) for member in tar)
        return {name: file.read() for name, file in found if file}


def in_lower_case(_: Asked, reply: Reply) -> None:
    reply.headers = {name.lower(): value for name, value in reply.headers.items()}


def on_manifests(name: str, value: str | None) -> Change:
    return where("/manifests/", header(name, value))


def for_head(reply: Callable[[Reply], Reply]) -> Change:
    return lambda asked, found: reply(found) if asked.method == "HEAD" else None


NO_HEAD = for_head(lambda _: Reply(status=405))
RESPONSES = [
    Case("as the specification has it"),
    Case("the content type is text", on_manifests("Content-Type", "text/plain")),
    Case("there is no content type", on_manifests("Content-Type", None)),
    Case("the content type has a charset", on_manifests("Content-Type", f"{OCI_MANIFEST}; charset=utf-8")),
    Case("the content type is in upper case", on_manifests("Content-Type", OCI_MANIFEST.upper())),
    Case("there is no digest", header("Docker-Content-Digest", None)),
    Case("the digest is empty", on_manifests("Docker-Content-Digest", "")),
    Case("names of headers are in lower case", in_lower_case),
    Case("bodies are chunked", framed(Framing.CHUNKED)),
    Case("bodies end with the connection", framed(Framing.CLOSE)),
    Case("HEAD says that there is no body", for_head(lambda found: Reply(headers=found.headers))),
    Case("HEAD is refused", NO_HEAD),
    Case("manifests are redirected", where("/manifests/", moved(307))),
    *(Case(f"blobs are redirected with {number}", where("/blobs/", moved(number))) for number in REDIRECTS),
    Case("manifests are encoded, which nobody has asked for", where("/manifests/", gzipped)),
    *(
        Case(f"the content encoding of blobs is {text!r}", where("/blobs/", header("Content-Encoding", text)))
        for text in ENCODINGS
    ),
]


@pytest.mark.parametrize("case", RESPONSES, ids=attrgetter("name"))
def test_an_image_is_read_from_a_registry_as_crane_reads_it(case: Case, crane: Path, tmp_path: Path) -> None:
    with OddServer(with_change(registry(image()), case.change)) as server:
        reference = f"{server.host}/a/b:v1"
        agree(case, ours(ImageSource(), {"ref": reference}, tmp_path), exported(crane, reference))


@dataclass(frozen=True)
class Document:
    """What builders write, and why we refuse it, if we do."""

    name: str
    document: Any
    blobs: tuple[bytes, ...] = (MANIFEST,)
    stricter: str = ""


def layered(name: str, layer: bytes, media_type: str) -> Document:
    return Document(name, image(layer, media_type), (layer,))


def index(*entries: Mapping[str, Any], **others: Any) -> dict[str, Any]:
    found = [{**describe(MANIFEST, OCI_MANIFEST), **each} for each in entries]
    document = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": found, **others}
    return {key: value for key, value in document.items() if value is not ...}


def on(system: str = "linux", architecture: str = "amd64", **others: Any) -> dict[str, Any]:
    return {"platform": {"os": system, "architecture": architecture, **others}}


DOCKER_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
PRIVATE_LAYER = "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip"
NULLS: dict[str, Any] = {"annotations": None, "subject": None}
ON_WINDOWS: dict[str, Any] = {"os.version": "1", "os.features": None}
GZIPS = gzip.compress(PLAIN_LAYER[:HALF]) + gzip.compress(PLAIN_LAYER[HALF:])
ZSTDS = zstd.compress(PLAIN_LAYER[:HALF]) + zstd.compress(PLAIN_LAYER[HALF:])
TOO_LARGE = {**describe(LAYER, GZIP_TYPE), "size": len(LAYER) + 1}
DOCUMENTS = [
    Document("no media type", image(mediaType=...)),
    Document("an empty media type", image(mediaType="")),
    Document("fields that are null", image(artifactType="", **NULLS)),
    Document("a config that is null", image(config=None)),
    Document(
        "a layer with fields that are null", image(layers=[describe(LAYER, GZIP_TYPE, urls=None, annotations=None)])
    ),
    Document("a line end after the document", MANIFEST + b"\n\n"),
    Document("types of Docker", image(media_type=DOCKER_LAYER, mediaType=DOCKER_MANIFEST)),
    layered("a layer that is said to be plain, but is compressed", LAYER, "application/vnd.oci.image.layer.v1.tar"),
    layered("a layer that is said to be compressed, but is plain", PLAIN_LAYER, GZIP_TYPE),
    layered("several gzip members", GZIPS, GZIP_TYPE),
    layered("zeros after gzip", LAYER + bytes(512), GZIP_TYPE),
    layered("several zstd frames", ZSTDS, ZSTD_TYPE),
    layered("a zstd frame to skip", zstd.compress(PLAIN_LAYER) + FRAME, ZSTD_TYPE),
    Document("an index", index(on())),
    Document("an index without a media type", index(on(), mediaType=...)),
    Document("an index of Docker", index(on(), mediaType=DOCKER_LIST)),
    Document("an index with fields that are null", index(on(**ON_WINDOWS), **NULLS)),
    Document("an entry without a platform", index({})),
    Document("an entry with a platform that is null", index({"platform": None})),
    Document("an entry without a media type", index({**on(), "mediaType": ""})),
    Document("an entry with a wrong size", index({**on(), "size": 1})),
    Document("an attestation before the image", index(on("unknown", "unknown"), on())),
    Document("a variant", index(on(variant="v2"), on())),
    Document("a layer with a wrong size", image(layers=[TOO_LARGE]), stricter="sizes count for the limits"),
    Document("a layer that must not be distributed", image(media_type=PRIVATE_LAYER), stricter="it may be elsewhere"),
    Document("no version of the schema", image(schemaVersion=...), stricter="version 1 is read in another way"),
    Document("two entries without a platform", index({}, {}), stricter="nothing tells which one is meant"),
]


@pytest.mark.parametrize("case", DOCUMENTS, ids=attrgetter("name"))
def test_what_builders_write_is_read_as_crane_reads_it(case: Document, crane: Path, tmp_path: Path) -> None:
    with OddServer(registry(case.document, *case.blobs)) as server:
        reference = f"{server.host}/a/b:v1"
        agree(case, ours(ImageSource(), {"ref": reference}, tmp_path), exported(crane, reference))


LOGIN = "Basic " + base64.b64encode(b"robot:secret").decode()
BASIC = 'Basic realm="r"'
JSON: dict[str, str | bytes] = {"Content-Type": "application/json"}


def private(challenge: str = BASIC, refusal: int = 401, base: int = 401, at_base: str = "") -> Change:
    """Require a login of its own, with statuses for strangers."""

    def change(asked: Asked, _: Reply) -> Reply | None:
        if asked.headers.get("Authorization") == LOGIN:
            return None
        is_base = asked.place == "/v2/"
        number, text = (base, at_base or challenge) if is_base else (refusal, challenge)
        return Reply(status=number, headers={"WWW-Authenticate": text} if number == 401 and text else {}, body=b"{}")

    return change


def by_token(reply: Reply, refusal: int = 401, realm: str = "/token", more: str = "") -> Change:
    """Require a token, which a server at the same address gives for the login."""

    def change(asked: Asked, _: Reply) -> Reply | None:
        if asked.place == "/token":
            return reply if asked.headers.get("Authorization") == LOGIN else Reply(status=401)
        if asked.headers.get("Authorization") == "Bearer tok":
            return None
        challenge = f'Bearer realm="https://{asked.headers["Host"]}{realm}",service="s"{more}'
        number = 401 if asked.place == "/v2/" else refusal
        return Reply(status=number, headers={"WWW-Authenticate": challenge} if number == 401 else {}, body=b"{}")

    return change


def token(body: bytes = b'{"token":"tok"}', **others: Any) -> Reply:
    return Reply(body=body, **{"headers": JSON, **others})


ENCODED = token(gzip.compress(b'{"token":"tok"}'), headers={**JSON, "Content-Encoding": "gzip"})
LOGINS = [
    Case("a password", private()),
    Case("a challenge in lower case", private('basic realm="r"')),
    Case("a challenge without parameters", private("Basic")),
    Case("several challenges", private('Negotiate, Basic realm="a, b=\\"c\\"", NTLM')),
    Case("a challenge at the base only", private("", at_base=BASIC)),
    *(Case(f"{number} for strangers, a challenge at the base", private(refusal=number)) for number in (403, 404)),
    *(Case(f"{number} for strangers, an open base", private("", number, 200)) for number in (401, 403, 404)),
    Case("a token", by_token(token())),
    *(Case(f"{number} for strangers, a token server at the base", by_token(token(), number)) for number in (403, 404)),
    Case("a token by its other name", by_token(token(b'{"access_token":"tok","expires_in":0}'))),
    Case("a token by both names, one of them empty", by_token(token(b'{"token":"","access_token":"tok"}'))),
    Case("a token as text", by_token(token(headers={"Content-Type": "text/plain; charset=utf-8"}))),
    Case("a token that is encoded, which nobody has asked for", by_token(ENCODED)),
    Case("a chunked token", by_token(token(framing=Framing.CHUNKED))),
    Case("a realm with a query", by_token(token(), realm="/token?account=x")),
    Case("an empty scope", by_token(token(), more=',scope=""')),
]


@pytest.mark.parametrize("case", LOGINS, ids=attrgetter("name"))
def test_a_registry_is_logged_in_to_as_by_crane(case: Case, crane: Path, authority: Authority, tmp_path: Path) -> None:
    with OddServer(with_change(registry(image()), case.change), authority.server_context()) as server:
        reference = f"{server.host}/a/b:v1"
        auths = {server.host: {"auth": LOGIN.removeprefix("Basic ")}}
        (tmp_path / "config.json").write_text(json.dumps({"auths": auths}))
        trust = {"DOCKER_CONFIG": str(tmp_path), "SSL_CERT_FILE": str(authority.folder / "ca.crt")}
        found = ours(
            ImageSource(),
            {"ref": reference, "certificateData": authority.pem},
            tmp_path,
            credentials=Credentials(username="robot", password="secret"),
        )
        agree(case, found, exported(crane, reference, **trust))


LINKS = [
    '<URL&n=1>; rel="next"', "<URL>;rel=next", '<URL>; rel="Next"', '<URL>; REL="next"', "<URL>; rel='next'",
    '<URL> ; rel = "next"', '<URL>; title="a, b"; rel="next"', '<URL>; rel="prev next"', "<URL>",
    '<?last=1>; rel="next"', '<list?last=1>; rel="next"', '<http://HOSTURL>; rel="next"',
]  # fmt: skip


@pytest.mark.parametrize("link", LINKS)
def test_pages_of_tags_are_followed_as_by_crane(link: str, crane: Path, tmp_path: Path) -> None:
    def answer(asked: Asked) -> Reply:
        if not asked.place.endswith("/tags/list"):
            return registry(image())(Asked(method=asked.method, path=asked.path.replace("/2.0.0", "/v1"), headers={}))
        text = link.replace("URL", "/v2/a/b/tags/list?last=1").replace("HOST", asked.headers["Host"])
        is_last = "last=1" in asked.path
        tags = json.dumps({"name": "a/b", "tags": ["2.0.0" if is_last else "1.0.0"]}).encode()
        return Reply(headers=JSON if is_last else {**JSON, "Link": text}, body=tags)

    with OddServer(answer) as server:
        name = f"{server.host}/a/b"
        assert (run(crane, "ls", name) or b"").split() == [b"1.0.0", b"2.0.0"]
        assert ours(ImageSource(), {"ref": name, "semver": ">=2"}, tmp_path)


# charts


ARCHIVE = packed_chart("web", "1.0.0")


def pulled(helm: Path, folder: Path, *arguments: str) -> str | None:
    """Return the version of the chart that Helm reads; None if it fails."""
    homes = {f"HELM_{name}_HOME": str(folder / name) for name in ("CACHE", "CONFIG", "DATA")}
    if run(helm, "pull", *arguments, "--destination", folder, **homes) is None:
        return None
    (archive,) = folder.glob("*.tgz")
    shown = run(helm, "show", "chart", archive, **homes)
    return version_of({"Chart.yaml": shown} if shown else None)


def version_of(files: Files | None) -> str | None:
    found = re.search(rb"^version: (\S+)$", files["Chart.yaml"], re.MULTILINE) if files else None
    return found[1].decode() if found else None


def indexed(**fields: Any) -> bytes:
    return index_of([{**entry_of("web", "1.0.0", ARCHIVE), **fields}])


INDEX = indexed()
OTHER_CASE = (
    INDEX.replace(b"entries:", b"Entries:").replace(b"urls:", b"URLs:").replace(b"version: 1.0.0", b"Version: 1.0.0")
)


@dataclass(frozen=True)
class Charts:
    """A repository of charts, how its server responds, and why we refuse it, if we do."""

    name: str
    change: Change = lambda _, __: None
    index: bytes = INDEX
    path: str = "/web-1.0.0.tgz"
    """Of the chart."""
    end: str = ""
    """Of the URL."""
    stricter: str = ""


def at(url: str, path: str = "/web-1.0.0.tgz") -> Charts:
    return Charts(f"the address {url!r}", index=indexed(urls=[url]), path=path)


CHARTS = [
    Charts("a slash at the end of the URL", end="/"),
    Charts(
        "JSON", index=json.dumps({"apiVersion": "v1", "entries": {"web": [entry_of("web", "1.0.0", ARCHIVE)]}}).encode()
    ),
    Charts("a byte order mark", index=b"\xef\xbb\xbf" + INDEX),
    Charts("lines that end as in Windows", index=INDEX.replace(b"\n", b"\r\n")),
    Charts("several documents", index=INDEX + b"---\na: b\n"),
    Charts("keys in another case", index=OTHER_CASE),
    Charts("charts without releases", index=INDEX.replace(b"entries:\n", b"entries:\n  other: null\n  empty: []\n")),
    Charts("a content type of web pages", header("Content-Type", "text/html; charset=iso-8859-1")),
    Charts("chunked bodies", framed(Framing.CHUNKED)),
    Charts("no HEAD", NO_HEAD),
    *(Charts(f"the content encoding {text!r}", header("Content-Encoding", text)) for text in ENCODINGS),
    Charts("the compression of the chart as that of the response", where(".tgz", header("Content-Encoding", "gzip"))),
    Charts("a redirect of the index", where("index.yaml", moved(302))),
    Charts("a redirect of the chart", where(".tgz", moved(307))),
    at("./web-1.0.0.tgz"),
    at("/web-1.0.0.tgz"),
    at("x/../web-1.0.0.tgz"),
    at("web-1.0.0.tgz?x=1"),
    at("web-1.0.0.tgz#f"),
    at("a b/web.tgz", "/a%20b/web.tgz"),
    at("ä/web.tgz", "/%C3%A4/web.tgz"),
    Charts("two addresses", index=indexed(urls=["web-1.0.0.tgz", "other.tgz"])),
    Charts("an empty digest", index=indexed(digest="")),
    Charts("a digest that is null", index=indexed(digest=None)),
    Charts("a digest with the name of its algorithm", index=indexed(digest=digest_of(ARCHIVE))),
    Charts("a digest in upper case", index=indexed(digest=digest_of(ARCHIVE).removeprefix("sha256:").upper())),
    Charts("a wrong digest", index=indexed(digest="0" * 64), stricter="Helm does not look at it"),
    *(
        Charts(f"the version {text}", index=indexed(version=text, urls=["web-1.0.0.tgz"]))
        for text in ("v1.0.0", "1.0", "01.0.0", "1")
    ),
]


@pytest.mark.parametrize("case", CHARTS, ids=attrgetter("name"))
def test_a_chart_is_read_from_a_repository_as_helm_reads_it(case: Charts, helm: Path, tmp_path: Path) -> None:
    files = {"/index.yaml": case.index, case.path: ARCHIVE}

    def answer(asked: Asked) -> Reply:
        place = asked.place.replace("/moved/", "/")
        return Reply(body=files[place]) if place in files else Reply(status=404)

    with OddServer(with_change(answer, case.change)) as server:
        url = server.url + case.end
        wanted = pulled(helm, tmp_path, "web", "--repo", url)
        assert wanted == "1.0.0"
        found = ours(ChartSource(), {"repository": url, "name": "web"}, tmp_path)
        assert version_of(found) == (None if case.stricter else wanted)


ROBOT = "Basic " + base64.b64encode(b"robot:secret").decode()


@dataclass(frozen=True)
class Passing:
    """A chart at another origin than its index, which needs credentials."""

    name: str
    passes: bool
    """Whether spec and command say that the credentials are passed on."""
    wanted: bool
    """Whether the server of the chart wants them."""
    got: bool
    """Whether Helm reads the chart."""
    spelled: str = ""
    """How the address of the repository is spelled in the index, where that is no other origin: for Helm it is one."""


PASSING = [
    Passing("passed on to who wants them", passes=True, wanted=True, got=True),
    Passing("passed on to who does not want them", passes=True, wanted=False, got=True),
    Passing("kept from who wants them", passes=False, wanted=True, got=False),
    Passing("kept from who does not want them", passes=False, wanted=False, got=True),
    Passing("in upper case", passes=False, wanted=True, got=False, spelled="https://LOCALHOST:{port}"),
    Passing("with zeros", passes=False, wanted=True, got=False, spelled="https://localhost:0{port}"),
]


@pytest.mark.parametrize("case", PASSING, ids=attrgetter("name"))
def test_credentials_are_passed_to_the_host_of_a_chart_as_by_helm(
    case: Passing, helm: Path, authority: Authority, tmp_path: Path
) -> None:
    index = [b""]

    def answer(asked: Asked) -> Reply:
        is_open = asked.headers.get("Authorization") == ROBOT or (asked.place != "/index.yaml" and not case.wanted)
        return Reply(body=index[0] if asked.place == "/index.yaml" else ARCHIVE) if is_open else Reply(status=401)

    with (
        OddServer(answer, authority.server_context()) as server,
        OddServer(answer, authority.server_context()) as other,
    ):
        port = server.host.rpartition(":")[2]
        repository = f"https://localhost:{port}"
        index[0] = indexed(urls=[f"{case.spelled.format(port=port) or other.url}/web-1.0.0.tgz"])
        options = ["--username=robot", "--password=secret", f"--ca-file={authority.folder / 'ca.crt'}"]
        options += ["--pass-credentials"] if case.passes else []
        homes = {f"HELM_{name}_HOME": str(tmp_path / name) for name in ("CACHE", "CONFIG", "DATA")}
        # With `pull --repo`, they are sent to any host of a chart.
        assert run(helm, "repo", "add", "private", repository, *options, **homes) is not None
        assert (pulled(helm, tmp_path, "private/web") is not None) == case.got
        other.requests.clear()
        parameters = {"repository": repository, "name": "web", "certificateData": authority.pem}
        robot = Credentials(username="robot", password="secret")
        found = ours(ChartSource(), {**parameters, "passCredentials": case.passes}, tmp_path, credentials=robot)
        assert (version_of(found) is not None) == (case.got or bool(case.spelled))
        sent = {asked.headers.get("Authorization") for asked in other.requests}
        assert sent == (set() if case.spelled else {ROBOT if case.passes else None})


def chart_registry(tag: str = "1.0.0", layer_type: str = CHART, **others: Any) -> Answer:
    config = json.dumps({"name": "web", "version": "1.0.0", "apiVersion": "v2"}).encode()
    document = image(ARCHIVE, layer_type, config=describe(config, CHART_CONFIG), **others)
    answer = registry(document, config, ARCHIVE, tags=[tag])

    def by_version(asked: Asked) -> Reply:
        path = asked.path.replace("/manifests/1.0.0", "/manifests/v1")
        return answer(Asked(method=asked.method, path=path, headers=asked.headers))

    return by_version


UNCHANGED = Case("").change
CHART_REGISTRIES: dict[str, tuple[Answer, Change]] = {
    "as helm push writes it": (chart_registry(), UNCHANGED),
    "no media type": (chart_registry(mediaType=...), UNCHANGED),
    "fields that are null": (chart_registry(**NULLS), UNCHANGED),
    "an artifact type": (chart_registry(artifactType=CHART_CONFIG), UNCHANGED),
    "the layer type of older releases of Helm": (chart_registry(layer_type="application/tar+gzip"), UNCHANGED),
    "tags as text": (chart_registry(), where("/tags/", header("Content-Type", "text/plain"))),
    "tags that are encoded, which nobody has asked for": (chart_registry(), where("/tags/", gzipped)),
    "manifests that are encoded": (chart_registry(), where("/manifests/", gzipped)),
    "a size of pages that is refused": (chart_registry(), where("n=1000", lambda *_: Reply(status=400))),
}


@pytest.mark.parametrize(("answer", "change"), CHART_REGISTRIES.values(), ids=CHART_REGISTRIES)
def test_a_chart_is_read_from_a_registry_as_helm_reads_it(
    answer: Answer, change: Change, helm: Path, tmp_path: Path
) -> None:
    with OddServer(with_change(answer, change)) as server:
        folder = f"oci://{server.host}/charts"
        assert pulled(helm, tmp_path, f"{folder}/web", "--plain-http") == "1.0.0"
        assert version_of(ours(ChartSource(), {"repository": folder, "name": "web"}, tmp_path)) == "1.0.0"


# files


BODY = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
OTHER_NAME: dict[str, str | bytes] = {
    "Content-Type": "text/html; charset=iso-8859-1",
    "Content-Disposition": "attachment; filename=x.zip",
}
PLACES: list[str | bytes] = [
    "moved/a.yaml",
    "//HOST/moved.yaml",
    "/moved/ä.yaml".encode(),
    "/moved/ä.yaml".encode("latin-1"),
    "/moved/a b.yaml",
    "/moved/a%2Fb.yaml?c=%2B+d",
    "/moved#f",
    " /moved",
]


def to(place: str | bytes) -> Change:
    return lambda asked, _: Reply(status=302, headers={"Location": place}) if asked.path == "/a.yaml" else None


FILES = [
    Case("no content type"),
    Case("another content type and name", lambda _, reply: reply.headers.update(OTHER_NAME)),
    Case("a chunked body", framed(Framing.CHUNKED)),
    Case("a body that ends with the connection", framed(Framing.CLOSE)),
    Case("no HEAD", NO_HEAD),
    Case("an entity tag without quotes", header("ETag", "abc")),
    *(
        Case(f"the content encoding {text!r}", header("Content-Encoding", text))
        for text in (*ENCODINGS, "none", "8bit")
    ),
    *(Case(f"a redirect with {number}", moved(number)) for number in REDIRECTS),
    *(Case(f"a redirect to {place!r}", to(place)) for place in PLACES),
    Case("a copy that a proxy has changed", status(203), "it is not what the server has"),
]


@pytest.fixture(scope="session", params=["curl", "wget"])
def downloader(request: pytest.FixtureRequest) -> Callable[[str], bytes | None]:
    program = shutil.which(request.param)
    if program is None:
        pytest.skip(f"no {request.param} on PATH")
    options = {"curl": ("-sSfL",), "wget": ("-q", "-O-")}[request.param]
    return lambda url: run(program, *options, url)


@pytest.mark.parametrize("case", FILES, ids=attrgetter("name"))
def test_a_file_is_downloaded_as_by_other_clients(
    case: Case, downloader: Callable[[str], bytes | None], tmp_path: Path
) -> None:
    def answer(asked: Asked) -> Reply:
        reply = case.change(asked, plain := Reply(body=BODY)) or plain
        location = reply.headers.get("Location")
        if isinstance(location, str):
            reply.headers["Location"] = location.replace("HOST", asked.headers["Host"])
        return reply

    with OddServer(answer) as server:
        assert downloader(f"{server.url}/a.yaml") == BODY
        theirs = server.requests[-1].path
        server.requests.clear()
        found = ours(HttpSource(), {"url": f"{server.url}/a.yaml"}, tmp_path)
        assert found == (None if case.stricter else {"a.yaml": BODY})
        if not case.stricter:
            assert server.requests[-1].path.lower() == theirs.lower()  # %C3 or %c3


# repositories


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[tuple[GitRepository, GitHttpServer]]:
    repository = GitRepository(tmp_path / "git/group/repo.git", config={"uploadpack.allowFilter": "true"})
    repository.commit({"a.yaml": b"a\n", "b/c.yaml": b"c\r\n", ".gitattributes": b"*.yaml text export-ignore\n"})
    with GitHttpServer(tmp_path / "git") as server:
        yield repository, server


def cloned(url: str, folder: Path, *options: str) -> Files | None:
    done = run("git", "clone", "-q", *options, url, folder / "clone", **ENVIRONMENT)
    return None if done is None else files_of(folder / "clone")


REFS: dict[str, Callable[[GitRepository], object]] = {
    "": lambda _: None,
    "light": lambda repository: repository.tag("light", "main", annotated=False),
    "twice": lambda repository: repository.tag("twice", repository.tag("once", "main")),
    "feature/a.b": lambda repository: repository.git("branch", "feature/a.b", "main"),
    "MAIN": lambda repository: repository.git("branch", "MAIN", "main"),
}


@pytest.mark.parametrize("ref", REFS)
def test_a_ref_is_read_as_git_reads_it(ref: str, forge: tuple[GitRepository, GitHttpServer], tmp_path: Path) -> None:
    repository, server = forge
    REFS[ref](repository)
    url = f"{server.url}/group/repo.git"
    wanted = cloned(url, tmp_path, *(["--branch", ref] if ref else []))
    assert wanted
    assert ours(GitSource(), {"repository": url, **({"ref": ref} if ref else {})}, tmp_path) == wanted


@pytest.mark.parametrize(
    "path", ["/group/repo.git", "/group/repo.git/", "/group/repo", "/group/./repo.git", "/Group/repo.git"]
)
def test_a_url_is_read_as_git_reads_it(path: str, forge: tuple[GitRepository, GitHttpServer], tmp_path: Path) -> None:
    url = forge[1].url + path
    assert ours(GitSource(), {"repository": url}, tmp_path) == cloned(url, tmp_path)
