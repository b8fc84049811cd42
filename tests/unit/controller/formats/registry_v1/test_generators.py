"""The ten generators: the objects of a bundle, and their order."""

from __future__ import annotations

import json
from itertools import islice
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rukpak.api.plugins import Capabilities, Rendering
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.formats.registry_v1 import generators, typed
from rukpak.controller.formats.registry_v1.generators import choose_provider
from tests.support.operator_bundles import (
    CERT_MANAGER,
    MODES,
    NAMESPACE,
    OPENSHIFT,
    Manifest,
    definition,
    deployment,
    object_of,
    of_kind,
    only,
    refusal,
    render,
    service_version,
    webhook,
    write_bundle,
)

RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
SEES_NAMESPACES = {"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["namespaces"]}
INJECT = {"cert-manager.io/inject-ca-from": "inst/manager-service-cert"}
ALL_KINDS = {
    "Service": NAMESPACE,
    "ServiceAccount": NAMESPACE,
    "Role": NAMESPACE,
    "RoleBinding": NAMESPACE,
    "Secret": NAMESPACE,
    "ConfigMap": NAMESPACE,
    "PodDisruptionBudget": NAMESPACE,
    "NetworkPolicy": NAMESPACE,
    "PrometheusRule": NAMESPACE,
    "ServiceMonitor": NAMESPACE,
    "PodMonitor": NAMESPACE,
    "VerticalPodAutoscaler": NAMESPACE,
    "ClusterRole": None,
    "ClusterRoleBinding": None,
    "PriorityClass": None,
    "ConsoleYAMLSample": None,
    "ConsoleQuickStart": None,
    "ConsoleCLIDownload": None,
    "ConsoleLink": None,
    "ConsolePlugin": None,
}


def permission(account: str = "a", *rules: Manifest) -> Manifest:
    return {"serviceAccountName": account, "rules": list(rules or [RULE])}


def made(tmp_path: Path, *objects: Manifest, config: Any = None, kinds: Any = None, **csv: Any) -> Rendering:
    return render(write_bundle(tmp_path, service_version(**csv), *objects), config, kinds=kinds)


def names(rendering: Rendering, kind: str) -> list[str]:
    return [item["metadata"]["name"] for item in of_kind(rendering, kind)]


# 1 to 3: access


def test_roles_are_made_as_they_are_taken_however_many_there_would_be() -> None:
    version: Any = SimpleNamespace(name="web.v1", permissions=[permission()] * 10_000)
    role, binding = islice(generators.make_roles(version, NAMESPACE, ("shop",) * 10_000), 2)
    assert (role["kind"], binding["kind"]) == ("Role", "RoleBinding")


def test_accounts_are_sorted_and_distinct_without_the_default_one(tmp_path: Path) -> None:
    accounts = [permission(name) for name in ("b", "", "default", "a")]
    rendering = made(tmp_path, permissions=accounts, cluster_permissions=[permission("b"), permission("c")])
    assert names(rendering, "ServiceAccount") == ["a", "b", "c"]
    assert {item["metadata"]["namespace"] for item in of_kind(rendering, "ServiceAccount")} == {NAMESPACE}


def test_an_account_that_only_a_pod_names_is_not_generated(tmp_path: Path) -> None:
    assert not names(made(tmp_path, deployments=[deployment(serviceAccountName="x")]), "ServiceAccount")


def test_permissions_become_cluster_roles_if_all_namespaces_are_watched(tmp_path: Path) -> None:
    rendering = made(tmp_path, permissions=[permission("p")], cluster_permissions=[permission("c")])
    roles = of_kind(rendering, "ClusterRole")
    assert [role["rules"] for role in roles] == [[RULE], [RULE, SEES_NAMESPACES]]
    assert [binding["subjects"][0]["name"] for binding in of_kind(rendering, "ClusterRoleBinding")] == ["c", "p"]
    assert not of_kind(rendering, "Role")


def test_permissions_are_granted_in_each_watched_namespace(tmp_path: Path) -> None:
    rendering = made(
        tmp_path,
        modes=MODES,
        permissions=[permission("p"), permission("")],
        config={"watchNamespaces": ["y", "x"]},
    )
    places = [(item["kind"], item["metadata"]["namespace"]) for item in rendering.objects if "Role" in item["kind"]]
    pair = ["Role", "RoleBinding"]
    assert places == [(kind, place) for place in "yx" for _ in range(2) for kind in pair]
    subjects = [item["subjects"] for item in of_kind(rendering, "RoleBinding")]
    assert subjects[0] == [{"kind": "ServiceAccount", "name": "p", "namespace": NAMESPACE}]
    assert subjects[1][0]["name"] == "default"


def test_role_and_binding_have_the_same_name(tmp_path: Path) -> None:
    rendering = made(tmp_path, cluster_permissions=[permission()])
    role, binding = only(rendering, "ClusterRole"), only(rendering, "ClusterRoleBinding")
    name = role["metadata"]["name"]
    assert role["metadata"] == binding["metadata"] == {"name": name}
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}


