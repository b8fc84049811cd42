"""The 13 validations of OLM v1, and our own."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from api.v1alpha2.conditions import Reason
from tests.support.operator_bundles import (
    definition,
    deployment,
    object_of,
    refusal,
    render,
    service_version,
    webhook,
    write_bundle,
)

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
CASES = [
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


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
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
