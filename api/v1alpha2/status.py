"""`status` of a BundleDeployment: what the controller says. Its size does not grow with the size of a bundle.

Not here: how it is computed (`controller/status/summary.py`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from api.v1alpha2.fields import Api, Digest, Timestamp, list_of

CONDITION_MESSAGE_LENGTH = 1000
DISPLAY_LENGTH = 1024
REASON_LENGTH = 1024
NOT_READY_LENGTH = 4096
NAME_LENGTH = 253
NOT_READY_ITEMS = 10
WARNING_ITEMS = 20
WARNING_LENGTH = 4096

ConditionStatus = Literal["True", "False", "Unknown"]

_Count = Annotated[int, Field(ge=0)]


class Condition(Api):
    """One aspect of the state; Kubernetes' own shape."""

    type: Annotated[str, Field(min_length=1, max_length=316)]
    """Which aspect: Unpacked, Installed, Healthy, Ready, Reconciling, Stalled, Paused or Drifted."""
    status: ConditionStatus
    """True, False or Unknown."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """Generation of the spec that the condition was set for."""
    last_transition_time: Timestamp
    """When status changed last."""
    reason: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """Why, in one word; scripts may match on it."""
    message: Annotated[str, Field(max_length=32768)] = ""
    """Where, what is wrong and what to do, in one line. Equal for an equal failure."""


class SourcePin(Api):
    """What one source was resolved to. Content is fetched by this, never again by the floating name."""

    destination: Annotated[str, Field(max_length=512)] = ""
    """Directory of the content tree that the content goes to; empty: the root."""
    kind: Annotated[str, Field(max_length=317)]
    """Kind of the source."""
    resolved: Annotated[str, Field(max_length=4096)]
    """The pinned form: ref@digest, repository@commit, or the URL."""
    digest: Digest
    """Digest of the content: of the image's manifest, of the http body, or sha1:<commit>."""
    spec_digest: Digest
    """Digest of what names the content in the spec: only when this changes is the source resolved again."""
    origin: Digest = ""
    """Digest of who answered for it, and of how that was trusted: registry and repository, URL or git repository,
    certificateData, insecureSkipTLSVerify, and the Secret that auth names. Only content with the same origin is shared.
    Empty: recorded by an older release, and shared with nobody."""
    resolved_at: Timestamp
    """When the source was resolved."""
    validator: Annotated[str, Field(max_length=1024)] = ""
    """ETag or Last-Modified of an http body: it makes polling cheap."""


class AccountUsed(Api):
    """The ServiceAccount that is acted as, and its namespace: under the same names there may be others later."""

    service_account_name: Annotated[str, Field(max_length=253)]
    """Name of the account."""
    namespace_uid: Annotated[str, Field(max_length=128)]
    """UID of the install namespace."""
    service_account_uid: Annotated[str, Field(max_length=128)]
    """UID of the account."""
    generation: Annotated[int, Field(ge=0)]
    """Generation of the spec at which these were looked up last: a later one accepts others."""


class ObjectCounts(Api):
    """How many managed objects there are, by state."""

    total: _Count = 0
    """Objects of the wanted revision."""
    healthy: _Count = 0
    """Objects that are as they should be."""
    progressing: _Count = 0
    """Objects that are on their way, or missing."""
    failed: _Count = 0
    """Objects that need a change, or whose deadline has passed."""
    drifted: _Count = 0
    """Objects that somebody changed and that are not repaired."""
    retained: _Count = 0
    """Objects of an older revision that await their removal."""


class Display(Api):
    """What `kubectl get` shows."""

    revision: Annotated[str, Field(max_length=64)] = ""
    """The wanted revision, shortened."""
    objects: Annotated[str, Field(max_length=64)] = ""
    """Healthy objects of all."""
    sources: Annotated[str, Field(max_length=DISPLAY_LENGTH)] = ""
    """What the sources were resolved to, shortened."""


