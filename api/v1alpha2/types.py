"""What a user writes: BundleDeployment and its spec. Read this first.

The CustomResourceDefinition is generated from here (`schema.py`); `kubectl explain` shows the docstrings. Rules between
fields are CEL expressions in the schema, which the API server enforces. Reading an object here checks only types,
patterns and maxima.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr

from rukpak.api.v1alpha2.fields import (
    Api,
    AtomicList,
    ConfigReference,
    DependencyReference,
    DeploymentReference,
    Duration,
    Group,
    Kind,
    Namespace,
    ObjectNameOrEmpty,
    RevisionDigest,
    list_of,
    model_rules,
    parse_duration,
    plug_in_kind,
    rule,
    rules,
)
from rukpak.api.v1alpha2.policies import CrdUpgradeSafety, Drift, HealthCheck, OnFailure
from rukpak.api.v1alpha2.processors import Processor
from rukpak.api.v1alpha2.sources import Source
from rukpak.api.v1alpha2.status import SourcePin, Status

__all__ = ["BundleDeployment", "ObjectMeta", "OptionalKind", "Source", "SourcePin", "Spec", "Status"]

_FORMATS = ["plain", "registry-v1", "helm"]


def _names_its_namespace(block: str) -> str:
    auth = f"s.{block}.auth"
    given = f"(has({auth}.secret) ? has({auth}.secret.namespace) : has({auth}.namespace))"
    return f"(!has(s.{block}) || !has({auth}) || {given})"


def _has_namespaces(verify: str, kind: str) -> str:
    if kind == "git":
        return f"(!has({verify}) || has({verify}.secret.__namespace__))"
    cosign = f"{verify}.cosign"
    keys = f"!has({cosign}.keys) || {cosign}.keys.all(k, !has(k.secret) || has(k.secret.__namespace__))"
    found = f"(!has({cosign}) || ({keys}) && !has({cosign}.trustedRoot))"
    if kind == "chart":
        provenance = f"{verify}.provenance"
        found += f" && (!has({provenance}) || has({provenance}.secret.__namespace__))"
    return f"(!has({verify}) || {found})"


_BLOCKS_WITH_SECRETS = ("image", "git", "http", "chart", "parameters")
_SECRETS_HAVE_NAMESPACES = " && ".join(_names_its_namespace(block) for block in _BLOCKS_WITH_SECRETS)
_KEYS_HAVE_NAMESPACES = " && ".join(
    f"(!has(s.{block}) || {_has_namespaces(f's.{block}.verify', block)})" for block in ("image", "git", "http", "chart")
)


class OptionalKind(Api):
    """A kind that the cluster does not have to serve."""

    group: Group = ""
    """API group of the kind. Empty: the core group."""
    kind: Kind
    """The kind."""


class Spec(Api):
    """What to install and how to manage it."""

    model_config = model_rules(
        rule(
            "!has(self.serviceAccountName) || self.serviceAccountName == '' || has(self.installNamespace)",
            "is required with serviceAccountName",
            ".installNamespace",
        ),
        rule(
            f"has(self.installNamespace) || self.sources.all(s, {_SECRETS_HAVE_NAMESPACES})",
            "is required unless every auth in sources sets the namespace of its Secret",
            ".installNamespace",
        ),
        rule(
            f"has(self.installNamespace) || self.sources.all(s, {_KEYS_HAVE_NAMESPACES})",
            "is required unless every verify in sources sets the namespaces of its Secrets and names no ConfigMap",
            ".installNamespace",
        ),
        rule(
            "has(self.installNamespace) || !self.sources.exists(s, has(s.configMap))",
            "is required for sources of kind configMap",
            ".installNamespace",
        ),
        rule(
            "!has(self.configFrom) || size(self.configFrom) == 0 || has(self.installNamespace)",
            "is required with configFrom",
            ".installNamespace",
        ),
        rule(
            "!has(self.onFailure) || !has(self.onFailure.action) || self.onFailure.action != 'RollBack'"
            " || !has(self.revisionHistoryLimit) || self.revisionHistoryLimit > 0",
            "must be at least 1 with onFailure.action RollBack",
            ".revisionHistoryLimit",
        ),
        rule(
            "!has(oldSelf.installNamespace)"
            " || has(self.installNamespace) && self.installNamespace == oldSelf.installNamespace",
            "cannot be changed or removed once set; create another BundleDeployment",
            ".installNamespace",
        ),
    )
    paused: bool = False
    """While true, nothing on the cluster is changed. Status continues to report health and drift; a changed spec is
    reported as PausedWithChanges and applied when this is false."""
    format: Annotated[str, plug_in_kind(_FORMATS)]
    """How the content is rendered to objects. plain: static YAML and JSON files. registry-v1: an OLM bundle. helm: a
    Helm chart. Otherwise the <domain>/<name> of an installed plug-in."""
    sources: Annotated[AtomicList[Source], Field(min_length=1, max_length=32)]
    """Where the content is fetched from. All sources are merged into one content tree, each at its destination."""
    install_namespace: Namespace | None = None
    """Namespace for namespaced objects that do not set one. Created if missing, never deleted. Cannot be changed or
    removed once set. Default: the namespace that the bundle suggests (registry-v1), otherwise default. Recorded in
    status.installNamespace."""
    service_account_name: ObjectNameOrEmpty = ""
    """ServiceAccount in installNamespace that is used to apply objects and to read Secrets. The namespace and the
    account must already exist. Empty: the controller's own account."""
    config: dict[str, Any] = Field(default_factory=dict, max_length=64)
    """Options of the format, such as values and valuesFiles (helm: paths in the content, or patterns such as
    values-*.yaml), watchNamespace (registry-v1) or recursive (plain:
    whether to read subdirectories). Unknown keys are an error. Never put passwords, tokens or keys here: everyone who
    can read BundleDeployments can see them, including through the role rukpak-view. Store them in a Secret in
    installNamespace that the content refers to."""
    config_from: Annotated[AtomicList[ConfigReference], Field(max_length=16)] = ()
    """Parts of config from ConfigMaps and Secrets in installNamespace, such as passwords. They are merged in this
    order, as Helm merges values, and config over them; for helm they are values. A change causes a new rendering. They
    are read with serviceAccountName, which needs get, list and watch. Values from Secrets never appear in status,
    Events or logs: a bundle that makes them names of objects is refused, unless it contains the same text. But the
    digest of the rendered objects does: use secrets that cannot be guessed."""
    processors: Annotated[
        AtomicList[Processor],
        Field(max_length=32),
        # A later one could change config that the digests do not cover then, or remove the annotations.
        rules(
            rule(
                "self.all(each, each.kind != 'rollouts') || self[size(self) - 1].kind == 'rollouts'"
                " && self.exists_one(each, each.kind == 'rollouts')",
                "only the last processor may be of the kind rollouts; move it to the end",
            )
        ),
    ] = ()
    """Changes of the rendered objects before they are applied, such as patches and other registries for images, in
    order."""
    allow_downgrade: bool = False
    """Whether a range of versions may be resolved to a lower version than the installed one, for example because a tag
    was deleted. Otherwise that is refused (Downgrade)."""
    collision_protection: Literal["Prevent", "IfNoController", "None"] = "Prevent"
    """What to do if an object already exists and does not belong to this BundleDeployment. Prevent: refuse it.
    IfNoController: adopt it if no controller owns it. None: adopt it."""
    prune: Literal["AfterHealthy", "AfterApply", "Never"] = "AfterHealthy"
    """When to delete objects of older revisions that the new revision does not contain. AfterHealthy: once the new
    revision is healthy. AfterApply: once it is applied. Never: keep them. CustomResourceDefinitions and
    PersistentVolumeClaims are kept unless they have the annotation core.rukpak.io/prune: "true"."""
    deletion_policy: Literal["Delete", "Orphan"] = "Delete"
    """What to do with the objects when the BundleDeployment is deleted. Delete: delete them, except for
    CustomResourceDefinitions that still have custom resources of others, Namespaces that still have other objects, and
    PersistentVolumeClaims without the annotation core.rukpak.io/prune: "true". Orphan: keep all of them. What is kept
    has no owner any more."""
    drift: Drift = Drift()
    """What to do when another client changes a managed object."""
    optional: Annotated[tuple[OptionalKind, ...], Field(max_length=64), list_of("map", "group", "kind")] = ()
    """Kinds whose objects are skipped while the cluster does not serve them. A single object is made optional with the
    annotation core.rukpak.io/optional: "true"."""
    health_checks: Annotated[AtomicList[HealthCheck], Field(max_length=32)] = ()
    """How to assess the health of the given kinds, in place of the built-in rules."""
    crd_upgrade_safety: CrdUpgradeSafety = CrdUpgradeSafety()
    """What to do with a change of a CustomResourceDefinition that would break its users or existing objects."""
    progress_deadline: Duration = "10m"
    """How long an object may take to become healthy, and a hook to succeed, before it counts as failed, such as 30s,
    10m or 1h30m."""
    revision_history_limit: Annotated[int, Field(ge=0, le=50)] = 5
    """How many older revisions are kept in addition to the installed and the desired one. status.history lists them.
    With onFailure.action RollBack, at least one."""
    on_failure: OnFailure = OnFailure()
    """What to do when an upgrade has failed for good: an object or a hook has failed, an object did not become healthy
    within progressDeadline, or the API server has refused one for that long. An upgrade is done once it has been
    healthy and progressDeadline has passed: if the same container of a new pod ends three times before, it has failed
    after all."""
    pinned_revision: RevisionDigest = ""
    """The revision to apply instead of the one that the sources lead to, out of status.history. While it is set, no
    source is asked, nothing is rendered, and Ready is about this revision. Ready is False (PinnedWithChanges) once
    sources, config or another field that leads to a revision is changed."""
    # Without a default in the schema: admission policies see what a user has set.
    approval: Literal["Automatic", "NewPermissions", "Manual"] | None = None
    """Which revisions are applied without approval. Automatic: all. NewPermissions: those that may do nothing, once
    they run, that the installed one may not do; the first one always waits. Manual: none. A revision waits until
    approvedRevision names it, and status shows it in pending. What is installed is kept and repaired meanwhile.
    Default: Automatic."""
    approved_revision: RevisionDigest = ""
    """The one revision that may be applied although it needs approval. It may be set before the controller knows that
    revision: rukpak render -o revision prints the digest."""
    approved_service_account_name: ObjectNameOrEmpty | None = None
    """The ServiceAccount that may apply approvedRevision; empty: the account of the controller. Default: the one that
    serviceAccountName names when the controller first sees the approval. Must be set to approve another
    serviceAccountName for a revision that is approved already."""
    denied_revision: RevisionDigest = ""
    """A revision that is not applied, whatever approval and approvedRevision say. It has no effect on one that is
    installed or being installed."""

    depends_on: Annotated[AtomicList[DependencyReference], Field(max_length=32)] = ()
    """BundleDeployments that must be Ready before a new revision is applied, such as the one that installs the
    CustomResourceDefinitions or the database that this bundle uses; and other objects that must be healthy, which are
    read as the ServiceAccount. Meanwhile the new revision is fetched and rendered, and what is installed is repaired.
    Deleting one of them is not prevented, and changes nothing here."""
    take_over: Annotated[tuple[DeploymentReference, ...], Field(max_length=8), list_of("map", "name")] = ()
    """BundleDeployments whose objects this one takes over, in place, as far as its own bundle contains them: no object
    is deleted or recreated, and fields that this bundle does not set are removed. While one of them is not paused, its
    objects are a Collision. It counts them as handed over, does not take them back when it is resumed, and when it is
    deleted, only its other objects are deleted. If it is paused then, the deletion waits until all are taken over. Its
    ServiceAccount, too, needs the rights to apply them. One whose revisions need approval gives nothing."""

    @property
    def requires_approval(self) -> bool:
        """Whether a new revision waits for approval."""
        return self.approval not in (None, "Automatic")

    @property
    def may_hold_revisions(self) -> bool:
        """Whether a new revision may have to wait in the revision store, for approval or other BundleDeployments."""
        return self.requires_approval or bool(self.depends_on)

    @property
    def kept_revisions(self) -> int:
        """How many older revisions are kept: one at least while an upgrade may be rolled back to it."""
        return max(self.revision_history_limit, 1 if self.on_failure.action == "RollBack" else 0)

    @property
    def required_deployments(self) -> tuple[str, ...]:
        """The names of the BundleDeployments in `depends_on`."""
        return tuple(each.name for each in self.depends_on if not each.kind)

    @property
    def progress_deadline_seconds(self) -> float:
        """`progress_deadline` in seconds."""
        return parse_duration(self.progress_deadline)