def test_unknown_fields_of_rules_do_not_affect_the_name_and_cause_a_warning(tmp_path: Path) -> None:
    stray = {**RULE, "resource": ["x"], "nonResourceURLs": []}
    rendering = made(tmp_path / "a", cluster_permissions=[permission("a", stray)])
    assert names(rendering, "ClusterRole") == names(
        made(tmp_path / "b", cluster_permissions=[permission()]), "ClusterRole"
    )
    assert rendering.warnings == (
        "ClusterServiceVersion: spec.install.spec.clusterPermissions[0].rules[0].resource: removed unknown field",
    )


# 4 and 5: objects in the bundle


def test_a_definition_is_converted_by_its_webhook(tmp_path: Path) -> None:
    hook = webhook("c.x", "Conversion", conversionCRDs=["things.example.com"], containerPort=8443)
    rendering = made(tmp_path, definition(), webhooks=[hook], deployments=[deployment()], owned=["things.example.com"])
    crd = only(rendering, "CustomResourceDefinition")
    service = {"namespace": NAMESPACE, "name": "manager-service", "path": "/", "port": 8443}
    assert crd["spec"]["conversion"] == {
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]},
    }
    assert crd["metadata"]["annotations"] == INJECT


def test_a_conversion_webhook_that_the_bundle_does_not_name_is_told(tmp_path: Path) -> None:
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://x"}}}
    rendering = render(write_bundle(tmp_path / "a", service_version(), definition(conversion=conversion)))
    [warning] = rendering.warnings
    assert warning.startswith('CustomResourceDefinition "things.example.com": has a conversion webhook that no webhook')
    assert only(rendering, "CustomResourceDefinition")["spec"]["conversion"] == conversion
    plain = definition(conversion={"strategy": "None"})
    assert not render(write_bundle(tmp_path / "b", service_version(), plain)).warnings


def test_a_conversion_path_that_is_empty_stays_empty(tmp_path: Path) -> None:
    hook = webhook("c.example.com", "Conversion", conversionCRDs=["things.example.com"], webhookPath="")
    rendering = made(tmp_path, definition(), webhooks=[hook], deployments=[deployment()], owned=["things.example.com"])
    conversion = only(rendering, "CustomResourceDefinition")["spec"]["conversion"]
    assert conversion["webhook"]["clientConfig"]["service"]["path"] == ""


def test_a_definition_that_preserves_unknown_fields_cannot_be_converted(tmp_path: Path) -> None:
    hook = webhook("c.x", "Conversion", conversionCRDs=["things.example.com"])
    csv = service_version(webhooks=[hook], deployments=[deployment()], owned=["things.example.com"])
    root = write_bundle(tmp_path, csv, definition(preserveUnknownFields=True))
    assert refusal(root) == (
        Reason.INVALID_BUNDLE,
        (
            "custom resource definition 'things.example.com' must have .spec.preserveUnknownFields set to false to let"
            " API Server call webhook to do the conversion"
        ),
    )


