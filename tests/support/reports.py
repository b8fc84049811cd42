"""Reports of passes for tests, successful and failed ones, and the status after them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.apply.drift import DriftedField, DriftedObject
from rukpak.controller.apply.plan import Action, Outcome, Task
from rukpak.controller.apply.targets import Target
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.resources import GroupVersionKind
from rukpak.controller.observe.health.verdict import HEALTHY, State, Verdict, aggregate
from rukpak.controller.observe.progress import Progress
from rukpak.controller.observe.records import Record
from rukpak.controller.status.report import Report
from rukpak.controller.status.summary import summarize

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
NEW, OLD = "sha256:" + "b" * 64, "sha256:" + "a" * 64
KEY = ObjectKey("", "ConfigMap", "shop", "a")
WEB = ObjectKey("apps", "Deployment", "shop", "web")
CHANGED = DriftedObject(key=KEY, fields=(DriftedField("data.color", "kubectl-edit"),))


def progress(*verdicts: tuple[ObjectKey, Verdict]) -> Progress:
    health = aggregate(verdicts)
    return Progress(health=health, shown=health, next_change=None)


def outcome(error: BundleError | None, key: ObjectKey = KEY) -> Outcome:
    target = Target(key=key, kind=GroupVersionKind("", "v1", key.kind), digest="d", carries_reference=True, manifest={})
    return Outcome(task=Task(target=target, action=Action.APPLY), error=error)


GOOD = progress((KEY, HEALTHY), (WEB, HEALTHY))
ROLLING = progress((KEY, HEALTHY), (WEB, Verdict(State.PROGRESSING, "Rolling", "1 of 3 replicas")))
PULLING = progress((WEB, Verdict(State.PROGRESSING, "ErrImagePull", 'container "web"')), (KEY, HEALTHY))
STUCK = progress((WEB, Verdict(State.PROGRESSING, "ImagePullBackOff", 'container "web"')), (KEY, HEALTHY))
CRASHING = progress((WEB, Verdict(State.FAILED, "CrashLoopBackOff", "it crashes")), (KEY, HEALTHY))
LATE = progress((WEB, Verdict(State.FAILED, "ProgressDeadlineExceeded", "Rolling: 1 of 3 replicas")))
SURPLUS = (Record(key=KEY._replace(name="old")),)
DONE = Report(wanted=NEW, revision=NEW, applied=True, progress=GOOD, managed_state="v1:sha256:" + "c" * 64)

NOT_FOUND = BundleError(Reason.NOT_FOUND, 'spec.sources[0].image.ref: no tag "1"')
INVALID = BundleError(Reason.INVALID_BUNDLE, "manifests/a.yaml: line 3: no kind")
HOOK = BundleError(Reason.WAITING_FOR_HOOK, "Job shop/a: pre-install hook is still running")
REFUSED = BundleError(Reason.REFUSED, "ConfigMap shop/a: data.a: is refused")
IMMUTABLE = BundleError(Reason.IMMUTABLE, "Job shop/b: spec.template: field is immutable")
COLLISION = BundleError(Reason.COLLISION, "ConfigMap shop/c: belongs to somebody")
UNAVAILABLE = BundleError(Reason.API_UNAVAILABLE, "ConfigMap shop/d: the API server did not answer")
HELD = BundleError(Reason.APPLYING, "APIService x: waits for what it serves: ConfigMap shop/a")


def after(report: Report, before: BundleDeployment, now: datetime) -> BundleDeployment:
    """Return a BundleDeployment as a pass leaves it."""
    return before.model_copy(update={"status": summarize(before, report, now)})
