"""What a cluster serves, as far as rendering may depend on it.

As a file it is written by `rukpak capabilities`, and read by `rukpak render`. The default is the newest supported
Kubernetes: capabilities.yaml, which hack/generate writes from a real API server.

A revision records the kinds of other API servers that it was rendered with: they count while their groups fail
discovery. Without the record, a chart that asks for such a kind would render other objects after a restart. Kinds of
Kubernetes and of CustomResourceDefinitions cannot fail, and are not recorded.

Of a custom kind whose definition decides about fields of the bundle's objects it records what the cluster said: this
counts while the cluster does not tell. The file has this of all custom kinds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from importlib.resources import files
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Capabilities, CustomKind
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.building.revision import PackedRevision, RecordedCustomKind, RecordedKind, Revision
from rukpak.controller.formats.applicable import Kind, reduce_schema
from rukpak.controller.formats.manifests import read_documents

SHIPPED = "capabilities.yaml"


def record_kinds(
    made: Revision | PackedRevision, capabilities: Capabilities, is_aggregated: Callable[[str, str], bool]
) -> Revision | PackedRevision:
    """Return a revision that records the kinds that it was rendered with.

    Args:
        made: from these capabilities.
        capabilities: of the cluster.
        is_aggregated: whether another API server may serve a group and kind.
    """
    kinds = ((*kind, scope) for kind, scope in capabilities.kinds.items() if is_aggregated(kind[0], kind[2]))
    return replace(made, terms=replace(made.terms, kinds=tuple(sorted(kinds))))


def recall_kinds(capabilities: Capabilities, recorded: Collection[RecordedKind] | None) -> Capabilities:
    """Return capabilities in which groups whose kinds are not known have those that a revision was rendered with.

    Args:
        capabilities: of the cluster.
        recorded: of the installed revision, which may be none; None: nothing is installed.
    """
    if recorded is None:
        return capabilities
    recalled = {
        (group, version, kind): scope for group, version, kind, scope in recorded if group in capabilities.unknown
    }
    return replace(capabilities, kinds={**recalled, **capabilities.kinds}, unknown=frozenset())


def recall_custom_kinds(
    found: Mapping[Kind, CustomKind], kinds: Collection[Kind], recorded: Collection[RecordedCustomKind]
) -> dict[Kind, CustomKind]:
    """Return what is known of custom kinds: what the cluster says, else what a revision was rendered with.

    Args:
        found: what the cluster says.
        kinds: those that are asked about.
        recorded: of the installed revision.
    """
    recalled = {(group, version, kind): known for group, version, kind, known in recorded if known}
    return {kind: known for kind in kinds if (known := found.get(kind) or recalled.get(kind))}


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Kind(_Model):
    group: str = ""
    version: str
    kind: str
    scope: str = Field(pattern="^(Namespaced|Cluster)$")
    hasStatus: bool | None = None  # noqa: N815 - as it is written
    """Of a custom kind whose definition was read."""
    nulls: dict[str, Any] = {}
    """The part of its schema that says where null is allowed."""


class _File(_Model):
    kubernetesVersion: str = Field(pattern=r"^v[0-9]+\.[0-9]+\.[0-9]+")  # noqa: N815 - as it is written
    kinds: tuple[_Kind, ...]
    unknownGroups: tuple[str, ...] = ()  # noqa: N815 - as it is written


def shipped() -> Capabilities:
    """Return the capabilities of the newest supported Kubernetes."""
    return parse((files("rukpak.controller.building") / SHIPPED).read_bytes(), SHIPPED)


def parse(data: bytes, name: str) -> Capabilities:
    """Return the capabilities in the YAML or JSON of a file, whose name messages start with.

    Raises: BundleError (InvalidConfig; InvalidBundle if it is not YAML).
    """
    documents = [document.value for document in read_documents(data, name)]
    if len(documents) != 1:
        raise _invalid(name, f"must contain one document, not {len(documents)}")
    try:
        read = _File.model_validate(documents[0])
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise _invalid(name, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    kinds = {(kind.group, kind.version, kind.kind): kind.scope == "Namespaced" for kind in read.kinds}
    custom = {
        (kind.group, kind.version, kind.kind): CustomKind(has_status=kind.hasStatus, schema=reduce_schema(kind.nulls))
        for kind in read.kinds
        if kind.hasStatus is not None
    }
    return Capabilities(
        kubernetes_version=read.kubernetesVersion, kinds=kinds, unknown=frozenset(read.unknownGroups), custom=custom
    )


def _invalid(name: str, problem: str) -> BundleError:
    return BundleError(Reason.INVALID_CONFIG, f'{name}: {problem}; generate the file with "rukpak capabilities"')


def dump(capabilities: Capabilities) -> dict[str, object]:
    """Return capabilities as plain JSON, in a stable order."""
    unknown = {"unknownGroups": sorted(capabilities.unknown)} if capabilities.unknown else {}
    return {"kubernetesVersion": capabilities.kubernetes_version, **unknown, "kinds": list(_kinds(capabilities))}


def write(capabilities: Capabilities) -> str:
    """Return capabilities as YAML, a line for each kind."""
    lines = [", ".join(f"{key}: {_in_flow(value)}" for key, value in kind.items()) for kind in _kinds(capabilities)]
    unknown = f"unknownGroups: [{', '.join(sorted(capabilities.unknown))}]\n" if capabilities.unknown else ""
    head = f"kubernetesVersion: {capabilities.kubernetes_version}\n{unknown}kinds:\n"
    return head + "".join(f"- {{{line}}}\n" for line in lines)


def _in_flow(value: object) -> str:
    return value if isinstance(value, str) and value else json.dumps(value)


def _kinds(capabilities: Capabilities) -> Iterator[dict[str, object]]:
    for (group, version, kind), namespaced in sorted(capabilities.kinds.items()):
        known = capabilities.custom.get((group, version, kind))
        more: dict[str, object] = {"hasStatus": known.has_status} if known else {}
        yield {
            "group": group,
            "version": version,
            "kind": kind,
            "scope": "Namespaced" if namespaced else "Cluster",
            **more,
            **({"nulls": known.schema} if known and known.schema else {}),
        }