def test_a_definition_is_rendered_as_go_writes_it(tmp_path: Path) -> None:
    crd = definition(preserveUnknownFields=False, stray=1)
    crd["metadata"]["creationTimestamp"] = None
    rendering = made(tmp_path, {**crd, "status": {"conditions": []}})
    assert only(rendering, "CustomResourceDefinition") == definition()
    assert rendering.warnings == ("CustomResourceDefinition things.example.com: spec.stray: removed unknown field",)


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_the_namespace_of_an_object(kind: str, tmp_path: Path) -> None:
    item = object_of(kind, "made", "example.com/v1", spec={"a": 1})
    item["metadata"]["namespace"] = "elsewhere"
    metadata = only(made(tmp_path, item), kind)["metadata"]
    assert metadata.get("namespace") == ALL_KINDS[kind]


def test_the_scope_in_the_cluster_takes_precedence(tmp_path: Path) -> None:
    item = object_of("ConsolePlugin", "made", "example.com/v1")
    found = only(made(tmp_path, item, kinds={("example.com", "v1", "ConsolePlugin"): True}), "ConsolePlugin")
    assert found["metadata"] == {"name": "made", "namespace": NAMESPACE}


# 6: workloads


def test_a_deployment(tmp_path: Path) -> None:
    entry = {**deployment(), "label": {"l": "1"}}
    entry["spec"]["template"]["metadata"]["annotations"] = {"a": "template", "olm.operatorNamespace": "template"}
    rendering = made(tmp_path, deployments=[entry], annotations={"a": "csv", "b": "csv"})
    assert only(rendering, "Deployment") == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "manager", "namespace": NAMESPACE, "labels": {"l": "1"}},
        "spec": {
            "revisionHistoryLimit": 1,
            "selector": {"matchLabels": {"app": "manager"}},
            "template": {
                "metadata": {
                    "labels": {"app": "manager"},
                    "annotations": {
                        "a": "template",
                        "b": "csv",
                        "olm.targetNamespaces": "",
                        "olm.operatorNamespace": NAMESPACE,
                    },
                },
                "spec": {"containers": [{"name": "main", "image": "registry.example.com/x:1"}]},
            },
        },
    }


def test_the_watched_namespaces_are_an_annotation(tmp_path: Path) -> None:
    rendering = made(tmp_path, modes=MODES, deployments=[deployment()], config={"watchNamespaces": ["b", "a"]})
    annotations = only(rendering, "Deployment")["spec"]["template"]["metadata"]["annotations"]
    assert annotations["olm.targetNamespaces"] == "b,a"


def test_annotations_that_the_api_server_would_refuse(tmp_path: Path) -> None:
    csv = service_version(deployments=[deployment()], annotations={"alm-examples": "x" * 262_144, "a": ""})
    reason, message = refusal(write_bundle(tmp_path, csv))
    assert reason is Reason.INVALID_BUNDLE
    assert message == (
        "Deployment manager: spec.template.metadata.annotations: 256.1 KiB, but the API server accepts 256 KiB;"
        ' these include the annotations of the CSV, shorten "alm-examples"'
    )


# 7 to 9: webhooks


def test_a_webhook_configuration_copies_the_fields_that_are_set(tmp_path: Path) -> None:
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "scope": "*"}
    copied: dict[str, Any] = {
        "rules": [rule],
        "failurePolicy": "Fail",
        "matchPolicy": "Exact",
        "objectSelector": {},
        "timeoutSeconds": 5,
        "reinvocationPolicy": "IfNeeded",
    }
    hooks = [webhook("m.a.b", "Mutating", webhookPath="/m", **copied), webhook("v.a.b", **copied)]
    rendering = made(tmp_path, webhooks=hooks, deployments=[deployment()])
    service = {"namespace": NAMESPACE, "name": "manager-service", "port": 443}
    fields = {**copied, "sideEffects": "None", "admissionReviewVersions": ["v1"]}
    mutating = only(rendering, "MutatingWebhookConfiguration")
    assert mutating["metadata"] == {"name": "m.a.b", "annotations": INJECT}
    assert mutating["webhooks"] == [
        {"name": "m.a.b", "clientConfig": {"service": {**service, "path": "/m"}}, **fields},
    ]
    fields.pop("reinvocationPolicy")
    validating = only(rendering, "ValidatingWebhookConfiguration")
    assert validating["webhooks"] == [{"name": "v.a.b", "clientConfig": {"service": service}, **fields}]


