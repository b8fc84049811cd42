"""A CustomResourceDefinition as an upgrade sees it, and what is found about a change of it. Pure.

Malformed fields read as missing: the API server refuses such a definition, and nothing here fails on it.

The source of the rules: `pruning` and `defaulting` of k8s.io/apiextensions-apiserver. Inputs are never changed.

The last matching rule counts, else the default. The default never raises the level of a check that only warns or is
silent; a rule that names the check sets its level.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from api import names
from api.v1alpha2.policies import CrdCheck, CrdUpgradeRule, CrdUpgradeSafety, Enforcement
from controller.kube.resources import Resource
from controller.untrusted import mapping, sequence

Schema = Mapping[str, Any]
"""A node of an openAPIV3Schema."""
_PRIORITY = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")
_STABILITY = {"alpha": 1, "beta": 2, None: 3}
_ORDER: tuple[Enforcement, ...] = ("None", "Warn", "Error")
LINES = 10
# The texts of these checks contain the location.
_UNPLACED = frozenset(
    {"scope", "existingFieldRemoval", "storedVersionRemoval", "servedVersionRemoval", "existingResources"}
)


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


def level_of(finding: CheckFinding, crd: str, safety: CrdUpgradeSafety) -> Enforcement:
    """Return the level of a finding.

    Args:
        finding: what was found.
        crd: name of the CustomResourceDefinition.
        safety: spec.crdUpgradeSafety.
    """
    level = _weaker(finding.level, safety.enforcement)
    for rule in safety.rules:
        if _matches(rule, finding, crd):
            level = rule.enforcement if finding.check in rule.checks else _weaker(finding.level, rule.enforcement)
    return level


def is_off(crd: str, safety: CrdUpgradeSafety, check: CrdCheck | None = None) -> bool:
    """Whether no finding about a definition, or by one check, would be reported."""
    levels = {safety.enforcement}
    for rule in safety.rules:
        if rule.crd in ("*", crd) and (check is None or not rule.checks or check in rule.checks):
            replaces = not rule.paths and (check is not None or not rule.checks)
            levels = {rule.enforcement} if replaces else levels | {rule.enforcement}
    return levels == {"None"}


def _weaker(level: Enforcement, other: Enforcement) -> Enforcement:
    return min(level, other, key=_ORDER.index)


def _matches(rule: CrdUpgradeRule, finding: CheckFinding, crd: str) -> bool:
    return (
        rule.crd in ("*", crd)
        and (not rule.checks or finding.check in rule.checks)
        and (not rule.paths or any(_is_below(finding.path, path) for path in rule.paths))
    )


def _is_below(path: str, beginning: str) -> bool:
    """Whether a path is that of a node or of one below it: `^.statusText` is not below `^.status`."""
    return path == beginning or path.startswith((f"{beginning}.", f"{beginning}["))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """One finding of a check."""

    check: CrdCheck
    text: str
    version: str = ""
    """`v1`, or `v1 -> v2` between two versions; empty for the whole definition."""
    path: str = ""
    """Of the node in the schema, such as `^.spec.color`; may be empty."""
    level: Enforcement = "Error"
    """Unless a rule names its check."""

    @property
    def line(self) -> str:
        """The line of a message."""
        where = f"{self.version}: {self.path}: " if self.check not in _UNPLACED else ""
        return f"{where}{self.check}: {self.text}"


def tell(findings: Iterable[CheckFinding], characters: int) -> list[str]:
    """Return the lines of findings, sorted by version, path and check, existing objects last.

    At most `LINES` lines and about so many characters; the last line counts the others.
    """
    lines = list(dict.fromkeys(finding.line for finding in sorted(findings, key=_order)))
    shown: list[str] = []
    for line in lines[:LINES]:
        if shown and sum(map(len, shown)) + len(line) > characters:
            break
        shown.append(line if len(line) <= characters else f"{line[: characters - 1]}…")
    return shown if len(shown) == len(lines) else [*shown, f"{len(lines) - len(shown)} more"]


def _order(finding: CheckFinding) -> tuple[object, ...]:
    return (finding.check == "existingResources", finding.version, finding.path, finding.check, finding.text)


def compact(value: Any) -> str:
    """Return a value as JSON, on one line, numbers without needless decimals."""
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def listed(values: Iterable[Any]) -> str:
    """Return values in the form of lists in messages: `["a" "b"]`, sorted."""
    return f"[{' '.join(sorted(map(compact, values)))}]"


def canonical(value: Any) -> str:
    """Return a text that is equal for equal JSON values, for fast lookups."""
    return json.dumps(_plain(value), sort_keys=True)


def same(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal: 1 equals 1.0, but not true as in Python."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(value, right[name]) for name, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
