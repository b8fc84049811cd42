"""What is compared in an upgrade (README.md).

A, the whole definition; B, each version with itself; C, the served versions of the new definition with each other,
unless a webhook converts between them. Findings of C that the definition on the cluster also has are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from controller.apply.crd_upgrade.definition import CustomResourceDefinition, Version
from controller.apply.crd_upgrade.finding import CheckFinding, compact
from controller.apply.crd_upgrade.schema import Difference, compare_schemas


def compare(old: CustomResourceDefinition, new: CustomResourceDefinition) -> list[CheckFinding]:
    """Return what an upgrade changes for users, from the definition on the cluster to the one to be applied."""
    return [*_compare_whole(old, new), *_compare_versions(old, new), *_compare_served(old, new)]


# A: the whole definition


def _compare_whole(old: CustomResourceDefinition, new: CustomResourceDefinition) -> Iterator[CheckFinding]:
    if old.scope != new.scope:
        yield CheckFinding(check="scope", text=f"scope changed : {compact(old.scope)} -> {compact(new.scope)}")
    stored = [name for name in old.stored if name not in new.versions]
    if stored:
        yield CheckFinding(check="storedVersionRemoval", text=f"stored versions removed : [{' '.join(sorted(stored))}]")
    still_served = {version.name for version in new.served}
    served = [v.name for v in old.served if v.name not in still_served and v.name not in stored]
    if served:
        text = f"served versions removed : [{' '.join(sorted(served))}]"
        yield CheckFinding(check="servedVersionRemoval", text=text, level="Warn")


# B: each version with itself


def _compare_versions(old: CustomResourceDefinition, new: CustomResourceDefinition) -> Iterator[CheckFinding]:
    for name, version in old.versions.items():
        if name in new.versions:
            for difference in compare_schemas(version.schema, new.versions[name].schema):
                yield _in_version(name, difference)


def _in_version(name: str, difference: Difference) -> CheckFinding:
    path = difference.path
    if difference.gone:
        text = f"removed field : {name}.{path}"
        return CheckFinding(check="existingFieldRemoval", text=text, version=name, path=path)
    return _finding(name, difference)


# C: served versions with each other


def _compare_served(old: CustomResourceDefinition, new: CustomResourceDefinition) -> list[CheckFinding]:
    known = {(finding.version, finding.line) for finding in _compare_pairs(old)}
    return [finding for finding in _compare_pairs(new) if (finding.version, finding.line) not in known]


def _compare_pairs(definition: CustomResourceDefinition) -> Iterator[CheckFinding]:
    if definition.converts:
        return
    for lower, higher in combinations(definition.served, 2):
        for difference in compare_schemas(lower.schema, higher.schema):
            yield _finding(_pair(lower, higher), difference)


def _pair(lower: Version, higher: Version) -> str:
    return f"{lower.name} -> {higher.name}"


def _finding(version: str, difference: Difference) -> CheckFinding:
    change = difference.change
    return CheckFinding(check=change.check, text=change.text, version=version, path=difference.path, level=change.level)
