"""Whether a finding blocks an upgrade, according to spec.crdUpgradeSafety.

The last matching rule counts, else the default. The default never raises the level of a check that only warns or is
silent; a rule that names the check sets its level.
"""

from __future__ import annotations

from api.v1alpha2.policies import CrdCheck, CrdUpgradeRule, CrdUpgradeSafety, Enforcement
from controller.apply.crd_upgrade.finding import CheckFinding

_ORDER: tuple[Enforcement, ...] = ("None", "Warn", "Error")


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