class NotReady(Api):
    """A managed object that is not healthy."""

    api_version: Annotated[str, Field(max_length=317)]
    """API version of the object."""
    kind: Annotated[str, Field(max_length=63)]
    """Kind of the object."""
    namespace: Annotated[str, Field(max_length=63)] = ""
    """Namespace of the object; empty if its kind has none."""
    name: Annotated[str, Field(max_length=NAME_LENGTH)]
    """Name of the object."""
    reason: Annotated[str, Field(max_length=REASON_LENGTH)]
    """Why it is not healthy, in one word."""
    message: Annotated[str, Field(max_length=NOT_READY_LENGTH)] = ""
    """Why it is not healthy, in one line."""


class Status(Api):
    """What the controller says about a BundleDeployment."""

    observed_generation: int = -1
    """Generation of the spec that this status describes; -1 until the controller has seen the object."""
    last_handled_reconcile_at: Annotated[str, Field(max_length=262144)] = ""
    """The value of the annotation core.rukpak.io/reconcile-requested-at that was obeyed last."""
    install_namespace: Annotated[str, Field(max_length=63)] = ""
    """The namespace that objects without one were put into. It stays: spec.installNamespace, if set later, must equal
    it."""
    account: AccountUsed | None = None
    """The ServiceAccount that is acted as. Another one under that name is not used until the spec changes, or the
    annotation core.rukpak.io/accepted-account names it."""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=32, json_schema_extra=list_of("map", "type"))] = ()
    """The state: Unpacked, Installed, Healthy and Ready always; Reconciling, Stalled, Paused and Drifted while they
    hold."""
    sources: Annotated[tuple[SourcePin, ...], Field(max_length=32, json_schema_extra=list_of("atomic"))] = ()
    """What the sources were resolved to."""
    revision: Digest = ""
    """The wanted revision: digest of the rendered objects."""
    installed_revision: Digest = ""
    """The revision that was last applied in full."""
    managed_state: Digest = ""
    """Digest over all managed objects as they were after the last full apply. Empty: work is left."""
    managed_kinds: Annotated[
        tuple[Annotated[str, Field(max_length=381)], ...], Field(max_length=1024, json_schema_extra=list_of("set"))
    ] = ()
    """Kinds of which there may be managed objects, as apiVersion/kind: apps/v1/Deployment, v1/ConfigMap."""
    skipped_kinds: Annotated[
        tuple[Annotated[str, Field(max_length=381)], ...], Field(max_length=1024, json_schema_extra=list_of("set"))
    ] = ()
    """Kinds of optional objects that are skipped, since the cluster does not serve them, as apiVersion/kind. They are
    applied when it does."""
    objects: ObjectCounts = ObjectCounts()
    """How many managed objects there are, by state."""
    display: Display = Display()
    """What `kubectl get` shows."""
    not_ready: Annotated[
        tuple[NotReady, ...], Field(max_length=NOT_READY_ITEMS, json_schema_extra=list_of("atomic"))
    ] = ()
    """Managed objects that are not healthy, the worst first."""
    not_ready_truncated: bool = False
    """Whether there are more of them than notReady lists."""
    warnings: Annotated[
        tuple[Annotated[str, Field(max_length=WARNING_LENGTH)], ...],
        Field(max_length=WARNING_ITEMS, json_schema_extra=list_of("atomic")),
    ] = ()
    """What the API server warned of during the last apply."""

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of a type; None if there is none."""
        return next((each for each in self.conditions if each.type == kind), None)


def dump(status: Status) -> dict[str, Any]:
    """Return a status as JSON, without what is empty (None, '', [] and {}): two are equal if nothing changed."""
    kept: dict[str, Any] = _without_empty(status.model_dump(mode="json", by_alias=True))
    return kept


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        members = {key: _without_empty(member) for key, member in value.items()}
        return {key: member for key, member in members.items() if member not in (None, "", [], {})}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value
