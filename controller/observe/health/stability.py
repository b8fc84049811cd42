"""When a verdict about what was just applied counts: once it has held. Pure, but for what `Stability` remembers.

A workload is available as soon as its containers have started. Where not every container has a readiness probe, that
says nothing about the next second: the pods must run for a while. Whether they did is told by one LIST of them then
(explanations.py), since pods are not watched. A container that ends later, within `spec.progressDeadline` of the
rollout, makes its workload unhealthy again.

A status that is older than the spec is no evidence about that spec.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from rukpak.controller.content.digests import digest_of_json
from rukpak.controller.formats.objects import BUILT_IN_GROUPS
from rukpak.controller.observe.health.explain import CRASH_LOOP, CRASHES, NO_ENDS, OF_PODS, Ends, ends_of
from rukpak.controller.observe.health.verdict import Manifest, State, Verdict, failed, kind_of, progressing
from rukpak.controller.untrusted import field, integer, mapping, mappings, text

HOLD_SECONDS = 5.0
"""How long a workload without readiness probes must be available without a break."""
RECOVERY_SECONDS = 60.0
"""The same, for any workload, after a container has ended with an error."""
REPORT_SECONDS = 15.0
"""After a change of its spec, how long an object without observedGeneration has to report a new status."""
ENDED = "ContainerEnded"
_POD = ("", "Pod")
_STABILIZING = progressing(
    "Stabilizing",
    f"available, but not every container has a readiness probe: healthy once this has held for {HOLD_SECONDS:.0f} s",
)
_INTERRUPTED = progressing("Stabilizing", "it was not available for a moment; why is being asked")
_RECOVERING = f"healthy once it is available for {RECOVERY_SECONDS:.0f} s without another end"
OUTDATED = progressing(
    "StatusOutdated",
    "its status is older than its spec: it counts once its controller has written it again, or after "
    f"{REPORT_SECONDS:.0f} s",
)
_LISTED = ("autoscaling", "HorizontalPodAutoscaler"), ("apiregistration.k8s.io", "APIService")
"""Built-in kinds whose conditions do not tell which spec they are about."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """What tells whether the pods of a workload are new, and how long they must be available."""

    template: str
    """Digest of the template of its pods."""
    seconds: float
    """For which it must be available; `minReadySeconds` counts."""
    probed: bool
    """Whether every container has a readiness probe, so that being available is enough."""
    ends: Ends | None = None
    """Ends of the containers of a Pod. None: the pods of a workload must be listed."""


def rollout_of(manifest: Manifest, applied_at: str) -> Rollout | None:
    """Return the rollout of a workload; None if it has no pods, or none that have to stay.

    The pods of a paused Deployment are older ones, and a Pod that has succeeded is done.

    Args:
        manifest: read in full.
        applied_at: when it was applied last, as the API server writes times.
    """
    group, kind = kind_of(manifest)
    if (group, kind) == _POD:
        spec, is_own = mapping(manifest, "spec"), True
    elif (group, kind) in OF_PODS and kind != "Job":
        spec, is_own = mapping(manifest, "spec", "template", "spec"), False
    else:
        return None
    is_done = is_own and text(manifest, "status", "phase") == "Succeeded"
    wanted = ("status", "desiredNumberScheduled") if kind == "DaemonSet" else ("spec", "replicas")
    if is_done or field(manifest, "spec", "paused") is True or integer(manifest, *wanted) == 0:
        return None
    waited = integer(manifest, "spec", "minReadySeconds") or 0
    sidecars = [each for each in mappings(spec, "initContainers") if each.get("restartPolicy") == "Always"]
    probed = all(mapping(each, "readinessProbe") for each in (*mappings(spec, "containers"), *sidecars))
    return Rollout(
        template=digest_of_json(_identity(manifest) if is_own else field(manifest, "spec", "template")),
        seconds=0.0 if probed else max(HOLD_SECONDS - waited, 0.0),
        probed=probed,
        ends=ends_of([manifest], applied_at) if is_own else None,
    )


def _identity(pod: Manifest) -> list[object]:
    images = [text(each, "image") for key in ("initContainers", "containers") for each in mappings(pod, "spec", key)]
    return [text(pod, "metadata", "uid"), *images]


@dataclass(frozen=True, slots=True)
class Reported:
    """What tells whether the status of an object is about its spec."""

    spec: str
    """Digest of all that somebody wants."""
    status: str
    """Digest of the status."""
    at: str
    """The latest time that the status has, as the API server writes times; empty for none."""


def reported_of(manifest: Manifest, *, checked: bool) -> Reported | None:
    """Return what tells whether a status is about the spec; None if the object says that itself, or nothing is read.

    Args:
        manifest: read in full.
        checked: whether the health checks of a user read it.
    """
    group, kind = kind_of(manifest)
    status, conditions = field(manifest, "status"), [*mappings(manifest, "status", "conditions")]
    if (group in BUILT_IN_GROUPS and (group, kind) not in _LISTED) or not (status and (conditions or checked)):
        return None
    observed = [integer(each, "observedGeneration") for each in (status, *conditions)]
    if any(each is not None for each in observed):
        return None
    written = {key: value for key, value in manifest.items() if key not in ("metadata", "status")}
    entries = mappings(manifest, "metadata", "managedFields")
    times = [text(each, "time") for each in entries if each.get("subresource") == "status"]
    times += [text(each, "lastTransitionTime") for each in conditions]
    return Reported(spec=digest_of_json(written), status=digest_of_json(status), at=max(times, default=""))


def is_outdated(before: Reported | None, now: Reported | None, applied_at: str, *, was_outdated: bool) -> bool:
    """Return whether a status is older than the spec beside it.

    Args:
        before: of the state of the object before; None: not known, as after a restart.
        now: of its state now; None: it needs nothing that tells this.
        applied_at: when it was applied last, as the API server writes times; empty for never.
        was_outdated: whether it was in the state before.
    """
    if now is None or before is None:
        return now is not None and now.at < applied_at
    return before.status == now.status and (was_outdated or before.spec != now.spec)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a LIST of the pods of a workload has told, or a GET of a Namespace."""

    asked: float
    """When, in monotonic seconds."""
    verdict: Verdict | None = None
    """Why it is not healthy; None if that was not found."""
    ends: Ends = NO_ENDS
    """Ends of the containers of its new pods."""


