"""What a tenant fetches is his own: its content and disk space are not shared with other tenants.

BEN installs private content from servers that want to know who asks. ANN knows its digest, and has servers of her own
that say that they have it. And she has bundles that fill the disk, and the store of revisions.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.archives import tarball
from tests.support.bundles import Manifest, config_map, exists
from tests.support.charts import add_chart, entry_of, index_of, packed_chart, repository_of
from tests.support.faulty_registry import OCI_MANIFEST, FaultyRegistry
from tests.support.git_servers import GitHttpServer, GitRepository
from tests.support.inside import User
from tests.support.private_sources import (
    BASIC,
    FORGE,
    PASSWORD,
    USER,
    Authority,
    archive_of,
    commit_bundle,
    secret_manifest,
)
from tests.support.tenants import ANN, AUTHENTICATED, BEN, OWN, Tenants
from tests.support.web_servers import FaultyServer

pytestmark = pytest.mark.timeout(300)
THEIRS = {"installNamespace": "other", "serviceAccountName": "installer"}
AUTH = {"auth": {"secret": {"namespace": "other", "name": "private"}}}
CONFIDENTIAL = config_map("confidential", key="of the other tenant")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A source of BEN's, and one by which ANN asks her own server for the same content."""

    theirs: Manifest
    mine: Manifest
    reason: str
    """Why ANN gets nothing."""
    format: str = "plain"


@pytest.fixture(scope="module")
def claims(tenants: Tenants, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Claim]]:
    folder = tmp_path_factory.mktemp("authority")
    authority = Authority.make(folder)
    values = {"username": USER, "password": PASSWORD, "ca.crt": authority.pem}
    tenants.put("other", "secrets", secret_manifest("other", "private", values))
    with FaultyRegistry(authority.server_context()) as theirs, FaultyRegistry() as mine:
        image = claim_image(theirs, mine)
        with FaultyServer(authority.server_context()) as private_files, FaultyServer() as files:
            file, chart = claim_file(private_files, files), claim_chart(private_files, files)
            roots = [tmp_path_factory.mktemp(name) for name in ("private", "own")]
            with GitHttpServer(roots[0], authority.server_context()) as private_git, GitHttpServer(roots[1]) as git:
                yield {"image": image, "http": file, "chart": chart, "git": claim_commit(private_git, git)}


def claim_image(private: FaultyRegistry, own: FaultyRegistry) -> Claim:
    private.logins = {USER: PASSWORD}
    digest = private.add_image("v1", tarball(("manifests/a.json", json.dumps(CONFIDENTIAL).encode())))
    own.manifests[digest] = (OCI_MANIFEST, b"")
    return Claim(
        theirs={"kind": "image", "image": {"ref": f"{private.host}/private:v1", **AUTH}},
        mine={"kind": "image", "image": {"ref": f"{own.host}/own@{digest}"}},
        reason="DigestMismatch",
    )


def claim_file(private: FaultyServer, own: FaultyServer) -> Claim:
    body = archive_of(CONFIDENTIAL)
    private.add("/private.tar.gz", body, authorization=BASIC)
    own.add("/own.tar.gz", archive_of(config_map("own")))
    sha256 = hashlib.sha256(body).hexdigest()
    return Claim(
        theirs={"kind": "http", "http": {"url": f"{private.address}/private.tar.gz", **AUTH}},
        mine={"kind": "http", "http": {"url": f"{own.address}/own.tar.gz", "sha256": sha256}},
        reason="DigestMismatch",
    )


def claim_chart(private: FaultyServer, own: FaultyServer) -> Claim:
    archive = packed_chart("web", "1.0.0", template=json.dumps(CONFIDENTIAL))
    private.add("/index.yaml", index_of([entry_of("web", "1.0.0", archive)]), authorization=BASIC)
    private.add("/web-1.0.0.tgz", archive, authorization=BASIC)
    for path, body in repository_of("web", "1.0.0").items():
        own.add(path, body)
    own.add("/index.yaml", index_of([entry_of("web", "1.0.0", archive)]))
    return Claim(
        theirs={"kind": "chart", "chart": {"repository": private.address, "name": "web", **AUTH}},
        mine={"kind": "chart", "chart": {"repository": own.address, "name": "web"}},
        reason="DigestMismatch",
        format="helm",
    )


