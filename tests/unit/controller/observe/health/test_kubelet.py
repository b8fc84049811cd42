"""What is said about pods that do not start or do not run, in the words of Kubernetes 1.36 and containerd."""

from __future__ import annotations

import time
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pytest

from rukpak.controller.observe.health.explain import (
    MAY_NOT_LIST_EVENTS,
    ends_of,
    explain,
    explain_by_events,
    explain_ends,
    explained,
    find_silent,
)
from rukpak.controller.observe.health.kubelet import QUOTE_LENGTH, quote, read_refusal
from rukpak.controller.observe.health.rules import assess
from rukpak.controller.observe.health.verdict import MESSAGE_LENGTH, Context, State, Verdict, progressing
from tests.unit.controller.observe.health.objects import Manifest, conditions

PROGRESSING, FAILED = State.PROGRESSING, State.FAILED
NAME, HASH, UID = "x-76bbb5db4c-x7k2p", "76bbb5db4c", "0a7bc1d2-55aa-4c67-9b1e-6a3e0f5d2c11"
EARLIER = "2026-11-28T06:00:00Z"
SANDBOX = "5f0c2a9d4b7e8f1a3c6d9e0b2f4a7c8d1e3b5f6a9c0d2e4f7a8b1c3d5e6f9a0b"
TASK = "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
NOT_FOUND = 'exec: "/nope": stat /nope: no such file or directory'