@dataclass(slots=True)
class Stability:
    """Whether the rollout of one workload has held; used by one pass at a time.

    Args:
        template: of the pods; another template is another rollout.
        seen: when this process saw it first, in monotonic seconds: older answers are about other pods.
        began: when the rollout began, in monotonic seconds.
        applied_at: when its template was applied, as the API server writes times: older pods are no evidence.
        steady: whether it has held already.
        falls: `Record.falls` of the workload.
    """

    template: str
    seen: float
    began: float
    applied_at: str
    steady: bool
    falls: int = 0
    available: float | None = None
    """Since when it has been available without a break; None: it is not."""
    ends: Ends = NO_ENDS
    asks: float = inf
    """From this moment on its pods are asked about, and older answers do not count; `inf`: they need not be."""

    @property
    def crashes(self) -> bool:
        """Whether the rollout has failed: a container does not stay."""
        return self.ends.count >= CRASHES and not self.steady

    @property
    def has_ended(self) -> bool:
        """Whether a container has ended with an error, and the workload has not been available for long since."""
        return self.ends.count > 0 and not self.steady

    def note_falls(self, falls: int, now: float, deadline: float) -> None:
        """Ask about the pods if the workload was not available for a moment; see `judge`."""
        if falls != self.falls:
            self.falls, self.available = falls, None
            if not self.steady or self._is_young(now, deadline):
                self.asks = now

    def judge(self, verdict: Verdict, rollout: Rollout, answer: Answer | None, now: float, deadline: float) -> Verdict:
        """Return what a verdict on the workload amounts to.

        Args:
            verdict: on the workload as it is in this instant.
            rollout: of the same state.
            answer: about its pods, the newest.
            now: monotonic seconds.
            deadline: seconds after its begin for which a container that ends counts against a rollout.
        """
        answer = answer if answer and answer.asked >= self.seen else None
        watched = not self.steady or self._is_young(now, deadline)
        found = rollout.ends or (answer.ends if answer else NO_ENDS)
        if watched and found.count > self.ends.count:
            self.ends, self.steady, self.available = found, False, None
        if verdict.state is not State.HEALTHY:
            self.available = None
            return self._describe_ends(verdict.message) or verdict
        if self.available is None:
            self.available = now
        is_asking = self.asks <= now and not (answer and answer.asked >= self.asks)
        if self.steady and is_asking:
            return _INTERRUPTED
        if self.steady:
            self.asks = inf
            return verdict
        until = self._until(rollout)
        is_told = rollout.ends is not None or (rollout.probed and not self.ends.count)
        if now >= until and (is_told or (answer and answer.asked >= until)):
            self.steady, self.asks = True, inf
            return verdict
        if not is_asking:
            self.asks = until
        return self._describe_ends(_RECOVERING) or _STABILIZING

    def may_end_again(self, now: float, deadline: float) -> bool:
        """Whether a container has ended, and its next end would be the fault of the rollout."""
        return self.has_ended and not self.crashes and self._is_young(now, deadline)

    def asks_since(self, now: float, deadline: float) -> float | None:
        """Return since when an answer about its pods counts, in monotonic seconds; None if none is needed now.

        Nothing but their pods tells how often containers end in a workload that does not become available in between.
        """
        if self.asks <= now:
            return self.asks
        return -inf if self.available is None and self.may_end_again(now, deadline) else None

    def _is_young(self, now: float, deadline: float) -> bool:
        return now < self.began + deadline

    def seconds_to_change(self, rollout: Rollout, now: float) -> float | None:
        """Return the seconds until it may have held; None if no time tells."""
        if self.steady or self.available is None:
            return None
        return max(self._until(rollout) - now, 0.0)

    def _until(self, rollout: Rollout) -> float:
        return (self.available or 0.0) + (RECOVERY_SECONDS if self.ends.count else rollout.seconds)

    def _describe_ends(self, what: str) -> Verdict | None:
        if self.crashes:
            return failed(CRASH_LOOP, self.ends.text)
        return progressing(ENDED, f"{self.ends.text}; {what}") if self.has_ended else None
