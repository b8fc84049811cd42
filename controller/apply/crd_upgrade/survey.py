"""Existing objects against the schemas to come (README.md).

Objects go by one after the other and nothing is kept of them but a few lines, however many there are. Not here: listing
them (inspector.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from api.v1alpha2.policies import CrdUpgradeSafety, Enforcement
from controller.apply.crd_upgrade.admission import admit
from controller.apply.crd_upgrade.definition import CustomResourceDefinition, Schema
from controller.apply.crd_upgrade.finding import LINES, CheckFinding
from controller.apply.crd_upgrade.level import level_of
from controller.apply.crd_upgrade.schema import compare_schemas, narrows_unknown_fields
from controller.apply.crd_upgrade.validation import Violation, validate
from controller.untrusted import text

MOST_REFUSED = 20
"""After so many objects that block the upgrade, the survey ends."""
MOST_VIOLATIONS = 20
"""Of one object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The schema that the objects of one version must match."""

    version: str
    """Of the new definition."""
    schema: Schema
    before: Schema
    """Of the version at which they are listed, as it is now."""


def plan_trials(
    old: CustomResourceDefinition, new: CustomResourceDefinition, findings: Sequence[CheckFinding]
) -> dict[str, list[Trial]]:
    """Return the trials by the version at which objects are listed; none if every object matches anyway.

    Args:
        old: as on the cluster.
        new: as it will be applied.
        findings: of comparing the two.
    """
    trials: dict[str, list[Trial]] = defaultdict(list)
    narrowed = {finding.version for finding in findings if finding.level == "Error"}
    added = [version for name, version in new.versions.items() if name not in old.versions and not new.converts]
    for version in old.served if old.established else ():
        if version.name not in new.versions:
            continue
        schema = new.versions[version.name].schema
        if version.name in narrowed or narrows_unknown_fields(version.schema, schema):
            trials[version.name].append(Trial(version=version.name, schema=schema, before=version.schema))
        trials[version.name] += [
            Trial(version=other.name, schema=other.schema, before=version.schema)
            for other in added
            if _may_refuse(version.schema, other.schema)
        ]
    return {listed: each for listed, each in trials.items() if each}


def _may_refuse(old: Schema, new: Schema) -> bool:
    """Whether an object may match the old schema and not the new one."""
    differences = compare_schemas(old, new)
    return any(each.change.level == "Error" for each in differences) or narrows_unknown_fields(old, new)


class Survey:
    """Validates the objects of one definition.

    Args:
        crd: its name.
        safety: spec.crdUpgradeSafety.
    """

    def __init__(self, crd: str, safety: CrdUpgradeSafety) -> None:
        self._crd, self._safety = crd, safety
        self._kept: dict[Enforcement, list[CheckFinding]] = {"Error": [], "Warn": []}
        self._counts: dict[Enforcement, int] = {"Error": 0, "Warn": 0}
        self._checked = 0

    @property
    def has_enough(self) -> bool:
        """Whether further objects would add nothing."""
        return self._counts["Error"] >= MOST_REFUSED

    def add(self, manifest: Mapping[str, Any], trials: Sequence[Trial]) -> None:
        """Validate one object."""
        self._checked += 1
        found = [finding for trial in trials for finding in self._try(manifest, trial)]
        for level in ("Error", "Warn"):
            if first := next((finding for finding in found if self._level(finding) == level), None):
                self._counts[level] += 1
                if len(self._kept[level]) < LINES:
                    self._kept[level].append(first)
                return

    def findings(self) -> list[CheckFinding]:
        """Return some objects by name; the first one of each level has the counts."""
        return [*self._findings_at("Error"), *self._findings_at("Warn")]

    def _findings_at(self, level: Enforcement) -> list[CheckFinding]:
        told = sorted(self._kept[level], key=lambda finding: finding.text)
        if not told:
            return []
        rest = "; the others were not checked" if self.has_enough else ""
        count = f"({self._checked} checked, {self._counts[level]} invalid{rest})"
        return [replace(told[0], text=f"{told[0].text} {count}"), *told[1:]]

    def _try(self, manifest: Mapping[str, Any], trial: Trial) -> list[CheckFinding]:
        violations = _violations(manifest, trial.schema)
        if not violations:
            return []
        known = {(each.field, each.reason) for each in _violations(manifest, trial.before)}
        return [
            _finding(manifest, trial.version, each, is_new=(each.field, each.reason) not in known)
            for each in violations
        ]

    def _level(self, finding: CheckFinding) -> Enforcement:
        return level_of(finding, self._crd, self._safety)


def _violations(manifest: Mapping[str, Any], schema: Schema) -> list[Violation]:
    return list(islice(validate(admit(manifest, schema), schema), MOST_VIOLATIONS))


def _finding(manifest: Mapping[str, Any], version: str, violation: Violation, *, is_new: bool) -> CheckFinding:
    name = "/".join(filter(None, (text(manifest, "metadata", field) for field in ("namespace", "name"))))
    where = f"{violation.field}: " if violation.field else ""
    return CheckFinding(
        check="existingResources",
        text=f"existing custom object {name} failed validation for new schema version {version}: "
        f"{where}{violation.reason}",
        version=version,
        path=violation.path,
        level="Error" if is_new else "Warn",
    )
