"""What a cluster serves, as a file: written by `rukpak capabilities`, read by `rukpak render`.

The default is the newest supported Kubernetes: capabilities.yaml, which hack/generate writes from a real API server.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from api.errors import BundleError
from api.plugins import Capabilities
from api.v1alpha2.conditions import Reason
from controller.formats.yaml.manifests import read_documents

SHIPPED = "capabilities.yaml"
_EMPTY = '""'


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Kind(_Model):
    group: str = ""
    version: str
    kind: str
    scope: str = Field(pattern="^(Namespaced|Cluster)$")


class _File(_Model):
    kubernetesVersion: str = Field(pattern=r"^v[0-9]+\.[0-9]+\.[0-9]+")  # noqa: N815 - as it is written
    kinds: tuple[_Kind, ...]
    unknownGroups: tuple[str, ...] = ()  # noqa: N815 - as it is written


def shipped() -> Capabilities:
    """Return the capabilities of the newest supported Kubernetes."""
    return parse((files("controller.build") / SHIPPED).read_bytes(), SHIPPED)


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
    return Capabilities(kubernetes_version=read.kubernetesVersion, kinds=kinds, unknown=frozenset(read.unknownGroups))


def _invalid(name: str, problem: str) -> BundleError:
    return BundleError(Reason.INVALID_CONFIG, f'{name}: {problem}; generate the file with "rukpak capabilities"')


def dump(capabilities: Capabilities) -> dict[str, object]:
    """Return capabilities as plain JSON, in a stable order."""
    unknown = {"unknownGroups": sorted(capabilities.unknown)} if capabilities.unknown else {}
    return {"kubernetesVersion": capabilities.kubernetes_version, **unknown, "kinds": list(_kinds(capabilities))}


def write(capabilities: Capabilities) -> str:
    """Return capabilities as YAML, a line for each kind."""
    lines = [", ".join(f"{key}: {value or _EMPTY}" for key, value in kind.items()) for kind in _kinds(capabilities)]
    unknown = f"unknownGroups: [{', '.join(sorted(capabilities.unknown))}]\n" if capabilities.unknown else ""
    head = f"kubernetesVersion: {capabilities.kubernetes_version}\n{unknown}kinds:\n"
    return head + "".join(f"- {{{line}}}\n" for line in lines)


def _kinds(capabilities: Capabilities) -> Iterator[dict[str, str]]:
    for (group, version, kind), namespaced in sorted(capabilities.kinds.items()):
        yield {"group": group, "version": version, "kind": kind, "scope": "Namespaced" if namespaced else "Cluster"}
