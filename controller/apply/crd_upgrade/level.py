"""Whether what was found holds a definition back, as spec.crdUpgradeSafety says.

The last rule that matches counts, else the default. Where a check only warns by itself, or says nothing, the default
does not raise it; a rule that names the check sets its level as it stands.
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
    """Whether nothing that could be found about a definition, or by one check, would be told."""
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
    """Whether a path is that of a node, or of one below it: `^.status` is not the beginning of `^.statusText`."""
    return path == beginning or path.startswith((f"{beginning}.", f"{beginning}["))
