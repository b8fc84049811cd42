"""`spec.processors[]`: changes of the rendered objects before they are applied.

Not here: what a kind does with its block (`controller/processors`) and its other checks (`Processor.validate` there).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from rukpak.api.v1alpha2.fields import (
    AnyObjectName,
    Api,
    AtomicList,
    FieldPathPattern,
    Group,
    Kind,
    Namespace,
    SetList,
    block_rule,
    model_rules,
    parameters_rule,
    plug_in_kind,
    rule,
)

_WITH_BLOCK = ("patch", "images", "metadata")
_KINDS = (*_WITH_BLOCK, "rollouts")

_POINTER = r"^(/([^/~]|~[01])*)*$"
_IMAGE_PART = r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$"
_MARKS = Field(max_length=64)

LabelSelector = Annotated[str, Field(min_length=1, max_length=1024)]


class PatchTarget(Api):
    """Selects objects: those that match all fields that are set."""

    model_config = model_rules(
        rule(
            "has(self.group) || has(self.kind) || has(self.name) || has(self.__namespace__)"
            " || has(self.labelSelector) || has(self.annotationSelector)",
            "set at least one of group, kind, name, namespace, labelSelector and annotationSelector",
        )
    )
    group: Group | None = None
    """API group of the objects; empty: the core group. Default: any."""
    kind: Kind | None = None
    """Kind of the objects. Default: any."""
    name: AnyObjectName | None = None
    """Name of a single object. Default: any."""
    namespace: Namespace | None = None
    """Namespace of the objects; those that set none are in the install namespace. Default: any."""
    label_selector: LabelSelector | None = None
    """Labels of the objects, as kubectl get --selector takes them: app=web,tier!=cache or app in (web, api). Default:
    any."""
    annotation_selector: LabelSelector | None = None
    """Annotations of the objects, in the same form: example.com/tier=db, or example.com/tier for any value. Default:
    any."""


class JsonPatchOperation(Api):
    """One operation of a JSON patch (RFC 6902)."""

    model_config = model_rules(
        rule(
            "has(self.from) == (self.op in ['move', 'copy'])",
            "must be set for move and copy, and only then",
            ".from",
        )
    )
    op: Literal["add", "remove", "replace", "move", "copy", "test"]
    """What to do. test: fail unless the value is there."""
    path: Annotated[str, Field(max_length=1024, pattern=_POINTER)]
    """JSON pointer to the field, such as /spec/template/spec/containers/0/image; ~1 stands for /, and ~0 for ~."""
    from_: Annotated[str, Field(max_length=1024, pattern=_POINTER)] | None = None
    """JSON pointer to the field that is moved or copied."""
    value: Annotated[Any, Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})] = None
    """The value to add, to replace with, or to test for."""


class Patch(Api):
    """A patch of some objects."""

    model_config = model_rules(
        rule(
            "(has(self.merge) ? 1 : 0) + (has(self.strategic) ? 1 : 0) + (has(self.json) ? 1 : 0) == 1",
            "set exactly one of merge, strategic and json",
        )
    )
    target: PatchTarget
    """The objects to patch."""
    merge: Annotated[dict[str, Any], _MARKS] | None = None
    """A JSON merge patch (RFC 7386): null removes a field, and lists are replaced."""
    strategic: Annotated[dict[str, Any], _MARKS] | None = None
    """A strategic merge patch, as kubectl patch applies it: lists such as containers are merged by their keys. Only
    for kinds of Kubernetes, not for custom resources."""
    json_patch: Annotated[AtomicList[JsonPatchOperation], Field(min_length=1, max_length=64)] | None = None
    """A JSON patch (RFC 6902): operations that are applied in order."""
    optional: bool = False
    """Whether the target may match no object. Otherwise that is an error."""


class ImageRule(Api):
    """Replaces the beginning of image names, their tag or their digest."""

    model_config = model_rules(
        rule("has(self.to) || has(self.tag) || has(self.digest)", "set at least one of to, tag and digest"),
        rule("!(has(self.tag) && has(self.digest))", "must not be set together with tag", ".digest"),
    )
    from_: Annotated[str, Field(min_length=1, max_length=512, pattern=_IMAGE_PART)]
    """Beginning of the image names: a registry or repositories below a path if it ends with "/" (quay.io/), otherwise
    a single repository (quay.io/foo/bar). Names without a registry are at docker.io."""
    to: Annotated[str, Field(min_length=1, max_length=512, pattern=_IMAGE_PART)] | None = None
    """What replaces it; it ends with "/" if from does. Default: the beginning is kept."""
    tag: Annotated[str, Field(max_length=128, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")] | None = None
    """Tag of the images, in place of their tag and digest. Default: both are kept."""
    digest: Annotated[str, Field(max_length=71, pattern=r"^sha256:[0-9a-f]{64}$")] | None = None
    """Digest of the images, in place of their tag and digest. Default: both are kept."""
    optional: bool = False
    """Whether it may match no image, if from does not end with "/". Otherwise that is a warning."""


class ImageFields(Api):
    """Fields of a custom resource that contain images."""

    group: Group = ""
    """API group of the objects; empty: the core group."""
    kind: Kind
    """Kind of the objects."""
    paths: Annotated[SetList[FieldPathPattern], Field(min_length=1, max_length=32)]
    """Dotted paths of the fields, such as spec.image; a path through a list means each of its items."""


class MetadataChanges(Api):
    """Labels and annotations to set on all objects."""

    model_config = model_rules(rule("has(self.labels) || has(self.annotations)", "set labels or annotations"))
    labels: Annotated[dict[str, Annotated[str, Field(max_length=63)]], _MARKS] | None = None
    """Labels to set. Selectors are never changed."""
    annotations: Annotated[dict[str, Annotated[str, Field(max_length=65536)]], _MARKS] | None = None
    """Annotations to set."""
    pod_templates: bool = False
    """Whether to set them on the pod templates of workloads, too."""


class Rollouts(Api):
    """Replaces pods when ConfigMaps and Secrets of the bundle that they read change, by a digest in their template."""

    kinds: Annotated[
        SetList[Literal["CronJob", "DaemonSet", "Deployment", "Job", "StatefulSet"]], Field(min_length=1, max_length=5)
    ] = ("CronJob", "DaemonSet", "Deployment", "StatefulSet")
    """Kinds of the workloads. Of Jobs, only those with the annotation core.rukpak.io/recreate: "true", since pod
    templates of Jobs are immutable; they run again when their config changes."""


class Processor(Api):
    """A change of the rendered objects."""

    model_config = model_rules(
        *map(block_rule, _WITH_BLOCK),
        rule("!has(self.rollouts) || self.kind == 'rollouts'", "is only for the kind rollouts", ".rollouts"),
        rule("!has(self.imageFields) || self.kind == 'images'", "is only for the kind images", ".imageFields"),
        parameters_rule(_KINDS),
    )
    kind: Annotated[str, plug_in_kind(_KINDS)]
    """Kind of the processor: patch, images, metadata, rollouts, or the <domain>/<name> of an installed plug-in. Of
    patch, images, metadata and rollouts, only the field of this name may be set; all but rollouts must be."""
    patch: Patch | None = None
    """The patch to apply, if kind is patch."""
    images: Annotated[AtomicList[ImageRule], Field(min_length=1, max_length=64)] | None = None
    """Which images to replace, if kind is images, in all pods and pod templates of the kinds of Kubernetes. Of several
    rules that match, the one with the longest from is used."""
    image_fields: Annotated[AtomicList[ImageFields], Field(min_length=1, max_length=32)] | None = None
    """Where custom resources have images, if kind is images."""
    metadata: MetadataChanges | None = None
    """The labels and annotations to set, if kind is metadata."""
    rollouts: Rollouts | None = None
    """Which workloads to roll out when config changes, if kind is rollouts."""
    parameters: Annotated[dict[str, Any], _MARKS] | None = None
    """Parameters of a kind that is not built in, as its plug-in documents them."""

    @property
    def block(self) -> str:
        """The name of the field that contains `parameters_json`, with a leading dot; '' if that is several fields."""
        return "" if self.kind == "images" else f".{self.kind}" if self.kind in _KINDS else ".parameters"

    @property
    def free_form(self) -> list[Any]:
        """The values in it whose form is not checked, which may be nested to any depth."""
        operations = (self.patch.json_patch or ()) if self.patch else ()
        patches = [self.patch.merge, self.patch.strategic] if self.patch else []
        return [*patches, *(operation.value for operation in operations), self.parameters]

    @property
    def parameters_json(self) -> dict[str, Any]:
        """What the plug-in of the kind receives, as the user has written it: plain JSON without defaults."""
        given = self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"kind"})
        if self.kind == "images":
            return {name: given[name] for name in ("images", "imageFields") if name in given}
        return given.get(self.block[1:]) or {}
