"""Rule 6: an object is as we left it when our managedFields entry is. Random objects, random edits."""

from __future__ import annotations

import base64
import copy
import json
import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.support.bundles import delete_namespace
from tests.support.inside import (
    ApiError,
    Client,
    GroupVersionKind,
    Owner,
    Resource,
    connect,
    covers,
    entry_hash,
    entry_of,
    equal_by_value,
    first_uncovered,
    make_body,
)

MANAGER = "rukpak/x"
OWNER = Owner("x", "00000000-0000-0000-0000-000000000001")
EDITS = 4
"""At least, of each kind; each on an object of its own, and one of them on a field of ours."""

PLURALS = {"Ingress": "ingresses", "NetworkPolicy": "networkpolicies"}


class Cluster(Protocol):
    kubeconfig: Path


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Client:
    return connect(kubeconfig=str(cluster.kubeconfig), user_agent="rukpak-test")


@pytest.fixture(scope="module")
def namespace(cluster: Cluster, client: Client) -> Iterator[str]:
    name = f"drift-{uuid.uuid4().hex[:8]}"
    client.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    delete_namespace(cluster, client, name)


# Random objects


def _word(dice: random.Random) -> str:
    return "".join(dice.choice("abcdefgh") for _ in range(6))


def _words(dice: random.Random, most: int = 3) -> list[str]:
    return sorted({_word(dice) for _ in range(dice.randint(1, most))})


def _texts(dice: random.Random) -> dict[str, str]:
    return {word: _word(dice) for word in _words(dice)}


def _container(dice: random.Random, name: str) -> dict[str, Any]:
    container: dict[str, Any] = {"name": name, "image": f"example.com/{_word(dice)}:1"}
    fields: dict[str, Any] = {
        "args": _words(dice),
        "env": [{"name": word.upper(), "value": dice.choice(["", "1", _word(dice)])} for word in _words(dice)],
        "ports": [{"containerPort": port} for port in dice.sample(range(8000, 9000), dice.randint(1, 3))],
        "resources": dice.choice([{}, {"limits": {"cpu": "1000m", "memory": "1024Mi"}}, {"requests": {"cpu": 0.5}}]),
        "imagePullPolicy": "Always",
        "command": [],
        "volumeMounts": [],
        "securityContext": {"runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}},
    }
    return container | {name: fields[name] for name in dice.sample(sorted(fields), dice.randint(1, len(fields)))}


def _template(dice: random.Random, labels: dict[str, str], restart: str) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "restartPolicy": restart,
        "containers": [_container(dice, word) for word in _words(dice, 2)],
        "tolerations": [{"key": _word(dice), "operator": "Exists"}],
        "nodeSelector": _texts(dice),
        "volumes": [{"name": word, "emptyDir": {}} for word in _words(dice, 2)],
    }
    return {"metadata": {"labels": labels, "annotations": _texts(dice)}, "spec": spec}


def _workload(dice: random.Random) -> dict[str, Any]:
    labels = _texts(dice)
    return {"selector": {"matchLabels": labels}, "template": _template(dice, labels, "Always")}


def _service(dice: random.Random) -> dict[str, Any]:
    ports = dice.sample(range(1000, 2000), dice.randint(1, 3))
    listed = [{"name": f"p{port}", "port": port, "targetPort": dice.choice([port, "web"])} for port in ports]
    return {"spec": {"selector": _texts(dice), "ports": listed}}


def _binding(dice: random.Random) -> dict[str, Any]:
    subjects = [{"kind": "User", "name": word, "apiGroup": "rbac.authorization.k8s.io"} for word in _words(dice)]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": _word(dice)}
    return {"subjects": subjects, "roleRef": role}


def _ingress(dice: random.Random) -> dict[str, Any]:
    backend = {"service": {"name": _word(dice), "port": {"number": 80}}}
    paths = [{"path": f"/{word}", "pathType": "Prefix", "backend": backend} for word in _words(dice)]
    return {"spec": {"rules": [{"host": f"{_word(dice)}.example.com", "http": {"paths": paths}}]}}


