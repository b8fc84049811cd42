"""Objects that a bundle has outside its install namespace, and objects by which it instructs controllers of others.

Each object outside is a statement, so that another one is seen; a line has their kind and number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from controller.formats.objects import crd_specs, group_of
from controller.kube.resources import BUILT_IN_GROUPS
from controller.permissions.statement import Severity, Statement, Topic
from controller.untrusted import mapping


def find_outside(objects: Iterable[Mapping[str, Any]], install_namespace: str) -> Iterator[Statement]:
    """Yield the objects outside a namespace, and the kinds that neither the API server nor the bundle defines."""
    items = list(map(dict, objects))
    own = {(spec.get("group"), mapping(spec, "names").get("kind")) for spec in crd_specs(items)}
    for item in items:
        metadata, group = mapping(item, "metadata"), group_of(item)
        kind = item["kind"] if group in BUILT_IN_GROUPS else f"{item['kind']}.{group}"
        namespace = metadata.get("namespace")
        if namespace != install_namespace or not namespace:
            where = f"in namespace {namespace}" if namespace else "in the whole cluster"
            yield Statement(
                topic=Topic.SCOPE, who=kind, what=str(metadata.get("name")), where=where, severity=Severity.LOW
            )
        if group not in BUILT_IN_GROUPS and (group, item["kind"]) not in own:
            yield Statement(
                topic=Topic.SCOPE,
                who="bundle",
                verb="instructs controllers of others by",
                what=kind,
                severity=Severity.LOW,
            )