def claim_commit(private: GitHttpServer, own: GitHttpServer) -> Claim:
    private.wants_basic(USER, PASSWORD)
    commit = commit_bundle(make_repository(private.root, "private"), CONFIDENTIAL)
    commit_bundle(make_repository(own.root, "own"), config_map("own"))
    repository = {"repository": f"{private.url}/private.git", "ref": "main", "directory": "deploy"}
    return Claim(
        theirs={"kind": "git", "git": {**repository, **AUTH}},
        mine={"kind": "git", "git": {**repository, "repository": f"{own.url}/own.git", "ref": commit}},
        reason="PinnedContentGone",
    )


def make_repository(root: Path, name: str) -> GitRepository:
    return GitRepository(root / f"{name}.git", config=FORGE)


@pytest.mark.parametrize("kind", ["image", "http", "chart", "git"])
def test_who_claims_to_have_a_digest_opens_nothing_of_others(
    tenants: Tenants, claims: dict[str, Claim], kind: str
) -> None:
    claim = claims[kind]
    theirs = tenants.apply(BEN, f"private-{kind}", "unused", format=claim.format, sources=[claim.theirs], **THEIRS)
    theirs.wait_ready()
    mine = tenants.apply(ANN, f"claims-{kind}", "unused", format=claim.format, sources=[claim.mine], **OWN)
    mine.wait_for("Ready", "False", claim.reason)
    assert not exists(tenants.world.client, "/api/v1/namespaces/tenant/configmaps/confidential")
    for who, deployed in ((ANN, mine), (BEN, theirs)):
        tenants.delete(who, deployed.name)
        deployed.wait_gone()


# a namespace that is made again


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfPrivate:
    """A source that shows everybody what there is, and wants a password for the content."""

    source: Manifest
    format: str = "plain"
    of_account: bool = False
    """Whether the password is in a pull Secret of the account, and not in one that the source names."""


LOGIN = {"secret": {"name": "login"}}


@pytest.fixture(scope="module")
def half_private(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, HalfPrivate]]:
    authority = Authority.make(tmp_path_factory.mktemp("half-private"))
    trust = {"certificateData": authority.pem}
    with FaultyServer(authority.server_context()) as files, FaultyRegistry(authority.server_context()) as registry:
        for path, body in repository_of("web", "1.0.0").items():
            files.add(path, body, authorization="" if path == "/index.yaml" else BASIC)
        registry.logins, registry.login_for = {USER: PASSWORD}, "/blobs/"
        registry.add_image("v1", tarball(("manifests/a.json", json.dumps(CONFIDENTIAL).encode())))
        add_chart(registry, "web", "1.0.0")
        chart = {"repository": files.address, "name": "web", **trust}
        image = {"ref": f"{registry.host}/private:v1", **trust}
        pushed = {"repository": f"oci://{registry.host}/charts", "name": "web", "version": "1.0.0", **trust}
        yield {
            "a chart of a public index": HalfPrivate(
                source={"kind": "chart", "chart": {**chart, "auth": LOGIN}}, format="helm"
            ),
            "an image with a public manifest": HalfPrivate(source={"kind": "image", "image": {**image, "auth": LOGIN}}),
            "such an image, by a pull Secret": HalfPrivate(source={"kind": "image", "image": image}, of_account=True),
            "a chart with a public manifest": HalfPrivate(
                source={"kind": "chart", "chart": {**pushed, "auth": LOGIN}}, format="helm"
            ),
        }


def give_login(tenants: Tenants, namespace: str, host: str, password: str, *, to_account: bool) -> None:
    values = {"username": USER, "password": password}
    if not to_account:
        tenants.put(namespace, "secrets", secret_manifest(namespace, "login", values))
        return
    config = {".dockerconfigjson": json.dumps({"auths": {host: values}})}
    tenants.put(namespace, "secrets", secret_manifest(namespace, "login", config, "kubernetes.io/dockerconfigjson"))
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/installer"
    tenants.world.client.merge_patch(account, {"imagePullSecrets": [{"name": "login"}]})


