"""From a content tree to a revision: a format renders objects, processors change them, and they are made applicable.

Pure, and independent of sources and store: child.py runs it in another process.

- Ownership is not for processors to change: labels and annotations of the controller are removed before the first one,
  and refused after each. So is an object without a valid identity, and more text than a revision may have.
- Names of rendered objects must not contain values of Secrets, because status, Events and logs show them to everybody;
  nor what else messages and the list of permissions quote: rules and subjects of RBAC, names in
  CustomResourceDefinitions and pod templates, and annotations for the controller. A text that is in the content itself,
  packed or not, is nobody's secret. Refusals say where it is, and not what it is.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from threading import Event
from typing import Any, BinaryIO

from api import names
from api.errors import BundleError
from api.plugins import Capabilities, Hook, Limits, ProcessRequest, ReadsPart, Rendering, RenderRequest
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import Processor
from controller.build.confidential import Confidential, SecretTexts, texts_of
from controller.build.plugins import format_of, processor_of
from controller.build.revision import Revision, Terms
from controller.content.compression import is_compressed, read_exactly
from controller.content.disk import walk
from controller.content.limits import Rejection
from controller.content.tar import read_tar
from controller.formats.applicable import (
    find_reserved_marks,
    make_applicable,
    revision_digest,
    scopes_of_crds,
    without_reserved_marks,
)
from controller.formats.manifests import TextBudget
from controller.formats.objects import (
    Object,
    find_identity_problem,
    find_pod_template,
    group_of,
    identify,
    list_containers,
    refuse,
)
from controller.processors.rendered import Charge, change_each
from controller.untrusted import Steps, TooManyStepsError, mapping

_RBAC = "rbac.authorization.k8s.io"
_CRD = ("apiextensions.k8s.io", "CustomResourceDefinition")
_OF_RBAC = ("rules", "roleRef", "subjects", "aggregationRule")
_OF_PODS = ("serviceAccountName", "priorityClassName")
_DEPTH = 4  # archives in each other: packed charts with packed dependencies
_MOST_WORK = 2_000_000_000  # bytes that are compared, about a second; what is not found by then counts as secret
_HEAD_BYTES = 512
MOST_STEPS = 10_000_000
"""For all processors of a BundleDeployment."""
_STEP_BYTES = 32
"""Of the text of an object that is changed in one step."""
_ENCODE = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
_NOTHING = "the bundle renders no objects"


def refuse_secret_names(rendering: Rendering, confidential: Confidential, request: RenderRequest) -> None:
    """Refuse a rendering with values of Secrets in names, unless they are in the content, too.

    Raises: BundleError (InvalidConfig).
    """
    kinds = (word for kind in request.capabilities.kinds for word in kind)
    secrets = SecretTexts(confidential, [request.name, request.install_namespace, *kinds])
    found = [(place, text) for place, name in _names_in(rendering) for text in secrets.find(name)]
    if not found:
        return
    known = _find_in_content(request.tree.root, {text for _, text in found}, request.means.limits)
    if place := next((place for place, text in found if text not in known), ""):
        problem = f"{place} contains a value of a Secret, and everybody who can read BundleDeployments can see it there"
        remedy = "take it from a ConfigMap or spec.config if it is not secret, or change the bundle"
        raise BundleError(Reason.INVALID_CONFIG, f"spec.configFrom: {problem}; {remedy}")


def without_secrets(warning: str, confidential: Confidential) -> str:
    """Return a warning of a format; without its text if it contains a value of a Secret."""
    if any(SecretTexts(confidential).find(warning)):
        return "a warning about the bundle is not shown, because it contains a value of a Secret"
    return warning


def _names_in(rendering: Rendering) -> Iterator[tuple[str, str]]:
    """Yield the place and the text of everything that names something."""
    for index, item in enumerate(rendering.objects):
        yield from _names_of(item, f"objects[{index}]")
    for index, hook in enumerate(rendering.hooks):
        yield from _names_of(hook.manifest, f"hooks[{index}]")


def _names_of(item: Object, place: str) -> Iterator[tuple[str, str]]:
    metadata = mapping(item, "metadata")
    fields = {"apiVersion": item.get("apiVersion"), "kind": item.get("kind")}
    fields |= {f"metadata.{field}": metadata.get(field) for field in ("name", "namespace")}
    notes = mapping(metadata, "annotations")
    fields |= {"metadata.annotations": [note for key, note in notes.items() if str(key).startswith(names.GROUP)]}
    group, kind = group_of(item), item.get("kind")
    if group == _RBAC:
        fields |= {field: item.get(field) for field in _OF_RBAC}
    if (group, kind) == _CRD:
        spec = mapping(item, "spec")
        fields |= {"spec.group": spec.get("group"), "spec.names": spec.get("names")}
    if template := find_pod_template(item):
        fields |= _of_pod(mapping(template[1], "spec"), ".".join(filter(None, (template[0], "spec"))))
    yield from ((f"{place}.{field}", text) for field, value in fields.items() for text in texts_of(value))


def _of_pod(spec: Mapping[str, Any], path: str) -> dict[str, Any]:
    containers = {f"{place}.name": container.get("name") for place, container in list_containers(spec, path)}
    return {f"{path}.{field}": spec.get(field) for field in _OF_PODS} | containers


# the content


def _find_in_content(root: Path, wanted: Collection[str], limits: Limits) -> set[str]:
    """Return which of some texts are in files or names of files, in any case, also in archives."""
    missing, work = {text: text.encode() for text in wanted}, 0
    for data in _texts_below(root, limits):
        work += len(data) * len(missing)
        if not missing or work > _MOST_WORK:
            break
        text = data.lower()
        missing = {name: each for name, each in missing.items() if each not in text}
    return set(wanted) - missing.keys()


def _texts_below(root: Path, limits: Limits) -> Iterator[bytes]:
    for item in walk(root):
        yield item.path.encode(errors="surrogateescape")
        if not item.is_folder:
            with (root / item.path).open("rb") as file:
                yield from _texts_in(file, limits, _DEPTH)


def _texts_in(file: BinaryIO, limits: Limits, depth: int) -> Iterator[bytes]:
    """Yield a file that may be a manifest; of an archive, the names and contents of its files."""
    head = file.read(_HEAD_BYTES)
    file.seek(0)
    if not is_compressed(head):
        yield file.read(limits.manifest_bytes)
    elif depth:
        with suppress(Rejection):  # the format has read it, or has no use for it
            for entry in read_tar(file, limits):
                yield entry.path.encode(errors="surrogateescape")
                if entry.data is not None:
                    data = read_exactly(entry.data, min(entry.size, limits.manifest_bytes))
                    yield from _texts_in(BytesIO(data), limits, depth - 1)


def process(processors: Sequence[Processor], rendering: Rendering, request: RenderRequest) -> Rendering:
    """Return a rendering as the processors of a spec change it, in order.

    Args:
        processors: `spec.processors`, checked.
        rendering: of the format.
        request: what it was rendered from, with the install namespace.

    Raises: BundleError (InvalidConfig, InvalidBundle, RenderLimitExceeded, UnknownProcessor); LargeTextError.
    """
    if not processors:
        return rendering
    refuse(f"objects[{i}]: {problem}" for i, problem in _identity_problems(rendering.objects))
    rendering = change_each(rendering, without_reserved_marks)
    steps = Steps(MOST_STEPS)
    for index, processor in enumerate(processors):
        place = f"spec.processors[{index}]"
        asked = ProcessRequest(
            name=request.name,
            install_namespace=request.install_namespace,
            parameters=processor.parameters_json,
            path=f"{place}{processor.block}",
            rendering=rendering,
            capabilities=request.capabilities,
            charge=_charge_to(TextBudget.of(request.means), steps, place, request.means.cancelled),
        )
        try:
            rendering = processor_of(processor.kind, place).process(asked)
            _check(rendering, place, TextBudget.of(request.means))
        except RecursionError:
            raise BundleError(
                Reason.INVALID_CONFIG, f"{place}: makes objects too deeply nested; flatten them"
            ) from None
    return rendering


def _charge_to(budget: TextBudget, left: Steps, place: str, cancelled: Event) -> Charge:
    """Return `ProcessRequest.charge` for the processor at a place in the spec."""

    def _charge(text_bytes: int, steps: int) -> None:
        if cancelled.is_set():
            raise BundleError(Reason.RENDER_FAILED, "canceled: the result is no longer needed")
        budget.charge_text(text_bytes, place, is_manifest=False)
        try:
            left.spend(steps + text_bytes // _STEP_BYTES)
        except TooManyStepsError:
            problem = "changes too many objects in too many ways"
            raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{place}: {problem}; change more in the bundle") from None

    return _charge


def _check(rendering: Rendering, place: str, budget: TextBudget) -> None:
    """Refuse what a processor must not return; `place` is where it is in the spec."""
    manifests = [*rendering.objects, *(hook.manifest for hook in rendering.hooks)]
    for index, problem in _identity_problems(manifests):
        raise BundleError(Reason.INVALID_CONFIG, f"{place}: makes an invalid object: objects[{index}]: {problem}")
    for item in manifests:
        for mark in find_reserved_marks(item):
            problem = f"sets {mark} of {identify(item)}, which belongs to the controller"
            raise BundleError(Reason.INVALID_CONFIG, f"{place}: {problem}; remove it")
        budget.charge_text(len(_ENCODE(item)), place, is_manifest=False)


def _identity_problems(objects: Iterable[Object]) -> Iterator[tuple[int, str]]:
    for index, item in enumerate(objects):
        if problem := find_identity_problem(item):
            yield index, problem


def render(
    format_name: str,
    request: RenderRequest,
    processors: Sequence[Processor] = (),
    confidential: Confidential | None = None,
) -> Revision:
    """Return the revision of a content tree; of its terms, only the install namespace is set.

    Args:
        format_name: `spec.format`.
        request: its config was checked; if its install namespace is '', the format suggests one.
        processors: `spec.processors`, checked.
        confidential: given if values of Secrets are in the config.

    Raises: BundleError with a reason of Installed, or that of a path of the content that must not be read;
        LargeTextError.
    """
    plugin = format_of(format_name)
    if not isinstance(plugin, ReadsPart):
        request.tree.check(lambda _path: True)
    namespace = request.install_namespace or plugin.suggest_namespace(request.tree, request.config)
    request = replace(request, install_namespace=namespace)
    rendering = plugin.render(request)
    if confidential:
        shown = [without_secrets(warning, confidential) for warning in rendering.warnings]
        rendering = replace(rendering, warnings=tuple(shown))
        # Before anything that names an object can fail.
        refuse_secret_names(rendering, confidential, request)
    if processors:
        rendering = process(processors, rendering, request)
        if confidential:
            refuse_secret_names(rendering, confidential, request)
    return _revision_of(rendering, Terms(inputs="", install_namespace=namespace), request.capabilities)


def _revision_of(rendering: Rendering, terms: Terms, capabilities: Capabilities) -> Revision:
    scopes = scopes_of_crds(rendering.objects)

    def _applicable(objects: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        return make_applicable(
            objects,
            install_namespace=terms.install_namespace,
            is_namespaced=lambda group, _, kind: scopes.get((group, kind), capabilities.is_namespaced(group, kind)),
        )

    objects = _applicable(rendering.objects)
    # One by one: two hooks may share a name, since they do not exist at the same time.
    hooks = [_hook(hook, _applicable([hook.manifest])[0]) for hook in rendering.hooks]
    is_silent = not (objects or hooks or rendering.warnings)
    return Revision(
        digest=revision_digest(objects, hooks),
        objects=tuple(objects),
        hooks=tuple(hooks),
        terms=terms,
        warnings=(_NOTHING,) if is_silent else tuple(rendering.warnings),
        namespace=rendering.namespace,
    )


def _hook(hook: Hook, manifest: dict[str, Any]) -> dict[str, Any]:
    return {
        "manifest": manifest,
        "events": list(hook.events),
        "weight": hook.weight,
        "deletePolicies": list(hook.delete_policies),
    }