def test_a_webhook_sees_the_watched_namespaces(tmp_path: Path) -> None:
    rendering = made(
        tmp_path,
        modes=MODES,
        webhooks=[webhook("v.a.b")],
        deployments=[deployment()],
        config={"watchNamespaces": ["b", "a"]},
    )
    (entry,) = only(rendering, "ValidatingWebhookConfiguration")["webhooks"]
    expression = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["b", "a"]}
    assert entry["namespaceSelector"] == {"matchExpressions": [expression]}


def test_a_service_has_each_port_once_in_order(tmp_path: Path) -> None:
    ports = [(8443, 1), (443, 9443), (443, 9443), (444, "web"), (445, None), (None, None)]
    hooks = [
        webhook(f"v{index}.a.b", containerPort=port, targetPort=target)
        for index, (port, target) in enumerate(ports[:-1])
    ]
    rendering = made(tmp_path, webhooks=hooks, deployments=[deployment()])
    assert only(rendering, "Service")["spec"] == {
        "ports": [
            {"name": "443", "port": 443, "targetPort": 9443},
            {"name": "444", "port": 444, "targetPort": "web"},
            {"name": "445", "port": 445, "targetPort": 445},
            {"name": "8443", "port": 8443, "targetPort": 1},
        ],
        "selector": {"app": "manager"},
    }


def test_a_port_that_is_not_set_is_443_everywhere(tmp_path: Path) -> None:
    hook = webhook("v.a.b", containerPort=0, targetPort=None)
    rendering = made(tmp_path, webhooks=[hook], deployments=[deployment()])
    (entry,) = only(rendering, "ValidatingWebhookConfiguration")["webhooks"]
    assert entry["clientConfig"]["service"]["port"] == 443
    assert only(rendering, "Service")["spec"]["ports"] == [{"name": "443", "port": 443, "targetPort": 443}]


# 9 and 10: certificates


def certified(tmp_path: Path, config: Any = None, kinds: Any = None, **pod: Any) -> Rendering:
    return made(
        tmp_path, webhooks=[webhook()], deployments=[deployment(**pod), deployment("other")], config=config, kinds=kinds
    )


CERT_VOLUMES = [
    {
        "name": name,
        "secret": {
            "secretName": "manager-service-cert",
            "items": [{"key": f"tls.{end}", "path": f"{file}.{end}"} for end in ("crt", "key")],
        },
    }
    for name, file in (("webhook-cert", "tls"), ("apiservice-cert", "apiserver"))
]
CERT_MOUNTS = [
    {"name": "webhook-cert", "mountPath": "/tmp/k8s-webhook-server/serving-certs"},
    {"name": "apiservice-cert", "mountPath": "/apiserver.local.config/certificates"},
]


def mount(name: str, path: str = "/x") -> Manifest:
    return {"name": name, "mountPath": path}


def test_certificates_replace_volumes_at_their_mount_paths(tmp_path: Path) -> None:
    rendering = certified(
        tmp_path,
        volumes=[{"name": name, "emptyDir": {}} for name in ("cert", "keep", "apiservice-cert", "other")],
        containers=[
            {"name": "a", "volumeMounts": [mount("cert", CERT_MOUNTS[0]["mountPath"]), mount("keep")]},
            {"name": "b", "volumeMounts": [mount("cert"), mount("other", CERT_MOUNTS[1]["mountPath"] + "/")]},
            {"name": "c"},
        ],
        initContainers=[
            {"name": "i", "volumeMounts": [mount("cert"), mount("apiservice-cert"), mount("keep")]},
            {"name": "j"},
        ],
    )
    pod = of_kind(rendering, "Deployment")[0]["spec"]["template"]["spec"]
    kept: list[Manifest] = [{"name": name, "emptyDir": {}} for name in ("keep", "other")]
    assert pod["volumes"] == [*kept, *CERT_VOLUMES]
    assert [container["volumeMounts"] for container in pod["containers"]] == [
        [mount("keep"), *CERT_MOUNTS],
        [mount("other", CERT_MOUNTS[1]["mountPath"] + "/"), *CERT_MOUNTS],
        CERT_MOUNTS,
    ]
    # Upstream leaves the mounts of init containers without their volumes.
    assert pod["initContainers"] == [
        {"name": "i", "volumeMounts": [mount("webhook-cert"), mount("apiservice-cert"), mount("keep")]},
        {"name": "j"},
    ]