@pytest.mark.parametrize(
    "kind",
    [
        "a chart of a public index",
        "an image with a public manifest",
        "such an image, by a pull Secret",
        "a chart with a public manifest",
    ],
)
def test_a_namespace_that_is_made_again_opens_nothing_that_was_fetched_for_the_tenant_before(
    tenants: Tenants, half_private: dict[str, HalfPrivate], kind: str
) -> None:
    name = "leaving-" + hashlib.sha256(kind.encode()).hexdigest()[:8]
    case, there = half_private[kind], {"installNamespace": name, "serviceAccountName": "installer"}
    host = case.source.get("image", {}).get("ref", "").partition("/")[0]
    tenants.admit(name)
    give_login(tenants, name, host, PASSWORD, to_account=case.of_account)
    people = User("cleo", (name, AUTHENTICATED))
    theirs = tenants.apply(people, name, "unused", format=case.format, sources=[case.source], **there)
    theirs.wait_ready()
    tenants.delete(people, name)
    theirs.wait_gone()
    tenants.world.client.delete(f"/api/v1/namespaces/{name}")
    tenants.world.wait(lambda: not exists(tenants.world.client, f"/api/v1/namespaces/{name}"), "the namespace gone")
    tenants.admit_another(name, "tenant")
    give_login(tenants, name, host, "guessed", to_account=case.of_account)
    mine = tenants.apply(ANN, f"{name}-again", "unused", format=case.format, sources=[case.source], **there)
    mine.wait_for("Ready", "False", "Unauthorized")
    give_login(tenants, name, host, PASSWORD, to_account=case.of_account)
    mine.wait_ready()
    tenants.delete(ANN, mine.name)
    mine.wait_gone()


MANY = 26_000
"""Files of one source: half of what a BundleDeployment may bring, and some."""


def test_the_budgets_of_many_sources_do_not_add_up(tenants: Tenants) -> None:
    files = [(f"manifests/{index}", b"") for index in range(MANY)]
    with FaultyServer() as server:
        server.add("/many.tar", tarball(*files))
        address = f"{server.address}/many.tar"
        sources = [
            {"kind": "http", "destination": f"d{index}", "http": {"url": f"{address}?{index}"}} for index in range(2)
        ]
        mine = tenants.apply(ANN, "many", "unused", sources=sources, **OWN)
        mine.wait_for("Ready", "False", "ContentRejected", "spec.sources: together the sources exceed the limit")
        tenants.delete(ANN, "many")
        mine.wait_gone()


# revisions


@pytest.fixture(scope="module")
def controller_options() -> tuple[str, ...]:
    return ("--revision-mebibytes=1",)


def noise(seed: int) -> Manifest:
    """Return an object of which nothing can be compressed: three of them take most of 1 MiB."""
    return config_map(f"noise-{seed}", noise=base64.b85encode(random.Random(seed).randbytes(300_000)).decode())


def test_one_namespace_does_not_fill_the_store_of_revisions(tenants: Tenants) -> None:
    mine = [tenants.apply(ANN, f"n{seed}", tenants.push(f"n{seed}", noise(seed)), **OWN) for seed in range(3)]
    for deployed in mine:
        deployed.wait_ready()
    more = tenants.apply(ANN, "n3", tenants.push("n3", noise(3)), **OWN)
    more.wait_for(
        "Ready", "False", "QuotaExceeded", 'the quota of 1 MiB for all revisions of namespace "tenant"; delete'
    )
    theirs = tenants.apply(BEN, "n4", tenants.push("n4", noise(4)), **THEIRS)
    theirs.wait_ready()
    assert [each.conditions()["Ready"]["status"] for each in mine] == ["True"] * 3
    for who, deployed in ((ANN, more), (BEN, theirs), *((ANN, each) for each in mine)):
        tenants.delete(who, deployed.name)
        deployed.wait_gone()


def test_who_takes_the_finalizer_off_leaves_no_revision(tenants: Tenants) -> None:
    mine = tenants.apply(ANN, "torn", **OWN)
    mine.wait_ready()
    assert mine.revisions()
    held = "/api/v1/namespaces/tenant/configmaps/settings"
    tenants.world.client.merge_patch(held, {"metadata": {"finalizers": ["example.com/held"]}})
    tenants.delete(ANN, "torn")
    tenants.patch(ANN, "torn", {"metadata": {"finalizers": None}})
    mine.wait_gone()
    tenants.world.wait(lambda: not mine.revisions(), "its revisions gone")
    tenants.world.client.merge_patch(held, {"metadata": {"finalizers": None}})
