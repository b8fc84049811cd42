from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Credentials, Trusted
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.kube.resources import CONFIG_MAPS, SERVICE_ACCOUNTS
from rukpak.controller.observe.following import ObjectReference
from rukpak.controller.revisions.source_access import SecretReader, read_demanded
from rukpak.controller.sources.demands import SignaturePolicy, parse_demands
from tests.support.deployments import REF, deployment
from tests.support.fake_api import FakeApi, Fault

CANARY = "canary-4711"
ACCOUNT = "system:serviceaccount:shop:deployer"


def secret(namespace: str = "shop", name: str = "login", **data: str) -> dict[str, Any]:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"metadata": {"namespace": namespace, "name": name, "resourceVersion": "7"}, "data": encoded}


USED = {"serviceAccountName": "deployer", "namespaceUID": "uid-1", "serviceAccountUID": "uid-2", "generation": 1}
LOGIN = secret(username="robot", password=CANARY)


class Desk:
    """A reader, the API server that it asks, and what it tells."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.reader = SecretReader(api.client(), ["allowed"])
        self.seen: list[tuple[ObjectReference, str]] = []

    def serve_account(self, *pull_secrets: str, namespace_uid: str = "uid-1", uid: str = "uid-2") -> None:
        """Have the account and its namespace."""
        self.api.documents["/api/v1/namespaces/shop"] = ({"metadata": {"name": "shop", "uid": namespace_uid}}, "")
        value = account(*pull_secrets)
        self.serve({**value, "metadata": {**value["metadata"], "uid": uid}}, "serviceaccounts")

    def serve(self, value: Mapping[str, Any], plural: str = "secrets") -> None:
        about = value["metadata"]
        self.api.documents[f"/api/v1/namespaces/{about['namespace']}/{plural}/{about['name']}"] = (value, "")

    def read(self, asked: BundleDeployment) -> Credentials | None:
        source = asked.spec.sources[0]
        return self.reader.credentials(asked, 0, source, lambda *seen: self.seen.append(seen))

    def failure(self, asked: BundleDeployment) -> BundleError:
        with pytest.raises(BundleError) as caught:
            self.read(asked)
        assert CANARY not in caught.value.message
        return caught.value


@pytest.fixture
def desk() -> Iterator[Desk]:
    with FakeApi() as api:
        yield Desk(api)


def asking(auth: Mapping[str, Any] | None, kind: str = "git", **spec: Any) -> BundleDeployment:
    """Return a BundleDeployment whose source has this `auth`."""
    parameters = {"git": {"repository": "https://x/y"}, "http": {"url": "https://x/y"}, "image": {"ref": REF}}
    name = kind if kind in parameters else "parameters"
    block = {**parameters.get(kind, {}), **({"auth": auth} if auth else {})}
    status = {"account": USED} if "serviceAccountName" in spec else {}
    return deployment(spec={"sources": [{"kind": kind, name: block}], **spec}, status=status)


def named(name: str = "login", **reference: str) -> dict[str, Any]:
    return {"secret": {"name": name, **reference}}


def test_without_a_secret_nobody_is_asked(desk: Desk) -> None:
    assert desk.read(asking(None)) is None
    assert not desk.api.received


class Allowed(NamedTuple):
    name: str
    auth: dict[str, Any]
    namespace: str


ALLOWED = [
    Allowed("only the install namespace", named(), "shop"),
    Allowed("the install namespace by its name", named(namespace="shop"), "shop"),
    Allowed("a namespace that the administrator allows", named(namespace="allowed"), "allowed"),
    Allowed("the older spelling", {"name": "login", "namespace": "allowed"}, "allowed"),
]


@pytest.mark.parametrize("case", ALLOWED, ids=attrgetter("name"))
def test_from_which_namespaces_secrets_may_be(case: Allowed, desk: Desk) -> None:
    desk.serve(secret(case.namespace, username="robot", password=CANARY))
    found = desk.read(asking(case.auth))
    assert found is not None
    assert (found.username, found.password) == ("robot", CANARY)
    assert desk.seen == [
        (ObjectReference(case.namespace, "login"), ""),
        (ObjectReference(case.namespace, "login"), "7"),
    ]


def test_another_namespace_is_refused_before_anything_is_read(desk: Desk) -> None:
    error = desk.failure(asking(named(namespace="other")))
    assert error.reason is Reason.SECRET_FORBIDDEN
    assert error.message == (
        'spec.sources[0].git.auth: Secrets in namespace "other" are not allowed; move the Secret to the install '
        "namespace or ask the administrator to add the namespace to --secret-namespaces"
    )
    assert (desk.api.received, desk.seen) == ([], [])


def test_with_an_account_it_is_read_as_that_and_from_wherever_it_may(desk: Desk) -> None:
    desk.serve_account()
    desk.serve(secret("other", username="robot", password=CANARY))
    assert desk.read(asking(named(namespace="other"), serviceAccountName="deployer"))
    assert [request.header("Impersonate-User") for request in desk.api.received] == [[], [], [ACCOUNT]]
    assert desk.seen[-1] == (ObjectReference("other", "login", ACCOUNT), "7")


class Refused(NamedTuple):
    name: str
    status: int
    spec: dict[str, Any]
    reason: Reason
    message: str


SUBJECT = 'spec.sources[0].git.auth: Secret "shop/login"'
# fmt: off
REFUSED = [
    Refused("it is missing", 404, {}, Reason.SECRET_NOT_FOUND,
         f"{SUBJECT} does not exist; create it or correct the name"),
    Refused("the controller may not read it", 403, {}, Reason.SECRET_FORBIDDEN,
         f"{SUBJECT} cannot be read by the controller; grant get on it"),
    Refused("nobody may look which account it is", 403, {"serviceAccountName": "deployer"}, Reason.FORBIDDEN,
         "the controller cannot read the account that it acts as; grant it the rules of config/rbac: 403"),
    Refused("the API server is not well", 500, {}, Reason.API_UNAVAILABLE,
         f"{SUBJECT} cannot be read: the API server answered with status 500; will be retried"),
]
# fmt: on


@pytest.mark.parametrize("case", REFUSED, ids=attrgetter("name"))
def test_what_a_refusal_means(case: Refused, desk: Desk) -> None:
    desk.api.faults = [Fault(case.status) for _ in range(10)]
    error = desk.failure(asking(named(), **case.spec))
    assert (error.reason, error.message[: len(case.message)]) == (case.reason, case.message)
    assert {version for _, version in desk.seen} == {""}


def test_one_of_no_use_was_read_and_may_be_corrected(desk: Desk) -> None:
    desk.serve(secret(other=CANARY))
    assert desk.failure(asking(named())).reason is Reason.SECRET_INVALID
    assert desk.seen[-1] == (ObjectReference("shop", "login"), "7")


@pytest.mark.parametrize(
    ("kind", "path"),
    [("http", "spec.sources[0].http.auth"), ("example.com/s3", "spec.sources[0].parameters.auth")],
)
def test_the_field_is_named_as_it_stands_in_the_spec(kind: str, path: str, desk: Desk) -> None:
    assert desk.failure(asking(named(), kind=kind)).message.startswith(f"{path}: ")


# pull secrets of an account


def pull_secret(name: str, password: str) -> dict[str, Any]:
    config = {"auths": {"registry.example.com": {"username": "robot", "password": password}}}
    value = secret(name=name, **{".dockerconfigjson": json.dumps(config)})
    return {**value, "type": "kubernetes.io/dockerconfigjson"}


def account(*names: str) -> dict[str, Any]:
    metadata = {"namespace": "shop", "name": "deployer", "resourceVersion": "7"}
    return {"metadata": metadata, "imagePullSecrets": [{"name": name} for name in names]}


def test_an_image_without_auth_uses_the_pull_secrets_of_the_account(desk: Desk) -> None:
    desk.serve_account("a", "b")
    desk.serve(pull_secret("a", "1"))
    desk.serve(pull_secret("b", "2"))
    found = desk.read(asking(None, "image", serviceAccountName="deployer"))
    assert found is not None
    assert [entry.password for entry in found.registries] == ["1", "2"]
    assert {each.name for each, _ in desk.seen} == {"deployer", "a", "b"}


# which Secrets these are, for what is shared


def identity(desk: Desk, asked: BundleDeployment, *values: Mapping[str, Any]) -> str:
    for value in values:
        desk.serve(value)
    found = desk.read(asked)
    assert found is not None
    return found.identity


def changed(value: Mapping[str, Any], **metadata: str) -> dict[str, Any]:
    return {**value, "metadata": {**value["metadata"], **metadata}}


CHANGES = {
    "the same": ({}, True),
    "made again under its name": ({"uid": "uid-8"}, False),
    "changed since": ({"resourceVersion": "8"}, False),
}
OF_OWN = changed(LOGIN, uid="uid-7")
OF_ACCOUNT = changed(pull_secret("a", "1"), uid="uid-7")


@pytest.mark.parametrize("change", CHANGES)
def test_a_secret_is_known_by_uid_and_version_and_not_by_its_name(change: str, desk: Desk) -> None:
    metadata, same = CHANGES[change]
    asked = asking(named())
    before = identity(desk, asked, OF_OWN)
    assert (identity(desk, asked, changed(OF_OWN, **metadata)) == before) is same


@pytest.mark.parametrize("change", CHANGES)
def test_pull_secrets_are_known_by_uid_and_version_and_not_by_their_names(change: str, desk: Desk) -> None:
    metadata, same = CHANGES[change]
    asked = asking(None, "image", serviceAccountName="deployer")
    desk.serve_account("a")
    before = identity(desk, asked, OF_ACCOUNT)
    assert (identity(desk, asked, changed(OF_ACCOUNT, **metadata)) == before) is same


class PullSecret(NamedTuple):
    name: str
    registry: str
    used: bool


PULL_SECRETS = [
    PullSecret("of the registry", "registry.example.com", used=True),
    PullSecret("of all its neighbours", "*.example.com", used=True),
    PullSecret("of the mirror", "mirror.example.net", used=True),
    PullSecret("of another registry", "other.example.com", used=False),
]


@pytest.mark.parametrize("case", PULL_SECRETS, ids=attrgetter("name"))
def test_only_pull_secrets_for_the_registry_keep_accounts_from_sharing(case: PullSecret, desk: Desk) -> None:
    mirrors = {"registry.example.com": "mirror.example.net"} if "mirror" in case.registry else {}
    desk.reader = SecretReader(desk.api.client(), ["allowed"], mirrors)
    desk.serve_account("a")
    config = {"auths": {case.registry: {"username": "robot", "password": CANARY}}}
    value = secret(name="a", **{".dockerconfigjson": json.dumps(config)})
    asked = asking(None, "image", serviceAccountName="deployer")
    found = identity(desk, asked, {**changed(value, uid="uid-7"), "type": "kubernetes.io/dockerconfigjson"})
    assert bool(found) is case.used


def test_an_account_without_pull_secrets_has_no_credentials(desk: Desk) -> None:
    desk.serve(account(), "serviceaccounts")
    assert desk.read(asking(None, "image", serviceAccountName="deployer")) is None


NO_ACCOUNT = ObjectReference("shop", "deployer", resource=SERVICE_ACCOUNTS)


def test_a_missing_account_is_named_and_can_be_waited_for(desk: Desk) -> None:
    desk.api.documents["/api/v1/namespaces/shop"] = ({"metadata": {"name": "shop", "uid": "uid-1"}}, "")
    error = desk.failure(asking(None, "image", serviceAccountName="deployer"))
    assert error.reason is Reason.SERVICE_ACCOUNT_NOT_FOUND
    assert error.message.startswith('spec.serviceAccountName: ServiceAccount "shop/deployer" does not exist')
    assert desk.seen == [(NO_ACCOUNT, "")]


def test_the_missing_namespace_of_an_account_is_named(desk: Desk) -> None:
    error = desk.failure(asking(None, "image", serviceAccountName="deployer"))
    assert error.reason is Reason.NAMESPACE_NOT_FOUND
    assert error.message.startswith('spec.installNamespace: namespace "shop" does not exist; create it')


def test_nothing_is_read_as_an_account_that_is_not_there(desk: Desk) -> None:
    desk.api.documents["/api/v1/namespaces/shop"] = ({"metadata": {"name": "shop", "uid": "uid-1"}}, "")
    desk.serve(LOGIN)
    error = desk.failure(asking(named(), serviceAccountName="deployer"))
    assert error.reason is Reason.SERVICE_ACCOUNT_NOT_FOUND
    assert desk.seen[-1] == (NO_ACCOUNT, "")


OTHERS = {
    "the namespace": ({"namespace_uid": "uid-3", "uid": "uid-4"}, Reason.NAMESPACE_REPLACED),
    "the account": ({"uid": "uid-4"}, Reason.SERVICE_ACCOUNT_REPLACED),
}


@pytest.mark.parametrize("what", OTHERS)
def test_nothing_is_read_where_another_has_come_under_the_name_of(what: str, desk: Desk) -> None:
    uids, reason = OTHERS[what]
    desk.serve_account(**uids)
    desk.serve(LOGIN)
    assert desk.failure(asking(named(), serviceAccountName="deployer")).reason is reason
    assert not [request for request in desk.api.received if "/secrets/" in request.path]


def test_nothing_is_read_as_an_account_before_it_is_recorded_which_one_that_is(desk: Desk) -> None:
    desk.serve_account()
    desk.serve(LOGIN)
    asked = asking(named(), serviceAccountName="deployer")
    status = asked.status.model_copy(update={"account": None})
    error = desk.failure(asked.model_copy(update={"status": status}))
    assert error.reason is Reason.SERVICE_ACCOUNT_NOT_FOUND
    assert desk.seen[-1] == (NO_ACCOUNT, "")


def test_other_sources_do_not_use_pull_secrets(desk: Desk) -> None:
    assert desk.read(asking(None, "git", serviceAccountName="deployer")) is None
    assert not desk.api.received


def test_the_command_line_reads_as_its_user_and_from_wherever_that_may(desk: Desk) -> None:
    desk.reader = SecretReader(desk.api.client(), None)
    desk.serve(secret("elsewhere", username="robot", password="x"))
    read = desk.read(asking(named(namespace="elsewhere"), serviceAccountName="deployer"))
    assert read == Credentials(username="robot", password="x")
    assert desk.api.received[0].header("Impersonate-User") == []


KEYS = {"cosign": {"keys": [{"secret": {"name": "keys"}}], "identities": [{"issuer": "i", "subject": "s"}]}}
ROOTED = {"cosign": {**KEYS["cosign"], "trustedRoot": {"configMap": {"name": "root"}}}}


def verifying(verify: Mapping[str, Any], **spec: Any) -> BundleDeployment:
    status = {"account": USED} if "serviceAccountName" in spec else {}
    source = {"kind": "image", "image": {"ref": REF, "verify": verify}}
    return deployment(spec={"sources": [source], **spec}, status=status)


def trusted(desk: Desk, asked: BundleDeployment) -> Trusted:
    return desk.reader.trusted(asked, 0, asked.spec.sources[0], lambda *seen: desk.seen.append(seen))


def config_map(**data: str) -> dict[str, Any]:
    return {"metadata": {"namespace": "shop", "name": "root", "resourceVersion": "9"}, "data": data}


def test_what_verify_names_is_read_by_its_place_in_the_spec(desk: Desk) -> None:
    desk.serve(secret(name="keys", **{"a.pub": "A"}))
    desk.serve(config_map(**{"trusted_root.json": "{}"}), "configmaps")
    found = trusted(desk, verifying(ROOTED))
    assert found.data == {
        ".cosign.keys[0].secret": {"a.pub": b"A"},
        ".cosign.trustedRoot.configMap": {"trusted_root.json": b"{}"},
    }
    assert desk.seen[-2:] == [
        (ObjectReference("shop", "keys"), "7"),
        (ObjectReference("shop", "root", "", CONFIG_MAPS), "9"),
    ]


def test_keys_are_read_as_the_account_and_only_from_where_it_may(desk: Desk) -> None:
    desk.serve_account()
    desk.serve(secret(name="keys", **{"a.pub": "A"}))
    trusted(desk, verifying(KEYS, serviceAccountName="deployer"))
    assert desk.api.received[-1].header("Impersonate-User") == [ACCOUNT]
    elsewhere = verifying({"cosign": {"keys": [{"secret": {"name": "keys", "namespace": "other"}}]}})
    with pytest.raises(BundleError) as caught:
        trusted(desk, elsewhere)
    assert caught.value.reason is Reason.SECRET_FORBIDDEN
    assert caught.value.message.startswith("spec.sources[0].image.verify.cosign.keys[0].secret: ")


@pytest.mark.parametrize("change", ["keys", "root"])
def test_changed_keys_are_known_by_version_and_a_changed_root_by_its_content(change: str, desk: Desk) -> None:
    keys, root = secret(name="keys", **{"a.pub": "A"}), config_map(**{"trusted_root.json": "{}"})
    desk.serve(keys)
    desk.serve(root, "configmaps")
    before = trusted(desk, verifying(ROOTED)).identity
    assert trusted(desk, verifying(ROOTED)).identity == before
    if change == "keys":
        desk.serve(changed(keys, resourceVersion="8"))
    else:
        desk.serve(config_map(**{"trusted_root.json": "[]"}), "configmaps")
    assert trusted(desk, verifying(ROOTED)).identity != before


def test_keys_that_are_no_base64_are_reported_without_them(desk: Desk) -> None:
    desk.serve({**secret(name="keys"), "data": {"a.pub": CANARY}})
    with pytest.raises(BundleError) as caught:
        trusted(desk, verifying(KEYS))
    assert caught.value.reason is Reason.INVALID_VERIFICATION
    assert CANARY not in caught.value.message


def keys_of(desk: Desk, keys: str, source: Mapping[str, Any] | None = None) -> Trusted:
    """Return the keys of an administrator who demands signatures of everything."""
    policy = SignaturePolicy(demands=parse_demands(f"*={keys}", "rukpak-system"))
    asked = policy.complete(deployment(spec={"sources": [source]} if source else {}))
    return read_demanded(0, asked.spec.sources[0], desk.reader.read_unfollowed)


PLACES = {
    "an image": ({"kind": "image", "image": {"ref": REF}}, ".cosign.keys[0].secret", ["a.pub"]),
    "a repository": ({"kind": "git", "git": {"repository": "https://a.io/b"}}, ".secret", ["a.asc", "allowed_signers"]),
    "a file": ({"kind": "http", "http": {"url": "https://a.io/b"}}, ".cosign.keys[0].secret", ["a.pub"]),
    "a chart": (
        {"kind": "chart", "chart": {"repository": "https://a.io", "name": "b", "version": "1"}},
        ".provenance.secret",
        ["a.asc", "a.gpg"],
    ),
}


@pytest.mark.parametrize("case", PLACES)
def test_keys_of_the_administrator_are_where_verify_would_name_them(desk: Desk, tmp_path: Path, case: str) -> None:
    (tmp_path / "..data").mkdir()
    source, place, names = PLACES[case]
    for name in names:
        (tmp_path / name).write_bytes(b"A")
        assert keys_of(desk, str(tmp_path), source).data == {place: {name: b"A"}}
        assert keys_of(desk, str(tmp_path / name), source).data == {place: {name: b"A"}}
        (tmp_path / name).unlink()


@pytest.mark.parametrize("case", PLACES)
def test_keys_of_other_kinds_of_sources_are_none(desk: Desk, tmp_path: Path, case: str) -> None:
    source, _, names = PLACES[case]
    others = {name for _, _, each in PLACES.values() for name in each} | {"tls.key", "pub", "my_allowed_signers"}
    for name in others - set(names):
        (tmp_path / name).write_bytes(b"A")
    desk.serve(secret("rukpak-system", "keys", **dict.fromkeys(others - set(names), "A")))
    for keys in (str(tmp_path), "secret:keys"):
        with pytest.raises(BundleError, match=r"--require-verified of the administrator: there are no keys") as caught:
            keys_of(desk, keys, source)
        assert caught.value.message.endswith(" or ".join(name.replace("a.", "*.") for name in names))
        assert caught.value.reason is Reason.VERIFICATION_UNAVAILABLE


def test_a_secret_of_the_administrator_is_read_as_the_controller_whoever_applies_objects(desk: Desk) -> None:
    desk.serve(secret("rukpak-system", "keys", **{"a.pub": "A"}))
    found = keys_of(desk, "secret:keys")
    assert found.data == {".cosign.keys[0].secret": {"a.pub": b"A"}}
    assert found.identity


def test_other_keys_are_another_identity(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "a.pub"
    file.write_bytes(b"A")
    before = keys_of(desk, str(file)).identity
    assert keys_of(desk, str(file)).identity == before
    file.write_bytes(b"B")
    assert keys_of(desk, str(file)).identity != before


@pytest.mark.parametrize("keys", ["/no/such/file", "secret:missing"])
def test_without_the_keys_of_the_administrator_nothing_is_verified(desk: Desk, keys: str) -> None:
    with pytest.raises(
        BundleError, match=r"spec\.sources\[0\]\.image: --require-verified of the administrator"
    ) as caught:
        keys_of(desk, keys)
    assert caught.value.reason is Reason.VERIFICATION_UNAVAILABLE
