"""The CustomResourceDefinition on a real API server: what is accepted, what is refused, and in which words.

Everything but the tests of updates is a server-side dry run with the strict validation that kubectl asks for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from hack.reference.sections import read_examples
from rukpak.api.v1alpha2.conditions import ConditionType
from rukpak.api.v1alpha2.schema import crd
from rukpak.api.v1alpha2.status import Condition, Display, NotReady, ObjectCounts, SourcePin, Status, dump
from rukpak.controller.playground.cluster import Cluster, KubectlError
from rukpak.controller.playground.processes import wait_for
from tests.support.bundles import DEPLOYMENTS
from tests.support.inside import ApiError, Client, read_documents
from tests.support.instructions import nested, settings

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
DRY_RUN = (("dryRun", "All"), ("fieldValidation", "Strict"))

Json = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def _definition(cluster: Cluster) -> None:
    cluster.kubectl("apply", "--server-side", "-k", str(ROOT / "config/crd"))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", f"crd/{crd()['metadata']['name']}")

    def is_explained() -> bool:
        try:
            cluster.kubectl("explain", "bds")
        except KubectlError:
            return False
        return True

    wait_for(is_explained, 60, "what kubectl explain reads, which the API server publishes a moment later")


def deployment(name: str = "case", **spec: Any) -> Json:
    """Return a BundleDeployment; a member of the spec that is None is left out."""
    members = {"format": "plain", "sources": [image()], **spec}
    return {
        "apiVersion": "core.rukpak.io/v1alpha2",
        "kind": "BundleDeployment",
        "metadata": {"name": name},
        "spec": {key: value for key, value in members.items() if value is not None},
    }


def image(block: Json | None = None, **source: Any) -> Json:
    return {"kind": "image", "image": {"ref": "quay.io/foo/bar:v1", **(block or {})}, **source}


def git(block: Json | None = None, **source: Any) -> Json:
    return {"kind": "git", "git": {"repository": "https://github.com/foo/bar", **(block or {})}, **source}


def http(block: Json | None = None, **source: Any) -> Json:
    return {"kind": "http", "http": {"url": "https://example.com/a.tgz", **(block or {})}, **source}


def check(**members: Any) -> Json:
    return {"healthChecks": [{"kind": "Cache", **members}]}


SECRET = {"namespace": "ns", "name": "secret"}
ANONYMOUS = {"auth": {"secret": {"name": "secret"}}}


@dataclass(frozen=True, kw_only=True)
class Refused:
    name: str
    spec: Json
    where: str
    why: str = ""


def source_cases() -> Iterator[Refused]:
    two = image(git=git()["git"])
    yield Refused(name="two blocks", spec={"sources": [two]}, where="spec.sources[0].git", why="only then")
    yield Refused(name="no block", spec={"sources": [{"kind": "git"}]}, where="spec.sources[0].git", why="must be set")
    other = {**git(), "kind": "http"}
    yield Refused(name="the block of another kind", spec={"sources": [other]}, where="spec.sources[0].http")
    oci = {**image(), "kind": "oci"}
    yield Refused(
        name="an unknown kind", spec={"sources": [oci]}, where="spec.sources[0].kind", why="must be image, git"
    )
    yield Refused(name="no kind", spec={"sources": [{}]}, where="spec.sources[0].kind", why="Required")
    yield Refused(name="no sources", spec={"sources": []}, where="spec.sources", why="at least 1")
    yield Refused(name="sources left out", spec={"sources": None}, where="spec.sources", why="Required")
    yield Refused(name="a source that is null", spec={"sources": [None]}, where="spec.sources[0]")
    yield Refused(name="33 sources", spec={"sources": [image()] * 33}, where="spec.sources", why="at most 32")
    plugin = {"kind": "example.com/bucket", "image": image()["image"]}
    yield Refused(name="a block beside a plug-in's kind", spec={"sources": [plugin]}, where="spec.sources[0].image")
    parameters = image(parameters={"a": 1})
    yield Refused(
        name="parameters of a built-in kind", spec={"sources": [parameters]}, where="spec.sources[0].parameters"
    )


def destination_cases() -> Iterator[Refused]:
    for name, path in {
        "an absolute destination": "/foo",
        "a destination with ..": "foo/../bar",
        "a destination that is ..": "..",
        "a destination with .": "./foo",
        "a destination with an empty element": "foo//bar",
        "a destination that ends in a slash": "foo/",
    }.items():
        yield Refused(
            name=name,
            spec={"sources": [image(destination=path)]},
            where="spec.sources[0].destination",
            why="must be a relative path like foo/bar",
        )
    for name, path in {"a destination with a backslash": "foo\\bar", "a destination with a line break": "a\nb"}.items():
        yield Refused(
            name=name, spec={"sources": [image(destination=path)]}, where="spec.sources[0].destination", why="backslash"
        )
    inner = {"sources": [image(), git({"destination": "../foo"})]}
    yield Refused(name="an inner destination with ..", spec=inner, where="spec.sources[1].git.destination")
    directory = {"sources": [git({"directory": "/etc"})]}
    yield Refused(name="an absolute directory", spec=directory, where="spec.sources[0].git.directory")
    for source in (git({"destination": "a"}, destination="a"), http({"destination": "a"}, destination="b")):
        yield Refused(
            name=f"two destinations of {source['kind']}",
            spec={"sources": [source]},
            where="spec.sources[0].destination",
            why="set twice",
        )
    yield Refused(name="a long destination", spec={"sources": [image(destination="x" * 513)]}, where="destination")


def block_cases() -> Iterator[Refused]:
    for name, source, where in [
        ("an image without ref", {"kind": "image", "image": {}}, "image.ref"),
        ("an empty ref", image({"ref": ""}), "image.ref"),
        ("a ref with a blank", image({"ref": "a b"}), "image.ref"),
        ("a ref with a next-line character", image({"ref": "a\u0085b"}), "image.ref"),
        ("a URL with a next-line character", http({"url": "http://127.0.0.1\u0085:9/a"}), "http.url"),
        ("a repository with a no-break space", git({"repository": "https://a/b\u00a0c"}), "git.repository"),
        ("a git ref with a next-line character", git({"ref": "a\u0085b"}), "git.ref"),
        ("a ref that is a number", image({"ref": 1}), "image.ref"),
        ("a platform without architecture", image({"platform": "linux"}), "image.platform"),
        ("a certificate that is none", image({"certificateData": "abc"}), "image.certificateData"),
        ("a repository on this machine", git({"repository": "file:///srv/foo"}), "git.repository"),
        ("a repository that is a command", git({"repository": "ext::sh -c date"}), "git.repository"),
        ("a repository that is an option", git({"repository": "--upload-pack=x"}), "git.repository"),
        ("a host that is an option", git({"repository": "ssh://-oProxyCommand=x/y"}), "git.repository"),
        ("a password in a repository", git({"repository": "https://me:pw@host/foo"}), "git.repository"),
        ("a git ref that is an option", git({"ref": "--help"}), "git.ref"),
        ("a git ref with a blank", git({"ref": "a b"}), "git.ref"),
        ("a git ref that is a number", git({"ref": 1234567}), "git.ref"),
        ("a URL of another scheme", http({"url": "ftp://example.com/a"}), "http.url"),
        ("a URL without host", http({"url": "https:///a"}), "http.url"),
        ("a password in a URL", http({"url": "https://me:pw@example.com/a"}), "http.url"),
        ("a short sha256", http({"sha256": "abc"}), "http.sha256"),
        ("a negative stripComponents", http({"stripComponents": -1}), "http.stripComponents"),
        ("a poll interval below 30s", image(pollInterval="29s"), "pollInterval"),
        ("a poll interval that is no duration", image(pollInterval="1 day"), "pollInterval"),
        ("a poll interval that is a number", image(pollInterval=60), "pollInterval"),
    ]:
        yield Refused(name=name, spec={"sources": [source]}, where=f"spec.sources[0].{where}")


def secret_cases() -> Iterator[Refused]:
    twice = {"secret": SECRET, **SECRET}
    for name, auth, where in [
        ("a Secret named twice", twice, "image.auth.secret"),
        ("an auth without Secret", {}, "image.auth.secret"),
        ("a Secret without name", {"secret": {"namespace": "ns"}}, "image.auth.secret.name"),
        ("a namespace alone", {"namespace": "ns"}, "image.auth.secret"),
        ("a Secret with a bad name", {"secret": {"namespace": "ns", "name": "A_b"}}, "image.auth.secret.name"),
        ("a Secret with a bad namespace", {"namespace": "a/b", "name": "b"}, "image.auth.namespace"),
    ]:
        yield Refused(name=name, spec={"sources": [image({"auth": auth})]}, where=f"spec.sources[0].{where}")
    plugin = {"kind": "example.com/bucket", "parameters": {"auth": {"name": "secret"}}}
    for source in (image(ANONYMOUS), image({"auth": {"name": "n"}}), git(ANONYMOUS), http(ANONYMOUS), plugin):
        yield Refused(
            name=f"a Secret without namespace in {source['kind']} {json.dumps(source)[-30:]}",
            spec={"sources": [source]},
            where="spec.installNamespace",
            why="required unless every auth",
        )


PEM = "-----BEGIN PUBLIC KEY-----\nMA==\n-----END PUBLIC KEY-----\n"
KEYS = {"cosign": {"keys": [{"secret": SECRET}, {"pem": PEM}]}}
BARE_KEYS = {"cosign": {"keys": [{"secret": {"name": "keys"}}]}}
WORKFLOW = {"issuer": "https://issuer.example.com", "subjectRegExp": "https://github.com/acme/.*"}


def chart(block: Json | None = None, scheme: str = "oci", **source: Any) -> Json:
    return {
        "kind": "chart",
        "chart": {"repository": f"{scheme}://example.com/c", "name": "c", **(block or {})},
        **source,
    }


def verification_cases() -> Iterator[Refused]:
    cosign: list[tuple[str, Json, str]] = [
        ("neither keys nor identities", {}, ""),
        ("a key from two places", {"keys": [{"secret": SECRET, "pem": PEM}]}, ".keys[0]"),
        ("a key from nowhere", {"keys": [{}]}, ".keys[0]"),
        ("a key that is none", {"keys": [{"pem": "x"}]}, ".keys[0].pem"),
        ("no key in the list", {"keys": []}, ".keys"),
        ("an identity without issuer", {"identities": [{"subject": "x"}]}, ".identities[0].issuer"),
        ("an identity with two subjects", {"identities": [{**WORKFLOW, "subject": "x"}]}, ".identities[0].subject"),
        ("a root without identities", {**KEYS["cosign"], "trustedRoot": {"configMap": {"name": "x"}}}, ".trustedRoot"),
    ]
    for name, block, where in cosign:
        source = image({"verify": {"cosign": block}})
        place = f"spec.sources[0].image.verify.cosign{where}"
        yield Refused(name=name, spec={"sources": [source], "installNamespace": "foo"}, where=place)
    for name, source, where in [
        ("a file with provenance", http({"verify": {"provenance": {"secret": SECRET}}}), "http.verify"),
        ("a file that nobody has signed", http({"verify": {}}), "http.verify.cosign"),
        ("an object that cannot be signed", git({"verify": {"secret": SECRET, "object": "Tree"}}), "git.verify.object"),
        ("a registry with provenance", chart({"verify": {"provenance": {"secret": SECRET}}}), "chart.verify"),
        ("a repository with cosign", chart({"verify": KEYS}, scheme="https"), "chart.verify"),
        ("a registry with passCredentials", chart({"passCredentials": True}), "chart.passCredentials"),
    ]:
        yield Refused(name=name, spec={"sources": [source]}, where=f"spec.sources[0].{where}")
    root = {"cosign": {"identities": [WORKFLOW], "trustedRoot": {"configMap": {"name": "root"}}}}
    provenance = {"provenance": {"secret": {"name": "keys"}}}
    for source in (
        image({"verify": BARE_KEYS}),
        image({"verify": root}),
        git({"verify": {"secret": {"name": "keys"}}}),
        http({"verify": BARE_KEYS}),
        chart({"verify": BARE_KEYS}),
        chart({"verify": provenance}, scheme="https"),
    ):
        yield Refused(
            name=f"verify without namespace in {source['kind']} {json.dumps(source)[-30:]}",
            spec={"sources": [source]},
            where="spec.installNamespace",
            why="required unless every verify",
        )


def policy_cases() -> Iterator[Refused]:
    condition = {"type": "Ready", "status": "True"}
    scalar = {"path": "status.phase", "in": ["a"]}
    cases: list[tuple[str, Json, str]] = [
        ("no format", {"format": None}, "spec.format"),
        ("an unknown format", {"format": "tarball"}, "spec.format"),
        ("a format with an undotted domain", {"format": "example/mine"}, "spec.format"),
        ("an account without install namespace", {"serviceAccountName": "x"}, "spec.installNamespace"),
        ("a bad account", {"serviceAccountName": "A b", "installNamespace": "x"}, "spec.serviceAccountName"),
        ("an empty install namespace", {"installNamespace": ""}, "spec.installNamespace"),
        ("a bad install namespace", {"installNamespace": "Foo"}, "spec.installNamespace"),
        ("a paused that is text", {"paused": "yes"}, "spec.paused"),
        ("a config that is a list", {"config": []}, "spec.config"),
        ("an unknown collisionProtection", {"collisionProtection": "prevent"}, "spec.collisionProtection"),
        ("an unknown prune", {"prune": "Always"}, "spec.prune"),
        ("an unknown deletionPolicy", {"deletionPolicy": "Keep"}, "spec.deletionPolicy"),
        ("an unknown drift mode", {"drift": {"mode": "Fix"}}, "spec.drift.mode"),
        ("an ignore rule without paths", {"drift": {"ignore": [{"kind": "A"}]}}, "spec.drift.ignore[0].paths"),
        (
            "an ignored path with a wildcard",
            {"drift": {"ignore": [{"kind": "A", "paths": ["spec.*"]}]}},
            "spec.drift.ignore[0].paths[0]",
        ),
        ("an optional without kind", {"optional": [{"group": "a.b"}]}, "spec.optional[0].kind"),
        ("an optional given twice", {"optional": [{"kind": "A"}, {"kind": "A"}]}, "spec.optional[1]"),
        ("a deadline that is no duration", {"progressDeadline": "soon"}, "spec.progressDeadline"),
        ("a deadline of nothing", {"progressDeadline": "0s"}, "spec.progressDeadline"),
        ("a health check of nothing", check(), "spec.healthChecks[0].always"),
        ("a health check of two minds", check(always="Healthy", failed=[]), "spec.healthChecks[0].always"),
        ("a verdict that is not Healthy", check(always="Failed"), "spec.healthChecks[0].always"),
        ("a matcher of nothing", check(healthy=[{}]), "spec.healthChecks[0].healthy[0].condition"),
        (
            "a matcher of two things",
            check(failed=[{"condition": condition, "field": scalar}]),
            "spec.healthChecks[0].failed[0].condition",
        ),
        (
            "a field compared with nothing",
            check(healthy=[{"field": {"path": "a"}}]),
            "spec.healthChecks[0].healthy[0].field.equalsPath",
        ),
        (
            "a field value that is no text",
            check(healthy=[{"field": {"path": "a", "in": [True]}}]),
            "spec.healthChecks[0].healthy[0].field.in[0]",
        ),
        ("an unknown level", {"crdUpgradeSafety": {"enforcement": "Off"}}, "spec.crdUpgradeSafety.enforcement"),
        (
            "an unknown check",
            {"crdUpgradeSafety": {"rules": [{"crd": "*", "checks": ["enums"], "enforcement": "Warn"}]}},
            "spec.crdUpgradeSafety.rules[0].checks[0]",
        ),
        ("an unknown field", {"pasued": True}, "spec.pasued"),
        ("an unknown field of a source", {"sources": [image(foo=1)]}, "spec.sources[0].foo"),
        ("an unknown field of a block", {"sources": [http({"sha512": "a"})]}, "spec.sources[0].http.sha512"),
    ]
    for name, spec, where in cases:
        yield Refused(name=name, spec=spec, where=where)


REFUSED = [
    *source_cases(),
    *destination_cases(),
    *block_cases(),
    *secret_cases(),
    *verification_cases(),
    *policy_cases(),
]


def refusal(client: Client, value: Json) -> str:
    """Return what the API server says against an object. Fails if it says nothing."""
    with pytest.raises(ApiError) as refused:
        accepted(client, value)
    return refused.value.message


@pytest.mark.parametrize("case", REFUSED, ids=attrgetter("name"))
def test_bad_input_is_refused_by_a_message_that_names_the_field(cluster_client: Client, case: Refused) -> None:
    message = refusal(cluster_client, deployment(**case.spec))
    assert case.where in message
    assert case.why in message


def test_a_name_has_at_most_63_characters(cluster_client: Client) -> None:
    assert "metadata.name: Too long" in refusal(cluster_client, deployment("x" * 64))
    assert accepted(cluster_client, deployment("x" * 63))


def accepted(client: Client, value: Json) -> Json:
    """Return the object as the API server would store it. Raises: ApiError."""
    found: Json = client.request("POST", DEPLOYMENTS, body=value, query=DRY_RUN).value
    return found


CONDITION = {"condition": {"type": "Ready", "status": "False", "reasons": ["Unrecoverable"]}}

ACCEPTED: dict[str, Json] = {
    "the root named ''": {"sources": [image(destination="")]},
    "a destination with dots inside a name": {"sources": [image(destination=".foo/b..r/...")]},
    "sources that share a destination": {"sources": [image(destination="a"), http({"destination": "a"})]},
    "a digest": {"sources": [image({"ref": f"localhost:5000/foo@sha256:{'0' * 64}", "platform": "linux/arm/v7"})]},
    "a certificate": {"sources": [image({"certificateData": "-----BEGIN CERTIFICATE-----\nMA==\n"})]},
    "git over ssh": {"sources": [git({"repository": "ssh://git@github.com:22/foo/bar.git", "ref": "refs/tags/v1"})]},
    "git by scp's notation": {"sources": [git({"repository": "git@github.com:foo/bar.git", "ref": "feature/a#1"})]},
    "a user in a URL": {"sources": [git({"repository": "https://me@dev.azure.com/foo/_git/bar"})]},
    "an empty directory and poll interval": {"sources": [git({"directory": ""}, pollInterval="")]},
    "a poll interval of 30s": {"sources": [image(pollInterval="0.5m")]},
    "a file with digest": {"sources": [http({"sha256": "0" * 64, "stripComponents": 1})]},
    "a Secret in the older spelling": {"sources": [image({"auth": SECRET})]},
    "a Secret in the install namespace": {"installNamespace": "foo", "sources": [image(ANONYMOUS)]},
    "keys with their namespace": {
        "sources": [
            image({"verify": KEYS}),
            git({"verify": {"secret": SECRET}}),
            http({"verify": KEYS}),
            chart({"verify": KEYS}),
            chart({"verify": {"provenance": {"secret": SECRET}}, "passCredentials": True}, scheme="https"),
        ]
    },
    "keys in the install namespace": {"installNamespace": "foo", "sources": [image({"verify": BARE_KEYS})]},
    "a plug-in with parameters": {"sources": [{"kind": "example.com/s3", "parameters": {"bucket": {"name": "a"}}}]},
    "a plug-in without parameters": {"format": "example.com/Mine_1.0", "sources": [{"kind": "a.io/b"}]},
    "an account": {"serviceAccountName": "x", "installNamespace": "foo"},
    "no account, spelled out": {"serviceAccountName": ""},
    "any config": {"config": {"values": {"a": [{"b": None}]}, "valuesFiles": ["a.yaml"]}},
    "ignored fields": {"drift": {"ignore": [{"group": "apps", "kind": "A", "paths": ['spec.a["b.c/d"].e']}]}},
    "optional kinds": {"optional": [{"kind": "A"}, {"group": "a.b", "kind": "A"}]},
    "a health check by condition": check(failed=[CONDITION], progressing=[CONDITION], healthy=[CONDITION]),
    "a health check by field": check(healthy=[{"field": {"path": "status.a", "equalsPath": "spec.a"}}]),
    "a health check by values": check(healthy=[{"field": {"path": "status.a", "in": ["3", "true"]}}]),
    "a kind that is always healthy": check(group="example.com", name="one", always="Healthy"),
    "a rule for CRD upgrades": {
        "crdUpgradeSafety": {
            "rules": [{"crd": "*", "checks": ["unhandled"], "paths": ["^.status"], "enforcement": "None"}]
        }
    },
    "a deadline in parts": {"progressDeadline": "1h30m0.5s"},
    "a null, which is dropped": {"sources": [image(git=None)], "paused": None},
}


def contains(stored: Any, given: Any) -> bool:
    """Return whether everything that was given is stored, whatever was filled in besides; a null stands for nothing."""
    if isinstance(given, dict):
        return all(value is None or contains(stored[key], value) for key, value in given.items())
    if isinstance(given, list):
        return len(stored) == len(given) and all(map(contains, stored, given))
    return bool(stored == given)


@pytest.mark.parametrize("spec", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_good_input_is_accepted_and_kept(cluster_client: Client, spec: Json) -> None:
    assert contains(accepted(cluster_client, deployment(**spec))["spec"], spec)


def test_the_api_server_fills_in_the_defaults(cluster_client: Client) -> None:
    stored = accepted(cluster_client, deployment(sources=[image(), git(), http()]))
    assert stored["status"] == {"observedGeneration": -1}
    members = stored["spec"]
    first, second, third = (source[source["kind"]] for source in members.pop("sources"))
    assert members == {
        "paused": False,
        "format": "plain",
        "allowDowngrade": False,
        "collisionProtection": "Prevent",
        "prune": "AfterHealthy",
        "deletionPolicy": "Delete",
        "drift": {"mode": "Repair"},
        "crdUpgradeSafety": {"enforcement": "Error"},
        "progressDeadline": "10m",
        "onFailure": {"action": "Stay"},
        "revisionHistoryLimit": 5,
    }
    assert (first["platform"], second["ref"], third["stripComponents"]) == ("linux/amd64", "HEAD", 0)


def test_the_first_proposal_applies_as_it_stands(cluster: Cluster) -> None:
    assert "created" in cluster.kubectl("apply", "--dry-run=server", "-f", str(ROOT / "config/samples/proposal.yaml"))


def paths(count: int) -> list[str]:
    """Return field paths of the greatest length, all different."""
    return [f"a{number}" + ".b" * ((512 - len(str(number)) - 1) // 2) for number in range(count)]


def test_the_largest_object_is_within_the_budget_of_its_rules(cluster_client: Client) -> None:
    slow = {
        "repository": "https://" + "a/" * 1020,
        "ref": "a" * 256,
        "directory": "/".join("ab" for _ in range(170)),
        "destination": "/".join("a" for _ in range(256)),
        "auth": {"secret": SECRET},
        "verify": {"secret": SECRET, "object": "Tag"},
    }
    matcher = {"field": {"path": paths(1)[0], "equalsPath": paths(1)[0]}}
    spec: Json = {
        "sources": [git(slow, pollInterval="999999h999999h")] * 32,
        "format": f"{'a.' * 100}a/{'b' * 100}",
        "healthChecks": [{"kind": "A", "failed": [matcher] * 16, "healthy": [matcher] * 16}] * 32,
        "drift": {"ignore": [{"kind": "A", "paths": paths(32)}] * 64},
    }
    assert contains(accepted(cluster_client, deployment(**spec))["spec"], spec)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("bd", "Installs a bundle of Kubernetes objects on the cluster"),
        ("bd.spec.sources.git.ref", "Commit (may be abbreviated), tag, branch or full ref"),
        ("bds.spec.prune", "AfterHealthy"),
        ("bundledeployment.status.managedState", "Empty: there is work left to do"),
    ],
)
def test_explain_is_the_manual(cluster: Cluster, path: str, text: str) -> None:
    assert text in " ".join(cluster.kubectl("explain", path).split())


@pytest.fixture
def made(cluster_client: Client) -> Iterator[Callable[..., str]]:
    """Make BundleDeployments that are gone after the test."""
    names: list[str] = []

    def make(**spec: Any) -> str:
        name = f"crd-{uuid4().hex[:8]}"
        cluster_client.create(DEPLOYMENTS, deployment(name, paused=True, **spec))
        names.append(name)
        return name

    yield make
    for name in names:
        cluster_client.delete(f"{DEPLOYMENTS}/{name}")


def change(client: Client, name: str, spec: Json) -> str:
    """Change a spec; returns what the API server says against it."""
    try:
        client.merge_patch(f"{DEPLOYMENTS}/{name}", {"spec": spec})
    except ApiError as error:
        return error.message
    return ""


def record(client: Client, name: str, status: Json) -> Json:
    found: Json = client.merge_patch(f"{DEPLOYMENTS}/{name}/status", {"status": status}).value["status"]
    return found


def test_an_install_namespace_stays(cluster_client: Client, made: Callable[..., str]) -> None:
    name = made(installNamespace="foo")
    for other in ("bar", None):
        told = change(cluster_client, name, {"installNamespace": other})
        assert "cannot be changed or removed once set" in told.partition("spec.installNamespace: ")[2]


def test_an_install_namespace_that_is_set_later_is_the_recorded_one_if_any(
    cluster_client: Client, made: Callable[..., str]
) -> None:
    name = made()
    record(cluster_client, name, {"installNamespace": "foo"})
    told = change(cluster_client, name, {"installNamespace": "bar"})
    assert "must equal status.installNamespace" in told.partition("spec.installNamespace: ")[2]
    assert change(cluster_client, name, {"installNamespace": "foo"}) == ""
    assert change(cluster_client, made(), {"installNamespace": "foo"}) == ""


def test_a_full_status_is_kept_as_it_was_dumped(cluster_client: Client, made: Callable[..., str]) -> None:
    stored = record(cluster_client, made(), dump(FULL_STATUS))
    assert stored == dump(FULL_STATUS)
    assert dump(Status.model_validate(stored)) == stored


def test_get_shows_what_is_installed_and_wait_sees_that_it_is_ready(
    cluster: Cluster, cluster_client: Client, made: Callable[..., str]
) -> None:
    name = made()
    record(cluster_client, name, dump(FULL_STATUS))
    heading, row = cluster.kubectl("get", "bd", name).splitlines()
    assert heading.split() == ["NAME", "FORMAT", "PAUSED", "READY", "REASON", "REVISION", "OBJECTS", "AGE"]
    assert row.split()[:-1] == [name, "plain", "true", "True", "Ready", "1f2e3d4c5b6a", "498/500"]
    heading, row = cluster.kubectl("get", "bd", name, "-o", "wide").splitlines()
    assert heading.split()[-3:] == ["SOURCES", "DRIFTED", "MESSAGE"]
    assert row.split("bar@1f2e3d4c")[1].split(maxsplit=1) == ["2", "all is well"]
    assert "condition met" in cluster.kubectl("wait", "--for=condition=Ready", "--timeout=5s", f"bd/{name}")


NOW = datetime(2026, 1, 2, 3, 4, 5, 6789, tzinfo=UTC)
DIGEST = f"sha256:{'1f2e3d4c' * 8}"

# fmt: off
FULL_STATUS = Status(
    observed_generation=1,
    last_handled_reconcile_at="2026-01-02",
    install_namespace="foo",
    conditions=tuple(
        Condition(
            type=kind,
            status="True",
            reason="Ready",
            message="all is well",
            observed_generation=1,
            last_transition_time=NOW,
        )
        for kind in ConditionType
    ),
    sources=(
        SourcePin(destination="foo/bar", kind="image", resolved=f"foo/bar@{DIGEST}", digest=DIGEST,
             spec_digest=f"v1:{DIGEST}", origin=f"v1:{DIGEST}", resolved_at=NOW),
    ),
    revision=DIGEST,
    installed_revision=DIGEST,
    managed_state=f"v1:{DIGEST}",
    managed_kinds=("apps/v1/Deployment", "v1/ConfigMap"),
    objects=ObjectCounts(total=500, healthy=498, progressing=1, failed=1, drifted=2, retained=3, handed_over=4),
    display=Display(revision="1f2e3d4c5b6a", objects="498/500", sources="bar@1f2e3d4c"),
    not_ready=(
        NotReady(api_version="apps/v1", kind="Deployment", namespace="foo", name="a", reason="B", message="c"),
        NotReady(api_version="v1", kind="Namespace", name="a", reason="Terminating"),
    ),
    not_ready_truncated=True,
    warnings=("deprecated",),
)
# fmt: on


def test_what_messages_tell_to_set_is_accepted(cluster_client: Client) -> None:
    told = sorted(settings())  # not for parameters: each worker would read all messages to find its tests
    assert told
    for field, value in told:
        accepted(cluster_client, deployment(**nested(field, value)))


@pytest.mark.parametrize("name", [name for name in read_examples() if name != "Status"])
def test_examples_of_the_documentation_are_accepted(cluster_client: Client, name: str) -> None:
    [example] = (document.value for document in read_documents(read_examples()[name].encode(), name))
    stored = accepted(cluster_client, deployment(**{"installNamespace": "shop", **example}))
    assert example.keys() <= stored["spec"].keys()
