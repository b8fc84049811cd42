"""A CustomResourceDefinition as a value, read from an object of the cluster or a bundle.

Malformed fields read as missing: the API server refuses such a definition, and nothing here fails on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from api import names
from controller.kube.resources import Resource
from controller.untrusted import mapping, sequence

Schema = Mapping[str, Any]
"""A node of an openAPIV3Schema."""

_PRIORITY = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")
_STABILITY = {"alpha": 1, "beta": 2, None: 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One of spec.versions."""

    name: str
    served: bool
    schema: Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomResourceDefinition:
    """The part of a CustomResourceDefinition that matters in an upgrade."""

    name: str
    group: str
    kind: str
    plural: str
    scope: str
    versions: Mapping[str, Version] = field(default_factory=dict)
    """By name."""
    stored: tuple[str, ...] = ()
    """status.storedVersions."""
    converts: bool = False
    """Whether a webhook converts between the versions."""
    established: bool = False
    """Whether it was ever served, so that objects may exist."""
    exempt: bool = False
    """Whether its annotation turns off all checks."""

    @property
    def served(self) -> tuple[Version, ...]:
        """The served versions, by version priority, the lowest first."""
        return tuple(sorted((v for v in self.versions.values() if v.served), key=lambda v: priority(v.name)))

    def resource(self, version: str) -> Resource:
        """Return the resource of its objects at a version."""
        return Resource(self.group, version, self.kind, self.plural, namespaced=self.scope == "Namespaced")


def read_definition(manifest: Mapping[str, Any]) -> CustomResourceDefinition:
    """Read a CustomResourceDefinition of `apiextensions.k8s.io/v1`."""
    metadata, spec, status = (mapping(manifest, name) for name in ("metadata", "spec", "status"))
    versions = (_read_version(mapping(value)) for value in sequence(spec, "versions"))
    called = mapping(spec, "names")
    return CustomResourceDefinition(
        name=str(metadata.get("name", "")),
        group=str(spec.get("group", "")),
        kind=str(called.get("kind", "")),
        plural=str(called.get("plural", "")),
        scope=str(spec.get("scope", "")),
        versions={version.name: version for version in versions},
        stored=tuple(str(name) for name in sequence(status, "storedVersions")),
        converts=mapping(spec, "conversion").get("strategy") == "Webhook",
        established=any(
            (mapping(condition).get("type"), mapping(condition).get("status")) == ("Established", "True")
            for condition in sequence(status, "conditions")
        ),
        exempt=mapping(metadata, "annotations").get(names.SAFE_CRD_UPGRADE_VALIDATION) == "false",
    )


def priority(version: str) -> tuple[int, ...]:
    """Return the sort key of a version name: v10 > v2 > v1 > v1beta1 > v1alpha1 > others.

    The source of the rule: `CompareKubeAwareVersionStrings` of k8s.io/apimachinery.
    """
    match = _PRIORITY.fullmatch(version)
    if match is None:
        return (0, *(-ord(letter) for letter in version), 1)  # the first by the alphabet is the highest
    return (_STABILITY[match[2]], int(match[1]), int(match[3] or 0))


def properties(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield the names and schemas of the properties of an object."""
    for name, value in mapping(schema, "properties").items():
        yield name, mapping(value)


def _read_version(value: Mapping[str, Any]) -> Version:
    schema = mapping(value, "schema", "openAPIV3Schema")
    return Version(name=str(value.get("name", "")), served=value.get("served") is True, schema=schema)
