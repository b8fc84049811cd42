"""Optional objects: part of the revision, and skipped while the cluster does not serve their kind. Pure.

Which objects are optional is settled when targets are made (targets.py); when the API appears they are applied from
the stored revision, like everything else (rule 9).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from controller.apply.targets import TargetSet
from controller.kube.resources import GroupVersionKind


def leave_out_missing(wanted: TargetSet, is_missing: Callable[[GroupVersionKind], bool]) -> TargetSet:
    """Return the targets without the optional ones whose kind is missing: these are kept aside, and not pruned.

    One whose CustomResourceDefinition is of the same revision is not missing: it waits for that.
    """
    candidates = {t.kind for t in wanted.targets if t.optional and t.kind[::2] not in wanted.resources}
    missing = {kind for kind in candidates if is_missing(kind)}
    if not missing:
        return wanted
    skipped = tuple(target for target in wanted.targets if target.optional and target.kind in missing)
    keys = {target.key for target in skipped}
    return replace(wanted, targets=tuple(t for t in wanted.targets if t.key not in keys), skipped=skipped)