def test_a_deployment_without_webhooks_has_no_certificate(tmp_path: Path) -> None:
    rendering = certified(tmp_path)
    assert "volumes" not in of_kind(rendering, "Deployment")[1]["spec"]["template"]["spec"]
    assert names(rendering, "Certificate") == ["manager-service-cert"]
    assert names(rendering, "Issuer") == ["manager-service-cert-selfsigned-issuer"]


class Provided(NamedTuple):
    name: str
    kinds: dict[tuple[str, str, str], bool]
    config: Any
    webhook: dict[str, str]
    service: dict[str, str]
    certificates: int
    volumes: list[Manifest]


SERVICE_CA = {"service.beta.openshift.io/inject-cabundle": "true"}
SERVED_BY_CA = {"service.beta.openshift.io/serving-cert-secret-name": "manager-service-cert"}
PROVIDED = [
    Provided("cert-manager where it is served", CERT_MANAGER, None, INJECT, {}, 1, CERT_VOLUMES),
    Provided("service-ca on OpenShift", OPENSHIFT, None, SERVICE_CA, SERVED_BY_CA, 0, CERT_VOLUMES),
    Provided("service-ca first", {**OPENSHIFT, **CERT_MANAGER}, None, SERVICE_CA, SERVED_BY_CA, 0, CERT_VOLUMES),
    Provided("the user's choice", OPENSHIFT, {"certificateProvider": "cert-manager"}, INJECT, {}, 1, CERT_VOLUMES),
    Provided(
        "the user's other choice", {}, {"certificateProvider": "service-ca"}, SERVICE_CA, SERVED_BY_CA, 0, CERT_VOLUMES
    ),
    Provided("none", CERT_MANAGER, {"certificateProvider": "none"}, {}, {}, 0, []),
]


@pytest.mark.parametrize("case", PROVIDED, ids=attrgetter("name"))
def test_certificate_providers(case: Provided, tmp_path: Path) -> None:
    rendering = certified(tmp_path, case.config, case.kinds)
    configuration, service = only(rendering, "ValidatingWebhookConfiguration"), only(rendering, "Service")
    assert configuration["metadata"].get("annotations", {}) == case.webhook
    assert service["metadata"].get("annotations", {}) == case.service
    assert len(names(rendering, "Certificate")) == case.certificates
    assert of_kind(rendering, "Deployment")[0]["spec"]["template"]["spec"].get("volumes", []) == case.volumes


def test_a_common_name_that_cert_manager_rejects_is_left_out(tmp_path: Path) -> None:
    root = write_bundle(tmp_path, service_version(webhooks=[webhook()], deployments=[deployment()]))
    fits = "n" * (64 - len("manager-service."))
    for namespace, expect in ((fits, f"manager-service.{fits}"), (fits + "n", None)):
        assert only(render(root, namespace=namespace), "Certificate")["spec"].get("commonName") == expect


# duplicates


def test_equal_objects_are_merged(tmp_path: Path) -> None:
    same = permission("a")
    rendering = made(tmp_path, object_of("ConfigMap"), object_of("ConfigMap"), cluster_permissions=[same, same])
    assert len(of_kind(rendering, "ConfigMap")) == len(of_kind(rendering, "ClusterRole")) == 1


def test_an_account_of_the_bundle_replaces_the_generated_one(tmp_path: Path) -> None:
    account = object_of("ServiceAccount", "a", imagePullSecrets=[{"name": "s"}])
    rendering = made(tmp_path, account, cluster_permissions=[permission("a"), permission("b")])
    accounts = {item["metadata"]["name"]: "imagePullSecrets" in item for item in of_kind(rendering, "ServiceAccount")}
    assert accounts == {"b": False, "a": True}


