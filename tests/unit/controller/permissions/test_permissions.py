"""What bundles may do: a sentence for each rule."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rukpak.api.errors import BundleError
from rukpak.controller.formats.applicable import make_applicable
from rukpak.controller.permissions import (
    added,
    digest_of,
    find_permissions,
    grants,
    look_up,
    powers,
    summarize,
)
from rukpak.controller.permissions.statement import MAX_CHARACTERS, MAX_ITEMS, Severity, to_lines
from tests.support.golden_permissions import BUNDLES, describe, read_bundle
from tests.support.nonsense import OBJECTS, objects_like

Object = dict[str, Any]
RBAC = "rbac.authorization.k8s.io"
SHOP = {"kind": "ServiceAccount", "namespace": "shop", "name": "app"}
READ_SECRETS = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}


def make(kind: str, name: str = "app", *, api: str = "v1", namespace: str = "shop", **fields: Any) -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **fields.pop("metadata", {})}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **fields}


def cluster_role(*rules: Object, name: str = "app", **fields: Any) -> Object:
    return make("ClusterRole", name, api=f"{RBAC}/v1", namespace="", rules=list(rules), **fields)


def role(*rules: Object, name: str = "app", namespace: str = "shop") -> Object:
    return make("Role", name, api=f"{RBAC}/v1", namespace=namespace, rules=list(rules))


def bind(
    *subjects: Object, kind: str = "ClusterRole", name: str = "app", namespace: str = "", to: str = "app"
) -> Object:
    own = "RoleBinding" if namespace else "ClusterRoleBinding"
    reference = {"apiGroup": RBAC, "kind": kind, "name": to}
    return make(own, name, api=f"{RBAC}/v1", namespace=namespace, roleRef=reference, subjects=list(subjects or (SHOP,)))


def workload(
    container: Object | None = None, *, kind: str = "Deployment", annotations: Any = None, **pod: Any
) -> Object:
    restricted = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    containers = [{"name": "web", "securityContext": restricted, **(container or {})}]
    context = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}, **pod.pop("securityContext", {})}
    spec = {"containers": containers, "securityContext": context, "automountServiceAccountToken": False, **pod}
    template = {"metadata": {"annotations": annotations or {}}, "spec": spec}
    if kind == "CronJob":
        return make(kind, "web", api="batch/v1", spec={"jobTemplate": {"spec": {"template": template}}})
    if kind == "Pod":
        return make(kind, "web", spec=spec, metadata=template["metadata"])
    api = {"Job": "batch/v1", "ReplicationController": "v1"}.get(kind, "apps/v1")
    return make(kind, "web", api=api, spec={"template": template})


def rule(group: str, resource: str, *verbs: str, **fields: Any) -> Object:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs), **fields}


def lines(*objects: Object) -> list[str]:
    """Return what objects may do, without the number of those outside the install namespace."""
    found = to_lines(find_permissions(objects, "shop"))
    return [line.text for line in found if " in the whole cluster: " not in line.text]


def first(*objects: Object) -> str:
    return lines(*objects)[0]


ACCOUNT = "ServiceAccount shop/app"
WEB = "Deployment shop/web"
WEBHOOK = {
    "name": "hook.example.com",
    "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["pods"]}],
    "clientConfig": {"service": {"namespace": "shop", "name": "web"}},
}


def webhooks(kind: str = "MutatingWebhookConfiguration", **fields: Any) -> Object:
    return make(kind, "shop", api="admissionregistration.k8s.io/v1", namespace="", webhooks=[{**WEBHOOK, **fields}])


GRANTS: dict[str, tuple[list[Object], str]] = {
    "a ClusterRoleBinding grants in all namespaces": (
        [cluster_role(READ_SECRETS), bind()],
        f"{ACCOUNT}: get,list secrets in all namespaces (reads every Secret)",
    ),
    "a RoleBinding grants a ClusterRole in its namespace": (
        [cluster_role(READ_SECRETS), bind(namespace="shop")],
        f"{ACCOUNT}: get,list secrets in namespace shop",
    ),
    "a Role is found in the namespace of its binding": (
        [role(READ_SECRETS), role(rule("", "pods", "get"), namespace="other"), bind(kind="Role", namespace="shop")],
        f"{ACCOUNT}: get,list secrets in namespace shop",
    ),
    "a ServiceAccount without a namespace is that of the RoleBinding": (
        [role(READ_SECRETS), bind({"kind": "ServiceAccount", "name": "app"}, kind="Role", namespace="shop")],
        f"{ACCOUNT}: get,list secrets in namespace shop",
    ),
    "the user of a ServiceAccount is that ServiceAccount": (
        [cluster_role(READ_SECRETS), bind({"kind": "User", "name": "system:serviceaccount:shop:app"})],
        f"{ACCOUNT}: get,list secrets in all namespaces (reads every Secret)",
    ),
    "groups that are nearly everyone are explained": (
        [cluster_role(rule("", "services", "get")), bind({"kind": "Group", "name": "system:unauthenticated"})],
        "Group system:unauthenticated (anyone, without logging in): get services in all namespaces",
    ),
    "so are the ServiceAccounts of a namespace": (
        [cluster_role(rule("", "pods", "get")), bind({"kind": "Group", "name": "system:serviceaccounts:a"})],
        "Group system:serviceaccounts:a (every ServiceAccount in namespace a): get pods in all namespaces",
    ),
    "a role that is not brought is named": (
        [bind(to="reader", namespace="shop")],
        f"{ACCOUNT}: all that ClusterRole reader allows in namespace shop",
    ),
    "cluster-admin is called that": (
        [bind(to="cluster-admin")],
        f"{ACCOUNT}: all that ClusterRole cluster-admin allows in all namespaces (amounts to cluster-admin)",
    ),
    "edit in all namespaces includes kube-system": (
        [bind(to="edit")],
        f"{ACCOUNT}: all that ClusterRole edit allows in all namespaces (amounts to cluster-admin)",
    ),
    "everything is cluster-admin": (
        [cluster_role(rule("*", "*", "*")), bind()],
        f"{ACCOUNT}: * *.* in all namespaces (amounts to cluster-admin)",
    ),
    "escalate is cluster-admin, also for one role": (
        [cluster_role(rule(RBAC, "clusterroles", "escalate", resourceNames=["app"])), bind()],
        f'{ACCOUNT}: escalate clusterroles.{RBAC} "app" in all namespaces (amounts to cluster-admin)',
    ),
    "bind is cluster-admin": (
        [cluster_role(rule(RBAC, "clusterroles", "bind")), bind()],
        f"{ACCOUNT}: bind clusterroles.{RBAC} in all namespaces (amounts to cluster-admin)",
    ),
    "bind for one ordinary role is not": (
        [cluster_role(rule(RBAC, "clusterroles", "bind", resourceNames=["reader"])), bind()],
        f'{ACCOUNT}: bind clusterroles.{RBAC} "reader" in all namespaces',
    ),
    "impersonate is cluster-admin": (
        [cluster_role(rule("", "groups", "impersonate")), bind()],
        f"{ACCOUNT}: impersonate groups in all namespaces (amounts to cluster-admin)",
    ),
    "tokens of all ServiceAccounts are cluster-admin": (
        [cluster_role(rule("", "serviceaccounts/token", "create")), bind()],
        f"{ACCOUNT}: create serviceaccounts/token in all namespaces (amounts to cluster-admin)",
    ),
    "a wildcard of subresources includes them": (
        [cluster_role(rule("", "*/token", "create")), bind()],
        f"{ACCOUNT}: create */token in all namespaces (amounts to cluster-admin)",
    ),
    "pods in kube-system are cluster-admin": (
        [cluster_role(rule("", "pods", "create")), bind(namespace="kube-system")],
        f"{ACCOUNT}: create pods in namespace kube-system (amounts to cluster-admin)",
    ),
    "pods in another namespace are not": (
        [cluster_role(rule("", "pods", "create")), bind(namespace="shop")],
        f"{ACCOUNT}: create pods in namespace shop",
    ),
    "exec into all pods is cluster-admin": (
        [cluster_role(rule("", "pods/exec", "create")), bind()],
        f"{ACCOUNT}: create pods/exec in all namespaces (amounts to cluster-admin)",
    ),
    "the kubelet's API is cluster-admin": (
        [cluster_role(rule("", "nodes/proxy", "get")), bind()],
        f"{ACCOUNT}: get nodes/proxy in all namespaces (amounts to cluster-admin)",
    ),
    "changing one mutating webhook is cluster-admin": (
        [
            cluster_role(
                rule("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "patch", resourceNames=["shop"])
            ),
            bind(),
        ],
        (
            f'{ACCOUNT}: patch mutatingwebhookconfigurations.admissionregistration.k8s.io "shop" in all namespaces '
            "(amounts to cluster-admin)"
        ),
    ),
    "all verbs of a group are marked": (
        [cluster_role(rule("shop.example.com", "*", "*")), bind()],
        f"{ACCOUNT}: * *.shop.example.com in all namespaces (wildcard)",
    ),
    "paths are granted by ClusterRoleBindings": (
        [cluster_role({"nonResourceURLs": ["/metrics"], "verbs": ["get"]}), bind()],
        f"{ACCOUNT}: get path /metrics",
    ),
    "a role that the bundle does not bind is stated": (
        [cluster_role(rule("", "pods", "create"))],
        (
            "whoever is bound to ClusterRole app: create pods where it is bound "
            "(amounts to cluster-admin if bound in all namespaces)"
        ),
    ),
    "rules are added to built-in roles": (
        [cluster_role(rule("x", "y", "get"), metadata={"labels": {f"{RBAC}/aggregate-to-edit": "true"}})],
        "whoever is bound to ClusterRole edit or admin: get y.x where it is bound",
    ),
    "a verb with a space is quoted": (
        [cluster_role(rule("", "pods", "get secrets")), bind()],
        f'{ACCOUNT}: "get secrets" pods in all namespaces',
    ),
}


@pytest.mark.parametrize("name", GRANTS)
def test_what_roles_and_bindings_grant(name: str) -> None:
    objects, expected = GRANTS[name]
    assert first(*objects) == expected


def test_aggregated_rules_are_granted_and_those_of_others_are_pointed_out() -> None:
    selector = {"matchLabels": {"part-of": "shop"}, "matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}
    part = cluster_role(rule("", "pods", "get"), name="part", metadata={"labels": {"part-of": "shop"}})
    other = cluster_role(rule("", "nodes", "get"), name="other", metadata={"labels": {"part-of": "shop", "x": ""}})
    found = lines(cluster_role(aggregationRule={"clusterRoleSelectors": [selector]}), bind(), part, other)
    assert found[:2] == [
        f"{ACCOUNT}: what ClusterRoles of others allow that ClusterRole app selects in all namespaces",
        f"{ACCOUNT}: get pods in all namespaces",
    ]
    assert not any(line.startswith(ACCOUNT) for line in found[2:])


PODS: dict[str, tuple[Object, str]] = {
    "privileged": (workload({"securityContext": {"privileged": True}}), "runs privileged in container web"),
    "host network": (workload(hostNetwork=True), "uses the network of its node"),
    "host processes": (workload(hostPID=True), "uses the processes of its node"),
    "host memory": (workload(hostIPC=True), "uses the shared memory of its node"),
    "host port": (workload({"ports": [{"hostPort": 80}]}), "uses port 80/TCP of its node"),
    "capabilities": (
        workload({"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}),
        "has capability SYS_ADMIN in container web",
    ),
    "an init container": (
        workload(initContainers=[{"name": "init", "securityContext": {"privileged": True}}]),
        "runs privileged in container init",
    ),
    "root": (workload(securityContext={"runAsUser": 0}), "runs as root in all containers"),
    "seccomp": (
        workload({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}),
        "runs without seccomp in container web",
    ),
    "AppArmor": (
        workload(securityContext={"appArmorProfile": {"type": "Unconfined"}}),
        "runs without AppArmor in all containers",
    ),
    "AppArmor by annotation": (
        workload(annotations={"container.apparmor.security.beta.kubernetes.io/web": "unconfined"}),
        "runs with annotation container.apparmor.security.beta.kubernetes.io/web: unconfined",
    ),
    "proc": (workload({"securityContext": {"procMount": "Unmasked"}}), "runs with unmasked /proc in container web"),
    "SELinux": (
        workload(securityContext={"seLinuxOptions": {"type": "spc_t"}}),
        "runs with SELinux type spc_t in all containers",
    ),
    "Windows": (
        workload(securityContext={"windowsOptions": {"hostProcess": True}}),
        "runs as a process of its Windows node in all containers",
    ),
    "sysctls": (workload(securityContext={"sysctls": [{"name": "a", "value": "1"}]}), "sets sysctl a=1"),
    "devices": (workload({"volumeDevices": [{"name": "a"}]}), "uses block devices in container web"),
    "priority": (
        workload(priorityClassName="system-node-critical"),
        "uses priority class system-node-critical",
    ),
    "another account": (
        workload(serviceAccountName="admin", automountServiceAccountToken=None),
        "runs as ServiceAccount shop/admin that the bundle does not bring",
    ),
    "tokens for others": (
        workload(volumes=[{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"audience": "sts"}}]}}]),
        "gets a token of its ServiceAccount for sts",
    ),
    "a Secret of others": (
        workload({"envFrom": [{"secretRef": {"name": "tls"}}]}),
        "reads Secret shop/tls that the bundle does not bring",
    ),
    "a path of the node": (
        workload(
            {"volumeMounts": [{"name": "etc", "readOnly": True}]},
            volumes=[{"name": "etc", "hostPath": {"path": "/etc"}}],
        ),
        "reads node path /etc",
    ),
    "a path of the node, to write": (
        workload({"volumeMounts": [{"name": "etc"}]}, volumes=[{"name": "etc", "hostPath": {"path": "/etc"}}]),
        "reads,writes node path /etc",
    ),
    "another type of volume": (
        workload(volumes=[{"name": "a", "nfs": {"server": "a"}}]),
        "does not restrict volumes of type nfs in its volumes",
    ),
}


@pytest.mark.parametrize("name", PODS)
def test_what_pods_may_do(name: str) -> None:
    item, expected = PODS[name]
    assert f"{WEB}: {expected}" in lines(item)


def test_a_restricted_pod_may_do_nothing_special() -> None:
    assert lines(workload()) == []


@pytest.mark.parametrize(
    "kind", ["CronJob", "DaemonSet", "Job", "Pod", "ReplicaSet", "ReplicationController", "StatefulSet"]
)
def test_all_kinds_of_workloads_are_read(kind: str) -> None:
    assert lines(workload(kind=kind, hostNetwork=True)) == [f"{kind} shop/web: uses the network of its node"]


def test_what_a_pod_does_not_restrict_is_stated() -> None:
    assert first(workload({"securityContext": {}}, securityContext={"runAsNonRoot": None, "seccompProfile": None})) == (
        f"{WEB}: does not restrict capabilities, privilege escalation, root, system calls in container web"
    )


def test_that_pods_use_the_account_of_all_pods_says_nothing() -> None:
    assert lines(workload(automountServiceAccountToken=True)) == []


def test_what_the_bundle_brings_itself_is_not_that_of_others() -> None:
    pod = workload(
        {"env": [{"name": "a", "valueFrom": {"secretKeyRef": {"name": "own"}}}]},
        serviceAccountName="own",
        automountServiceAccountToken=True,
    )
    assert lines(pod, make("ServiceAccount", "own"), make("Secret", "own")) == []


HOOK = "MutatingWebhookConfiguration shop: may change CREATE of"
OTHERS: dict[str, tuple[Object, str]] = {
    "a webhook": (webhooks(), f"{HOOK} pods by Service shop/web, failurePolicy Fail, in all namespaces"),
    "a webhook that ignores failures": (
        webhooks(failurePolicy="Ignore"),
        f"{HOOK} pods by Service shop/web, failurePolicy Ignore, in all namespaces",
    ),
    "a webhook with a selector": (
        webhooks(namespaceSelector={"matchLabels": {"a": "b"}}),
        f'{HOOK} pods by Service shop/web, failurePolicy Fail, with namespaceSelector {{"matchLabels": {{"a": "b"}}}}',
    ),
    "a webhook at a URL": (
        webhooks(clientConfig={"url": "https://example.com/x"}),
        f"{HOOK} pods by https://example.com/x, failurePolicy Fail, in all namespaces",
    ),
    "a validating webhook": (
        webhooks("ValidatingWebhookConfiguration"),
        (
            "ValidatingWebhookConfiguration shop: may refuse CREATE of pods by Service shop/web, failurePolicy Fail, "
            "in all namespaces"
        ),
    ),
    "an API": (
        make(
            "APIService",
            "v1.x",
            api="apiregistration.k8s.io/v1",
            namespace="",
            spec={"group": "x", "version": "v1", "service": {"namespace": "shop", "name": "web"}},
        ),
        "APIService v1.x: serves the API x/v1 by Service shop/web",
    ),
    "a conversion": (
        make(
            "CustomResourceDefinition",
            "y.x",
            api="apiextensions.k8s.io/v1",
            namespace="",
            spec={
                "group": "x",
                "conversion": {
                    "strategy": "Webhook",
                    "webhook": {"clientConfig": {"service": {"namespace": "shop", "name": "web"}}},
                },
            },
        ),
        "CustomResourceDefinition y.x: converts all its objects by Service shop/web",
    ),
    "a policy": (
        make(
            "ValidatingAdmissionPolicy",
            "p",
            api="admissionregistration.k8s.io/v1",
            namespace="",
            spec={"matchConstraints": {"resourceRules": WEBHOOK["rules"]}},
        ),
        "ValidatingAdmissionPolicy p: may refuse CREATE of pods where it is bound, in all namespaces",
    ),
    "the binding of a policy": (
        make(
            "ValidatingAdmissionPolicyBinding",
            "b",
            api="admissionregistration.k8s.io/v1",
            namespace="",
            spec={"policyName": "p", "validationActions": ["Deny"]},
        ),
        "ValidatingAdmissionPolicyBinding b: enforces policy p (Deny) in all namespaces",
    ),
    "a priority class": (
        make("PriorityClass", "p", api="scheduling.k8s.io/v1", namespace="", value=5),
        "PriorityClass p: allows pods with priority 5",
    ),
    "the default priority": (
        make("PriorityClass", "p", api="scheduling.k8s.io/v1", namespace="", value=5, globalDefault=True),
        "PriorityClass p: sets the priority of all pods that name none",
    ),
    "a volume of a node": (
        make("PersistentVolume", "v", namespace="", spec={"hostPath": {"path": "/"}}),
        "PersistentVolume v: offers node path /",
    ),
    "a token that is stored": (
        make(
            "Secret",
            "t",
            type="kubernetes.io/service-account-token",
            metadata={"annotations": {"kubernetes.io/service-account.name": "admin"}},
        ),
        "Secret shop/t: holds a token that never expires of ServiceAccount shop/admin that the bundle does not bring",
    ),
    "a namespace for privileged pods": (
        make(
            "Namespace",
            "n",
            namespace="",
            metadata={"labels": {"pod-security.kubernetes.io/enforce": "privileged"}},
        ),
        "Namespace n: allows pods of the Pod Security Standard privileged",
    ),
    "a role of AWS": (
        make("ServiceAccount", metadata={"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/a"}}),
        "ServiceAccount shop/app: acts as AWS role arn:aws:iam::1:role/a",
    ),
    "an account of Google": (
        make("ServiceAccount", metadata={"annotations": {"iam.gke.io/gcp-service-account": "a@b"}}),
        "ServiceAccount shop/app: acts as Google service account a@b",
    ),
    "a client of Azure": (
        make("ServiceAccount", metadata={"annotations": {"azure.workload.identity/client-id": "1-2"}}),
        "ServiceAccount shop/app: acts as Azure client 1-2",
    ),
    "credentials for a cloud": (
        make(
            "CredentialsRequest",
            "c",
            api="cloudcredential.openshift.io/v1",
            spec={"providerSpec": {"statementEntries": [{"effect": "Allow", "action": ["s3:Get"], "resource": "*"}]}},
        ),
        "CredentialsRequest shop/c: requests statementEntries: s3:Get (effect Allow, resource *)",
    ),
    "an object of a controller of others": (
        make("ServiceMonitor", api="monitoring.coreos.com/v1"),
        "bundle: instructs controllers of others by ServiceMonitor.monitoring.coreos.com",
    ),
    "an object elsewhere": (make("ConfigMap", namespace="kube-system"), "1 ConfigMap in namespace kube-system: app"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_other_objects_do(name: str) -> None:
    item, expected = OTHERS[name]
    assert expected in lines(item)


def test_objects_in_the_whole_cluster_are_counted() -> None:
    found = find_permissions([make("Namespace", f"n{each}", namespace="") for each in range(7)], "shop")
    assert summarize(found).lines == ("7 Namespace in the whole cluster: n0, n1, n2, n3, n4 and 2 more",)
    assert len(found) == 7


INCLUDED: dict[str, tuple[Object, Object, bool]] = {
    "one of all verbs": (rule("", "pods", "*"), rule("", "pods", "get"), True),
    "all verbs instead of one": (rule("", "pods", "get"), rule("", "pods", "*"), False),
    "one of all groups": (rule("*", "pods", "get"), rule("x", "pods", "get"), True),
    "one of all resources": (rule("", "*", "get"), rule("", "pods", "get"), True),
    "a subresource of all resources": (rule("", "*", "get"), rule("", "pods/log", "get"), True),
    "a subresource of a resource": (rule("", "pods", "get"), rule("", "pods/log", "get"), False),
    "one of all objects": (rule("", "pods", "get"), rule("", "pods", "get", resourceNames=["a"]), True),
    "all objects instead of one": (rule("", "pods", "get", resourceNames=["a"]), rule("", "pods", "get"), False),
    "a path below": (
        {"nonResourceURLs": ["/a/*"], "verbs": ["get"]},
        {"nonResourceURLs": ["/a/b"], "verbs": ["get"]},
        True,
    ),
    "a path beside": (
        {"nonResourceURLs": ["/a/*"], "verbs": ["get"]},
        {"nonResourceURLs": ["/b"], "verbs": ["get"]},
        False,
    ),
}


@pytest.mark.parametrize("name", INCLUDED)
def test_which_rights_include_others(name: str) -> None:
    before, after, expected = INCLUDED[name]
    old, new = (find_permissions([cluster_role(each), bind()], "shop") for each in (before, after))
    assert (not added(new, old)) is expected


def test_all_namespaces_include_one() -> None:
    everywhere, one = (
        find_permissions([cluster_role(READ_SECRETS), bind(namespace=each)], "") for each in ("", "shop")
    )
    assert ACCOUNT not in {each.who for each in added(one, everywhere)}
    assert ACCOUNT in {each.who for each in added(everywhere, one)}


def test_splitting_a_rule_makes_no_difference() -> None:
    one = [role(rule("", "pods", "get", "list")), bind(kind="Role", namespace="shop")]
    two = [
        bind(kind="Role", namespace="shop", to="b", name="b"),
        bind(kind="Role", namespace="shop"),
        role(rule("", "pods", "list"), name="b"),
        role(rule("", "pods", "get")),
    ]
    assert find_permissions(one, "shop") == find_permissions(two, "shop")
    assert digest_of(find_permissions(one, "shop")) == digest_of(find_permissions(two, "shop"))


def test_a_right_that_is_added_changes_the_digest() -> None:
    one, two = (find_permissions([role(rule("", "pods", *verbs))], "shop") for verbs in ("a", "ab"))
    assert digest_of(one) != digest_of(two)


def test_more_rights_than_can_be_split_are_stated_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grants, "MAX_RIGHTS", 3)
    many = rule("", "pods", "a", "b", "c", "d")
    before = find_permissions([cluster_role(many), bind()], "shop")
    assert any("too many to list" in each.what for each in before)
    assert added(find_permissions([cluster_role({**many, "verbs": [*many["verbs"], "e"]}), bind()], "shop"), before)


def test_a_product_of_lists_costs_neither_memory_nor_time() -> None:
    words = [f"w{each}" for each in range(500)]
    huge = {"apiGroups": words, "resources": words, "resourceNames": words, "verbs": words}
    assert len(find_permissions([cluster_role(huge), bind(), webhooks(rules=[{**huge, "operations": words}])], "")) < 10


def test_a_webhook_rule_that_is_too_large_is_stated_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(powers, "MAX_RESOURCES", 0)
    assert "too many to list" in first(webhooks())


def test_roles_of_the_cluster_are_looked_up_only_to_be_shown() -> None:
    found = find_permissions([bind(to="reader")], "shop")
    rules = {("ClusterRole", "", "reader"): [rule("", "pods", "get")]}
    shown = look_up(found, lambda *name: rules.get(name, []))
    assert [line.text for line in to_lines(shown)] == [f"{ACCOUNT}: get pods in all namespaces (by ClusterRole reader)"]
    assert look_up(found, lambda *_: ()) == frozenset()


def test_the_most_dangerous_lines_come_first_and_the_rest_is_cut() -> None:
    ordinary = [role(rule("", f"r{each}", f"v{each}"), name=f"r{each}") for each in range(30)]
    summary = summarize(find_permissions([*ordinary, bind(to="cluster-admin")], "shop"))
    assert "(amounts to cluster-admin)" in summary.lines[0]
    assert (len(summary.lines), summary.truncated) == (20, True)


def test_a_line_has_a_limited_number_of_short_items_without_control_characters() -> None:
    names = [f"{each}{'x' * 300}\n\x1b[1m" for each in range(MAX_ITEMS + 1)]
    found = to_lines(find_permissions([role({"apiGroups": [""], "resources": names, "verbs": ["get"]})], "shop"))
    assert len(found) == 2
    assert all(line.text.isprintable() and len(line.text) < (MAX_ITEMS + 3) * (MAX_CHARACTERS + 2) for line in found)


def _malformed() -> Iterator[Object]:
    for value in (None, "text", 7, [None], {"a": 1}, ["text"]):
        yield make("ClusterRole", api=f"{RBAC}/v1", namespace="", rules=value, aggregationRule=value)
        yield make("RoleBinding", api=f"{RBAC}/v1", roleRef=value, subjects=value)
        yield make("Deployment", api="apps/v1", spec={"template": {"spec": value}})
        yield make("Pod", spec={"containers": value, "volumes": value, "securityContext": value})
        yield make("MutatingWebhookConfiguration", api="admissionregistration.k8s.io/v1", webhooks=value)
        yield make("ValidatingAdmissionPolicyBinding", api="admissionregistration.k8s.io/v1", spec=value)
        yield make("APIService", api="apiregistration.k8s.io/v1", spec=value)
        yield make("CustomResourceDefinition", api="apiextensions.k8s.io/v1", spec=value)
        defined = {"group": value, "names": {"kind": value}}
        yield make("CustomResourceDefinition", api="apiextensions.k8s.io/v1", spec=defined)
        yield make("CredentialsRequest", api="cloudcredential.openshift.io/v1", spec={"providerSpec": value})
        yield make("PersistentVolume", spec=value, namespace="")


def test_malformed_objects_are_left_for_the_api_server_to_refuse() -> None:
    for item in _malformed():
        assert to_lines(find_permissions([item], "shop")) is not None


def test_severity_is_shown_in_order() -> None:
    found = to_lines(find_permissions([bind(to="cluster-admin"), workload(hostPID=True), bind(to="x")], "shop"))
    assert [line.severity for line in found][:3] == [Severity.ADMIN, Severity.HIGH, Severity.NORMAL]


def test_there_are_at_least_twelve() -> None:
    assert len(BUNDLES) >= 12


@pytest.mark.parametrize("folder", BUNDLES, ids=attrgetter("name"))
def test_what_a_real_bundle_may_do(folder: Path) -> None:
    assert describe(read_bundle(folder)) == (folder / "expected.txt").read_text()


@given(st.lists(objects_like(*OBJECTS), max_size=4), st.lists(objects_like(*OBJECTS), max_size=2))
def test_permissions_of_any_objects_are_found(items: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
    try:
        new, old = (
            find_permissions(make_applicable(each, install_namespace="shop", is_namespaced=lambda *_: None), "shop")
            for each in (items, others)
        )
    except BundleError:
        return
    digest_of(new)
    assert summarize(added(new, old), most=5).lines is not None