def of_deployment(spec: Manifest, status: Manifest) -> Manifest:
    """Return a pod of the Deployment `x`, on a node."""
    about = {"name": NAME, "generateName": f"x-{HASH}-", "uid": UID, "labels": {"pod-template-hash": HASH}}
    whole = {"nodeName": "node-1", "containers": [CONTAINER], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": whole, "status": status}


CONTAINER = {"name": "c", "image": "localhost/tiny:1"}
CREATING = {"name": "c", "ready": False, "started": False, "state": {"waiting": {"reason": "ContainerCreating"}}}
INITIALIZING = {"name": "c", "ready": False, "started": False, "state": {"waiting": {"reason": "PodInitializing"}}}
RUNNING = {"name": "c", "ready": False, "started": True, "state": {"running": {"startedAt": "2026-11-28T06:00:00Z"}}}
SET_UP = conditions("PodReadyToStartContainers=True", "PodScheduled=True")
NOT_SET_UP = conditions("PodReadyToStartContainers=False", "PodScheduled=True")


def waits(reason: str, said: str = "", **spec: Any) -> Manifest:
    status = {"name": "c", "ready": False, "state": {"waiting": {"reason": reason, "message": said}}}
    containers = [{**CONTAINER, **spec}]
    return of_deployment(
        {"containers": containers}, {"phase": "Pending", "conditions": SET_UP, "containerStatuses": [status]}
    )


def loops(
    code: int, reason: str = "Error", said: str = "", started: str = "2026-11-28T06:00:00Z", **spec: Any
) -> Manifest:
    end = {"exitCode": code, "reason": reason, "message": said, "startedAt": started}
    back_off = f"back-off 1m20s restarting failed container=c pod={NAME}_default({UID})"
    status = {
        "name": "c",
        "ready": False,
        "restartCount": 4,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": back_off}},
        "lastState": {"terminated": end},
    }
    containers = [{**CONTAINER, **spec}]
    observed = {"phase": "Running", "podIP": "10.244.0.5", "conditions": SET_UP, "containerStatuses": [status]}
    return of_deployment({"containers": containers}, observed)


def fails(reason: str, said: str, *found: str, containers: Any = ()) -> Manifest:
    status = {"phase": "Failed", "reason": reason, "message": said, "conditions": conditions(*found)}
    return of_deployment({}, status | {"containerStatuses": list(containers)})


def unscheduled(said: str, reason: str = "Unschedulable", **spec: Any) -> Manifest:
    pod = of_deployment(spec, {"phase": "Pending"})
    pod["spec"].pop("nodeName")
    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": reason, "message": said}]
    return pod


def initializes(name: str = "i", state: Any = None, **spec: Any) -> Manifest:
    status = {"name": name, "ready": False, "started": False, "state": state or {"running": {}}}
    inits = [{"name": name, "image": "localhost/tiny:1", **spec}]
    observed = {"phase": "Pending", "conditions": SET_UP, "initContainerStatuses": [status]}
    return of_deployment({"initContainers": inits}, observed | {"containerStatuses": [INITIALIZING]})


def creates(**spec: Any) -> Manifest:
    """Return a pod whose containers cannot be created yet."""
    return of_deployment(spec, {"phase": "Pending", "conditions": NOT_SET_UP, "containerStatuses": [CREATING]})


def runs(status: Manifest = RUNNING, *found: str, **spec: Any) -> Manifest:
    observed = {"phase": "Running", "podIP": "10.244.0.5", "conditions": conditions("Ready=False", *found)}
    return of_deployment({"containers": [{**CONTAINER, **spec}]}, observed | {"containerStatuses": [status]})


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    given: Manifest
    expect: str
    state: State = PROGRESSING


CLAIM = {"name": "v", "persistentVolumeClaim": {"claimName": "p"}}
OTHER_CLAIM = {"name": "w", "persistentVolumeClaim": {"claimName": "q"}}
NO_PREEMPTION = "no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful."
UNBOUND = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
PULL = (
    'failed to pull and unpack image "10.90.0.1:45000/none:1": failed to resolve reference "10.90.0.1:45000/none:1": '
    'failed to do request: Head "https://10.90.0.1:45000/v2/none/manifests/1": dial tcp 10.90.0.1:45000: connect: '
    "connection refused"
)
REFUSED = (
    'image "10.90.0.1:45000/none:1": failed to do request: Head "https://10.90.0.1:45000/v2/none/manifests/1": '
    "dial tcp …:45000: connect: connection refused"
)
NONE: Manifest = {"image": "10.90.0.1:45000/none:1"}
SECRET_COMMAND: Manifest = {"command": ["run --password=$(PASSWORD)"]}
HTTP_PROBE: Manifest = {"httpGet": {"path": "/", "port": 9}}
EXEC_PROBE: Manifest = {"exec": {"command": ["check"]}}
ENDED = {"exitCode": 3, "reason": "Error", "message": "no disk"}

CASES = [
    # images
    Case(
        name="an image that cannot be pulled",
        given=waits("ErrImagePull", PULL, **NONE),
        expect=f'ErrImagePull: container "c": {REFUSED}',
    ),
    Case(
        name="one that is pulled again later",
        given=waits(
            "ImagePullBackOff",
            f'Back-off pulling image "10.90.0.1:45000/none:1": ErrImagePull: rpc error: code = Unknown desc = {PULL}',
            **NONE,
        ),
        expect=f'ImagePullBackOff: container "c": {REFUSED}',
    ),
    Case(
        name="one that is pulled again later, without a reason",
        given=waits("ImagePullBackOff", 'Back-off pulling image "localhost/tiny:1"'),
        expect='ImagePullBackOff: container "c": image "localhost/tiny:1"',
    ),
    Case(
        name="one whose address is signed",
        given=waits(
            "ErrImagePull",
            "rpc error: code = Unknown desc = failed to pull "
            'and unpack image "localhost/tiny:1": failed to copy: httpReadSeeker: failed open: '
            "unexpected status from GET "
            "request to https://cdn.example.com/blob?X-Amz-Date=20261128T060000Z&X-Amz-Signature=abc: 403 Forbidden",
        ),
        expect='ErrImagePull: container "c": image "localhost/tiny:1": failed to copy: httpReadSeeker: failed open: '
        "unexpected status from GET request to https://cdn.example.com/blob?… 403 Forbidden",
    ),
    Case(
        name="one whose registry has no address",
        given=waits(
            "ImagePullBackOff",
            'Back-off pulling image "registry.invalid/none:1": ErrImagePull: failed to pull and unpack image '
            '"registry.invalid/none:1": failed to resolve reference "registry.invalid/none:1": '
            "failed to do request: Head "
            '"https://registry.invalid/v2/none/manifests/1": dial tcp: lookup registry.invalid on '
            "10.90.0.1:53: read udp "
            "10.90.0.1:33883->10.90.0.1:53: read: connection refused",
        ),
        expect='ImagePullBackOff: container "c": image "registry.invalid/none:1": failed to do request: Head '
        '"https://registry.invalid/v2/none/manifests/1": dial tcp: lookup registry.invalid on '
        "10.90.0.1:53: read udp …:53: "
        "read: connection refused",
    ),
    Case(
        name="that of a volume, and not of the container",
        given=waits("ErrImagePull", PULL),
        expect=f'ErrImagePull: container "c": {REFUSED}',
    ),
    Case(
        name="a registry that is down",
        given=waits(
            "RegistryUnavailable", "image pull failed for localhost/tiny:1 because the registry is unavailable: 503"
        ),
        expect='RegistryUnavailable: container "c": image pull failed for localhost/tiny:1 because the registry '
        "is unavailable: 503",
    ),
    Case(
        name="a signature that does not hold",
        given=waits(
            "SignatureValidationFailed",
            "image pull failed for localhost/tiny:1 because the signature validation failed: no key",
        ),
        expect='SignatureValidationFailed: container "c": image pull failed for localhost/tiny:1 '
        "because the signature validation failed: no key",
    ),
    Case(
        name="an image that must not be pulled",
        state=FAILED,
        given=waits("ErrImageNeverPull", 'Container image "localhost/tiny:1" is not present with pull policy of Never'),
        expect='ErrImageNeverPull: container "c": Container image "localhost/tiny:1" is not present '
        "with pull policy of "
        "Never",
    ),
    Case(
        name="a name that no image has",
        state=FAILED,
        given=waits(
            "InvalidImageName",
            "Failed to apply default image tag "
            '"localhost/TINY": couldn\'t parse image name "localhost/TINY": invalid reference format: repository name '
            "(localhost/TINY) must be lowercase",
            image="localhost/TINY",
        ),
        expect='InvalidImageName: container "c": Failed to apply default image tag "localhost/TINY": '
        "couldn't parse image "
        'name "localhost/TINY": invalid reference format: repository name (localhost/TINY) must be lowercase',
    ),
    Case(
        name="an image that cannot be inspected",
        given=waits("ImageInspectError", 'Failed to inspect image "": rpc error: code = Unavailable desc = no runtime'),
        expect='ImageInspectError: container "c": image "localhost/tiny:1": Failed to inspect image "": no runtime',
    ),
    # before the start of a container
    Case(
        name="a Secret that is missing",
        given=waits("CreateContainerConfigError", 'secret "missing" not found'),
        expect='CreateContainerConfigError: container "c": secret "missing" not found',
    ),
    Case(
        name="a Secret that is missing where a command has a variable",
        given=waits("CreateContainerConfigError", 'secret "missing" not found', **SECRET_COMMAND),
        expect='CreateContainerConfigError: container "c": secret "missing" not found',
    ),
    Case(
        name="a key that is missing",
        given=waits("CreateContainerConfigError", "couldn't find key k in Secret foo/missing"),
        expect='CreateContainerConfigError: container "c": couldn\'t find key k in Secret foo/missing',
    ),
    Case(
        name="a path that has a variable",
        given=waits(
            "CreateContainerConfigError",
            "error SubPath `/hunter2` must not be an absolute path",
            volumeMounts=[{"name": "v", "subPathExpr": "$(PASSWORD)"}],
        ),
        expect='CreateContainerConfigError: container "c"',
    ),
    Case(
        name="a program of root's that must not be",
        given=waits(
            "CreateContainerConfigError",
            f'container has runAsNonRoot and image will run as root (pod: "{NAME}_default({UID})", container: c)',
        ),
        expect='CreateContainerConfigError: container "c": container has runAsNonRoot and image will run as root',
    ),
    Case(
        name="a container that the runtime refuses",
        given=waits(
            "CreateContainerError",
            "rpc error: code = Unknown desc = "
            f'failed to reserve container name "c_{NAME}_default_{UID}_0": name is reserved for "{SANDBOX}"',
        ),
        expect='CreateContainerError: container "c": failed to reserve container name "c_x-…_default_…_0": name is '
        'reserved for "…"',
    ),
    Case(
        name="a profile that is missing",
        given=waits(
            "CreateContainerError",
            "failed to create containerd container: cannot load seccomp profile "
            '"/var/lib/kubelet/seccomp/nope.json": open '
            "/var/lib/kubelet/seccomp/nope.json: no such file or directory",
        ),
        expect='CreateContainerError: container "c": failed to create containerd container: cannot '
        "load seccomp profile "
        '"/var/lib/kubelet/seccomp/nope.json": open /var/lib/kubelet/seccomp/nope.json: no such file or directory',
    ),
    Case(
        name="a folder that cannot be made",
        given=waits(
            "RunContainerError",
            f"{TASK}unable to start container process: error during container init: mkdir /tiny: not "
            "a directory: unknown",
        ),
        expect='RunContainerError: container "c": error during container init: mkdir /tiny: not a directory',
    ),
    Case(
        name="a program that does not exist",
        given=waits("RunContainerError", f"{TASK}unable to start container process: {NOT_FOUND}: unknown"),
        expect=f'RunContainerError: container "c": {NOT_FOUND}',
    ),
    Case(
        name="a program whose name has a variable",
        given=waits(
            "RunContainerError",
            f"{TASK}unable to start container "
            'process: exec: "run --password=hunter2": executable file not found in $PATH: unknown',
            **SECRET_COMMAND,
        ),
        expect='RunContainerError: container "c"',
    ),
    Case(
        name="a device that is not there",
        given=waits("PreStartHookError", "device plugin: no such device"),
        expect='PreStartHookError: container "c": device plugin: no such device',
    ),
    Case(
        name="a hook of the kubelet's",
        given=waits("PreCreateHookError", "failed to set memory"),
        expect='PreCreateHookError: container "c": failed to set memory',
    ),
    Case(
        name="a postStart hook, whose output may have secrets",
        given=waits(
            "PostStartHookError",
            'Exec lifecycle hook ([/tiny exit 1]) for Container "c" in Pod "x" failed - error: '
            "command '/tiny exit 1' "
            'exited with 1: password=hunter2, message: "password=hunter2"',
        ),
        expect='PostStartHookError: container "c": its postStart hook failed',
    ),
    # ends
    Case(
        name="an exit code",
        state=FAILED,
        given=loops(3, said="cannot open database\n"),
        expect='CrashLoopBackOff: container "c" ended with exit code 3: cannot open database',
    ),
    Case(
        name="an end without a failure",
        state=FAILED,
        given=loops(0, "Completed"),
        expect='CrashLoopBackOff: container "c" ended with exit code 0',
    ),
    Case(
        name="a signal",
        state=FAILED,
        given=loops(139),
        expect='CrashLoopBackOff: container "c" ended with exit code 139 (SIGSEGV)',
    ),
    Case(
        name="a code that no signal has",
        state=FAILED,
        given=loops(255),
        expect='CrashLoopBackOff: container "c" ended with exit code 255',
    ),
    Case(
        name="an end for lack of memory",
        state=FAILED,
        given=loops(137, "OOMKilled", resources={"limits": {"memory": "32Mi"}}),
        expect='CrashLoopBackOff: container "c" ended with exit code 137 (OOMKilled, its memory limit is 32Mi)',
    ),
    Case(
        name="an end for lack of the node's memory",
        state=FAILED,
        given=loops(137, "OOMKilled"),
        expect='CrashLoopBackOff: container "c" ended with exit code 137 (OOMKilled, it has no memory limit)',
    ),
    Case(
        name="a program that cannot be started",
        state=FAILED,
        given=loops(128, "StartError", f"{TASK}unable to start container process: {NOT_FOUND}: unknown"),
        expect=f'CrashLoopBackOff: container "c" cannot be started: {NOT_FOUND}',
    ),
    Case(
        name="a program that cannot be started and whose name has a variable",
        state=FAILED,
        given=loops(128, "StartError", 'exec: "run --password=hunter2": not found', **SECRET_COMMAND),
        expect='CrashLoopBackOff: container "c" cannot be started',
    ),
    Case(
        name="a program that another runtime cannot start",
        state=FAILED,
        given=loops(
            127,
            "ContainerCannotRun",
            f"OCI runtime create failed: container_linux.go:380: starting container "
            f"process caused: {NOT_FOUND}: unknown",
        ),
        expect=f'CrashLoopBackOff: container "c" cannot be started: {NOT_FOUND}',
    ),
    Case(
        name="an end that nobody has seen",
        state=FAILED,
        given=loops(
            137,
            "ContainerStatusUnknown",
            "The container could not be located when the pod was deleted.  The container used to be Running",
        ),
        expect='CrashLoopBackOff: container "c" ended with exit code 137 (ContainerStatusUnknown): '
        "The container could not "
        "be located when the pod was deleted. The container used to be Running",
    ),
    Case(
        name="the end of a log",
        state=FAILED,
        given=loops(3, said="x=1", terminationMessagePolicy="FallbackToLogsOnError"),
        expect='CrashLoopBackOff: container "c" ended with exit code 3',
    ),
    # pods that have failed
    Case(
        name="an eviction",
        state=FAILED,
        given=fails(
            "Evicted",
            "The node was low on resource: memory. Threshold quantity: "
            "100Mi, available: 95652Ki. Container c was using 812Mi, request is 0, has larger consumption of memory. ",
        ),
        expect="Evicted: The node was low on resource: memory. Container c was using more than it requests, 0",
    ),
    Case(
        name="an eviction for disk space",
        state=FAILED,
        given=fails("Evicted", 'Usage of EmptyDir volume "v" exceeds the limit "1Mi". '),
        expect='Evicted: Usage of EmptyDir volume "v" exceeds the limit "1Mi"',
    ),
    Case(
        name="a deadline",
        state=FAILED,
        given=fails("DeadlineExceeded", "Pod was active on the node longer than the specified deadline"),
        expect="DeadlineExceeded: Pod was active on the node longer than the specified deadline",
    ),
    Case(
        name="a node without enough of a resource",
        state=FAILED,
        given=fails(
            "OutOfcpu",
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 500000, used: 950, capacity: 2000",
        ),
        expect="OutOfcpu: Node didn't have enough resource: cpu, requested: 500000, capacity: 2000",
    ),
    Case(
        name="a node that is none of the pod's",
        state=FAILED,
        given=fails(
            "NodeAffinity",
            "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        ),
        expect="NodeAffinity: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
    ),
    Case(
        name="ports that are taken",
        state=FAILED,
        given=fails(
            "NodePorts",
            "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
        ),
        expect="NodePorts: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
    ),
    Case(
        name="a topology that does not fit",
        state=FAILED,
        given=fails("TopologyAffinityError", "Pod was rejected: Resources cannot be allocated with Topology locality"),
        expect="TopologyAffinityError: Resources cannot be allocated with Topology locality",
    ),
    Case(
        name="an admission that failed",
        state=FAILED,
        given=fails(
            "UnexpectedAdmissionError",
            "Pod was rejected: Allocate "
            "failed due to no healthy devices present; cannot allocate unhealthy devices "
            "example.com/gpu, which is unexpected",
        ),
        expect="UnexpectedAdmissionError: Allocate failed due to no healthy devices present; cannot allocate unhealthy "
        "devices example.com/gpu, which is unexpected",
    ),
    Case(
        name="a device that a condition cannot name",
        state=FAILED,
        given=fails(
            "OutOfexample.com/gpu",
            "Pod was rejected: Node didn't have enough resource: example.com/gpu, requested: 1, used: 2, capacity: 2",
        ),
        expect="PodFailed: Node didn't have enough resource: example.com/gpu, requested: 1, capacity: 2",
    ),
    Case(
        name="a node that shuts down",
        state=FAILED,
        given=fails("Terminated", "Pod was terminated in response to imminent node shutdown."),
        expect="Terminated: Pod was terminated in response to imminent node shutdown",
    ),
    Case(
        name="a node that has begun to shut down",
        state=FAILED,
        given=fails("NodeShutdown", "Pod was rejected: Pod was rejected as the node is shutting down."),
        expect="NodeShutdown: Pod was rejected as the node is shutting down",
    ),
    Case(
        name="a pod that is more important",
        state=FAILED,
        given=fails("Preempting", "Preempted in order to admit critical pod"),
        expect="Preempting: Preempted in order to admit critical pod",
    ),
    Case(
        name="a node that is gone",
        state=FAILED,
        given=fails("", "", "DisruptionTarget=True/DeletionByPodGC/PodGC: node no longer exists"),
        expect="DeletionByPodGC: PodGC: node no longer exists",
    ),
    Case(
        name="a container that has ended",
        state=FAILED,
        given=fails("", "", containers=[{"name": "c", "state": {"terminated": ENDED}}]),
        expect='ContainerFailed: container "c" ended with exit code 3: no disk',
    ),
    # nodes
    Case(
        name="too little of a resource",
        given=unscheduled(f"0/1 nodes are available: 1 Insufficient cpu. {NO_PREEMPTION}"),
        expect="Unschedulable: no node can run the pod: Insufficient cpu",
    ),
    Case(
        name="several causes, of which the numbers change",
        given=unscheduled(
            "0/12 nodes are available: 10 Insufficient "
            "memory, 2 node(s) had untolerated taint(s), 3 Insufficient cpu. preemption: 0/12 nodes "
            "are available: 12 No "
            "preemption victims found for incoming pod."
        ),
        expect="Unschedulable: no node can run the pod: Insufficient cpu, "
        "Insufficient memory, node(s) had untolerated taint(s)",
    ),
    Case(
        name="no nodes",
        given=unscheduled("no nodes available to schedule pods"),
        expect="Unschedulable: no node can run the pod: no nodes available to schedule pods",
    ),
    Case(
        name="a text that has no end",
        given=unscheduled("0/1 nodes are available: a. " + "a, " * 1000),
        expect=f"Unschedulable: no node can run the pod: {('a. ' + 'a, ' * 1000)[: QUOTE_LENGTH - 1]}…",
    ),
    Case(name="no cause", given=unscheduled(""), expect="Unschedulable: no node can run the pod"),
    Case(
        name="a claim that is not bound",
        given=unscheduled(UNBOUND, volumes=[CLAIM]),
        expect='Unschedulable: no node can run the pod: PersistentVolumeClaim "p" is not bound',
    ),
    Case(
        name="one of two claims that is not bound",
        given=unscheduled(UNBOUND, volumes=[CLAIM, OTHER_CLAIM, {"name": "e"}]),
        expect='Unschedulable: no node can run the pod: one of the PersistentVolumeClaims "p", "q" is not bound',
    ),
    Case(
        name="a claim that is missing",
        given=unscheduled(
            f'0/1 nodes are available: persistentvolumeclaim "p" not found. {NO_PREEMPTION}', volumes=[CLAIM]
        ),
        expect='Unschedulable: no node can run the pod: persistentvolumeclaim "p" not found',
    ),
    Case(
        name="a profile that the node cannot enforce",
        given=fails("AppArmor", "Pod was rejected: Cannot enforce AppArmor: AppArmor is not enabled on the host"),
        state=FAILED,
        expect="AppArmor: Cannot enforce AppArmor: AppArmor is not enabled on the host",
    ),
    Case(
        name="a sysctl that the node forbids",
        given=fails("SysctlForbidden", 'Pod was rejected: forbidden sysctl: "net.core.somaxconn" not allowlisted'),
        state=FAILED,
        expect='SysctlForbidden: forbidden sysctl: "net.core.somaxconn" not allowlisted',
    ),
    Case(
        name="a gate",
        given=unscheduled("Scheduling is blocked due to non-empty scheduling gates", "SchedulingGated"),
        expect="SchedulingGated: Scheduling is blocked due to non-empty scheduling gates",
    ),
    Case(
        name="an error of the scheduler's",
        given=unscheduled("binding rejected: no such node", "SchedulerError"),
        expect="SchedulerError: binding rejected: no such node",
    ),
    Case(
        name="a claim for devices that is missing",
        given=of_deployment(
            {"nodeName": "", "schedulerName": "default-scheduler", "resourceClaims": [{"resourceClaimName": "none"}]},
            {"phase": "Pending"},
        ),
        expect='PodPending: the scheduler "default-scheduler" has not chosen a node yet; the pod '
        'needs ResourceClaim "none"',
    ),
    Case(
        name="a scheduler that is not there",
        given={**of_deployment({"nodeName": "", "schedulerName": "mine"}, {"phase": "Pending"})},
        expect='PodPending: the scheduler "mine" has not chosen a node yet',
    ),
    # what a pod waits for
    Case(
        name="volumes or a network",
        given=creates(),
        expect="PodPending: its volumes and its network are not set up yet",
    ),
    Case(
        name="an init container that hangs",
        given=initializes(),
        expect='PodPending: init container "i" has not ended yet',
    ),
    Case(
        name="an init container that has failed",
        given=initializes(state={"terminated": ENDED}),
        expect='PodPending: init container "i" ended with exit code 3: no disk',
    ),
    Case(
        name="a sidecar that does not start",
        given=initializes(restartPolicy="Always", startupProbe=HTTP_PROBE),
        expect='PodPending: sidecar "i": its startup probe has not succeeded yet',
    ),
    Case(
        name="an image of a sidecar",
        given=initializes(
            restartPolicy="Always", state={"waiting": {"reason": "ErrImagePull", "message": "no such host"}}
        ),
        expect='ErrImagePull: sidecar "i": image "localhost/tiny:1": no such host',
    ),
    Case(
        name="a readiness probe",
        given=runs(readinessProbe=HTTP_PROBE),
        expect='PodNotReady: container "c": its readiness probe has not succeeded yet',
    ),
    Case(
        name="a startup probe",
        given=runs({**RUNNING, "started": False}, startupProbe=HTTP_PROBE, readinessProbe=HTTP_PROBE),
        expect='PodNotReady: container "c": its startup probe has not succeeded yet',
    ),
    Case(
        name="a readiness probe after an end",
        given=runs({**RUNNING, "restartCount": 1, "lastState": {"terminated": ENDED}}, readinessProbe=HTTP_PROBE),
        expect='PodNotReady: container "c" ended with exit code 3: no disk; its readiness probe has not succeeded yet',
    ),
    Case(
        name="an end",
        given=runs({**RUNNING, "state": {"terminated": ENDED}}),
        expect='PodNotReady: container "c" ended with exit code 3: no disk',
    ),
    Case(
        name="a readiness gate",
        given=of_deployment(
            {},
            {
                "phase": "Running",
                "containerStatuses": [{**RUNNING, "ready": True}],
                "conditions": conditions(
                    "Ready=False/ReadinessGatesNotReady/corresponding condition of pod readiness gate "
                    '"example.com|lb" does not exist.'
                ),
            },
        ),
        expect='PodNotReady: corresponding condition of pod readiness gate "example.com|lb" does not exist',
    ),
    Case(
        name="a node that does not report",
        given=runs({**RUNNING, "ready": True}, "ContainersReady=True"),
        expect="PodNotReady: its containers are ready, but its node does not say so of the pod",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_a_pod_says_why_it_does_not_run(case: Case) -> None:
    verdict = assess(case.given, Context())

    assert (verdict.state, f"{verdict.reason}: {verdict.message}") == (case.state, case.expect)


def told(reason: str, said: str, container: str = "", at: str = "2026-11-28T06:10:00Z", **fields: Any) -> Manifest:
    """Return an Event about a pod, or about a container of it."""
    path = {"fieldPath": f"spec.containers{{{container}}}"} if container else {}
    return {"reason": reason, "message": said, "lastTimestamp": at, "involvedObject": {"uid": UID, **path}, **fields}


@dataclass(frozen=True, kw_only=True)
class Told:
    name: str
    given: Manifest
    events: list[Manifest] | None
    expect: str
    state: State = PROGRESSING
    hint: str = ""


VOLUME = 'MountVolume.SetUp failed for volume "v" : configmap "missing" not found'
GENERIC = (
    "Unable to attach or mount volumes: unmounted volumes=[v kube-api-access-x7k2p], unattached volumes=[], failed to "
    "process volumes=[]: context deadline exceeded"
)
NETWORK = (
    f'Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "{SANDBOX}": '
    'plugin type="bridge" failed (add): no free addresses'
)
CLOSED = 'Readiness probe failed: Get "http://10.244.0.5:9/": dial tcp 10.244.0.5:9: connect: connection refused'
DIED = 'Liveness probe failed: Get "http://10.244.0.5:9/": dial tcp 10.244.0.5:9: connect: connection refused'
PROBED = runs(readinessProbe=HTTP_PROBE)
COMMANDED = runs(readinessProbe=EXEC_PROBE)
LIVE = loops(137, livenessProbe=HTTP_PROBE)
KILLING = "Container c failed liveness probe, will be restarted"
PENDING = "PodPending: its volumes and its network are not set up yet"
UNREADY = 'PodNotReady: container "c": its readiness probe has not succeeded yet'
LOOPING = 'CrashLoopBackOff: container "c" ended with exit code 137 (SIGKILL)'

TOLD = [
    Told(
        name="a ConfigMap that is missing",
        given=creates(),
        events=[told("FailedMount", VOLUME)],
        expect=f"FailedMount: {VOLUME}",
    ),
    Told(
        name="what is said of all volumes says less, however late",
        given=creates(),
        events=[told("FailedMount", VOLUME), told("FailedMount", GENERIC, at="2026-11-28T06:12:00Z")],
        expect=f"FailedMount: {VOLUME}",
    ),
    Told(
        name="what is said of all volumes has no generated names",
        given=creates(),
        events=[told("FailedMount", GENERIC)],
        expect="FailedMount: Unable to attach or mount volumes: unmounted volumes=[v kube-api-access-…], unattached "
        "volumes=[], failed to process volumes=[]: context deadline exceeded",
    ),
    Told(
        name="a disk that another node has",
        given=creates(),
        events=[
            told(
                "FailedAttachVolume",
                "Multi-Attach error for "
                f'volume "pvc-{UID}" Volume is already exclusively attached to one node and can\'t be '
                f"attached to another",
            )
        ],
        expect='FailedAttachVolume: Multi-Attach error for volume "pvc-…" Volume is already '
        "exclusively attached to one node "
        "and can't be attached to another",
    ),
    Told(
        name="a block device",
        given=creates(),
        events=[
            told(
                "FailedMapVolume",
                'MapVolume.SetUpDevice failed for volume "b" : rpc error: code = Internal desc = no such device',
            )
        ],
        expect='FailedMapVolume: MapVolume.SetUpDevice failed for volume "b" : no such device',
    ),
    Told(
        name="a file system that the node does not know",
        given=creates(),
        events=[
            told(
                "FailedMount",
                'MountVolume.SetUp failed for volume "v" : mount failed: exit status 32\nMounting '
                "command: mount\nMounting "
                f"arguments: -t nfs 10.90.0.1:/a "
                f"/var/lib/kubelet/pods/{UID}/volumes/kubernetes.io~nfs/v\nOutput: mount: "
                f"/var/lib/kubelet/pods/{UID}/volumes/kubernetes.io~nfs/v: unknown filesystem type 'nfs'.\n",
            )
        ],
        expect='FailedMount: MountVolume.SetUp failed for volume "v" : mount failed: exit status 32 mount: '
        "/var/lib/kubelet/pods/…/volumes/kubernetes.io~nfs/v: unknown filesystem type 'nfs'",
    ),
    Told(
        name="a runtime that the node does not have",
        given=creates(),
        events=[
            told(
                "FailedCreatePodSandBox",
                "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get "
                "sandbox runtime: no runtime for "
                '"kata" is configured',
            )
        ],
        expect="FailedCreatePodSandBox: Failed to create pod sandbox: failed to get sandbox runtime: no runtime for "
        '"kata" is configured',
    ),
    Told(
        name="a sandbox that cannot be made",
        given=creates(),
        events=[told("FailedCreatePodSandBox", NETWORK)],
        expect='FailedCreatePodSandBox: Failed to create pod sandbox: failed to setup network for sandbox "…": plugin '
        'type="bridge" failed (add): no free addresses',
    ),
    Told(
        name="a later step has the earlier ones behind it",
        given=creates(),
        events=[told("FailedCreatePodSandBox", "Failed to create pod sandbox: no"), told("FailedMount", VOLUME)],
        expect="FailedCreatePodSandBox: Failed to create pod sandbox: no",
    ),
    Told(
        name="what has not been repeated for long is over",
        given=creates(),
        events=[told("FailedCreatePodSandBox", NETWORK, at="2026-11-28T05:50:00Z"), told("FailedMount", VOLUME)],
        expect=f"FailedMount: {VOLUME}",
    ),
    Told(
        name="an Event of a series counts by its last",
        given=creates(),
        events=[
            told("FailedCreatePodSandBox", NETWORK, at="2026-11-28T06:00:00Z"),
            told("FailedMount", VOLUME, at="", series={"lastObservedTime": "2026-11-28T06:10:00.000000Z"}),
        ],
        expect=f"FailedMount: {VOLUME}",
    ),
    Told(
        name="a network that is not ready",
        given=creates(),
        events=[
            told(
                "NetworkNotReady",
                "network is not ready: container "
                "runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
                "message:Network plugin returns error: "
                "cni plugin not initialized",
            )
        ],
        expect="NetworkNotReady: network is not ready: container runtime network not ready: "
        "NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni "
        "plugin not initialized",
    ),
    Told(
        name="a claim for devices",
        given=creates(),
        events=[told("FailedPrepareDynamicResources", "Failed to prepare dynamic resources: no plugin")],
        expect="FailedPrepareDynamicResources: Failed to prepare dynamic resources: no plugin",
    ),
    Told(
        name="Events that only tell what has been done",
        given=creates(),
        events=[told("Scheduled", "Successfully assigned"), told("Pulled", "Container image already present", "c")],
        expect=PENDING,
    ),
    Told(name="no Events", given=creates(), events=[], expect=PENDING),
    Told(name="Events that may not be listed", given=creates(), events=None, expect=PENDING, hint=MAY_NOT_LIST_EVENTS),
    Told(
        name="an init container that hangs says so itself",
        given=initializes(),
        events=[told("FailedMount", VOLUME)],
        expect='PodPending: init container "i" has not ended yet',
    ),
    Told(
        name="a readiness probe",
        given=PROBED,
        events=[told("Unhealthy", CLOSED, "c")],
        expect='Unhealthy: container "c": Readiness probe failed: Get "http://…:9/": dial tcp …:9: connect: connection '
        "refused",
    ),
    Told(
        name="a readiness probe that is answered",
        given=PROBED,
        events=[told("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503", "c")],
        expect='Unhealthy: container "c": Readiness probe failed: HTTP probe failed with statuscode: 503',
    ),
    Told(
        name="the probe of another container", given=PROBED, events=[told("Unhealthy", CLOSED, "other")], expect=UNREADY
    ),
    Told(
        name="a probe's command, whose output may have secrets",
        given=COMMANDED,
        events=[told("Unhealthy", "Readiness probe failed: password=hunter2", "c")],
        expect='Unhealthy: container "c": Readiness probe failed: its command failed, and kubectl '
        "describe pod has what it "
        "wrote",
    ),
    Told(
        name="a probe's command that takes too long",
        given=COMMANDED,
        events=[told("Unhealthy", 'Readiness probe failed: command timed out: "check" timed out after 1s', "c")],
        expect='Unhealthy: container "c": Readiness probe failed: command timed out: "check" timed out after 1s',
    ),
    Told(
        name="a probe's command that does not exist",
        given=COMMANDED,
        events=[
            told(
                "Unhealthy",
                "Readiness probe errored and "
                f"resulted in unknown state: rpc error: code = Unknown desc = failed to exec in "
                f"container: failed to start exec "
                f'"{SANDBOX}": OCI runtime exec failed: exec failed: unable to start container '
                f'process: exec: "check": executable '
                "file not found in $PATH: unknown",
                "c",
            )
        ],
        expect='Unhealthy: container "c": Readiness probe errored and resulted in unknown state: '
        "failed to exec in container: "
        'failed to start exec "…": exec failed: exec: "check": executable file not found in $PATH',
    ),
    Told(
        name="a node that is lost",
        given=runs({**RUNNING, "ready": True}, "ContainersReady=True"),
        events=[told("NodeNotReady", "Node is not ready")],
        expect="NodeNotReady: Node is not ready",
    ),
    Told(
        name="a liveness probe that ends a container",
        given=LIVE,
        state=FAILED,
        events=[told("Unhealthy", DIED, "c"), told("Killing", KILLING, "c")],
        expect=f'{LOOPING}; Liveness probe failed: Get "http://…:9/": dial tcp …:9: connect: connection refused',
    ),
    Told(
        name="a liveness probe that has ended a run whose Events the kubelet has withheld",
        given=loops(0, "Completed", started="2026-11-28T06:20:00Z", livenessProbe=HTTP_PROBE),
        state=FAILED,
        events=[told("Unhealthy", DIED, "c"), told("Killing", KILLING, "c")],
        expect='CrashLoopBackOff: container "c" ended with exit code 0; Liveness probe failed: Get '
        '"http://…:9/": dial tcp '
        "…:9: connect: connection refused",
    ),
    Told(
        name="a startup probe that ends a container",
        given=loops(137, startupProbe=EXEC_PROBE),
        state=FAILED,
        events=[told("Killing", "Container c failed startup probe, will be restarted", "c")],
        expect=f"{LOOPING}; Startup probe failed",
    ),
    Told(
        name="a postStart hook that ends a container",
        given=loops(0, "Completed", lifecycle={"postStart": EXEC_PROBE}),
        state=FAILED,
        events=[told("FailedPostStartHook", "PostStartHook failed", "c"), told("Killing", "FailedPostStartHook", "c")],
        expect='CrashLoopBackOff: container "c" ended with exit code 0; its postStart hook failed',
    ),
    Told(
        name="a liveness probe that fails since the program crashes",
        given=loops(3, livenessProbe=HTTP_PROBE),
        state=FAILED,
        events=[told("Unhealthy", DIED, "c")],
        expect='CrashLoopBackOff: container "c" ended with exit code 3',
    ),
    Told(
        name="a liveness probe that has ended an earlier run",
        state=FAILED,
        given=loops(3, livenessProbe=HTTP_PROBE, started="2026-11-28T06:20:00Z"),
        events=[told("Unhealthy", DIED, "c"), told("Killing", KILLING, "c")],
        expect='CrashLoopBackOff: container "c" ended with exit code 3',
    ),
    Told(name="a crash is known without Events", given=LIVE, events=None, state=FAILED, expect=LOOPING),
    Told(
        name="a crash without such a probe needs none",
        given=loops(137),
        state=FAILED,
        events=[told("Unhealthy", DIED, "c"), told("Killing", KILLING, "c")],
        expect=LOOPING,
    ),
    Told(
        name="Events whose times are none",
        given=creates(),
        events=[
            told("FailedMount", VOLUME, at="yesterday"),
            {"reason": "FailedMount", "message": 5, "lastTimestamp": 5},
        ],
        expect=f"FailedMount: {VOLUME}",
    ),
]


@pytest.mark.parametrize("case", TOLD, ids=attrgetter("name"))
def test_events_say_what_a_status_does_not(case: Told) -> None:
    verdict = explain([case.given])
    assert verdict is not None
    if silent := find_silent([case.given], verdict):
        verdict = explain_by_events(verdict, silent, case.events)

    assert (verdict.state, f"{verdict.reason}: {verdict.message}") == (case.state, case.expect)
    assert verdict.hint == case.hint


def test_events_are_asked_about_a_pod_that_the_verdict_is_about() -> None:
    present, deleted, older = creates(), creates(), creates()
    present["metadata"] |= {"creationTimestamp": "2026-11-28T06:00:00Z"}
    deleted["metadata"] |= {"creationTimestamp": "2026-11-28T06:00:00Z", "deletionTimestamp": "2026-11-28T06:10:00Z"}
    older["metadata"] |= {"creationTimestamp": "2026-11-28T05:00:00Z", "labels": {"pod-template-hash": "other"}}
    pods = [deleted, older, present]
    verdict = explain(pods)
    assert verdict is not None

    assert find_silent(pods, verdict) is present


def test_the_ends_of_a_container_have_the_probe_that_has_caused_them() -> None:
    verdict = explain([LIVE])
    assert verdict is not None
    ends = ends_of([LIVE], "")

    by_events = explain_by_events(verdict, LIVE, [told("Unhealthy", DIED, "c"), told("Killing", KILLING, "c")])
    told_ends = explain_ends(ends, verdict, by_events)

    assert ends.text == 'container "c" ended with exit code 137 (SIGKILL)'
    assert told_ends.text.startswith(f"{ends.text}; Liveness probe failed: ")
    assert told_ends.count == ends.count
    assert explain_ends(ends, progressing("ErrImagePull", "other"), by_events) == ends


# What changes from one attempt to the next, or from one pod to the next.
SAME = [
    (
        f'Failed to create pod sandbox: rpc error: code = Unknown desc = "{SANDBOX}"',
        'Failed to create pod sandbox: "…"',
    ),
    ("(combined from similar events): no", "no"),
    ("read tcp 10.0.0.1:45012->10.0.0.7:443: i/o timeout", "read tcp …:443: i/o timeout"),
    ("dial tcp [2001:db8::1]:443: i/o timeout", "dial tcp …:443: i/o timeout"),
    ("pod x-76bbb5db4c-x7k2p on 10.244.0.5", "pod x-… on …"),
    (
        "/var/lib/containerd/tmpmounts/containerd-mount3921873264: no space left on device",
        "/var/lib/containerd/tmpmounts/containerd-mount…: no space left on device",
    ),
    ("open /proc/4711/ns/net at 0xc000123: after 1.003s", "open /proc/…/ns/net at …: after …"),
    ("at 2026-11-28T06:00:00.1Z", "at …"),
    ("https://user:secret@example.com/a?token=secret", "https://example.com/a?…"),
    ("image localhost/tiny@sha256:" + "0a" * 32, "image localhost/tiny@sha256:" + "0a" * 32),
    ("a\nb\x1b[31m", "a b[31m"),
    ("x" * 10_000, "x" * (QUOTE_LENGTH - 1) + "…"),
]


@pytest.mark.parametrize(("said", "expect"), SAME, ids=[expect[:40] for _, expect in SAME])
def test_what_changes_is_not_quoted(said: str, expect: str) -> None:
    assert quote(said, creates() | {"status": {"podIPs": [{"ip": "10.244.0.5"}]}}) == expect


def test_a_pod_of_countless_containers_costs_little() -> None:
    pod = waits("CreateContainerError", "x" * 5000)
    many = [{**pod["status"]["containerStatuses"][0], "name": f"c{number}"} for number in range(20_000)]
    pod["status"] |= {"containerStatuses": many, "podIPs": [{"ip": "10.244.0.5"}] * 20_000}
    pod["spec"]["containers"] = [{**CONTAINER, "name": f"c{number}"} for number in range(20_000)]
    started = time.process_time()

    verdict = assess(pod, Context())

    assert verdict.reason == "CreateContainerError"
    assert time.process_time() - started < 1


def test_the_name_of_a_pod_that_stays_is_quoted() -> None:
    pod = {"metadata": {"name": "web-0", "generateName": "web-"}}

    assert quote('persistentvolumeclaim "data-web-0" not found', pod) == 'persistentvolumeclaim "data-web-0" not found'


QUOTA = "is forbidden: exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0"
FORBIDDEN = "pods is forbidden: exceeded quota: none, requested: pods=1, limited: pods=0"
REFUSALS: list[tuple[str, list[Manifest], str]] = [
    (
        "a StatefulSet's",
        [told("FailedCreate", f'Create Pod web-0 in StatefulSet web failed error: pods "web-0" {QUOTA}')],
        FORBIDDEN,
    ),
    ("a Job's or a DaemonSet's", [told("FailedCreate", f'Error creating: pods "web-9z8y7" {QUOTA}')], FORBIDDEN),
    (
        "that of an admission",
        [told("FailedCreate", 'Error creating: admission webhook "a.example.com" denied the request: no')],
        'admission webhook "a.example.com" denied the request: no',
    ),
    (
        "that of a standard",
        [
            told(
                "FailedCreate",
                'Error creating: pods "web-9z8y7" is forbidden: violates PodSecurity '
                '"restricted:latest": allowPrivilegeEscalation != false',
            )
        ],
        'pods is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false',
    ),
    (
        "the last one",
        [
            told("FailedCreate", "Error creating: a", at="2026-11-28T06:00:00Z"),
            told("FailedCreate", "Error creating: b"),
        ],
        "b",
    ),
    (
        "one that is over",
        [told("FailedCreate", "Error creating: a"), told("SuccessfulCreate", "Created pod", at="2026-11-28T06:11:00Z")],
        "",
    ),
    ("none", [told("SuccessfulDelete", "Deleted pod")], ""),
]


@pytest.mark.parametrize(("_name", "events", "expect"), REFUSALS, ids=[name for name, _, _ in REFUSALS])
def test_a_workload_whose_pods_are_refused_says_why(_name: str, events: list[Manifest], expect: str) -> None:
    assert read_refusal(events) == (progressing("FailedCreate", expect) if expect else None)


def test_what_a_workload_lacks_stands_behind_the_longest_text() -> None:
    explanation = explain([waits("CreateContainerError", "x" * 5000)])
    assert explanation is not None

    verdict = explained(progressing("LessAvailable", "Available: 0/1"), explanation, kind="Deployment")

    assert verdict.message.endswith("x…; Available: 0/1")
    assert len(verdict.message) <= MESSAGE_LENGTH


def test_a_bare_pod_is_explained_once_by_its_events() -> None:
    pod = creates()
    verdict = assess(pod, Context())

    explanation = explain_by_events(verdict, pod, [told("FailedMount", VOLUME)])

    assert explained(verdict, explanation, kind="Deployment") == Verdict(PROGRESSING, "FailedMount", VOLUME)


def test_the_missing_right_is_told_beside_what_the_workload_lacks() -> None:
    pod = creates()
    explanation = explain_by_events(assess(pod, Context()), pod, None)

    verdict = explained(progressing("LessAvailable", "Available: 0/1"), explanation, kind="Deployment")

    assert verdict.text == f"its volumes and its network are not set up yet; Available: 0/1; {MAY_NOT_LIST_EVENTS}"
