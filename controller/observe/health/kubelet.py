"""What a kubelet, the scheduler and the controllers of workloads say about a pod, in words that stay the same. Pure.

`quote` leaves out what differs between two equal failures: names of pods, sandboxes and containers, addresses, times,
attempts, and amounts in use. What a program has written is quoted only if its author chose the text for others to read
(`terminationMessagePath`), not if it comes from a log, a postStart hook or the command of a probe, since that may show
values of Secrets. So may the name of a program that cannot be started, if it contains a variable.

Not here: which pod of a workload and which container of a pod is the worst (explain.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from signal import Signals
from typing import NamedTuple

from rukpak.api.bounds import read_time
from rukpak.controller.observe.health.verdict import Manifest, Subject, Verdict, joined, progressing, stable
from rukpak.controller.untrusted import integer, mapping, mappings, text, texts

QUOTE_LENGTH = 200
"""Characters of a quotation, which leaves room for the container, the image, and what the workload lacks."""
IMAGE_REASONS = frozenset(
    {
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
"""Reasons of a container that waits for its image."""
HINDRANCES = (
    "FailedScheduling",
    "NetworkNotReady",
    "FailedCreatePodContainer",
    "Failed",
    "FailedAttachVolume",
    "FailedMapVolume",
    "FailedMount",
    "FailedPrepareDynamicResources",
    "FailedPodSandBoxStatus",
    "FailedCreatePodSandBox",
    "NodeNotReady",
)
"""Reasons of Events about what keeps a pod from running, in the order of these steps."""
MOST_CONTAINERS = 64
"""Containers of each kind of a pod that are looked at: whoever writes a pod decides how many it has."""
_READ = 2048
"""Characters of a text that are read."""
_ADDRESSES = 2  # of a pod: one for each family
# They ended before their program ran.
_NEVER_RAN = frozenset({"StartError", "ContainerCannotRun"})
_USUAL_ENDS = frozenset({"", "Error", "Completed"})
# A program that a signal has ended has this exit code plus the number of the signal.
_SIGNALED = 128
# How programs end that are told to by SIGTERM, and then by SIGKILL.
_KILLED_CODES = frozenset({0, _SIGNALED + Signals.SIGTERM, _SIGNALED + Signals.SIGKILL})
_ADDRESS = r"(?:\d+\.\d+\.\d+\.\d+|\[[0-9a-fA-F:.%\w]*\])"
_UNSTABLE = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # `dial tcp 10.0.0.7:443: …`, `read tcp 10.0.0.1:45012->10.0.0.7:443: …`: a name may have several addresses.
        (rf"\b((?:dial|read|write) (?:tcp|udp)[46]? )(?:{_ADDRESS}:\d+->)?{_ADDRESS}(?=:\d)", r"\1…"),
        (r"(?<![0-9a-f])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])", "…"),  # a UID
        (r"(?<!sha256:)(?<!sha512:)(?<![0-9a-f])[0-9a-f]{32,}", "…"),  # a sandbox or container, but not an image
        (r"\bkube-api-access-[a-z0-9]{5}\b", "kube-api-access-…"),
        (r"\b0x[0-9a-f]+\b", "…"),
        (r"(?<=/proc/)\d+|(?<=mount)\d{6,}\b", "…"),
        (r"\b\d+\.\d+(?:ns|µs|us|ms|s|m|h)\b", "…"),
        (r"(?<=://)[^\s/@\"']+@", ""),
        (r"(?<=\?)[^\s\"'?=]+=[^\s\"']*", "…"),  # of an address, which may be signed
    )
]
_SUPERFLUOUS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"^\(combined from similar events\): ", ""),
        (r"\brpc error: code = \w+ desc = ", ""),
        (r'^Back-off pulling image "[^"]*"(?:: \w+)?(?:: )?', ""),
        (r'(?:[Ff]ailed to pull (?:and unpack )?image|failed to resolve reference) "[^"]*": ', ""),
        (r"failed to (?:create|start) (?:containerd|shim) task: |(?:OCI runtime|runc) \w+ failed: ", ""),
        (r"unable to start container process: |container_linux\.go:\d+: |starting container process caused: ", ""),
        (r": unknown$", ""),
        (r' \(pod: "[^"]*", container: [^)]*\)', ""),
        (r"^Pod was rejected: ", ""),
        # `Node didn't have enough resource: cpu, requested: 500, used: 300, capacity: 400`
        (r"(?<=, )used: \d+, (?=capacity: )", ""),
        # `The node was low on resource: memory. Threshold quantity: 100Mi, available: 95Mi. Container c was using …`
        (r"Threshold quantity: \S+, available: \S+\. ", ""),
        (
            r" was using \S+, request is (\S+), has larger consumption of \S+\.",
            r" was using more than it requests, \1.",
        ),
        # `create Pod web-0 in StatefulSet web failed error: …`, `Error creating: …`
        (r"^[Cc]reate Pod \S+ in StatefulSet \S+ failed error: |^Error creating: ", ""),
        (r"Mounting command: .*? Output: ", ""),
        # `pods "web-9z8y7" is forbidden: exceeded quota: …`: a pod that never existed, with each attempt another.
        (r'\bpods "[^"]*" is (forbidden|invalid)', r"pods is \1"),
        (r", used: .*?(?=, limited: |$)", ""),
    )
]
_IMAGE = re.compile(r'\bimage "([^"]+)"')
_PER_NODES = re.compile(r"^\d+/\d+ nodes are available: ?")
_COUNT = re.compile(r"(?:^|, )\d+ (?=\D)")
# `0/3 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: …`
_NO_PREEMPTION = re.compile(r"\. ?(?:(?:[a-z ]+,)* ?preemption: .*|not found)$")
_UNBOUND = "unbound immediate PersistentVolumeClaims"
_PROBE = re.compile(r"(Liveness|Readiness|Startup) probe (failed|errored)\b")
_PROBES = {"Liveness": "livenessProbe", "Readiness": "readinessProbe", "Startup": "startupProbe"}
_KILLED = re.compile(r" failed (liveness|startup) probe\b")
_FAILED_HOOK = "its postStart hook failed"
# The kubelet's own words, unlike what the command has written.
_TIMED_OUT = re.compile(r"command (?:\S+ )?timed out")
# What is said of all volumes of a pod together.
_UNSPECIFIC = "Unable to attach or mount volumes"
_LATELY_SECONDS = 300.0
"""How much older than the last one an Event may be to count: the kubelet repeats each within two minutes or so."""


class Container(NamedTuple):
    """A container of a pod."""

    pod: Manifest
    label: str
    """How messages name it: `init container "c"`."""
    spec: Manifest
    """As the spec of the pod has it; empty if it has none of that name."""
    status: Manifest
    is_init: bool
    is_sidecar: bool
    """Whether it is an init container that goes on running beside the others."""

    @property
    def end(self) -> Manifest:
        """How it has ended last; empty if it has not ended."""
        return mapping(self.status, "state", "terminated") or mapping(self.status, "lastState", "terminated")

    @property
    def may_be_killed(self) -> bool:
        """Whether it has a probe or a hook that ends it when it fails."""
        hook = mapping(self.spec, "lifecycle", "postStart")
        return "livenessProbe" in self.spec or "startupProbe" in self.spec or bool(hook)


def containers_of(pod: Manifest) -> list[Container]:
    """Return the containers of a pod that have a status, in the order in which they start."""
    found = []
    for kind in ("initContainer", "container"):
        specs = {text(each, "name"): each for each in islice(mappings(pod, "spec", f"{kind}s"), MOST_CONTAINERS)}
        for status in islice(mappings(pod, "status", f"{kind}Statuses"), MOST_CONTAINERS):
            name, is_init = text(status, "name"), kind == "initContainer"
            spec = specs.get(name, {})
            is_sidecar = is_init and text(spec, "restartPolicy") == "Always"
            label = f'{"sidecar" if is_sidecar else "init container" if is_init else "container"} "{name}"'
            found.append(Container(pod, label, spec, status, is_init, is_sidecar))
    return found


def quote(said: str, pod: Manifest) -> str:
    """Return what Kubernetes says about a pod, without what changes, in at most `QUOTE_LENGTH` characters."""
    said = " ".join(said[:_READ].split())
    for pattern, replacement in _SUPERFLUOUS:
        said = pattern.sub(replacement, said)
    return quote_program(said.rstrip(" ."), pod)


def quote_program(said: str, pod: Manifest) -> str:
    """Return what a program has written to be read; see `quote`."""
    said = said[:_READ]
    for name, replacement in _names_of(pod):
        said = said.replace(name, replacement)
    for pattern, replacement in _UNSTABLE:
        said = pattern.sub(replacement, said)
    said = stable(said)
    return said if len(said) <= QUOTE_LENGTH else f"{said[: QUOTE_LENGTH - 1]}…"


def _names_of(pod: Manifest) -> Iterator[tuple[str, str]]:
    name, generated = text(pod, "metadata", "name"), text(pod, "metadata", "generateName")
    suffix = name.removeprefix(generated) if generated else ""
    if suffix not in ("", name) and not suffix.isdigit():  # a StatefulSet's stay
        template = text(pod, "metadata", "labels", "pod-template-hash")
        yield name, f"{generated.removesuffix(f'{template}-')}…"
    addresses = (text(each, "ip") for each in islice(mappings(pod, "status", "podIPs"), _ADDRESSES))
    for address in filter(None, (text(pod, "status", "podIP"), *addresses)):
        yield (f"[{address}]" if ":" in address else address), "…"


# containers


def describe_waiting(container: Container) -> str:
    """Return why a container cannot be started now."""
    pod, label, status = container.pod, container.label, container.status
    reason, said = text(status, "state", "waiting", "reason"), text(status, "state", "waiting", "message")
    if reason == "PostStartHookError":  # the text contains what the hook has written
        return f"{label}: {_FAILED_HOOK}"
    if reason in IMAGE_REASONS:
        named = _IMAGE.search(said[:_READ])  # it may be that of a volume
        image = stable(named[1] if named else text(container.spec, "image") or text(status, "image"))
        said = quote(said, pod)
        return joined(label, "" if image in said else f'image "{image}"', said)
    return joined(label, "" if _may_reveal(container, reason, said) else quote(said, pod))


def describe_end(container: Container) -> str:
    """Return how a container has ended last, with what it has written; only its label if it has not ended."""
    pod, label, end = container.pod, container.label, container.end
    if not end:
        return label
    reason = text(end, "reason")
    if reason in _NEVER_RAN:
        said = text(end, "message")
        return joined(f"{label} cannot be started", "" if _may_reveal(container, reason, said) else quote(said, pod))
    # The kubelet may take the end of the log instead. Nobody chose that text for others to read.
    is_log = text(container.spec, "terminationMessagePolicy") == "FallbackToLogsOnError"
    said = "" if is_log else quote_program(text(end, "message"), pod)
    code = integer(end, "exitCode") or 0
    how = _describe_code(container, reason, integer(end, "signal") or code - _SIGNALED)
    return joined(f"{label} ended with exit code {code}{how and f' ({how})'}", said)


def _describe_code(container: Container, reason: str, signal: int) -> str:
    if reason == "OOMKilled":
        limit = stable(text(container.spec, "resources", "limits", "memory"))
        return f"OOMKilled, its memory limit is {limit}" if limit else "OOMKilled, it has no memory limit"
    if reason not in _USUAL_ENDS:
        return quote(reason, {})
    return Signals(signal).name if signal in {each.value for each in Signals} else ""


def _may_reveal(container: Container, reason: str, said: str) -> bool:
    # A Secret may stand for a variable there.
    if reason == "CreateContainerConfigError":
        return "ubPath" in said and any("subPathExpr" in each for each in mappings(container.spec, "volumeMounts"))
    return any("$(" in word for key in ("command", "args") for word in texts(container.spec, key)[:1])


# pods


def describe_unscheduled(pod: Manifest, said: str) -> str:
    """Return why no node can run a pod, from the message of its condition PodScheduled. Counts of nodes change."""
    if _UNBOUND in said:
        claims = [stable(text(each, "persistentVolumeClaim", "claimName")) for each in mappings(pod, "spec", "volumes")]
        names = ", ".join(f'"{claim}"' for claim in claims if claim) or "of a volume"
        one = "PersistentVolumeClaim" if names.count('"') <= len('""') else "one of the PersistentVolumeClaims"
        return f"no node can run the pod: {quote(f'{one} {names} is not bound', pod)}"
    said = _NO_PREEMPTION.sub("", _PER_NODES.sub("", " ".join(said[:_READ].split())))
    causes = sorted({each.strip(" .") for each in _COUNT.split(said)} - {""})
    return joined("no node can run the pod", quote(", ".join(causes), pod))


def describe_pending(subject: Subject) -> tuple[str, bool]:
    """Return what a pod waits for before its containers run, and whether its status says why."""
    pod = subject.manifest
    if not (text(pod, "spec", "nodeName") or subject.holds("PodScheduled")):
        scheduler = stable(text(pod, "spec", "schedulerName") or "default-scheduler")
        claims = (text(each, "resourceClaimName") for each in mappings(pod, "spec", "resourceClaims"))
        needs = ", ".join(f'ResourceClaim "{stable(claim)}"' for claim in claims if claim)
        return f'the scheduler "{scheduler}" has not chosen a node yet{needs and f"; the pod needs {needs}"}', False
    first = next((each for each in containers_of(pod) if each.is_init and not _is_done(each)), None)
    if first and mapping(first.status, "state", "terminated"):
        return describe_end(first), True
    if first and "running" in mapping(first.status, "state"):
        probe = _pending_probe(first)
        return (f"{first.label}: {probe}", False) if probe else (f"{first.label} has not ended yet", True)
    if subject.denied("PodReadyToStartContainers"):
        return "its volumes and its network are not set up yet", False
    return "containers are not running yet", False


def _is_done(container: Container) -> bool:
    if container.is_sidecar:
        return container.status.get("started") is True
    return mapping(container.status, "state", "terminated").get("exitCode") == 0


def describe_unready(subject: Subject) -> tuple[str, bool]:
    """Return why a pod that runs is not ready, and whether its status says why."""
    pod = subject.manifest
    unready = unready_container(pod)
    if unready:
        label, status = unready.label, unready.status
        probe = "" if mapping(status, "state", "terminated") else _pending_probe(unready)
        ended = describe_end(unready)
        if ended != label:
            return "; ".join(filter(None, (ended, probe))), not (probe or unready.may_be_killed)
        waiting = text(status, "state", "waiting", "reason")
        is_silent = bool(probe) or "waiting" in mapping(status, "state")
        return f"{label}: {probe or quote(waiting, pod) or 'not ready yet'}", not is_silent
    ready = subject.denied("Ready")
    if ready and ready.reason == "ReadinessGatesNotReady":
        return quote(ready.message, pod), True
    if subject.holds("ContainersReady"):
        return "its containers are ready, but its node does not say so of the pod", False
    return "", False


def unready_container(pod: Manifest) -> Container | None:
    """Return the first container that is not ready; None if all are."""
    return next((each for each in containers_of(pod) if each.status.get("ready") is not True), None)


def _pending_probe(container: Container) -> str:
    if container.status.get("started") is not True and "startupProbe" in container.spec:
        return "its startup probe has not succeeded yet"
    return "its readiness probe has not succeeded yet" if "readinessProbe" in container.spec else ""


# Events


def read_hindrance(pod: Manifest, events: Iterable[Manifest]) -> Verdict | None:
    """Return what keeps a pod from running; None if no Event says so."""
    # An Event about a container repeats its status.
    found = (event for event in events if not text(event, "involvedObject", "fieldPath"))
    lately = _latest(event for event in found if text(event, "reason") in HINDRANCES)
    told = (progressing(text(event, "reason"), quote(text(event, "message"), pod)) for event in lately)
    return min((each for each in told if each.message), key=_severity, default=None)


def _severity(told: Verdict) -> tuple[bool, int, str]:
    # A later step shows that those before it are done.
    return told.message.startswith(_UNSPECIFIC), -HINDRANCES.index(told.reason), told.message


def read_probe(container: Container, events: Iterable[Manifest]) -> Verdict | None:
    """Return how the probes of a container fail; None if no Event says so."""
    about = (event for event in events if _is_about(event, container))
    probes = _latest(event for event in about if text(event, "reason") in ("Unhealthy", "ProbeWarning"))
    told = min(filter(None, (_read_probe(container, text(event, "message")) for event in probes)), default="")
    return progressing("Unhealthy", f"{container.label}: {told}") if told else None


def _read_probe(container: Container, said: str) -> str:
    probe = _PROBE.search(said[:_READ])
    if probe is None:
        return ""
    kind, outcome = probe.groups()
    command = mapping(container.spec, _PROBES[kind], "exec")
    if command and outcome == "failed" and not _TIMED_OUT.search(said[:_READ]):
        return f"{kind} probe failed: its command failed, and kubectl describe pod has what it wrote"
    return quote(said, container.pod)


def read_killing(container: Container, events: Iterable[Manifest]) -> str:
    """Return why the kubelet has ended a container last; empty if no Event says that it did."""
    end = container.end
    found = [event for event in events if _is_about(event, container)]
    # A kubelet soon reports no more than one Event about a pod in five minutes.
    is_usual = integer(end, "exitCode") in _KILLED_CODES
    lately = [event for event in found if is_usual or _time_of(event) >= (read_time(text(end, "startedAt")) or 0.0)]
    if any(text(event, "reason") == "FailedPostStartHook" for event in lately):
        return _FAILED_HOOK
    killed = (_KILLED.search(text(event, "message")[:_READ]) for event in lately)
    kind = next((match[1].capitalize() for match in killed if match), "")
    said = (text(event, "message") for event in lately if text(event, "reason") == "Unhealthy")
    told = min((_read_probe(container, each) for each in said if each.startswith(f"{kind} ")), default="")
    return (told or f"{kind} probe failed") if kind else ""


def read_refusal(events: Iterable[Manifest]) -> Verdict | None:
    """Return why the pods of a workload are not created; None if no Event about it says so, or some were since."""
    said = sorted(events, key=_time_of)
    last = next((each for each in reversed(said) if text(each, "reason") in ("FailedCreate", "SuccessfulCreate")), {})
    if text(last, "reason") != "FailedCreate":
        return None
    return progressing("FailedCreate", quote(text(last, "message"), {}))


def _is_about(event: Manifest, container: Container) -> bool:
    name = text(container.status, "name")
    return text(event, "involvedObject", "fieldPath").endswith(f"ontainers{{{name}}}")


def _latest(events: Iterable[Manifest]) -> list[Manifest]:
    # What older Events tell is over.
    found = list(events)
    last = max(map(_time_of, found), default=0.0)
    return [event for event in found if last - _time_of(event) <= _LATELY_SECONDS]


def _time_of(event: Manifest) -> float:
    times = (text(event, "series", "lastObservedTime"), text(event, "lastTimestamp"), text(event, "eventTime"))
    return max(read_time(time) or 0.0 for time in (*times, text(event, "metadata", "creationTimestamp")))
