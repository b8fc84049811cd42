"""The warnings after something was sent: ours, about a revision and the cluster, and those of the API server."""

from __future__ import annotations

from collections.abc import Iterable

from controller.apply.outcome import Outcome
from controller.apply.targets import TargetSet, find_missing_labels
from controller.kube.resources import GroupVersionKind
from controller.observe.watches import Watches
from controller.reconcile.context import Context
from controller.status.notes import describe_unseen


def collect_warnings(
    outcomes: Iterable[Outcome], ours: Iterable[str], *, is_due: bool = False
) -> tuple[str, ...] | None:
    """Return each warning once; None if nothing was sent, to keep those of the last apply.

    Args:
        outcomes: of the pass.
        ours: see `warnings_on_revision` and `warnings_on_cluster`.
        is_due: whether there are warnings although nothing was sent.
    """
    sent = [outcome for outcome in outcomes if outcome.tried]
    if not (sent or is_due):
        return None
    return tuple(dict.fromkeys([*ours, *(text for outcome in sent for text in outcome.warnings)]))


def warnings_on_revision(found: Iterable[str], wanted: TargetSet) -> tuple[str, ...]:
    """Return the warnings about a revision: those found before, and those about its targets."""
    return (*found, *(text for target in wanted.targets for text in target.ignored.warnings))


def warnings_on_cluster(
    context: Context, wanted: TargetSet, kinds: Iterable[GroupVersionKind], watches: Watches
) -> list[str]:
    """Return the warnings about labels that Namespaces lack, and kinds that are not watched.

    Args:
        context: of the pass.
        wanted: with the targets of all Namespaces that are used.
        kinds: of the objects of the revision.
        watches: know which kinds are watched.
    """
    unseen = (kind for kind in kinds if watches.is_forbidden(kind.group, kind.kind))
    lacking = find_missing_labels(wanted, context.state.ledger.used)
    return [*lacking, *describe_unseen(unseen)]
