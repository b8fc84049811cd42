"""`rukpak permissions` and `rukpak rights`: what a bundle may do once it runs, and what its account must be allowed."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Capabilities
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.api.v1alpha2.verification import config_maps_of, secrets_of
from rukpak.controller.apply.execute import read_rules
from rukpak.controller.apply.rights import FindResource, RbacRight, find_rights, make_roles, merge
from rukpak.controller.building import capabilities as capabilities_file
from rukpak.controller.building.config_values import find_secrets
from rukpak.controller.building.revision import Revision
from rukpak.controller.cli.command import tell
from rukpak.controller.cli.content import is_named
from rukpak.controller.cli.render import find, read_stored
from rukpak.controller.formats.objects import BUILT_IN_GROUPS, crd_specs
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.resources import GroupVersionKind, Resource
from rukpak.controller.permissions import Permissions, added, digest_of, look_up, permissions_of
from rukpak.controller.permissions.statement import Line, Topic, to_lines
from rukpak.controller.untrusted import text
from rukpak.controller.views import FailedError, MisuseError
from rukpak.controller.views.dry_run import Reviewed
from rukpak.controller.views.texts import dump_as, list_of, to_json, to_yaml

Find = Callable[[GroupVersionKind], Resource | None]
_FOLLOWED = ("get", "list", "watch")


def show_permissions(options: argparse.Namespace) -> int:
    """Show permissions; return the exit status.

    Raises: as `render.find`.
    """
    if options.new and (options.file or is_named(options)):
        raise MisuseError("--new compares with the installed revision and requires NAME alone")
    reviewed = find(options)
    permissions = permissions_of(reviewed.revision)
    if options.new:
        permissions = _new(reviewed, options, permissions)
    client = reviewed.client
    known = look_up(permissions, lambda *role: read_rules(client, *role)) if client else frozenset()
    print(_show_permissions(reviewed, options, permissions, to_lines(known - permissions)), end="")
    return 0


def _new(reviewed: Reviewed, options: argparse.Namespace, permissions: Permissions) -> Permissions:
    digest = reviewed.deployment.status.installed_revision
    if not digest:
        return permissions
    if digest == reviewed.revision.digest:
        return frozenset()
    installed = read_stored(reviewed.client, options, digest) if reviewed.client else None
    if installed is None:
        remedy = f'ask for permission to read Secrets in namespace "{options.namespace}"'
        raise FailedError(f"the installed revision {digest} cannot be read; {remedy}")
    return added(permissions, permissions_of(installed))


def _show_permissions(
    reviewed: Reviewed, options: argparse.Namespace, permissions: Permissions, known: list[Line]
) -> str:
    lines = to_lines(permissions)
    if not options.output:
        return "".join(f"{line}\n" for line in _describe(reviewed, lines, known, is_new=options.new))
    value = {
        "name": reviewed.deployment.metadata.name,
        "revision": reviewed.revision.digest,
        "digest": digest_of(permissions),
        "permissions": [_to_value(line) for line in lines],
        "rolesOnCluster": [_to_value(line) for line in known],
    }
    return dump_as(options.output, value)


def _to_value(line: Line) -> dict[str, str]:
    return {"topic": line.topic.value, "severity": line.severity.name.capitalize(), "text": line.text}


def _describe(reviewed: Reviewed, lines: list[Line], known: list[Line], *, is_new: bool) -> Iterable[str]:
    yield f"{reviewed.deployment.metadata.name}: revision {reviewed.revision.digest}"
    if not lines:
        yield "nothing beyond the installed revision" if is_new else "nothing beyond its own namespace"
    yield from describe(lines)
    if known:
        yield from ("Roles on the cluster:", *(f"  {line.text}" for line in known))


def describe(lines: list[Line]) -> Iterator[str]:
    """Yield permissions below the topics that they belong to."""
    for topic in Topic:
        texts = [line.text for line in lines if line.topic is topic]
        if texts:
            yield from (f"{topic.value}:", *(f"  {text}" for text in texts))


def show_rights(options: argparse.Namespace) -> int:
    """Show rights; return the exit status.

    Raises: as `render.find`; MisuseError without an account.
    """
    # The account changes nothing of what is installed, which need not be rendered for it.
    reviewed = find(argparse.Namespace(**{**vars(options), "service_account": None}))
    account = options.service_account or reviewed.deployment.spec.service_account_name
    if not account:
        raise MisuseError(
            "spec.serviceAccountName is not set, so the controller installs the bundle with its own permissions; "
            "name an account with --service-account"
        )
    resources = _resources(reviewed)
    found = sorted(
        {*find_rights(reviewed.revision, resources.find), *rights_to_read(reviewed.deployment, resources.find)}
    )
    for kind in sorted(resources.guessed):
        tell(f"warning: {kind}: not served and not defined in the bundle; check its resource in the rules")
    print(_show_roles(options, reviewed, found, account), end="")
    return 0


def _resources(reviewed: Reviewed) -> Resources:
    if reviewed.client is None:
        return Resources(reviewed.revision, capabilities_file.shipped())
    discovery = Discovery(reviewed.client)
    return Resources(reviewed.revision, discovery.capabilities(), discovery.resource)


def rights_to_read(deployment: BundleDeployment, find: FindResource) -> Iterator[RbacRight]:
    """Yield the right to read each object that a spec names, which is read as the account.

    Those of `spec.configFrom`, of processors and of `spec.dependsOn` are followed, too. Not here: imagePullSecrets of
    the account, which only the cluster knows.
    """
    spec = deployment.spec
    namespace = spec.install_namespace or ""
    for source in spec.sources:
        if source.secret:
            yield _right_to_read("secrets", source.secret.namespace or namespace, source.secret.name, "get")
        for _, secret in secrets_of(source.verification) if source.verification else ():
            yield _right_to_read("secrets", secret.namespace or namespace, secret.name, "get")
        for _, config_map in config_maps_of(source.verification) if source.verification else ():
            yield _right_to_read("configmaps", namespace, config_map.name, *_FOLLOWED)
    followed = [(f"{each.kind.lower()}s", each.name) for each in spec.config_from]
    try:
        followed += [("secrets", name) for _, name in find_secrets(spec)]
    except BundleError as error:  # a plug-in that is not installed here
        tell(f"warning: {error.message}; the Secrets that it reads are missing in the rules")
    for resource, name in dict.fromkeys(followed):
        yield _right_to_read(resource, namespace, name, *_FOLLOWED)
    for each in spec.depends_on:
        if each.kind:
            found = find(GroupVersionKind.of({"apiVersion": each.api_version, "kind": each.kind}))
            place = (each.namespace or namespace) if found.namespaced else ""
            yield _right_to_read(found.plural, place, each.name, *_FOLLOWED, group=found.group)


def _right_to_read(resource: str, namespace: str, name: str, *verbs: str, group: str = "") -> RbacRight:
    return RbacRight(namespace=namespace, groups=(group,), resources=(resource,), resource_names=(name,), verbs=verbs)


def _show_roles(options: argparse.Namespace, reviewed: Reviewed, rights: list[RbacRight], account: str) -> str:
    if not options.output:
        return "".join(f"{rule}\n" for rule in merge(rights))
    name, namespace = reviewed.deployment.metadata.name, reviewed.revision.terms.install_namespace
    roles = make_roles(rights, name=f"rukpak-{name}", account=(namespace, account))
    return to_json(list_of(roles)) if options.output == "json" else "---\n".join(map(to_yaml, roles))


class Resources:
    """Finds resources: those that CRDs of a revision define, those that a cluster serves, or else by their kind.

    `guessed` has the kinds that only a rule of Kubernetes names (apimachinery, UnsafeGuessKindToResource). It is right
    for all built-in kinds, and for most others.
    """

    def __init__(self, revision: Revision, capabilities: Capabilities, served: Find = lambda _: None) -> None:
        self._capabilities, self._served = capabilities, served
        self._namespaced = {
            GroupVersionKind.of(item): bool(item["metadata"].get("namespace")) for item in revision.objects
        }
        self._defined = {
            (text(spec, "group"), text(spec, "names", "kind")): spec for spec in crd_specs(revision.objects)
        }
        self.guessed: set[GroupVersionKind] = set()

    def find(self, kind: GroupVersionKind) -> Resource:
        """Return the resource of a kind."""
        if spec := self._defined.get((kind.group, kind.kind)):
            plural, is_namespaced = text(spec, "names", "plural"), spec.get("scope") == "Namespaced"
            return Resource(kind.group, kind.version, kind.kind, plural, namespaced=is_namespaced)
        if resource := self._served(kind):
            return resource
        if kind.group not in BUILT_IN_GROUPS:
            self.guessed.add(kind)
        is_namespaced = self._capabilities.kinds.get(
            (kind.group, kind.version, kind.kind), self._namespaced.get(kind, False)
        )
        return Resource(kind.group, kind.version, kind.kind, guess_plural(kind.kind), namespaced=is_namespaced)


def guess_plural(kind: str) -> str:
    """Return the plural that Kubernetes would guess for a kind."""
    name = kind.lower()
    if name == "endpoints":
        return name
    if name.endswith("s"):
        return f"{name}es"
    return f"{name.removesuffix('y')}ies" if name.endswith("y") else f"{name}s"
