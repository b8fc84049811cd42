"""Rules 2 and 6: what the server has defaulted, or a stranger has written, keeps no valid upgrade and no repair away.

The table has the unions of the built-in kinds: fields of which an object may have one, by a discriminator or not.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, NamedTuple

import pytest

from rukpak.api import names
from tests.support.bundles import Deployed, Manifest, World, definition, image, new_name
from tests.support.objects import deployment, make, read, template

APPS = "/apis/apps/v1"
HTTP, EXEC, TCP, GRPC = (
    {"httpGet": {"port": 80}},
    {"exec": {"command": ["a"]}},
    {"tcpSocket": {"port": 1}},
    {"grpc": {"port": 1}},
)
LABELS = {"matchLabels": {"app": "a"}}


def pods(**changes: Any) -> Manifest:
    """Return a Deployment whose container or pod is changed."""
    value = deployment("a")
    pod = value["spec"]["template"]["spec"]
    for name, change in changes.items():
        if name in ("volumes", "securityContext"):
            pod[name] = change
        else:
            pod["containers"][0][name] = change
    return value


def strategy(kind: str, field: str, value: Mapping[str, Any] | None) -> Manifest:
    made = deployment("a")
    spec = made["spec"] if kind == "Deployment" else {"selector": LABELS, "template": template("a")}
    spec = {**spec, **({"serviceName": "a", "replicas": 0} if kind == "StatefulSet" else {})}
    return {**made, "kind": kind, "spec": {**spec, **({field: value} if value else {})}}


def service_of(kind: str, **spec: Any) -> Manifest:
    if kind == "ExternalName":
        return make("v1", "Service", "a", spec={"type": kind, "externalName": "a.example.com", **spec})
    return make("v1", "Service", "a", spec={"type": kind, "selector": {"app": "a"}, "ports": [{"port": 80}], **spec})


def webhook_at(**client: Any) -> Manifest:
    hook = {"name": "a.example.com", "clientConfig": client, "admissionReviewVersions": ["v1"], "sideEffects": "None"}
    return make("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "a", webhooks=[hook])


def backend(**value: Any) -> Manifest:
    return make("networking.k8s.io/v1", "Ingress", "a", spec={"defaultBackend": value})


def budget(**value: Any) -> Manifest:
    return make("policy/v1", "PodDisruptionBudget", "a", spec={"selector": LABELS, **value})


def level(**value: Any) -> Manifest:
    return make("flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfiguration", "a", spec=value)


def conversion(value: Mapping[str, Any] | None) -> Manifest:
    made = definition("GROUP.example.com", "Foo")
    return {**made, "spec": {**made["spec"], **({"conversion": value} if value else {})}}


def binding(**reference: Any) -> Manifest:
    spec = {
        "policyName": "none",
        "validationActions": ["Audit"],
        "paramRef": {"parameterNotFoundAction": "Allow", **reference},
    }
    return make("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "a", spec=spec)


def volume(**source: Any) -> Manifest:
    return pods(volumes=[{"name": "v", **source}])


def variable(**value: Any) -> Manifest:
    return pods(env=[{"name": "first", "value": "x"}, {"name": "A", **value}])


def handler(place: str, value: Mapping[str, Any]) -> Manifest:
    return pods(lifecycle={place: value})


SECRET_REF = {"secretKeyRef": {"name": "a", "key": "b"}}
FIELD_REF = {"fieldRef": {"fieldPath": "metadata.name"}}
HOOKS = {
    "strategy": "Webhook",
    "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://a.example.com"}},
}
# Each revision follows on the one before it, and the first on the last: defaulted member, other member, and back.
UNIONS: dict[str, list[Manifest]] = {
    "the strategy of a Deployment": [
        strategy("Deployment", "strategy", None),
        strategy("Deployment", "strategy", {"type": "Recreate"}),
        strategy("Deployment", "strategy", {"rollingUpdate": {"maxSurge": 2}}),
        strategy("Deployment", "strategy", {"type": "Recreate"}),
    ],
    "the strategy of a StatefulSet": [
        strategy("StatefulSet", "updateStrategy", None),
        strategy("StatefulSet", "updateStrategy", {"type": "OnDelete"}),
        strategy("StatefulSet", "updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}),
        strategy("StatefulSet", "updateStrategy", {"type": "OnDelete"}),
    ],
    "the strategy of a DaemonSet": [
        strategy("DaemonSet", "updateStrategy", None),
        strategy("DaemonSet", "updateStrategy", {"type": "OnDelete"}),
        strategy("DaemonSet", "updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}),
        strategy("DaemonSet", "updateStrategy", {"type": "OnDelete"}),
    ],
    "a volume": [
        volume(),
        volume(configMap={"name": "a"}),
        volume(secret={"secretName": "a"}),
        volume(hostPath={"path": "/a"}),
        volume(emptyDir={}),
        volume(projected={"sources": [{"configMap": {"name": "a"}}]}),
        volume(persistentVolumeClaim={"claimName": "a"}),
        volume(downwardAPI={"items": []}),
        volume(csi={"driver": "a.example.com"}),
        volume(ephemeral={"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"],
               "resources": {"requests": {"storage": "1Gi"}}}}}),
        volume(nfs={"server": "a", "path": "/a"}),
        volume(image={"reference": "a"}),
    ],
    "a variable": [
        variable(value="a"), variable(valueFrom=SECRET_REF), variable(valueFrom=FIELD_REF),
        variable(valueFrom={"resourceFieldRef": {"resource": "limits.cpu"}}),
        variable(valueFrom={"configMapKeyRef": {"name": "a", "key": "b"}}),
    ],
    **{
        f"the handler of a {probe}": [pods(**{probe: value}) for value in (HTTP, EXEC, TCP, GRPC)]
        for probe in ("livenessProbe", "readinessProbe", "startupProbe")
    },
    **{
        f"the handler of {place}": [handler(place, value) for value in (HTTP, EXEC, {"sleep": {"seconds": 1}})]
        for place in ("postStart", "preStop")
    },
    "a seccomp profile": [
        pods(securityContext={"seccompProfile": {"type": "Localhost", "localhostProfile": "a"}}),
        pods(securityContext={"seccompProfile": {"type": "RuntimeDefault"}}),
    ],
    "an AppArmor profile": [
        pods(securityContext={"appArmorProfile": {"type": "Localhost", "localhostProfile": "a"}}),
        pods(securityContext={"appArmorProfile": {"type": "Unconfined"}}),
    ],
    "the type of a Service": [
        service_of("ClusterIP"), service_of("NodePort"), service_of("LoadBalancer"), service_of("ExternalName"),
        service_of("LoadBalancer", externalTrafficPolicy="Local"), service_of("ClusterIP"), service_of("ExternalName"),
    ],
    "session affinity": [
        service_of("ClusterIP", sessionAffinity="ClientIP"), service_of("ClusterIP", sessionAffinity="None"),
        service_of("ClusterIP", sessionAffinity="ClientIP",
                   sessionAffinityConfig={"clientIP": {"timeoutSeconds": 5}}), service_of("ClusterIP"),
    ],
    "the target of a webhook": [
        webhook_at(service={"name": "a", "namespace": "default"}), webhook_at(url="https://a.example.com/"),
    ],
    "the backend of an Ingress": [
        backend(service={"name": "a", "port": {"number": 80}}),
        backend(service={"name": "a", "port": {"name": "http"}}),
        backend(resource={"apiGroup": "example.com", "kind": "Bucket", "name": "a"}),
    ],
    "a disruption budget": [budget(minAvailable=1), budget(maxUnavailable=1)],
    "a priority level": [
        level(type="Limited", limited={"limitResponse": {"type": "Queue", "queuing": {"queues": 2, "handSize": 1}}}),
        level(type="Limited", limited={"limitResponse": {"type": "Reject"}}),
    ],
    "the conversion of a CustomResourceDefinition": [
        conversion(None), conversion(HOOKS), conversion({"strategy": "None"}),
    ],
    "the parameters of a policy": [binding(name="a"), binding(selector=LABELS)],
}  # fmt: skip


def named(value: Manifest, deployed: Deployed) -> Manifest:
    """Return an object whose name is unique if it is cluster-scoped."""
    text = copy.deepcopy(value)
    if text["kind"] == "CustomResourceDefinition":
        group = f"{deployed.name}.example.com"
        text["metadata"]["name"], text["spec"]["group"] = f"{text['spec']['names']['plural']}.{group}", group
    elif text["kind"] in ("ValidatingWebhookConfiguration", "PriorityLevelConfiguration") or "Binding" in text["kind"]:
        text["metadata"]["name"] = f"{deployed.name}-{text['metadata']['name']}"
    return text


def called(value: Manifest, name: str) -> Manifest:
    """Return an object with another name; a definition is named after its kind instead."""
    if value["kind"] == "CustomResourceDefinition":
        return value
    return {**value, "metadata": {**value["metadata"], "name": name}}


def split(table: Mapping[str, Any]) -> list[Any]:
    """Return the first entry of a table, and all others, which only `--all` runs."""
    (first, *rest) = table.items()
    return [pytest.param(dict([first]), id=first[0]), pytest.param(dict(rest), id="all others")]


@pytest.mark.repeats
@pytest.mark.parametrize("unions", split(UNIONS))
def test_an_upgrade_leads_from_each_member_of_a_union_to_the_next(
    world: World, unions: Mapping[str, list[Manifest]]
) -> None:
    """All at once, each in an object of its own, as often as the longest has members."""
    probe = Deployed(client=world.client, name=new_name(), ref="", wait=world.wait)

    def bundle(number: int) -> list[Manifest]:
        members = [(index, each[number % len(each)]) for index, each in enumerate(unions.values())]
        return [named(called(each, f"a{index}"), probe) for index, each in members]

    deployed = world.deploy(*bundle(0), name=probe.name)
    before = wait_applied(deployed, "")
    for number in range(1, max(map(len, unions.values())) + 1):
        ref = world.push(deployed.name, *bundle(number), tag=f"v{number + 1}")
        deployed.change(sources=[image(ref)])
        before = wait_applied(deployed, before)


def wait_applied(deployed: Deployed, before: str) -> str:
    """Wait until another revision than before is installed, healthy or not; return it."""

    def find() -> str | None:
        revision: str = deployed.status().get("installedRevision", "")
        return revision if revision != before else None

    found: str = deployed.wait(find, f"another revision than {before}")
    return found


# Strangers

Patch = list[dict[str, Any]]
VARIABLE = "/spec/template/spec/containers/0/env/1"
PORT = "/spec/ports/0"
POD = "/spec/template/spec"


class Edit(NamedTuple):
    """What a stranger does to an object with `kubectl patch --type=json`."""

    applied: Manifest
    patch: Patch


def swapped(path: str, ours: str, theirs: str, value: Any) -> Patch:
    return [{"op": "remove", "path": f"{path}/{ours}"}, {"op": "add", "path": f"{path}/{theirs}", "value": value}]


def replaced(path: str, value: Any) -> Patch:
    return [{"op": "replace", "path": path, "value": value}]


TWO_PORTS = [{"name": "a", "port": 80}, {"name": "b", "port": 81, "protocol": "TCP"}]
EDITS = {
    "value to valueFrom": Edit(variable(value="a"), swapped(VARIABLE, "value", "valueFrom", SECRET_REF)),
    "valueFrom to value": Edit(variable(valueFrom=SECRET_REF), swapped(VARIABLE, "valueFrom", "value", "a")),
    "valueFrom to another one": Edit(variable(valueFrom=SECRET_REF), replaced(f"{VARIABLE}/valueFrom", FIELD_REF)),
    "the strategy": Edit(
        strategy("Deployment", "strategy", {"type": "Recreate"}),
        replaced("/spec/strategy", {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}),
    ),
    "a volume": Edit(volume(configMap={"name": "a"}), swapped(f"{POD}/volumes/0", "configMap", "emptyDir", {})),
    "a probe": Edit(
        pods(livenessProbe=HTTP), swapped(f"{POD}/containers/0/livenessProbe", "httpGet", "exec", EXEC["exec"])
    ),
    "a hook": Edit(
        handler("preStop", EXEC), swapped(f"{POD}/containers/0/lifecycle/preStop", "exec", "httpGet", HTTP["httpGet"])
    ),
    "the target of a webhook": Edit(
        webhook_at(url="https://a.example.com/"),
        swapped("/webhooks/0/clientConfig", "url", "service", {"name": "a", "namespace": "default"}),
    ),
    "the backend of an Ingress": Edit(
        backend(service={"name": "a", "port": {"number": 80}}),
        swapped("/spec/defaultBackend/service/port", "number", "name", "http"),
    ),
    "a disruption budget": Edit(budget(minAvailable=1), swapped("/spec", "minAvailable", "maxUnavailable", 1)),
    "the protocol of a port that names none": Edit(
        service_of("ClusterIP", ports=[{"name": "a", "port": 80}]), replaced(f"{PORT}/protocol", "UDP")
    ),
    "the protocol of a port that names it": Edit(
        service_of("ClusterIP", ports=[{"name": "a", "port": 80, "protocol": "TCP"}]),
        replaced(f"{PORT}/protocol", "UDP"),
    ),
    "the protocol of one of two ports": Edit(
        service_of("ClusterIP", ports=TWO_PORTS), replaced(f"{PORT}/protocol", "SCTP")
    ),
    "the protocol of a container's port": Edit(
        pods(ports=[{"name": "a", "containerPort": 80}]), replaced(f"{POD}/containers/0/ports/0/protocol", "UDP")
    ),
    "the number of a container's port": Edit(
        pods(ports=[{"name": "a", "containerPort": 80}]), replaced(f"{POD}/containers/0/ports/0/containerPort", 81)
    ),
    "the type of a Service": Edit(
        service_of("ClusterIP"), [{"op": "replace", "path": "/spec/type", "value": "NodePort"}]
    ),
    "session affinity": Edit(
        service_of("ClusterIP", sessionAffinity="None"), replaced("/spec/sessionAffinity", "ClientIP")
    ),
}


@pytest.mark.repeats
@pytest.mark.parametrize("edits", split(EDITS))
def test_an_edit_to_another_member_is_undone_and_leaves_nothing(world: World, edits: Mapping[str, Edit]) -> None:
    probe = Deployed(client=world.client, name=new_name(), ref="", wait=world.wait)
    bundle = [named(called(edit.applied, f"a{index}"), probe) for index, edit in enumerate(edits.values())]
    deployed = world.deploy(*bundle, name=probe.name)
    wait_applied(deployed, "")
    paths = {case: path_of(deployed, each) for case, each in zip(edits, bundle, strict=True)}
    before = {case: spec_of(read(world.client, path)) for case, path in paths.items()}
    assert all(before.values())
    for case, path in paths.items():
        world.client.json_patch(path, edits[case].patch)

    def changed() -> list[str]:
        return [case for case, path in paths.items() if spec_of(read(world.client, path)) != before[case]]

    deployed.wait(lambda: not changed(), "undone")
    assert "Refused" not in deployed.events()


def path_of(deployed: Deployed, value: Manifest) -> str:
    api, plural = PLACES[value["kind"]]
    name = value["metadata"]["name"]
    return f"{api}/{plural}/{name}" if value["kind"] in CLUSTER_SCOPED else deployed.path_of(name, plural, api)


PLACES = {
    "Deployment": (APPS, "deployments"),
    "Service": ("/api/v1", "services"),
    "Ingress": ("/apis/networking.k8s.io/v1", "ingresses"),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets"),
    "ValidatingWebhookConfiguration": (
        "/apis/admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
    ),
}
CLUSTER_SCOPED = ("ValidatingWebhookConfiguration",)


def spec_of(value: Manifest | None) -> Any:
    found = value or {}
    return found.get("spec", found.get("webhooks"))


# What another manager applies


def corrected(world: World, path: str) -> None:
    patch = [
        {"op": "remove", "path": "/spec/strategy/rollingUpdate"},
        {"op": "replace", "path": "/spec/strategy/type", "value": "Recreate"},
    ]
    world.client.json_patch(path, patch)


def deleted(world: World, path: str) -> None:
    world.client.delete(path)


@pytest.mark.parametrize("change", [corrected, deleted])
def test_what_another_manager_applies_stays_and_a_change_by_hand_is_seen_at_once(
    world: World, change: Callable[[World, str], None]
) -> None:
    deployed = world.deploy(strategy("Deployment", "strategy", None))
    before = wait_applied(deployed, "")
    path = deployed.path_of("a", "deployments", APPS)
    theirs = make("apps/v1", "Deployment", "a", spec={"strategy": {"rollingUpdate": {"maxSurge": 2}}})
    world.client.apply(path, theirs, manager="someone", force=True)
    recreate = strategy("Deployment", "strategy", {"type": "Recreate"})
    deployed.change(sources=[image(world.push(deployed.name, recreate, tag="v2"))])
    deployed.wait_for("Installed", "False", "Refused", saying="spec.strategy.rollingUpdate")
    live = read(world.client, path)
    assert live
    assert live["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == 2
    managers = [each["manager"] for each in live["metadata"]["managedFields"] if each["operation"] == "Apply"]
    assert sorted(managers) == sorted(["someone", names.field_manager(deployed.name)])

    position = world.position()
    world.wait_until_looked_at()
    assert not [each for each in world.requests(position) if path in each], "it is not tried again until it changes"
    change(world, path)
    wait_applied(deployed, before)
    live = read(world.client, path)
    assert live
    assert live["spec"]["strategy"] == {"type": "Recreate"}


# What a revision drops


def autoscaler() -> Manifest:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}
    return make("autoscaling/v2", "HorizontalPodAutoscaler", "a", spec={"scaleTargetRef": target, "maxReplicas": 5})


@pytest.mark.parametrize("is_ours", [True, False], ids=["of the revision", "of another client"])
def test_replicas_that_are_dropped_are_left_to_an_autoscaler(world: World, *, is_ours: bool) -> None:
    deployed = world.deploy(deployment("a", replicas=3))
    before = wait_applied(deployed, "")
    path = deployed.path_of("a", "deployments", APPS)
    if not is_ours:
        place = deployed.path_of("a", "horizontalpodautoscalers", "/apis/autoscaling/v2")
        world.client.create(place.rpartition("/")[0], autoscaler())
    dropped = deployment("a")
    dropped["spec"].pop("replicas")
    position = world.position()
    ref = world.push(deployed.name, dropped, *([autoscaler()] if is_ours else []), tag="v2")
    deployed.change(sources=[image(ref)])
    wait_applied(deployed, before)
    live = read(world.client, path)
    assert live
    assert live["spec"]["replicas"] == 3
    assert live["metadata"]["generation"] == 2, "by its annotation alone, which counts for a Deployment"
    lists = [each for each in world.requests_about(deployed.name, position) if "horizontalpodautoscalers" in each]
    assert len([each for each in lists if each.startswith("list ")]) <= 2  # a pass may have to begin again
    # Whoever scales it now is not undone.
    world.client.merge_patch(path, {"spec": {"replicas": 4}})
    world.wait_until_looked_at()
    live = read(world.client, path)
    assert live
    assert live["spec"]["replicas"] == 4


def in_pods(kind: str, **pod: Any) -> Manifest:
    spec = {**template("a")["spec"], **pod}
    if kind == "CronJob":
        job = {"spec": {"template": {"spec": {**spec, "restartPolicy": "Never"}}}}
        return make("batch/v1", kind, "a", spec={"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": job})
    made = strategy(kind, "x", None)
    made["spec"]["template"] = {**template("a"), "spec": spec}
    return made


PORT_80 = {"containers": [{"name": "a", "image": "a", "ports": [{"containerPort": 80}]}]}
LEFT: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]] = {
    "an account": ({"serviceAccountName": "x"}, {}, ("serviceAccount", "serviceAccountName")),
    "an account by its older name": ({"serviceAccount": "x"}, {}, ("serviceAccount", "serviceAccountName")),
    "the network of the host": ({**PORT_80, "hostNetwork": True}, PORT_80, ("hostNetwork", "hostPort")),
    "the network of the host, set to false": (
        {**PORT_80, "hostNetwork": True}, {**PORT_80, "hostNetwork": False}, ("hostPort",)
    ),
}  # fmt: skip


def test_what_the_server_made_of_a_dropped_field_goes_with_it(world: World) -> None:
    """Each in each kind, all in one upgrade."""
    kinds = ("Deployment", "StatefulSet", "DaemonSet", "CronJob")
    cases = {f"a{index}": case for index, case in enumerate(product(kinds, LEFT.values()))}
    before, after = (
        [called(in_pods(kind, **case[number]), name) for name, (kind, case) in cases.items()] for number in (0, 1)
    )
    deployed = world.deploy(*before)
    installed = wait_applied(deployed, "")
    deployed.change(sources=[image(world.push(deployed.name, *after, tag="v2"))])
    wait_applied(deployed, installed)
    left = {}
    for name, (kind, (_, second, gone)) in cases.items():
        api, plural = ("/apis/batch/v1", "cronjobs") if kind == "CronJob" else (APPS, f"{kind.lower()}s")
        live = read(world.client, deployed.path_of(name, plural, api))
        assert live
        pod = live["spec"]["jobTemplate"]["spec"]["template"] if kind == "CronJob" else live["spec"]["template"]
        if found := [field for field in gone if f'"{field}"' in json.dumps(pod["spec"])]:
            left[f"{kind} {second}"] = found
    assert left == {}