def _autoscaler(dice: random.Random) -> dict[str, Any]:
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": dice.randint(10, 90)}}
    return {
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": _word(dice)},
            "minReplicas": dice.randint(1, 3),
            "maxReplicas": dice.randint(4, 9),
            "metrics": [{"type": "Resource", "resource": metric}],
        }
    }


def _rules(dice: random.Random) -> list[dict[str, Any]]:
    return [{"apiGroups": [""], "resources": [word], "verbs": ["get", "list"]} for word in _words(dice)]


def _policy(dice: random.Random) -> dict[str, Any]:
    peers = [{"podSelector": {"matchLabels": _texts(dice)}}, {"namespaceSelector": {}}]
    ports = [{"port": dice.randint(1, 99), "protocol": "TCP"}]
    return {"spec": {"podSelector": {}, "ingress": [{"from": peers, "ports": ports}], "policyTypes": ["Ingress"]}}


def _job_template(dice: random.Random) -> dict[str, Any]:
    return {"spec": {"backoffLimit": dice.randint(1, 5), "template": _template(dice, _texts(dice), "Never")}}


KINDS: dict[str, Callable[[random.Random], dict[str, Any]]] = {
    "v1/ConfigMap": lambda dice: {"data": _texts(dice)},
    "v1/Secret": lambda dice: {"data": {word: base64.b64encode(word.encode()).decode() for word in _words(dice)}},
    "v1/Service": _service,
    "v1/ServiceAccount": lambda dice: {"imagePullSecrets": [{"name": word} for word in _words(dice)]},
    "v1/ResourceQuota": lambda dice: {"spec": {"hard": {"pods": dice.randint(10, 20), "requests.cpu": "2000m"}}},
    "apps/v1/Deployment": lambda dice: {"spec": {"replicas": dice.choice([0, 1]), **_workload(dice)}},
    "apps/v1/StatefulSet": lambda dice: {"spec": {"replicas": 0, "serviceName": _word(dice), **_workload(dice)}},
    "apps/v1/DaemonSet": lambda dice: {"spec": _workload(dice)},
    "batch/v1/CronJob": lambda dice: {
        "spec": {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": _job_template(dice)}
    },
    "rbac.authorization.k8s.io/v1/Role": lambda dice: {"rules": _rules(dice)},
    "rbac.authorization.k8s.io/v1/RoleBinding": _binding,
    "networking.k8s.io/v1/NetworkPolicy": _policy,
    "networking.k8s.io/v1/Ingress": _ingress,
    "autoscaling/v2/HorizontalPodAutoscaler": _autoscaler,
    "policy/v1/PodDisruptionBudget": lambda dice: {
        "spec": {"minAvailable": dice.choice([1, "50%"]), "selector": {"matchLabels": _texts(dice)}}
    },
}


def _make(kind: str, namespace: str, dice: random.Random) -> tuple[str, dict[str, Any]]:
    """Return the path of a new object, and the object."""
    gvk = GroupVersionKind.parse(kind)
    plural = PLURALS.get(gvk.kind, f"{gvk.kind.lower()}s")
    name = f"{_word(dice)}-{_word(dice)}"
    metadata = {"name": name, "namespace": namespace, "labels": _texts(dice), "annotations": _texts(dice)}
    manifest = {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": metadata, **KINDS[kind](dice)}
    path = Resource(gvk.group, gvk.version, gvk.kind, plural, namespaced=True).path(namespace, name)
    # Without a controller reference, which the garbage collector would follow to an owner that is not there.
    return path, make_body(manifest, replace(OWNER, orphan=True))


# Random edits

Where = tuple[str | int, ...]


def _editable(live: dict[str, Any]) -> dict[str, Any]:
    """Return what anybody may edit, without what the server's own controllers write."""
    metadata = {name: dict(live["metadata"].get(name, {})) for name in ("labels", "annotations")}
    metadata["annotations"].pop("deployment.kubernetes.io/revision", None)
    metadata["annotations"].pop("deprecated.daemonset.template.generation", None)
    rest = {name: live[name] for name in live if name not in ("apiVersion", "kind", "metadata", "status")}
    return {"metadata": metadata, **rest}


def _paths(value: Any, path: Where = ()) -> Iterator[tuple[Where, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key), item
        yield from _paths(item, (*path, key))


def _changed(value: Any, dice: random.Random) -> Any:
    """Return another value of the same shape; the same one now and then."""
    match value:
        case bool():
            other: Any = not value
        case int():
            other = value + 1
        case str() if value.endswith("="):
            other = base64.b64encode(_word(dice).encode()).decode()
        case str():
            other = f"{value}x"
        case list():
            other = dice.choice([value[::-1], value[1:], [*value, *_added(value, dice)]])
        case dict():
            other = dice.choice([{**value, _word(dice): _word(dice)}, dict(list(value.items())[1:])])
        case _:
            other = value
    return dice.choice([other] * 9 + [value])


def _added(items: list[Any], dice: random.Random) -> list[Any]:
    """Return one more item, like the last one with other texts and numbers."""
    last = copy.deepcopy(items[-1:])
    for item in last:
        if isinstance(item, dict):
            key = next(iter(item))
            item[key] = _changed(item[key], random.Random(dice.random()))
            return [item]
    return [f"{item}x" for item in last]


def _edit(client: Client, path: str, live: dict[str, Any], dice: random.Random) -> bool:
    """Make one random change as another manager; False if the server refuses it."""
    where, value = dice.choice(
        [pair for pair in _paths(_editable(live)) if len(pair[0]) > 1 or pair[0][0] != "metadata"]
    )
    remove = dice.random() < 0.25
    try:
        if dice.random() < 0.5 and all(isinstance(part, str) for part in where):
            body: Any = None if remove else _changed(value, dice)
            for part in reversed(where):
                body = {part: body}
            client.merge_patch(path, body, manager="somebody")
        else:
            operation = {"op": "remove"} if remove else {"op": "replace", "value": _changed(value, dice)}
            pointer = "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in where)
            client.json_patch(path, [{**operation, "path": pointer}], manager="somebody")
    except ApiError:
        return False
    return True


# What is asserted


def _owned(node: dict[str, Any], value: Any) -> Any:
    """Return the part of a live object that a tree of fields claims: the yardstick, without the code under test."""
    if not node:
        return value
    found: dict[str, Any] = {}
    for name, child in node.items():
        kind, _, key = name.partition(":")
        if kind == "f" and isinstance(value, dict) and key in value:
            found[name] = _owned(child, value[key])
        elif kind == "k" and isinstance(value, list):
            keys = json.loads(key).items()
            found[name] = [_owned(child, item) for item in value if all(item.get(field) == of for field, of in keys)]
        elif kind == "v" and isinstance(value, list):
            found[name] = json.loads(key) in value
    return found


def _fields(live: dict[str, Any]) -> dict[str, Any]:
    entry = entry_of(live, MANAGER)
    assert entry is not None
    fields: dict[str, Any] = entry["fieldsV1"]
    return fields


@pytest.mark.parametrize("kind", KINDS)
def test_our_entry_changes_exactly_when_a_field_of_ours_does(client: Client, namespace: str, kind: str) -> None:
    """Not right after an apply, nor by another one that changes nothing."""
    dice = random.Random(f"edit {kind}")
    drifts: list[bool] = []
    while len(drifts) < EDITS or True not in drifts:
        path, body = _make(kind, namespace, dice)
        first = client.apply(path, body, manager=MANAGER, force=True).value
        assert first_uncovered(_fields(first), body) == ""
        second = client.apply(path, body, manager=MANAGER, force=True).value
        assert entry_of(second, MANAGER) == entry_of(first, MANAGER)
        before = client.get(path).value
        assert equal_by_value(body, before)
        if not _edit(client, path, before, dice):
            continue
        after, fields = client.get(path).value, _fields(before)
        drift = _owned(fields, before) != _owned(fields, after)
        changed = entry_hash(entry_of(after, MANAGER)) != entry_hash(entry_of(before, MANAGER))
        assert changed is drift, json.dumps({"before": before, "after": after})
        assert covers((entry_of(after, MANAGER) or {}).get("fieldsV1", {}), body) is not drift
        drifts.append(drift)
