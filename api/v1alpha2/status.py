"""`status` of a BundleDeployment: what the controller reports. Its size does not grow with the size of a bundle.

Only the controller writes it, so objects in it are atomic: managedFields need no entry for each of their members, which
the API server would read and write at each change. Not here: how it is computed (`controller/status/summary.py`).
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from rukpak.api.bounds import HIGHEST_WAVE
from rukpak.api.v1alpha2.fields import Api, Atomic, AtomicList, Digest, SetList, Timestamp, list_of

CONDITION_MESSAGE_LENGTH = 1000
DISPLAY_LENGTH = 1024
REASON_LENGTH = 1024
NOT_READY_LENGTH = 4096
NAME_LENGTH = 253
NOT_READY_ITEMS = 10
STARTED_ITEMS = 256
STARTED_LENGTH = 16
STRAY_ITEMS = 20
FAILING_ITEMS = 20
LEFT_ITEMS = 20
LEFT_FIELDS = 16
LEFT_STEPS = 64
LEFT_PATH_LENGTH = 512
"""Of all steps of a path together."""
LEFT_VALUE_LENGTH = 61
WARNING_ITEMS = 20
WARNING_LENGTH = 4096
PROBLEM_ITEMS = 10
PERMISSION_ITEMS = 20
PERMISSION_LENGTH = 1000
HISTORY_ITEMS = 52
"""The most that `spec.revisionHistoryLimit` allows, and the installed and the desired revision."""
HISTORY_LENGTH = 256
BUNDLE_LENGTH = 128

ConditionStatus = Literal["True", "False", "Unknown"]

_Count = Annotated[int, Field(ge=0)]


class Condition(Atomic):
    """One aspect of the state, in the usual form of Kubernetes."""

    type: Annotated[str, Field(min_length=1, max_length=316)]
    """Which aspect: Unpacked, Installed, Healthy, Ready, Reconciling, Stalled, Paused, Drifted, Pinned or
    RolledBack."""
    status: ConditionStatus
    """True, False or Unknown."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """Generation of the spec that the condition was set for."""
    last_transition_time: Timestamp
    """When status last changed."""
    reason: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """The cause, in one word. Scripts may match on it."""
    message: Annotated[str, Field(max_length=32768)] = ""
    """Where, what is wrong and what to do, in one line. The same failure always has the same message."""


class Verified(Atomic):
    """Who has signed what a source was resolved to."""

    by: Annotated[str, Field(max_length=63)]
    """Kind of the signature: cosign, pgp, ssh or provenance."""
    key: Annotated[str, Field(max_length=512)] = ""
    """The key that has signed: sha256:… of a public key of cosign, otherwise the fingerprint that its tools show.
    Empty: it was signed without a key."""
    identity: Annotated[str, Field(max_length=4096)] = ""
    """Who has signed, as the certificate, the key or allowed_signers names the signer."""
    issuer: Annotated[str, Field(max_length=2048)] = ""
    """Who has vouched for identity, if it was signed without a key."""
    at: Timestamp
    """When the signature was checked."""


class SourcePin(Api):
    """What a source was resolved to. Content is fetched by this, not by the floating reference."""

    destination: Annotated[str, Field(max_length=512)] = ""
    """Directory of the content tree with the content. Empty: the root."""
    kind: Annotated[str, Field(max_length=317)]
    """Kind of the source."""
    resolved: Annotated[str, Field(max_length=4096)]
    """The pinned reference: ref@digest, repository@commit, or the URL; of a range of versions ref:tag@digest or
    repository@tag@commit; of a chart repository/name:version@digest."""
    version: Annotated[str, Field(max_length=256)] = ""
    """The tag, or the version of a chart, that a range of versions was resolved to. Empty: the spec has no range."""
    reference: Annotated[str, Field(max_length=512)] = ""
    """The tag, branch, version or name that was resolved to digest. Empty: the spec has a digest, a commit or a URL."""
    digest: Digest
    """Digest of the content: of the image manifest, of the http body, of the packaged chart, or sha1:<commit>."""
    spec_digest: Digest
    """Digest of the fields of the spec that identify the content. The source is re-resolved when it changes."""
    origin: Annotated[str, Field(min_length=1, max_length=160)]
    """Digest of the server that answered and of how it was trusted: registry and repository, URL or git repository,
    certificateData, insecureSkipTLSVerify, and the name of the Secret in auth. Content is shared only between sources
    of the same origin."""
    auth_digest: Digest = ""
    """Digest of the UIDs and versions of the Secrets that the server was asked with: of auth, or the pull Secrets of
    the ServiceAccount for this registry. Content is shared only between sources that have the same. Empty: it was asked
    without a Secret."""
    resolved_at: Timestamp
    """When the source was resolved."""
    validator: Annotated[str, Field(max_length=1024)] = ""
    """ETag or Last-Modified of an http body, which makes polling cheap."""
    verified: Verified | None = None
    """Who has signed the content, if verify asks for a signature."""
    verified_version: Annotated[str, Field(max_length=256)] = ""
    """The version that the signed content says it is: of an image its annotation org.opencontainers.image.version, of a
    chart in a registry that of its config. Empty: it was not looked for, or there is none."""
    verify_digest: Digest = ""
    """Digest of the verify that was passed: the signature of the same content is checked again when it changes. Empty:
    the content was not checked."""
    keys_digest: Digest = ""
    """Digest of the UIDs and versions of the Secrets and ConfigMaps that verify named: a poll checks the signature
    again when they have changed."""


class AccountUsed(Atomic):
    """The ServiceAccount in use and its namespace, by UID, because others may later have the same names."""

    service_account_name: Annotated[str, Field(max_length=253)]
    """Name of the ServiceAccount."""
    namespace_uid: Annotated[str, Field(max_length=128)]
    """UID of the install namespace."""
    service_account_uid: Annotated[str, Field(max_length=128)]
    """UID of the ServiceAccount."""
    generation: Annotated[int, Field(ge=0)]
    """Generation of the spec for which the UIDs were last looked up. A later generation accepts new ones."""


class ObjectCounts(Atomic):
    """Number of managed objects by state."""

    total: _Count = 0
    """Objects of the desired revision."""
    healthy: _Count = 0
    """Objects that are healthy."""
    progressing: _Count = 0
    """Objects that are not healthy yet, or missing."""
    failed: _Count = 0
    """Objects that have failed or exceeded their progress deadline."""
    drifted: _Count = 0
    """Objects that another client changed and that are not repaired."""
    retained: _Count = 0
    """Objects of older revisions that have not been deleted yet."""
    strays: _Count = 0
    """Objects that are marked as owned by the BundleDeployment but part of no revision, so that they are neither
    changed nor deleted. total does not count them."""
    handed_over: _Count = 0
    """Objects that another BundleDeployment has taken over (spec.takeOver). While paused, total does not count them."""


class Display(Atomic):
    """What `kubectl get` shows."""

    revision: Annotated[str, Field(max_length=64)] = ""
    """The desired revision, shortened."""
    objects: Annotated[str, Field(max_length=64)] = ""
    """Number of healthy objects and of all objects."""
    sources: Annotated[str, Field(max_length=DISPLAY_LENGTH)] = ""
    """What the sources of the installed revision were resolved to, shortened; of the desired one before the first
    installation."""


class NotReady(Api):
    """A managed object that is not healthy."""

    api_version: Annotated[str, Field(max_length=317)]
    """API version of the object."""
    kind: Annotated[str, Field(max_length=63)]
    """Kind of the object."""
    namespace: Annotated[str, Field(max_length=63)] = ""
    """Namespace of the object. Empty: it is cluster-scoped."""
    name: Annotated[str, Field(max_length=NAME_LENGTH)]
    """Name of the object."""
    reason: Annotated[str, Field(max_length=REASON_LENGTH)]
    """Why it is not healthy, in one word."""
    message: Annotated[str, Field(max_length=NOT_READY_LENGTH)] = ""
    """Why it is not healthy, in one line."""


class _Named(Atomic):
    group: Annotated[str, Field(max_length=253)] = ""
    """API group of the object. Empty: the core group."""
    kind: Annotated[str, Field(max_length=63)]
    """Kind of the object."""
    namespace: Annotated[str, Field(max_length=63)] = ""
    """Namespace of the object. Empty: it is cluster-scoped."""
    name: Annotated[str, Field(max_length=NAME_LENGTH)]
    """Name of the object."""


class Stray(_Named):
    """An object that is marked as owned by the BundleDeployment but part of no revision."""


def _check_step(step: str) -> str:
    kind, _, rest = step.partition(":")
    if kind not in ("f", "k", "v") or (kind != "f" and isinstance(json.loads(rest), dict) != (kind == "k")):
        raise ValueError("no step of metadata.managedFields")
    return step


class LeftField(Api):
    """A field that no revision and no client sets."""

    path: Annotated[
        AtomicList[Annotated[str, Field(max_length=LEFT_PATH_LENGTH), AfterValidator(_check_step)]],
        Field(max_length=LEFT_STEPS),
    ]
    """Its path, in steps as in metadata.managedFields: f:spec, f:ports, k:{"port":80}."""
    value: Annotated[str, Field(max_length=LEFT_VALUE_LENGTH)] | None = None
    """Its value, shortened. Absent: it is a map, or confidential."""


class Leftover(_Named):
    """An object with fields that an earlier revision or client has set, and nobody sets any more."""

    fields: Annotated[AtomicList[LeftField], Field(max_length=LEFT_FIELDS)]
    """The first of these fields."""
    remedy: Annotated[str, Field(max_length=256)] = ""
    """What to do about them."""


class Changes(Atomic):
    """Number of objects that a revision would change, compared with the installed one."""

    create: _Count = 0
    """Objects that only the new revision contains."""
    change: _Count = 0
    """Objects that are different in the new revision."""
    delete: _Count = 0
    """Objects that only the installed revision contains and that are pruned, without those that are kept."""
    recreate: _Count = 0
    """Those to change that are deleted and created again if an immutable field differs, since their annotation
    core.rukpak.io/recreate says so."""


class NewPermissions(Atomic):
    """What a revision may do once it runs, and the installed one may not do."""

    digest: Digest = ""
    """Digest of all that the revision may do: equal for revisions that may do the same."""
    added: Annotated[
        AtomicList[Annotated[str, Field(max_length=PERMISSION_LENGTH)]], Field(max_length=PERMISSION_ITEMS)
    ] = ()
    """What is new, the most dangerous first; before the first installation everything."""
    truncated: bool = False
    """Whether added is incomplete."""


class Pending(Atomic):
    """A revision that waits for approval."""

    revision: Digest
    """Its digest: set spec.approvedRevision to it to approve it, or spec.deniedRevision to deny it."""
    service_account_name: Annotated[str, Field(max_length=253)] = ""
    """The ServiceAccount that would apply it. Empty: the account of the controller."""
    since: Timestamp
    """When it started to wait."""
    changes: Changes = Changes()
    """What it would change."""
    permissions: NewPermissions = NewPermissions()
    """What it may do once it runs, and the installed one may not do."""
    problems: Annotated[
        AtomicList[Annotated[str, Field(max_length=CONDITION_MESSAGE_LENGTH)]], Field(max_length=PROBLEM_ITEMS)
    ] = ()
    """What would prevent its installation: missing permissions of the ServiceAccount, unsafe upgrades of
    CustomResourceDefinitions."""
    sources: Annotated[AtomicList[SourcePin], Field(max_length=32)] = ()
    """What its sources were resolved to."""


class HistoryEntry(Atomic):
    """A revision that is or was applied."""

    revision: Digest
    """Its digest."""
    bundle: Annotated[str, Field(max_length=BUNDLE_LENGTH)] = ""
    """What its bundle calls itself: name and version of a chart, name of a ClusterServiceVersion."""
    sources: Annotated[str, Field(max_length=HISTORY_LENGTH)] = ""
    """What its sources were resolved to, shortened."""
    started_at: Timestamp | None = None
    """When its first object was about to be applied. Absent: not known."""
    installed_at: Timestamp | None = None
    """When all its objects had been applied. Absent: never, or not known."""
    outcome: Literal["Healthy", "Failed", "Superseded", "RolledBack"] | None = None
    """Healthy: all its objects became healthy. Failed: it could not be applied, an object failed, or a container of a
    new pod ended three times within spec.progressDeadline, also after it was Healthy. Superseded: another revision
    replaced it before that was known. RolledBack: an older revision replaced it. Absent while it is not known."""
    message: Annotated[str, Field(max_length=HISTORY_LENGTH)] = ""
    """Why it failed or was rolled back, or what it was waiting for when another one replaced it."""


class Pinned(Atomic):
    """The pinned revision, and what the spec said when it was pinned."""

    revision: Digest
    """The revision that spec.pinnedRevision names."""
    content: Digest
    """Digest of the fields of the spec that lead to a revision, when it was pinned. If they change, Ready is False."""


class Rollback(Atomic):
    """An upgrade that has failed, and the revision that replaces it."""

    from_revision: Digest
    """The revision that has failed."""
    to_revision: Digest
    """The revision that is applied instead."""
    reason: Annotated[str, Field(max_length=REASON_LENGTH)]
    """Why it has failed, in one word."""
    message: Annotated[str, Field(max_length=CONDITION_MESSAGE_LENGTH)] = ""
    """Why it has failed, in one line."""
    generation: Annotated[int, Field(ge=0)]
    """Generation of the spec that led to the failed revision. Another one ends the rollback."""
    pins: Digest
    """Digest of the pins that led to it. Others end the rollback."""


class Wave(Atomic):
    """How far a revision whose objects are in several waves has been applied."""

    revision: Digest
    """The revision."""
    number: Annotated[int, Field(ge=-HIGHEST_WAVE, le=HIGHEST_WAVE)]
    """The wave that is being applied. Lower ones were applied and healthy; they hold up nothing any more. Objects of
    higher ones wait."""
    since: Timestamp
    """Since when it is being applied."""


class LookedUp(Api):
    """An object, or a list of them, that a chart has looked up."""

    api_version: Annotated[str, Field(max_length=317)]
    """As in the template of the chart."""
    kind: Annotated[str, Field(max_length=63)]
    """As in the template of the chart."""
    namespace: Annotated[str, Field(max_length=63)] = ""
    """Absent for cluster-scoped kinds, and for a list of all namespaces."""
    name: Annotated[str, Field(max_length=253)] = ""
    """Absent for a list."""
    resource_version: Annotated[str, Field(max_length=64)] = ""
    """The version that was read; absent if the object did not exist."""


class Status(Api):
    """What the controller reports about a BundleDeployment."""

    observed_generation: int = -1
    """Generation of the spec that this status describes. -1: the controller has not seen the object yet."""
    last_handled_reconcile_at: Annotated[str, Field(max_length=262144)] = ""
    """The last value of the annotation core.rukpak.io/reconcile-requested-at that was handled."""
    install_namespace: Annotated[str, Field(max_length=63)] = ""
    """The namespace of objects that do not set one. It never changes; if spec.installNamespace is set later, it must be
    the same."""
    account: AccountUsed | None = None
    """The ServiceAccount in use. If it is recreated, the new one is not used until the spec changes or the annotation
    core.rukpak.io/accepted-account names it."""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=32), list_of("map", "type")] = ()
    """The state. Unpacked, Installed, Healthy and Ready are always set; Reconciling, Stalled, Paused, Drifted,
    Pinned and RolledBack only while they are True."""
    sources: Annotated[AtomicList[SourcePin], Field(max_length=32)] = ()
    """What the sources were resolved to: the content of the desired revision, unless that is pinned or an upgrade was
    rolled back."""
    installed_sources: Annotated[AtomicList[SourcePin], Field(max_length=32)] = ()
    """What the sources of the installed revision were resolved to."""
    revision: Digest = ""
    """The desired revision: the digest of the rendered objects."""
    installed_revision: Digest = ""
    """The last revision whose objects were all applied."""
    looked_up: Annotated[AtomicList[LookedUp], Field(max_length=64)] = ()
    """What the chart of the revision has looked up (lookup) when it was rendered; it is read again only for another
    rendering, which rukpak reconcile asks for."""
    pending: Pending | None = None
    """The revision that waits for approval; absent if none does. revision is the last one that did not have to wait."""
    history: Annotated[AtomicList[HistoryEntry], Field(max_length=HISTORY_ITEMS)] = ()
    """The revisions that are kept, the one that was applied last first: the desired one, the installed one, and as many
    older ones as spec.revisionHistoryLimit says."""
    pinned: Pinned | None = None
    """The revision that spec.pinnedRevision names; absent if it names none."""
    wave: Wave | None = None
    """The wave that is being applied; absent unless a revision with several of them is."""
    rollback: Rollback | None = None
    """The upgrade that was rolled back; absent once the spec or the pins of the sources have changed."""
    managed_state: Digest = ""
    """Digest of all managed objects as of the last full apply. Empty: there is work left to do."""
    managed_kinds: Annotated[SetList[Annotated[str, Field(max_length=381)]], Field(max_length=1024)] = ()
    """Kinds that managed objects may have, as apiVersion/kind: apps/v1/Deployment, v1/ConfigMap."""
    skipped_kinds: Annotated[SetList[Annotated[str, Field(max_length=381)]], Field(max_length=1024)] = ()
    """Kinds of optional objects that are skipped because the cluster does not serve them, as apiVersion/kind. They are
    applied as soon as it does."""
    started_jobs: Annotated[
        SetList[Annotated[str, Field(max_length=STARTED_LENGTH)]], Field(max_length=STARTED_ITEMS)
    ] = ()
    """Digests, shortened, of the Jobs with spec.ttlSecondsAfterFinished that have been created as the desired revision
    has them. Once their TTL has removed them, they are not run again."""
    objects: ObjectCounts = ObjectCounts()
    """Number of managed objects by state."""
    display: Display = Display()
    """What `kubectl get` shows."""
    not_ready: Annotated[AtomicList[NotReady], Field(max_length=NOT_READY_ITEMS)] = ()
    """Managed objects that are not healthy, the most severe first."""
    not_ready_truncated: bool = False
    """Whether notReady is incomplete."""
    strays: Annotated[AtomicList[Stray], Field(max_length=STRAY_ITEMS)] = ()
    """The first of the objects that are marked as owned by the BundleDeployment but part of no revision; objects.strays
    counts all. `rukpak prune` deletes them."""
    failing_groups: Annotated[AtomicList[Annotated[str, Field(max_length=253)]], Field(max_length=FAILING_ITEMS)] = ()
    """The first API groups that failed discovery when an object was last applied, and still do. warnings names them,
    too."""
    leftovers: Annotated[AtomicList[Leftover], Field(max_length=LEFT_ITEMS)] = ()
    """The first objects with fields that an earlier revision or client has set, and nobody sets any more. warnings has
    them, too."""
    warnings: Annotated[
        AtomicList[Annotated[str, Field(max_length=WARNING_LENGTH)]], Field(max_length=WARNING_ITEMS)
    ] = ()
    """Warnings of the API server and the controller from the last apply."""

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of a type, or None."""
        return next((each for each in self.conditions if each.type == kind), None)


def dump(status: Status) -> dict[str, Any]:
    """Return a status as JSON without empty values (None, '', [] and {}), so that equal statuses have equal JSON."""
    found: dict[str, Any] = _without_empty(status.model_dump(mode="json", by_alias=True))
    return found


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        members = {key: _without_empty(member) for key, member in value.items()}
        return {key: member for key, member in members.items() if member not in (None, "", [], {})}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value