DOTTED = [webhook("v.a.b", deploymentName="a.b"), webhook("w.a.b", deploymentName="a-b")]


def test_deployments_with_like_names_are_refused(tmp_path: Path) -> None:
    csv = service_version(deployments=[deployment("a.b"), deployment("a-b")], webhooks=DOTTED)
    assert refusal(write_bundle(tmp_path, csv)) == (
        Reason.INVALID_BUNDLE,
        "Service inst/a-b-service: the bundle contains two different objects with this name; rename one",
    )


def test_the_order_of_objects(tmp_path: Path) -> None:
    rendering = made(
        tmp_path,
        object_of("ConfigMap"),
        definition(),
        permissions=[permission("p")],
        cluster_permissions=[permission("c")],
        deployments=[deployment()],
        webhooks=[webhook("m.a.b", "Mutating"), webhook("v.a.b")],
    )
    pair = ["ClusterRole", "ClusterRoleBinding"]
    assert [item["kind"] for item in rendering.objects] == [
        *["ServiceAccount"] * 2,
        *pair * 2,
        "CustomResourceDefinition",
        "ConfigMap",
        "Deployment",
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
        "Service",
        "Issuer",
        "Certificate",
    ]


# requirements


REQUIRING: dict[str, Any] = {
    "customresourcedefinitions": {"required": [{"name": "etcds.example.com", "kind": "Etcd", "version": "v1"}]},
    "nativeAPIs": [{"group": "apps", "version": "v1", "kind": "Deployment"}],
    "apiservicedefinitions": {"required": [{"group": "x.io", "version": "v1", "kind": "X"}]},
}
DEPENDENCIES = """\
dependencies:
- {type: olm.gvk, value: {group: y.io, kind: Z, version: v2}}
- {type: olm.package, value: {packageName: p, version: ">1"}}
- {type: olm.constraint, value: {all: []}}
"""
NEEDED = {
    "example.com/v1 Etcd": ("example.com", "v1", "Etcd"),
    "x.io/v1 X": ("x.io", "v1", "X"),
    "y.io/v2 Z": ("y.io", "v2", "Z"),
}


def test_required_apis_that_are_not_served_cause_a_warning(tmp_path: Path) -> None:
    root = write_bundle(tmp_path, service_version(**REQUIRING), files={"metadata/dependencies.yaml": DEPENDENCIES})
    served = {("apps", "v1", "Deployment"): True}
    unmet = [
        f"bundle requires {api}, which the cluster does not serve; install its API"
        for api in ("example.com/v1 Etcd", "x.io/v1 X", "y.io/v2 Z")
    ]
    unchecked = "bundle has dependencies that are not checked: olm.constraint, olm.package; make sure that they are met"
    assert sorted(render(root, kinds=served).warnings) == sorted([*unmet, unchecked])
    assert render(root, kinds={**served, **dict.fromkeys(NEEDED.values(), True)}).warnings == (unchecked,)


def test_an_api_whose_server_is_down_is_not_reported_as_missing(tmp_path: Path) -> None:
    root = write_bundle(tmp_path, service_version(**REQUIRING), files={"metadata/dependencies.yaml": DEPENDENCIES})
    served = {("apps", "v1", "Deployment"): True}
    warnings = render(root, kinds=served, unknown=["example.com", "x.io", "y.io"]).warnings
    assert not [text for text in warnings if "does not serve" in text]


def test_openshift_is_recognized_while_its_api_servers_are_down() -> None:
    down = Capabilities(kubernetes_version="v1.36.3", unknown=frozenset({"project.openshift.io"}))
    assert choose_provider(down) == "service-ca"


def test_unreadable_dependencies_cause_a_warning(tmp_path: Path) -> None:
    root = write_bundle(tmp_path, service_version(), files={"metadata/dependencies.yaml": "dependencies: 1"})
    assert render(root).warnings == ("metadata/dependencies.yaml: dependencies: must be a list, not a number",)


