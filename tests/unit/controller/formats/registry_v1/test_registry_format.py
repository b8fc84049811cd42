"""Whole bundles under tests/data, rendered: each case has options and the objects that are expected.

With RUKPAK_CORPUS, a folder with `registry-v1/<bundle>` in it, real ones are rendered, too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.formats.applicable import make_applicable
from rukpak.controller.formats.manifests import read_documents
from tests.support.operator_bundles import (
    CERT_MANAGER,
    OPENSHIFT,
    definition,
    deployment,
    object_of,
    refusal,
    render,
    service_version,
    webhook,
    write_bundle,
)

DATA = Path(__file__).parents[4] / "data" / "registry-v1"
CASES = sorted(DATA.glob("*/cases/*"))
CORPUS = sorted(Path(os.environ["RUKPAK_CORPUS"]).glob("registry-v1/*")) if os.environ.get("RUKPAK_CORPUS") else []


def read_all(path: Path) -> list[Any]:
    return [document.value for document in read_documents(path.read_bytes(), path.name)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.parent.name}/{case.name}")
def test_case(case: Path) -> None:
    (options,) = read_all(case / "options.yaml")
    kinds = OPENSHIFT if options.get("cluster") == "openshift" else None
    rendering = render(
        case.parent.parent / "bundle", options.get("config"), namespace=options["installNamespace"], kinds=kinds
    )
    assert list(rendering.objects) == read_all(case / "expected.yaml")
    assert list(rendering.warnings) == options.get("warnings", [])


def test_there_are_cases() -> None:
    assert CASES


@pytest.mark.parametrize("bundle", CORPUS, ids=lambda bundle: bundle.name)
def test_a_real_bundle_is_rendered(bundle: Path) -> None:
    try:
        rendering = render(bundle)
    except BundleError as error:  # it demands what only the user knows
        assert 'required field "watchNamespace" is missing' in error.message
        rendering = render(bundle, {"watchNamespace": "inst"})
    made = make_applicable(rendering.objects, install_namespace="inst", is_namespaced=lambda *_: None)
    assert {"Deployment", "ServiceAccount"} <= {item["kind"] for item in made}


API_SERVICES = {"owned": [{"group": "g", "version": "v1", "kind": "K"}]}
HOOKED: dict[str, Any] = {"webhooks": [webhook()], "deployments": [deployment()]}
NO_PROVIDER = (
    "spec.config.certificateProvider: the webhooks of this bundle need certificates, which the cluster does not"
)
NO_MODE = (
    "unsupported bundle: bundle must support at least one of [AllNamespaces SingleNamespace OwnNamespace] install modes"
)


class Gate(NamedTuple):
    name: str
    csv: dict[str, Any]
    expect: str
    kinds: Mapping[tuple[str, str, str], bool] = CERT_MANAGER
    config: Any = None
    version: str = "v1.27.4-eks-1"


# fmt: off
GATES = [
    Gate("owned API services", {"apiservicedefinitions": API_SERVICES},
         "unsupported bundle: apiServiceDefintions are not supported"),
    Gate("webhooks without a provider", HOOKED, NO_PROVIDER, kinds={}),
    Gate("cert-manager of another version is none", HOOKED, NO_PROVIDER,
         kinds={("cert-manager.io", "v1beta1", "Issuer"): True}),
    Gate("operators' own groups below openshift.io are no OpenShift", HOOKED, NO_PROVIDER,
         kinds={("hive.openshift.io", "v1", "X"): True}),
    Gate("no install mode", {"modes": ()}, NO_MODE),
    Gate("API services come before webhooks", {"apiservicedefinitions": API_SERVICES, **HOOKED},
         "unsupported bundle: apiServiceDefintions are not supported", kinds={}),
    Gate("webhooks come before install modes", {"modes": (), **HOOKED}, NO_PROVIDER, kinds={}),
    Gate("install modes come before config", {"modes": ()}, NO_MODE, config={"foo": 1}),
    Gate("a cluster that is too old", {"minKubeVersion": "1.28.0"},
         "bundle requires Kubernetes 1.28.0 or later (minKubeVersion), but the cluster runs 1.27.4;"
         " upgrade the cluster"),
    Gate("v and no patch are accepted", {"minKubeVersion": "v1.28"},
         "bundle requires Kubernetes 1.28.0 or later (minKubeVersion), but the cluster runs 1.27.4;"
         " upgrade the cluster"),
    Gate("more digits than Python reads", {"minKubeVersion": "1." + "9" * 5000},
         "bundle requires Kubernetes 1.1000000000.0 or later (minKubeVersion), but the cluster runs 1.27.4;"
         " upgrade the cluster"),
]
# fmt: on


@pytest.mark.parametrize("case", GATES, ids=attrgetter("name"))
def test_not_supported(case: Gate, tmp_path: Path) -> None:
    root = write_bundle(tmp_path, service_version(**case.csv))
    reason, message = refusal(root, case.config, kinds=case.kinds, version=case.version)
    assert reason is Reason.NOT_SUPPORTED
    assert message.startswith(case.expect)


def test_the_message_says_what_to_do_without_a_provider(tmp_path: Path) -> None:
    _, message = refusal(write_bundle(tmp_path, service_version(**HOOKED)), kinds={})
    assert message == (
        f'{NO_PROVIDER} issue; install cert-manager, or set it to "none" and bring your own'
        " (controller/formats/registry_v1/README.md)"
    )


PASSES = [
    Gate("cert-manager", HOOKED, ""),
    Gate("OpenShift", HOOKED, "", kinds=OPENSHIFT),
    Gate("certificates that the user brings", HOOKED, "", kinds={}, config={"certificateProvider": "none"}),
    Gate("a provider that will come", HOOKED, "", kinds={}, config={"certificateProvider": "cert-manager"}),
    Gate("required API services", {"apiservicedefinitions": {"required": API_SERVICES["owned"]}}, ""),
    Gate("the version that is demanded", {"minKubeVersion": "1.27.4"}, ""),
    Gate("MultiNamespace alone", {"modes": ["MultiNamespace"]}, "", config={"watchNamespaces": ["a", "b"]}),
]


@pytest.mark.parametrize("case", PASSES, ids=attrgetter("name"))
def test_supported(case: Gate, tmp_path: Path) -> None:
    root = write_bundle(tmp_path, service_version(**case.csv))
    rendering = render(root, case.config, kinds=case.kinds, version=case.version)
    assert not [text for text in rendering.warnings if "minKubeVersion" in text]
    assert rendering.bundle == service_version()["metadata"]["name"]


def test_an_invalid_version_causes_a_warning(tmp_path: Path) -> None:
    root = write_bundle(tmp_path, service_version(minKubeVersion="latest"))
    assert render(root).warnings == ('spec.minKubeVersion: ignored because "latest" is not a version',)


SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
TOO_LONG = "must be no more than 253 characters"
FORBIDDEN = 'webhook "v.example.com" contains forbidden rule: admission webhook rules cannot reference '
CRD = "things.example.com"


class Case(NamedTuple):
    name: str
    csv: dict[str, Any]
    expect: list[str]
    objects: list[dict[str, Any]] = []  # noqa: RUF012 - not changed
    package: str = "op"


def hooked(*webhooks: dict[str, Any], **csv: Any) -> dict[str, Any]:
    return {"deployments": [deployment()], "webhooks": list(webhooks), **csv}


def ruled(groups: list[str], resources: list[str]) -> dict[str, Any]:
    rule = {"apiGroups": groups, "resources": resources, "apiVersions": ["*"], "operations": ["*"]}
    return hooked(webhook(rules=[rule]))


# fmt: off
VALIDATIONS = [
    Case("two deployments of one name",
         {"deployments": [deployment("b"), deployment("a"), deployment("b"), deployment("a"), deployment("b")]},
         [f"cluster service version contains duplicate strategy deployment spec '{name}'" for name in "ab"]),
    Case("a deployment that is no subdomain", {"deployments": [deployment("B"), deployment("A" * 254)]},
         [f"invalid cluster service version strategy deployment name '{'A' * 254}': {SUBDOMAIN}, {TOO_LONG}",
         f"invalid cluster service version strategy deployment name 'B': {SUBDOMAIN}"]),
    Case("two CRDs of one name", {}, [f"bundle contains duplicate custom resource definition '{CRD}'"],
         [definition(), definition()]),
    Case(
        "owned CRDs that are not there",
        {"owned": ["z.x", CRD, "a.x"]},
        [
            f"cluster service definition references owned custom resource definition '{name}' not found in bundle"
            for name in ("a.x", "z.x")
        ],
        [definition()],
    ),
    Case("no package name", {}, ["package name is empty"], package=""),
    Case(
        "conversion for more than all namespaces",
        hooked(
            webhook("c.x", "Conversion"),
            webhook("b.x", "Conversion"),
            modes=["AllNamespaces", "OwnNamespace"],
        ),
        [
            f'bundle contains conversion webhook "{name}" and supports install modes [AllNamespaces OwnNamespace] -'
            " conversion webhooks are only supported for bundles that only support AllNamespaces install mode"
            for name in ("c.x", "b.x")
        ],
    ),
    Case(
        "deployments of webhooks that are not there",
        hooked(
            webhook("v.b.c", deploymentName="z"),
            webhook("m.b.c", "Mutating", deploymentName="z"),
            webhook("a.b.c", deploymentName="y"),
        ),
        [
            "webhook of type 'ValidatingAdmissionWebhook' with name 'a.b.c' references non-existent deployment 'y'",
            "webhook of type 'MutatingAdmissionWebhook' with name 'm.b.c' references non-existent deployment 'z'",
            "webhook of type 'ValidatingAdmissionWebhook' with name 'v.b.c' references non-existent deployment 'z'",
        ],
    ),
    Case("one name twice in one type",
         hooked(webhook("a.b.c"), webhook("a.b.c"), webhook("a.b.c"), webhook("a.b.c", "Mutating")),
         ["duplicate webhook 'a.b.c' of type 'ValidatingAdmissionWebhook'"]),
    Case("a webhook that is no subdomain", hooked(webhook("_.b.c"), webhook("A" * 254)),
         [f"webhook of type 'ValidatingAdmissionWebhook' has invalid name '{'A' * 254}': {TOO_LONG},{SUBDOMAIN}",
         f"webhook of type 'ValidatingAdmissionWebhook' has invalid name '_.b.c': {SUBDOMAIN}"]),
    Case("two conversions of one CRD",
         hooked(webhook("d.x", "Conversion", conversionCRDs=[CRD]), webhook("c.x", "Conversion", conversionCRDs=[CRD]),
         owned=[CRD]), [f"conversion webhooks [c.x,d.x] reference same custom resource definition '{CRD}'"],
         [definition()]),
    Case(
        "conversion of CRDs that are not owned",
        hooked(
            webhook("d.x", "Conversion", conversionCRDs=["b.x", CRD]),
            webhook("c.x", "Conversion", conversionCRDs=["a.x"]),
        ),
        [
            f"conversion webhook '{name}' references custom resource definition '{crd}' not owned bundle"
            for name, crd in (("c.x", "a.x"), ("d.x", "b.x"), ("d.x", CRD))
        ],
        [definition()],
    ),
    Case("rules for every group", ruled(["apps", "*"], ["pods"]), [FORBIDDEN + 'API group "*"']),
    Case("rules for OLM's group", ruled(["olm.operatorframework.io"], ["x"]),
         [FORBIDDEN + 'API group "olm.operatorframework.io"']),
    Case("rules for our group", ruled(["core.rukpak.io"], ["x"]), [FORBIDDEN + 'API group "core.rukpak.io"']),
    Case(
        "rules for webhook configurations",
        ruled(
            ["admissionregistration.k8s.io"],
            ["*", "MutatingWebhookConfigurations", "validatingwebhookconfiguration", "x"],
        ),
        [
            f'{FORBIDDEN}resource "{resource}" for API group "admissionregistration.k8s.io"'
            for resource in ("*", "MutatingWebhookConfigurations", "validatingwebhookconfiguration")
        ],
    ),
    Case(
        "objects of other kinds",
        {},
        [
            'unsupported resource "b" with kind "Deployment"',
            'unsupported resource "a" with kind "Namespace"',
            'unsupported resource "c" with kind "Thing"',
        ],
        [
            object_of("Deployment", "b", "apps/v1"),
            object_of("Namespace", "a"),
            object_of("ConfigMap", "fine"),
            object_of("Thing", "c", "example.com/v1"),
        ],
    ),
    Case(
        "errors of several validations stand in the order of the table",
        {"deployments": [deployment("A")], "owned": ["a.x"]},
        [
            f"invalid cluster service version strategy deployment name 'A': {SUBDOMAIN}",
            "cluster service definition references owned custom resource definition 'a.x' not found in bundle",
            "package name is empty",
            'unsupported resource "x" with kind "Job"',
        ],
        [object_of("Job", api="batch/v1")],
        package="",
    ),
    Case(
        "an unknown type of webhook",
        hooked(webhook("a.b.c", "OddWebhook")),
        [
            (
                'webhook "a.b.c" has unknown type "OddWebhook"; use one of'
                " [ConversionWebhook MutatingAdmissionWebhook ValidatingAdmissionWebhook]"
            )
        ],
    ),
    Case("a webhook name of two labels", hooked(webhook("a.b")),
         ['webhook name "a.b" should be a domain with at least three segments separated by dots']),
    Case(
        "one port with two target ports",
        hooked(webhook("a.b.c", targetPort="web"), webhook("b.b.c")),
        [
            (
                "webhooks of deployment 'manager' have port 443 with several target ports [9443 web];"
                " use one target port for each port"
            )
        ],
    ),
]
# fmt: on


@pytest.mark.parametrize("case", VALIDATIONS, ids=attrgetter("name"))
def test_refused(case: Case, tmp_path: Path) -> None:
    root = write_bundle(tmp_path, service_version(**case.csv), *case.objects, package=case.package)
    assert refusal(root) == (Reason.INVALID_BUNDLE, "\n".join(case.expect))


# fmt: off
FINE = [
    Case("a CRD that nobody owns", {}, [], [definition()]),
    Case("one name in two types", hooked(webhook("a.b.c"), webhook("a.b.c", "Mutating")), []),
    Case("a conversion webhook of two labels", hooked(webhook("a.b", "Conversion")), []),
    Case("rules for other resources of a group",
         ruled(["admissionregistration.k8s.io"], ["validatingadmissionpolicies"]), []),
    Case("two webhooks at one port", hooked(webhook("a.b.c"), webhook("b.b.c")), []),
]
# fmt: on


@pytest.mark.parametrize("case", FINE, ids=attrgetter("name"))
def test_not_refused(case: Case, tmp_path: Path) -> None:
    assert render(write_bundle(tmp_path, service_version(**case.csv), *case.objects)).warnings == ()
