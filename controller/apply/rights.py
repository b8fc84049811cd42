"""What an account must be allowed to do to install a revision, repair it, and delete it again. Pure.

The verbs are those that `failures/required_rights.py` also asks about when an account lacks some. Reads that only
explain or speed things up are left out: they are the controller's own, or nothing depends on them. Not here: what the
bundle may do once it runs (controller/permissions).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from api import names
from controller.apply.failures.missing_rights import RbacRight, merge
from controller.apply.failures.required_rights import grants_in, rights_in
from controller.apply.ownership import is_kept
from controller.build.revision import Revision
from controller.kube.resources import RBAC, GroupVersionKind, Resource
from controller.observe.records import ObjectKey, key_of
from controller.permissions.inclusion import Right, including
from controller.untrusted import mapping

Manifest = Mapping[str, Any]
FindResource = Callable[[GroupVersionKind], Resource]
"""Returns the resource of a kind; for one that is not served yet, the resource that it will have."""
_ADMISSION = "admissionregistration.k8s.io"
_POLICIES = ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
_BINDINGS = ("RoleBinding", "ClusterRoleBinding")


def find_rights(revision: Revision, find_resource: FindResource) -> list[RbacRight]:
    """Return the rights that a revision requires, each with one verb, without those that others include."""
    hooks = [hook["manifest"] for hook in revision.hooks]
    manifests = [*revision.objects, *hooks]
    placed = [(item, _place(item, revision, find_resource)) for item in manifests]
    needed = {
        right for item, place in placed for right in rights_in([place]) if right.verbs[0] in _verbs(item, revision)
    }
    needed.update(_to_grant(manifests), _to_read_parameters(manifests, find_resource))
    return sorted(right for right in needed if not _is_included(right, needed))


def _place(item: Manifest, revision: Revision, find_resource: FindResource) -> tuple[str, Resource]:
    """Return the namespace and the resource of an object."""
    namespace, resource = key_of(item).namespace, find_resource(GroupVersionKind.of(item))
    return namespace or (revision.terms.install_namespace if resource.namespaced else ""), resource


def _verbs(item: Manifest, revision: Revision) -> tuple[str, ...]:
    """Return what is done with an object: the install namespace is only read, and what is kept is not deleted."""
    key = key_of(item)
    if key == ObjectKey("", "Namespace", "", revision.terms.install_namespace):
        return ("get",)
    annotations = (item.get("metadata") or {}).get("annotations") or {}
    is_claim = key[:2] == ("", "PersistentVolumeClaim")
    if is_kept(item) or (is_claim and annotations.get(names.PRUNE) != "true"):
        return ("create", "get", "patch")
    return ("create", "delete", "get", "patch")


def _to_grant(manifests: Iterable[Manifest]) -> Iterator[RbacRight]:
    """Yield what the API server demands of whoever writes roles and bindings.

    That are the rights in a role. `escalate` instead, where the control plane fills the role, since its content is not
    known, and `bind` for a role that the bundle does not bring: each for that one role.
    """
    items = list(manifests)
    brought = {key_of(item)[1:] for item in items if key_of(item)[:2] in ((RBAC, "Role"), (RBAC, "ClusterRole"))}
    for item in items:
        for grant in grants_in([item], lambda *_: ()):
            if item["kind"] in _BINDINGS:
                yield from () if _role_of(item) in brought else (grant.instead,)
            else:
                yield from (grant.instead,) if item.get("aggregationRule") else grant.rights


def _role_of(binding: Manifest) -> tuple[str, str, str]:
    """Return kind, namespace and name of a bound role."""
    reference = mapping(binding, "roleRef")
    kind = str(reference.get("kind", ""))
    return kind, key_of(binding).namespace if kind == "Role" else "", str(reference.get("name", ""))


def _to_read_parameters(manifests: Iterable[Manifest], find_resource: FindResource) -> Iterator[RbacRight]:
    """Yield what the API server demands of whoever writes an admission policy: reading its parameters everywhere."""
    for item in manifests:
        key: ObjectKey = key_of(item)
        kind = mapping(item, "spec", "paramKind")
        if key.group == _ADMISSION and key.kind in _POLICIES and kind:
            try:
                resource = find_resource(GroupVersionKind.of(kind))
            except ValueError:  # the API server refuses the policy
                continue
            yield RbacRight(groups=(resource.group,), resources=(resource.plural,), verbs=("get",))


def _is_included(right: RbacRight, others: set[RbacRight]) -> bool:
    """Return whether another right includes one."""
    wheres = {right.namespace, ""}
    found = (_make(*each) for each in including(_key(right), right.verbs[0], wheres))
    return any(each != right and each in others for each in found)


def _key(right: RbacRight) -> Right:
    return right.paths or (right.groups[0], right.resources[0], "".join(right.resource_names))


def _make(verb: str, namespace: str, right: Right) -> RbacRight:
    if len(right) == 1:
        return RbacRight(paths=right, verbs=(verb,))
    group, resource, name = right
    return RbacRight(
        namespace=namespace,
        groups=(group,),
        resources=(resource,),
        resource_names=(name,) if name else (),
        verbs=(verb,),
    )


def make_roles(rights: Iterable[RbacRight], *, name: str, account: tuple[str, str]) -> list[dict[str, Any]]:
    """Return the Roles and ClusterRole that grant rights, each followed by its binding.

    Args:
        rights: to grant.
        name: of all these objects.
        account: namespace and name of the ServiceAccount.
    """
    rules: dict[str, list[dict[str, Any]]] = {}
    for rule in merge(rights):
        rules.setdefault(rule.namespace, []).append(_to_rule(rule))
    return [made for namespace in sorted(rules) for made in _bind(rules[namespace], namespace, name, account)]


def _to_rule(rule: RbacRight) -> dict[str, Any]:
    if rule.paths:
        return {"nonResourceURLs": list(rule.paths), "verbs": list(rule.verbs)}
    some = {"resourceNames": list(rule.resource_names)} if rule.resource_names else {}
    return {"apiGroups": list(rule.groups), "resources": list(rule.resources), **some, "verbs": list(rule.verbs)}


def _bind(
    rules: list[dict[str, Any]], namespace: str, name: str, account: tuple[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    kind = "Role" if namespace else "ClusterRole"
    about = {"name": name, **({"namespace": namespace} if namespace else {})}
    subject = {"kind": "ServiceAccount", "namespace": account[0], "name": account[1]}
    reference = {"apiGroup": RBAC, "kind": kind, "name": name}
    role = {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": about, "rules": rules}
    binding = {"roleRef": reference, "subjects": [subject]}
    return role, {"apiVersion": f"{RBAC}/v1", "kind": f"{kind}Binding", "metadata": dict(about), **binding}