LONG = "my.object.thing.has.a.really.really.really.really.really.long.name"
HASHES: list[tuple[Any, str]] = [
    ("a", "1lu1qv1451mq7gv9upu1cx8ffffi07rel5xvbvvc44dh"),
    (None, "2im0kl1kwvzn46sr4cdtkvmdzrlurvj51xdzhwdht8l0"),
    (
        {"Str": "foobar", "Num": 22, "Obj": {"Foo": "bar"}, "Arr": [0, 1], "B": True, "N": None},
        "gta1bt5sybll5qjqxdiekmjm7py93glrinmnrfb31fj",
    ),
    ({"serviceAccountName": "", "rules": None}, "13nr4ju4s7dcvb397jw50p5sf63zsmvshg28rk87pxom"),
    ({"serviceAccountName": "", "rules": []}, "zyt4cis79f30vvme3ag97low4k97tlgem68ayw1vzeg"),
    ({"serviceAccountName": "x", "rules": [{"verbs": None}]}, "33ys5grtw9l1okvqpc0si4ox1cgnldxzby755t2p1ho4"),
    (
        {
            "serviceAccountName": "x",
            "rules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics", "/a?b=<c>&d"]}],
        },
        "1a495oam33tnt2yzg47xubxpsnp1aa0e5rf55mi4jtgs",
    ),
]


@pytest.mark.parametrize(("value", "expect"), HASHES, ids=[json.dumps(value) for value, _ in HASHES])
def test_hash(value: Any, expect: str) -> None:
    assert generators.hash_of(value) == expect


class Named(NamedTuple):
    name: str
    value: str
    expect: str


# fmt: off
NAMES = [
    Named("dots of a deployment become dashes", generators.service_name("my.deployment.thing"),
         "my-deployment-thing-service"),
    Named("a certificate is named after the Service", generators.certificate_name("my.deployment.thing"),
         "my-deployment-thing-service-cert"),
    Named("a long Service name is cut", generators.service_name(LONG),
         "my-object-thing-has-a-really-really-really-really-reall-service"),
    Named("the certificate's is cut again", generators.certificate_name(LONG),
         "my-object-thing-has-a-really-really-really-really-reall-se-cert"),
    Named("and the issuer's once more", generators.issuer_name(LONG),
         "my-object-thing-has-a-really-really-really-re-selfsigned-issuer"),
    Named("any base", generators.join_name(LONG, "suffix"),
         "my.object.thing.has.a.really.really.really.really.really-suffix"),
    Named("what fits stays", generators.join_name("a", "b"), "a-b"),
    Named("names of 63 bytes together are one too long, as upstream's", generators.join_name("a" * 57, "suffix"),
         "a" * 57 + "-suffix"),
    Named("but a Service cannot have such a one", generators.service_name("a" * 56), "a" * 55 + "-service"),
    Named("its certificate keeps upstream's name", generators.certificate_name("a" * 56), "a" * 56 + "-s-cert"),
]
# fmt: on


@pytest.mark.parametrize("case", NAMES, ids=[case.name for case in NAMES])
def test_name(case: Named) -> None:
    assert case.value == case.expect


@pytest.mark.parametrize(("length", "expect"), [(54, 62), (55, 63), (56, 63), (57, 63), (70, 63)])
def test_a_service_name_fits(length: int, expect: int) -> None:
    assert len(generators.service_name("a" * length)) == expect


def test_characters_that_go_escapes() -> None:
    assert typed.write("<>&\u2028\u2029é\n") == '"\\u003c\\u003e\\u0026\\u2028\\u2029é\\n"'


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.text(), JSON, max_size=3), max_size=3), st.sampled_from([None, 1]))
def test_a_list_is_split_into_unparsed_members(items: list[dict[str, Any]], indent: int | None) -> None:
    found = typed.split_list(json.dumps(items, indent=indent))
    assert [{key: json.loads(value) for key, value in item.items()} for item in found] == items


