"""What config/policy/strict refuses besides references that move: visible secrets, plug-ins, and what nobody signs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest

from tests.support.bundles import Manifest
from tests.support.tenants import ANN, OWN, Tenants, refused

pytestmark = pytest.mark.timeout(300)
DIGEST = "a" * 64
COSIGN = {"cosign": {"keys": [{"secret": {"namespace": "tenant", "name": "cosign"}}]}}
PGP = {"secret": {"namespace": "tenant", "name": "pgp"}}


def source(kind: str, block: Manifest, verify: Manifest | None = None) -> Manifest:
    return {"kind": kind, kind: block | ({"verify": verify} if verify else {})}


REFERENCE = {"ref": f"example.com/a@sha256:{DIGEST}"}
COMMIT = {"repository": "https://example.com/a", "ref": "a" * 40}
FILE = {"url": "https://example.com/a.tar", "sha256": DIGEST}
CHART = {"repository": "https://example.com", "name": "a", "version": "1.0.0", "sha256": DIGEST}
OCI_CHART = {**CHART, "repository": "oci://example.com"}
IMAGE = source("image", REFERENCE, COSIGN)
SIGNED = {
    "image": IMAGE,
    "commit": source("git", COMMIT, PGP),
    "file": source("http", FILE, COSIGN),
    "chart": source("chart", CHART, {"provenance": PGP}),
    "chart in a registry": source("chart", OCI_CHART, COSIGN),
}
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


def helm(**values: Any) -> Manifest:
    return {"format": "helm", "config": {"values": values}}


def text(values: str) -> Manifest:
    return {"format": "helm", "config": {"values": values}}


def env(**variable: Any) -> Manifest:
    return {"format": "registry-v1", "config": {"deploymentConfig": {"env": [variable]}}}


def plug_in(kind: str, **parameters: Any) -> Manifest:
    return {"sources": [{"kind": kind, "parameters": parameters}]}


def patch(**parameters: Any) -> Manifest:
    return {"processors": [{"kind": "patch", "patch": {"target": {"kind": "ConfigMap"}, **parameters}}]}


class Case(NamedTuple):
    name: str
    spec: Manifest
    saying: str = ""
    """What the refusal says; empty: it is admitted."""


PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----\n"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIEpAIBAAKCAQEA\n-----END CERTIFICATE-----\n"
DEEP: Manifest = {"password": "hunter2"}
for level in range(12):
    DEEP = {f"level{level}": [DEEP]} if level % 2 else {f"level{level}": DEEP}
SECRETS = [
    Case(
        "a password",
        helm(password="hunter2"),
        "spec.config, spec.processors: password: everyone who can read BundleDeployments can see it",
    ),
    Case("one of several words", helm(adminPassword="hunter2"), "adminPassword"),
    Case("in the manner of variables", helm(ADMIN_PASSWORD="hunter2"), "ADMIN_PASSWORD"),
    Case("with dashes", helm(**{"admin-passwd": "hunter2"}), "admin-passwd"),
    Case("a token", helm(auth={"token": "abc"}), "token"),
    Case("a key of an API", helm(auth={"apiKey": "abc"}), "apiKey"),
    Case("one with an underscore", helm(auth={"api_key": "abc"}), "api_key"),
    Case("a secret key", helm(s3={"secretKey": "abc"}), "secretKey"),
    Case("that of a variable", helm(DJANGO_SECRET_KEY="abc"), "DJANGO_SECRET_KEY"),
    Case("an access key", helm(s3={"secretAccessKey": "abc"}), "secretAccessKey"),
    Case("a private key by its name", helm(tls={"privateKey": "abc"}), "privateKey"),
    Case("a client's secret", helm(oidc={"clientSecret": "abc"}), "clientSecret"),
    Case("several", helm(password="a", auth={"token": "b"}), "token, password"),
    Case("a password far down", helm(**DEEP), "password"),
    Case("a private key by its form", helm(files={"a.pem": PEM}), "contains a private key"),
    Case("a private key in a text", text(f"tls: |\n  {PEM}"), "contains a private key"),
    Case("a token of a forge", helm(git={"login": f"ghp_{'a' * 36}"}), "contains a token"),
    Case("a key of a cloud", helm(aws={"id": "AKIAIOSFODNN7EXAMPLE"}), "contains a token"),
    Case("a URL with a password", helm(database="postgres://shop:hunter2@db:5432/shop"), "a URL with a password"),
    Case("a variable with a password", env(name="DB_PASSWORD", value="hunter2"), "DB_PASSWORD"),
    Case("a variable with a secret", env(name="CLIENT_SECRET", value="hunter2"), "CLIENT_SECRET"),
    Case("a password in a text", text("auth:\n  password: hunter2\n"), "password"),
    Case("on its first line", text("password: hunter2"), "password"),
    Case("in a list", text("users:\n- password: hunter2\n"), "password"),
    Case("in quotes", text('auth:\n  password: "hunter2"\n'), "password"),
    Case("in single quotes", text("auth:\n  adminPassword: 'hunter2'\n"), "adminPassword"),
    Case("a text of JSON", text('{"auth":{"password":"hunter2"}}'), "password"),
    Case("a password in a merge patch", patch(merge={"data": {"db-password": "hunter2"}}), "db-password"),
    Case("one in a JSON patch", patch(json=[{"op": "add", "path": "/data/password", "value": "hunter2"}]), "password"),
    Case("a private key in a patch", patch(merge={"data": {"a.pem": PEM}}), "contains a private key"),
    Case("a text of JSON with spaces", text('{"auth": {"password": "hunter2"}}'), "password"),
]
NONE = [
    Case("no config", {}),
    Case("usual values", helm(replicas=3, image={"tag": "1.2"}, enabled=True, factor=0.5, nothing=None, list=[1, "a"])),
    Case("the name of a Secret", helm(existingSecret="foo", secretName="bar", imagePullSecrets=[{"name": "a"}])),
    Case("a reference to one", helm(passwordSecretRef={"name": "foo", "key": "password"})),
    Case(
        "which key of it", helm(passwordKey="db", existingSecretPasswordKey="db", secretKeys={"adminPasswordKey": "a"})
    ),
    Case("another spelling of that", helm(existingSecretKey="a", userPasswordSecretKey="b", existingSecretToken="c")),
    Case("an empty password", helm(password="", auth={"token": None}, automountServiceAccountToken=True, tokens=3)),
    Case("a reference to a variable", helm(password="$(PASSWORD)", token="${TOKEN}", apiKey="{{ .Values.key }}")),
    Case("a variable from a Secret", env(name="DB_PASSWORD", valueFrom={"secretKeyRef": {"name": "a", "key": "b"}})),
    Case("a variable that refers to another", env(name="DB_PASSWORD", value="$(OTHER)")),
    Case("a certificate", helm(ca=CERTIFICATE)),
    Case(
        "a URL", helm(database="postgres://db:5432/shop", at="https://example.com/a@b", user="ssh://git@example.com/a")
    ),
    Case("a URL with a reference", helm(database="postgres://shop:$(PASSWORD)@db:5432/shop")),
    Case("a text without secrets", text("auth:\n  existingSecret: foo\n  password: ''\n  token: \"\"\nreplicas: 3\n")),
    Case("a text with switches", text("automountServiceAccountToken: false\npassword: null\ntoken:\n  name: a\n")),
    Case(
        "a text about passwords", helm(note="the password: see the Secret", motd="token or password", ask="password: ")
    ),
    Case("a text of JSON without secrets", text('{"auth": {"password": "", "existingSecret": "a"}, "replicas": 3}')),
    Case("a patch without secrets", patch(merge={"data": {"color": "blue"}, "spec": {"replicas": 3}})),
    Case(
        "a JSON patch with a reference",
        patch(json=[{"op": "replace", "path": "/data/password", "value": "$(PASSWORD)"}]),
    ),
    Case("a hundred KiB of values", helm(**{f"key{number}": "v" * 90 for number in range(1000)})),
]
KINDS = [
    Case("a plug-in's kind", plug_in("example.com/s3", bucket="a"), "the kind example.com/s3 is forbidden"),
    Case("one without parameters", {"sources": [{"kind": "example.com/s3"}]}, "example.com/s3"),
    Case("a listed one", plug_in("example.com/listed", bucket="a")),
    Case("a plug-in's processor", {"processors": [{"kind": "example.com/x"}]}, "the kind example.com/x is forbidden"),
    Case("a listed processor", {"processors": [{"kind": "example.com/listed"}]}),
    Case("a plug-in's format", {"format": "example.com/hosts"}, "spec.format: example.com/hosts is forbidden"),
    Case("a listed format", {"format": "example.com/listed"}),
    Case("a built-in processor", {"processors": [{"kind": "metadata", "metadata": {"labels": {"team": "shop"}}}]}),
    Case(
        "a listed one without verification",
        plug_in("example.com/listed", insecureSkipTLSVerify=True),
        "insecureSkipTLSVerify is forbidden, also in parameters",
    ),
    Case("a listed one with it", plug_in("example.com/listed", insecureSkipTLSVerify=False)),
]
SIGNATURES = [
    *(Case(f"a signed {name}", {"sources": [each]}) for name, each in SIGNED.items()),
    *(
        Case(
            f"an unsigned {kind}",
            {"sources": [source(kind, block)]},
            f"spec.sources: {kind}: sources without verify are forbidden",
        )
        for kind, block in (("image", REFERENCE), ("git", COMMIT), ("http", FILE), ("chart", CHART))
    ),
    Case(
        "an unsigned one beside signed ones",
        {"sources": [IMAGE, {**source("git", COMMIT), "destination": "a"}, {**SIGNED["file"], "destination": "b"}]},
        "spec.sources: git: sources without verify are forbidden; say who must have signed them",
    ),
]


@pytest.fixture(scope="module")
def strict(tenants: Tenants) -> Iterator[Tenants]:
    """The policies in force, with one kind listed as the README says."""
    client = tenants.world.client
    specs = helm(password="a"), plug_in("example.com/s3"), {"sources": [source("http", FILE)]}
    with tenants.enforced("policy/strict", *(partial(refusal, tenants, spec) for spec in specs)):
        listed = client.get(f"{POLICIES}/rukpak-strict-plugins").value
        assert listed["spec"]["variables"][0] == {"name": "allowed", "expression": "[]"}
        patch = [{"op": "replace", "path": "/spec/variables/0/expression", "value": "['example.com/listed']"}]
        client.json_patch(f"{POLICIES}/rukpak-strict-plugins", patch)
        tenants.world.wait(lambda: not refusal(tenants, plug_in("example.com/listed")), "the listed kind admitted")
        yield tenants


def refusal(tenants: Tenants, spec: Manifest) -> str:
    """Return why the API server refuses a BundleDeployment of an administrator; empty if it does not."""
    return tenants.find_refusal(None, **{"sources": [IMAGE], **spec})


@pytest.mark.parametrize("case", [*SECRETS, *NONE, *KINDS, *SIGNATURES], ids=lambda case: case.name)
def test_what_is_refused_and_what_is_admitted(strict: Tenants, case: Case) -> None:
    found = refusal(strict, case.spec)
    assert case.saying in found if case.saying else not found
    assert "hunter2" not in found


@pytest.mark.usefixtures("strict")
def test_a_tenant_cannot_show_a_password_to_everybody(tenants: Tenants) -> None:
    with refused("everyone who can read BundleDeployments can see it"):
        tenants.apply(ANN, "shown", "unused", **OWN, sources=[IMAGE], **helm(password="hunter2"))
    tenants.apply(ANN, "shown", "unused", **OWN, sources=[IMAGE], **helm(existingSecret="login"))
    with refused("everyone who can read BundleDeployments can see it"):
        tenants.change(ANN, "shown", config={"values": {"password": "hunter2"}})
    tenants.delete(ANN, "shown")


def test_a_kind_can_be_switched_off(strict: Tenants) -> None:
    """The last test: it changes the policy."""
    patch = [{"op": "replace", "path": "/spec/variables/0/expression", "value": "['image', 'http']"}]
    strict.world.client.json_patch(f"{POLICIES}/rukpak-strict-verification", patch)
    commit = {"sources": [source("git", COMMIT)]}
    strict.world.wait(lambda: not refusal(strict, commit), "a commit without verify admitted")
    assert "http: sources without verify are forbidden" in refusal(strict, {"sources": [source("http", FILE)]})
