"""Install modes: which namespaces an operator may watch (upstream's `render.go`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

ALL, MULTI, OWN, SINGLE = "AllNamespaces", "MultiNamespace", "OwnNamespace", "SingleNamespace"
ALL_NAMESPACES = ("",)
"""The targets of an operator that watches every namespace."""


def write_list(items: Collection[str], separator: str = " ") -> str:
    """Return a list as Go prints it."""
    return f"[{separator.join(items)}]"


def find_target_problem(modes: Collection[str], namespace: str, targets: Sequence[str]) -> str:
    """Return why the supported modes do not allow the watched namespaces; empty if they do."""
    reason = _find_reason(modes, namespace, targets)
    return f"invalid option(s): invalid target namespaces {write_list(targets)}: {reason}" if reason else ""


def _find_reason(modes: Collection[str], namespace: str, targets: Sequence[str]) -> str:
    supported = f"supported install modes {write_list(sorted(modes))} do not support"
    if not targets:
        number = "at least" if MULTI in modes else "exactly"
        return f"{number} one target namespace must be specified"
    if set(targets) == {""}:
        return "" if ALL in modes else f"{supported} targeting all namespaces"
    if namespace in targets and OWN not in modes:
        return f"{supported} targeting own namespace"
    needed = MULTI if len(set(targets)) > 1 else OWN if namespace in targets else SINGLE
    return "" if needed in modes and "" not in targets else f"{supported} target namespaces {write_list(targets)}"