@pytest.mark.parametrize("text", ["", "{}", "[1]", "null", "[NaN]", "[{]", '[{"a":Infinity}]'])
def test_text_that_is_not_a_list_of_objects(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - nothing else tells them apart
        typed.split_list(text)


GENERATED: Manifest = {"ports": [{"name": "443", "port": 443, "targetPort": 9443}], "selector": {"app": "manager"}}
CONTAINER = {"name": "main", "image": "x", "ports": [{"name": "hooks", "containerPort": 9443}]}


def port(**fields: Any) -> Manifest:
    return {"port": 443, "targetPort": 9443, **fields}


class Case(NamedTuple):
    name: str
    spec: Any
    expect: Manifest | None = None


# fmt: off
USED = [
    Case("no fields", {}, GENERATED),
    Case("nulls", {"ports": None, "selector": None}, GENERATED),
    Case("the port with another name and a protocol",
         {"ports": [port(name="webhook", protocol="TCP")], "selector": {"app": "manager"}}),
    Case("more ports", {"ports": [port(name="a"), {"name": "b", "port": 8443}], "selector": {"app": "manager"}}),
    Case("the name of the target port", {"ports": [port(targetPort="hooks")], "selector": {"app": "manager"}}),
    Case("other fields, but no selector", {"ports": [port()], "type": "NodePort", "sessionAffinity": "ClientIP"},
         {"ports": [port()], "type": "NodePort", "sessionAffinity": "ClientIP", "selector": {"app": "manager"}}),
    Case("a wider selector", {"ports": [port()], "selector": {}}),
]
REFUSED = [
    Case("another port", {"ports": [port(port=8443)]}),
    Case("another target port", {"ports": [port(targetPort=8443)]}),
    Case("no target port", {"ports": [{"port": 443}]}),
    Case("the name of another target port", {"ports": [port(targetPort="metrics")]}),
    Case("a target port that is a list", {"ports": [port(targetPort=["hooks"])]}),
    Case("another protocol", {"ports": [port(protocol="UDP")]}),
    Case("no ports", {"ports": []}),
    Case("ports that are none", {"ports": "443"}),
    Case("other pods", {"selector": {"app": "other"}}),
    Case("a selector that is none", {"selector": "app"}),
    Case("an external name", {"type": "ExternalName", "externalName": "example.com"}),
]
# fmt: on


def write(tmp_path: Path, *services: Manifest) -> Path:
    csv = service_version(webhooks=[webhook()], deployments=[deployment(containers=[CONTAINER])])
    return write_bundle(tmp_path, csv, *services)


@pytest.mark.parametrize("case", USED, ids=attrgetter("name"))
def test_a_service_that_serves_the_webhooks_is_used(case: Case, tmp_path: Path) -> None:
    service = object_of("Service", "manager-service", spec=case.spec)
    assert only(render(write(tmp_path, service)), "Service") == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "manager-service", "namespace": NAMESPACE},
        "spec": case.expect or case.spec,
    }


def test_its_metadata_is_kept_and_the_annotation_of_the_certificate_added(tmp_path: Path) -> None:
    service = object_of("Service", "manager-service", spec={"ports": [port()]})
    service["metadata"] |= {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    made = only(render(write(tmp_path, service), kinds=OPENSHIFT), "Service")
    secret = {"service.beta.openshift.io/serving-cert-secret-name": "manager-service-cert"}
    assert made["metadata"]["labels"] == {"a": "b"}
    assert made["metadata"]["annotations"] == {"c": "d", **secret}


def test_other_services_are_left_alone(tmp_path: Path) -> None:
    others = [object_of("Service", "other", spec={"ports": [port(port=1)]}), object_of("Service", "manager-service")]
    rendering = render(write(tmp_path, *others))
    assert [item["metadata"]["name"] for item in of_kind(rendering, "Service")] == ["other", "manager-service"]


@pytest.mark.parametrize("case", REFUSED, ids=attrgetter("name"))
def test_a_service_that_does_not_serve_them_is_refused(case: Case, tmp_path: Path) -> None:
    root = write(tmp_path, object_of("Service", "manager-service", spec=case.spec))
    assert refusal(root) == (
        Reason.INVALID_BUNDLE,
        "Service inst/manager-service: the bundle contains two different objects with this name; rename one",
    )
