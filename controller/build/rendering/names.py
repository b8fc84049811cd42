"""Names of rendered objects must not contain values of Secrets: status, Events and logs show them to everybody.

Also what else messages and the list of permissions quote: rules and subjects of RBAC, names in
CustomResourceDefinitions and pod templates, and annotations for the controller. A text that is in the content itself,
packed or not, is nobody's secret. Refusals say where it is, and not what it is. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from api import names
from api.errors import BundleError
from api.plugins import Limits, Rendering, RenderRequest
from api.v1alpha2.conditions import Reason
from controller.build.confidential import Confidential, SecretTexts, texts_of
from controller.content.compression import is_compressed, read_exactly
from controller.content.disk import walk
from controller.content.limits import Rejection
from controller.content.tar import read_tar
from controller.formats.applicable.pods import find_pod_template, list_containers
from controller.formats.objects import Object, group_of
from controller.untrusted import mapping

_RBAC = "rbac.authorization.k8s.io"
_CRD = ("apiextensions.k8s.io", "CustomResourceDefinition")
_OF_RBAC = ("rules", "roleRef", "subjects", "aggregationRule")
_OF_PODS = ("serviceAccountName", "priorityClassName")
_DEPTH = 4  # archives in each other: packed charts with packed dependencies
_MOST_WORK = 2_000_000_000  # bytes that are compared, about a second; what is not found by then counts as secret
_HEAD_BYTES = 512


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