class ObjectMeta(Api):
    """The metadata that is read. Not part of the CRD's schema: the API server has its own."""

    name: str
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None


class BundleDeployment(Api):
    """Installs a bundle of Kubernetes objects on the cluster and keeps it installed."""

    model_config = model_rules(
        rule(
            "!has(self.spec.installNamespace) || !has(self.status) || !has(self.status.installNamespace)"
            " || self.spec.installNamespace == self.status.installNamespace",
            "must equal status.installNamespace once that is recorded, because objects were installed there",
            ".spec.installNamespace",
        ),
        rule(
            "!has(self.spec.takeOver) || self.spec.takeOver.all(giver, giver.name != self.metadata.name)",
            "must not name this BundleDeployment itself",
            ".spec.takeOver",
        ),
    )
    metadata: ObjectMeta
    spec: Spec
    """What to install and how to manage it."""
    status: Status = Status()
    """What the controller reports. Only the controller writes it."""
    _problem: str = PrivateAttr("")
    _status_problem: str = PrivateAttr("")

    @property
    def problem(self) -> str:
        """Which field of the spec cannot be read, and why; empty if all can. See reading.py."""
        return self._problem

    @property
    def status_problem(self) -> str:
        """Which field of the status cannot be read, and why; empty if all can. See reading.py."""
        return self._status_problem

    def with_problems(self, problem: str, status_problem: str) -> BundleDeployment:
        """Return a copy that records what of its spec and of its status cannot be read."""
        copy = self.model_copy()
        copy._problem, copy._status_problem = problem, status_problem  # noqa: SLF001 - its own class
        return copy
