"""What a user writes: BundleDeployment and its spec. Read this first.

The CustomResourceDefinition is generated from here (`schema.py`), and the docstrings are what `kubectl explain` shows.
Rules between fields are CEL in the schema, and the API server enforces them; reading an object here checks types,
patterns and maxima only.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, PrivateAttr

from api.v1alpha2.fields import (
    QUALIFIED_NAME,
    Api,
    Duration,
    Group,
    Kind,
    Namespace,
    ObjectNameOrEmpty,
    list_of,
    parse_duration,
    rule,
    rules,
)
from api.v1alpha2.policies import CrdUpgradeSafety, Drift, HealthCheck, IgnoreRule
from api.v1alpha2.sources import SecretReference, Source
from api.v1alpha2.status import Condition, Display, NotReady, ObjectCounts, SourcePin, Status, dump

__all__ = [
    "BundleDeployment",
    "Condition",
    "CrdUpgradeSafety",
    "Display",
    "Drift",
    "HealthCheck",
    "IgnoreRule",
    "NotReady",
    "ObjectCounts",
    "ObjectMeta",
    "OptionalKind",
    "SecretReference",
    "Source",
    "SourcePin",
    "Spec",
    "Status",
    "dump",
    "parse_duration",
]

_FORMATS = ["plain", "registry-v1", "helm"]


def _names_its_namespace(block: str) -> str:
    """Return CEL that says whether the Secret of a block of the source `s` has a namespace, if there is one."""
    auth = f"s.{block}.auth"
    given = f"(has({auth}.secret) ? has({auth}.secret.namespace) : has({auth}.namespace))"
    return f"(!has(s.{block}) || !has({auth}) || {given})"


_SECRETS_HAVE_NAMESPACES = " && ".join(_names_its_namespace(block) for block in ("image", "git", "http", "parameters"))


class OptionalKind(Api):
    """A kind that the cluster need not serve."""

    group: Group = ""
    """API group of the kind; empty: the core group."""
    kind: Kind
    """The kind."""


class Spec(Api):
    """What to install, and how to treat it."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.serviceAccountName) || self.serviceAccountName == '' || has(self.installNamespace)",
                "is required with serviceAccountName",
                ".installNamespace",
            ),
            rule(
                f"has(self.installNamespace) || self.sources.all(s, {_SECRETS_HAVE_NAMESPACES})",
                "is required, unless every auth in sources names the namespace of its Secret",
                ".installNamespace",
            ),
            rule(
                "!has(oldSelf.installNamespace)"
                " || has(self.installNamespace) && self.installNamespace == oldSelf.installNamespace",
                "cannot be changed or removed once set; make another BundleDeployment",
                ".installNamespace",
            ),
        )
    )
    paused: bool = False
    """Hands off: nothing on the cluster is changed while this is true. Health and drift stay visible in status, and a
    changed spec waits as PausedWithChanges."""
    format: Annotated[
        str,
        Field(
            min_length=1,
            max_length=317,
            json_schema_extra=rules(
                rule(
                    f"self in {_FORMATS} || self.matches(r'{QUALIFIED_NAME}')",
                    "must be plain, registry-v1, helm, or the <domain>/<name> of an installed plug-in",
                )
            ),
        ),
    ]
    """How objects are made of the content. plain: static YAML and JSON files. registry-v1: an OLM bundle. helm: a
    chart. Or the <domain>/<name> of an installed plug-in."""
    sources: Annotated[tuple[Source, ...], Field(min_length=1, max_length=32, json_schema_extra=list_of("atomic"))]
    """Where the content comes from. All sources together make one content tree, one directory per destination."""
    install_namespace: Namespace | None = None
    """Namespace of namespaced objects that name none. Created when missing, never deleted. Cannot be changed or
    removed once set. Default: the one that the bundle suggests (registry-v1), else default; status.installNamespace
    records it."""
    service_account_name: ObjectNameOrEmpty = ""
    """ServiceAccount in installNamespace that objects are applied as and Secrets are read as; namespace and account
    must exist already. Empty: the controller's own account."""
    config: dict[str, Any] = Field(default_factory=dict, max_length=64)
    """Options of the format: values and valuesFiles (helm), watchNamespace (registry-v1). Unknown keys are an error.
    No place for passwords, tokens or keys: everybody sees it who may read BundleDeployments, rukpak-view included. Put
    them into a Secret in installNamespace, and have the content name the Secret."""
    collision_protection: Literal["Prevent", "IfNoController", "None"] = "Prevent"
    """What is done with an object that exists already and is not ours. Prevent: refuse it. IfNoController: take it
    over if no controller owns it. None: take it over."""
    prune: Literal["AfterHealthy", "AfterApply", "Never"] = "AfterHealthy"
    """When the objects go that an older revision had and the new one lacks: as soon as the new revision is healthy, as
    soon as it is applied, or never. CustomResourceDefinitions and PersistentVolumeClaims stay, unless the annotation
    core.rukpak.io/prune on them is "true"."""
    deletion_policy: Literal["Delete", "Orphan"] = "Delete"
    """What becomes of the objects when the BundleDeployment is deleted. Delete: they go. Orphan: they stay and are
    released."""
    drift: Drift = Drift()
    """What is done when somebody changes a managed object."""
    optional: Annotated[
        tuple[OptionalKind, ...], Field(max_length=64, json_schema_extra=list_of("map", "group", "kind"))
    ] = ()
    """Kinds that are skipped while the cluster does not serve them. Also possible on an object, by the annotation
    core.rukpak.io/optional."""
    health_checks: Annotated[tuple[HealthCheck, ...], Field(max_length=32, json_schema_extra=list_of("atomic"))] = ()
    """How the health of kinds is judged, instead of the built-in rules for them."""
    crd_upgrade_safety: CrdUpgradeSafety = CrdUpgradeSafety()
    """What is done with a CustomResourceDefinition whose change would break its users or existing objects."""
    progress_deadline: Duration = "10m"
    """How long an object may take to become healthy; after that it counts as failed. Like 30s, 10m or 1h30m."""

    @property
    def progress_deadline_seconds(self) -> float:
        """`progress_deadline` in seconds."""
        return parse_duration(self.progress_deadline)


class ObjectMeta(Api):
    """What is read of metadata. Not part of the CRD's schema: the API server brings its own."""

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

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.spec.installNamespace) || !has(self.status) || !has(self.status.installNamespace)"
                " || self.spec.installNamespace == self.status.installNamespace",
                "must equal status.installNamespace once that is recorded: objects were put there",
                ".spec.installNamespace",
            )
        )
    )
    metadata: ObjectMeta
    spec: Spec
    """What to install, and how to treat it."""
    status: Status = Status()
    """What the controller says about it; written by the controller alone."""
    _problem: str = PrivateAttr("")

    @property
    def problem(self) -> str:
        """What of the spec cannot be read, and why; empty if all of it can. See reading.py."""
        return self._problem

    def with_problem(self, problem: str) -> BundleDeployment:
        """Return the same, of whose spec something cannot be read."""
        made = self.model_copy()
        made._problem = problem  # noqa: SLF001 - its own class
        return made
