"""The kinds of other API servers that a revision was rendered with: what counts while their groups fail discovery.

Only groups of aggregated API servers can fail, so kinds of Kubernetes and of CustomResourceDefinitions are not
recorded. Without the record, a chart that asks for such a kind would render other objects after a restart. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from api.plugins import Capabilities
from controller.build.revision import PackedRevision, RecordedKind, Revision


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
