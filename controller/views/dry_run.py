"""What a revision would change on its cluster, as the API server answers a dry run of each apply.

What would be refused is found as the controller finds it: by the decision about an object, the reply to its dry run,
the check of a CustomResourceDefinition that changes, and by asking which rights the account lacks.

Each object is applied as a dry run: with the field manager of the controller, forced where the controller forces, as
the user who asks. The sender of the controller (apply/sender.py) cannot do that: what it writes before and after an
apply, to managedFields for example, would have to be there for the apply to be tried. What needs that, and what the
server does not let this user try, is computed (`overlay`): without defaults and admission, and with lists that cannot
be recognized taken as a whole. What the user may not even read is shown as it was rendered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import OF_ABSENCE, Reason
from rukpak.api.v1alpha2.reading import try_to_read
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.apply import leftovers
from rukpak.controller.apply.crd_upgrade import inspect_upgrade
from rukpak.controller.apply.drift import (
    UnclaimedItems,
    as_compared,
    has_field,
    is_claimed,
    merge_keys,
    only,
    united,
)
from rukpak.controller.apply.execute import AccessReviewer
from rukpak.controller.apply.holders import (
    Refused,
    Trials,
    find_allocated,
    find_dropped,
    may_be_deleted,
    read_replaced,
)
from rukpak.controller.apply.ledger import Ledger
from rukpak.controller.apply.managed_fields import Probe, claimed_fields, emptied, find_taken, parse_field
from rukpak.controller.apply.ownership import (
    CRD,
    Disposal,
    Giver,
    HandOver,
    RemovalCause,
    dispose,
    find_surplus,
    make_body,
    name_objects,
    was_applied,
)
from rukpak.controller.apply.plan import Action, ApplyOptions, Task, decide_about
from rukpak.controller.apply.replies import ApplyFailure, Contest, Recovery, classify
from rukpak.controller.apply.requests import Pool
from rukpak.controller.apply.rights import lack_of
from rukpak.controller.apply.targets import (
    Target,
    TargetSet,
    find_missing_labels,
    find_reduced,
    leave_out_missing,
    make_targets,
)
from rukpak.controller.apply.trees import (
    common_tree,
    differing,
    find_items,
    inside,
    pruned,
    refused_part,
    united_trees,
    without_tree,
)
from rukpak.controller.building.revision import Revision
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.client import Client, User
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.errors import USER_CHARACTERS, ApiError
from rukpak.controller.kube.resources import GroupVersionKind, read_kinds
from rukpak.controller.observe.deployments import find_hindrance
from rukpak.controller.observe.records import Record, Tree, entry_of, fields_of, key_of, pass_on, project
from rukpak.controller.processes.supervision import Supervisor
from rukpak.controller.revisions.accounts import Account, identify
from rukpak.controller.views import MisuseError
from rukpak.controller.views.access import REQUESTS, Deployments, select_owned, try_to_list
from rukpak.controller.views.comparison import (
    Change,
    Comparison,
    Difference,
    clean,
    compare_hooks,
    compare_revisions,
)
from rukpak.controller.views.objects import owner_of

_RENDERED = "as rendered"
_ANY_NAMESPACE = "default"
"""Every cluster has it."""
_COMPUTED = (Recovery.TAKE_OVER_ITEMS, Recovery.MIGRATE_ENTRIES)
"""What the controller does before it applies again, and a dry run cannot."""
Manifest = Mapping[str, Any]
Progress = Callable[[int, int], None]
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """A revision, and the BundleDeployment that it is of."""

    deployment: BundleDeployment
    revision: Revision
    client: Client | None = None
    """Client of its cluster; None for a file."""

    def on_cluster(self) -> Client:
        """Return the client.

        Raises: MisuseError for a file without a cluster.
        """
        if self.client is None:
            raise MisuseError("requires a cluster")
        return self.client


def compare(
    reviewed: Reviewed,
    read_installed: Callable[[str], Revision | None],
    bundle: str,
    progress: Progress = lambda _done, _count: None,
    passing_on: Container[str] = (),
) -> Comparison:
    """Compare a revision with its cluster.

    Args:
        reviewed: the revision.
        read_installed: returns the installed one by its digest, if the user may read it.
        bundle: what `rukpak rights` is told to show which rights the bundle needs.
        progress: called with the numbers of compared and of all objects.
        passing_on: more field managers whose fields become the BundleDeployment's; see `records.pass_on`.

    Raises: ApiError.
    """
    deployment, revision = reviewed.deployment, reviewed.revision
    digest = deployment.status.installed_revision
    installed = revision if digest == revision.digest else read_installed(digest) if digest else None
    dry_run = DryRun(reviewed, Discovery(reviewed.on_cluster()), installed, passing_on)
    objects, problems = dry_run.compare(progress)
    pending = deployment.status.pending
    said = pending.problems if pending and pending.revision == revision.digest else ()
    known = {text for each in objects for text in (each.note, f"{each.key}: {each.note}")}
    return Comparison(
        name=deployment.metadata.name,
        revision=revision.digest,
        against="the cluster",
        objects=objects,
        hooks=[] if digest == revision.digest else compare_hooks(installed, revision, is_upgrade=bool(digest)),
        refusals=[text for text in dict.fromkeys([*dry_run.find_lack(bundle), *said]) if text not in known],
        problems=problems,
    )


def compare_two(reviewed: Reviewed, before: Revision) -> Comparison:
    """Compare a revision with another one, as they were rendered.

    Raises: ApiError if discovery fails.
    """
    is_namespaced, owner = Discovery(reviewed.on_cluster()).is_namespaced, owner_of(reviewed.deployment)
    old, new = (make_targets(each, owner, is_namespaced) for each in (before, reviewed.revision))
    hooks = compare_hooks(before, reviewed.revision, is_upgrade=True)
    changed = [each for each in hooks if each.before != each.after]
    return compare_revisions(reviewed.deployment.metadata.name, old, new, changed)


def find_targets(reviewed: Reviewed, discovery: Discovery) -> TargetSet:
    """Return the targets of a revision, without optional ones that the cluster does not serve.

    Raises: ApiError if discovery fails.
    """
    found = make_targets(reviewed.revision, owner_of(reviewed.deployment), discovery.is_namespaced)
    return leave_out_missing(found, lambda kind: discovery.resource(kind) is None)


class DryRun:
    """Compares the objects of a revision with those on its cluster.

    Args:
        reviewed: the revision.
        discovery: of its cluster.
        installed: the installed one, if it is known.
        passing_on: see `compare`.
    """

    def __init__(
        self,
        reviewed: Reviewed,
        discovery: Discovery,
        installed: Revision | None,
        passing_on: Container[str] = (),
    ) -> None:
        self._passing_on = passing_on
        self._client, self._deployment, self._installed = reviewed.on_cluster(), reviewed.deployment, installed
        self._discovery, self._targets = discovery, find_targets(reviewed, discovery)
        self._resources = {
            target.key: resource
            for target in self._targets.targets
            if (resource := discovery.resource(target.kind)) and (target.key.namespace or not resource.namespaced)
        }
        """Of the targets, as far as the cluster serves them."""
        self._owner = owner_of(self._deployment)
        self._manager = names.field_manager(self._owner.name)
        self._live: dict[ObjectKey, Manifest] = {}
        self._problems: list[str] = [leftovers.describe_left(each) for each in self._deployment.status.leftovers]
        before = make_targets(installed, self._owner, discovery.is_namespaced) if installed else None
        self._reduced = find_reduced(before, self._targets) if before else {}
        spec = self._deployment.spec
        self._options = ApplyOptions(
            owner=self._owner,
            user=None,
            collision_protection=spec.collision_protection,
            install_namespace=spec.install_namespace or self._deployment.status.install_namespace,
            spec_version="",
            wanted=self._targets,
            installed=False,
            ledger=Ledger(),
            exists=self._exists,
            hand_over=HandOver(givers={giver.owner.name: giver for giver in self._find_givers()}),
            crd_upgrade_safety=spec.crd_upgrade_safety,
            proceed=lambda: True,
        )

    def _exists(self, name: str, uid: str) -> bool:
        try:
            return Deployments(self._client).exists(name, uid)
        except ApiError:
            return True  # as long as nobody says that it does not

    def _find_givers(self) -> Iterator[Giver]:
        for reference in self._deployment.spec.take_over:
            try:
                value = Deployments(self._client).get(reference.name)
            except ApiError:
                continue
            giver, _ = try_to_read(value) if value else (None, "")
            if giver:
                yield Giver(owner=owner_of(giver), user=None, hindrance=find_hindrance(giver))

    def compare(self, progress: Progress) -> tuple[list[Difference], list[str]]:
        """Compare all objects; returns the differences, and what is unsafe or could not be found out.

        Args:
            progress: called with the numbers of compared and of all objects.

        Raises: ApiError.
        """
        with ThreadPoolExecutor(REQUESTS) as pool:
            kinds = {*self._targets.kinds, *read_kinds(self._deployment.status.managed_kinds)}
            for listed in pool.map(self._list, sorted(kinds)):
                self._live |= listed
            futures = [pool.submit(self._compare, target) for target in self._targets.targets]
            try:
                for count, future in enumerate(as_completed(futures), 1):
                    future.result()  # one that failed ends it
                    progress(count, len(futures))
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
        made = zip(self._targets.targets, (each.result() for each in futures), strict=True)
        objects = [difference for target, difference in made if not self._is_idle(target, difference)]
        return [*map(self._inspect, objects), *self._find_gone()], self._problems

    def find_lack(self, bundle: str) -> list[str]:
        """Return which rights the account lacks that applies the objects, as far as the user may ask as the account.

        Args:
            bundle: what `rukpak rights` is told to show those of the whole bundle.

        Raises: ApiError if discovery fails.
        """
        account, namespace = self._deployment.spec.service_account_name, self._options.install_namespace
        if not account or not namespace:
            return []
        user = User.service_account(namespace, account)
        served = (each for each in self._targets.targets if not each.bare and each.key in self._resources)
        items = [(target, self._resources[target.key]) for target in served]
        pool = Pool(REQUESTS, Supervisor())
        try:
            reviewer = AccessReviewer(self._client, pool)
            missing = reviewer.missing_to_repair(items, replace(self._options, user=user))
        finally:
            pool.stop()
        if not missing:
            return []
        return [self._find_absence(Account(namespace, account)) or lack_of(missing, user.name, bundle).message]

    def _find_absence(self, account: Account) -> str:
        # Rights are of no use to an account that does not exist; who may not look is told about the rights.
        if ObjectKey("", "ServiceAccount", account.namespace, account.name) in self._targets.by_key:
            return ""
        try:
            identify(self._client, account)
        except BundleError as error:
            return error.message if error.reason in OF_ABSENCE else ""
        return ""

    def _is_idle(self, target: Target, difference: Difference) -> bool:
        # It only has to exist.
        is_there = difference.change is Change.NONE or bool(self._deployment.status.installed_revision)
        return target.bare and is_there

    # what is there

    def _list(self, kind: GroupVersionKind) -> dict[ObjectKey, Manifest]:
        # If they may not be listed, each is read.
        resource = self._discovery.resource(kind) if self._deployment.metadata.uid else None
        if resource is None:
            return {}
        items = try_to_list(self._client, resource, label_selector=select_owned(self._owner.name))
        if items is None:
            self._problems.append(f"{kind}: you cannot list this kind, so deletions of such objects are not shown")
            return {}
        return {key_of(item): item for item in items}

    def _find_gone(self) -> Iterator[Difference]:
        records = self._records()
        for record in find_surplus(self._targets.by_key, self._name_installed() or records, records, self._owner):
            disposal, live = dispose(record, RemovalCause.PRUNE), self._live[record.key]
            is_kept = disposal is Disposal.RELEASE or self._deployment.spec.prune == "Never"
            note = "it stays because of its kind, its annotations or spec.prune" if is_kept else ""
            if disposal is Disposal.DELETE_UNUSED:
                note = "unless it is in use"
            yield Difference(
                key=record.key,
                api_version=str(live["apiVersion"]),
                change=Change.KEPT if is_kept else Change.DELETED,
                before=clean(live),
                note=note,
            )

    def _records(self) -> dict[ObjectKey, Record]:
        return {key: project(value, key.group, key.kind) for key, value in self._live.items()}

    def _name_installed(self) -> Collection[ObjectKey]:
        # If it is not known, marks alone count.
        if self._installed is None:
            return ()
        return name_objects([self._installed], self._discovery.is_namespaced, orphan=self._owner.orphan)

    # what would be done

    def _compare(self, target: Target) -> Difference:
        if target.key in self._resources:
            live = self._live.get(target.key)
            return self._change(target, live) if live else self._create(target)
        if target.kind[::2] in self._targets.resources:
            return _as_rendered(target, Change.CREATED, f"{_RENDERED}, since its CustomResourceDefinition is new")
        return _difference(target, Change.REFUSED, None, None, f"the cluster does not serve {target.kind}")

    def _create(self, target: Target) -> Difference:
        try:
            reply = self._apply(target, self._make_body(target, None), force=False)
            if reply.status == HTTPStatus.CREATED:
                return _difference(target, Change.CREATED, None, reply.value)
        except ApiError as error:
            failure = self._classify(target, error)
            if error.status != HTTPStatus.CONFLICT and failure.recovery is not Recovery.JUDGE_AGAIN:
                return self._explain(target, None, error)
        try:
            live = self._read(target)
        except ApiError as error:
            return self._explain(target, None, error)
        return self._change(target, live)

    def _change(self, target: Target, live: Manifest) -> Difference:
        task = decide_about(target, project(live, target.key.group, target.key.kind), self._options)
        match task.action:
            case Action.USE:
                return self._use(target, task)
            case Action.REFUSE:
                refused = _difference(target, Change.REFUSED, None, None, task.refusal.problem if task.refusal else "")
                return replace(refused, holder=live)
            case Action.AWAIT:
                return _as_rendered(target, Change.RECREATED, "it is being deleted")
        body = self._make_body(target, live)
        if untried := _why_untried(task):
            live = pass_on(live, self._passing_on)
            takes = task.evicts and self._takes_fields(target, live)
            taken = find_taken(live, body, self._probe(target, body)) if takes else {}
            return self._overlay(target, live, *untried, taken=taken)
        if task.action is Action.COMPARE and is_claimed(live, body, self._manager):
            return _difference(target, Change.NONE, None, None)  # the controller would send nothing, either
        made = self._try(target, live, body, is_adopted=task.action is Action.TAKE_BACK)
        is_adopted = task.action is Action.TAKE_BACK and made.change is Change.CHANGED
        return replace(made, note=made.note or "adopted") if is_adopted else made

    def _use(self, target: Target, task: Task) -> Difference:
        self._problems += find_missing_labels(self._targets, {target.key: task.record})
        return _difference(target, Change.NONE, None, None)

    def _try(self, target: Target, live: Manifest, body: Manifest, *, is_adopted: bool) -> Difference:
        live = pass_on(live, self._passing_on)
        before, is_taken = self._reduced.get(target.key), is_adopted and self._takes_fields(target, live)
        probe = self._probe(target, body)
        taken = find_taken(live, body, probe) if is_taken else {}
        ours = fields_of(entry_of(live, self._manager))
        if leftovers.empties(is_taken or before, body) and any(emptied(live, body, united_trees(ours, taken))):
            # An apply would leave null there, so the controller sends two requests.
            after = overlay(pruned(live, taken), body, self._manager)
            return _difference(target, Change.CHANGED, live, after, "computed, since a map or list becomes empty")
        try:
            after = self._apply(target, body, force=True).value
            if after["metadata"].get("resourceVersion") != live["metadata"].get("resourceVersion"):
                live = pass_on(self._read(target), self._passing_on)  # another client was faster
        except ApiError as error:
            return self._explain(target, live, error)
        kept: Tree = {}
        if taken:
            taken, kept = self._split_taken(target, live, taken, probe)
            after = pruned(after, taken)
        before = live if is_taken and leftovers.is_converted(live) else before
        if before and (left := leftovers.find_left(after, before, body)):
            left = differing(left, after, probe.made) if probe.made else left
            # What was ours, the apply has removed, and the API server has brought back.
            retained = leftovers.split_retained(left, target.key)[0]
            kept = united_trees(kept, united_trees(retained, common_tree(left, ours)))
            after = pruned(after, without_tree(left, kept))
        left_here = leftovers.list_left(target.key, after, kept, leftovers.KEPT, conceals=False)
        self._problems += map(leftovers.describe_left, left_here)
        return _difference(target, Change.CHANGED, live, after)

    def _takes_fields(self, target: Target, live: Manifest) -> bool:
        record = project(live, target.key.group, target.key.kind)
        return record.passed_on and not was_applied(record, self._owner)

    def _split_taken(self, target: Target, live: Manifest, taken: Tree, probe: Probe) -> tuple[Tree, Tree]:
        without = pruned(live, taken)
        fields = [name for name in without if name not in ("apiVersion", "kind", "metadata", "status")]
        changes = [{"op": "replace", "path": f"/{name}", "value": without[name]} for name in fields]
        try:
            changed = self._client.json_patch(self._path(target), changes, manager=self._manager, dry_run=True).value
        except ApiError as error:
            if error.status == HTTPStatus.UNPROCESSABLE_ENTITY:
                causes = [parse_field(cause.field) for cause in error.causes if cause.field]
                return without_tree(taken, refused_part(taken, causes)), {}
            return taken, {}
        still = inside({name: child for name, child in taken.items() if name != "f:metadata"}, changed)
        kept = leftovers.find_kept(still, changed, probe.made if still else None, target.key)
        return without_tree(taken, kept), kept

    def _path(self, target: Target) -> str:
        key = target.key
        return self._resources[key].path(key.namespace, key.name)

    def _read(self, target: Target) -> Manifest:
        value: Manifest = self._client.get(self._path(target)).value
        return value

    def _apply(self, target: Target, body: Manifest, *, force: bool) -> Any:
        path = self._path(target)
        return self._client.apply(path, body, manager=self._manager, force=force, dry_run=True, metadata=False)

    def _probe(self, target: Target, body: Manifest) -> Probe:
        return Probe(self._client, self._resources[target.key], body, self._manager)

    def _trials(self, target: Target) -> Trials:
        resource = self._resources[target.key]
        return Trials(client=self._client, resource=resource, manager=self._manager, key=target.key)

    def _make_body(self, target: Target, live: Manifest | None) -> Manifest:
        if target.bare:
            return target.manifest
        ignored = (
            only(live, [path for path in target.ignored.paths if has_field(live, path)]) if live else target.initial
        )
        body: Manifest = make_body(united(target.manifest, ignored), self._owner)
        return as_compared(body, live) if live else body

    # what cannot be tried

    def _explain(self, target: Target, live: Manifest | None, error: ApiError) -> Difference:
        failure = self._classify(target, error)
        if failure.reason is Reason.API_UNAVAILABLE:
            raise error
        namespace = ObjectKey("", "Namespace", "", target.key.namespace)
        if failure.reason is Reason.NAMESPACE_NOT_FOUND and namespace in self._targets.by_key:
            return self._try_elsewhere(target)
        if failure.contest is not Contest.NONE and (made := self._make_way(target, live, failure)):
            return made
        may_not_apply = failure.reason is Reason.FORBIDDEN  # also admission answers 403
        if live is None and may_not_apply:
            return self._read_and_compute(target)
        if live and failure.recovery is Recovery.RECREATE and target.recreate and target.key in self._live:
            made = self._overlay(target, live, "deleted and created again, since a field is immutable")
            return replace(made, change=Change.RECREATED)
        if live and (may_not_apply or self._is_computed(target, live, failure)):
            return self._overlay(target, live, "computed, since you may not apply it")
        problem = failure.problem
        if failure.contest is Contest.ALLOCATED:
            services = self._trials(target).list_services()
            whose = find_allocated(self._make_body(target, None), target.key, services, self._targets.by_key)
            problem = f"{problem}; {whose}"
        return _difference(target, Change.REFUSED, None, None, problem)

    def _make_way(self, target: Target, live: Manifest | None, failure: ApplyFailure) -> Difference | None:
        records = self._records()
        older = self._name_installed() or records
        dropped = find_dropped(target.key, self._targets.by_key, older, records, self._owner)
        refused = Refused(
            body=self._make_body(target, None),
            by_quota=failure.contest is Contest.QUOTA,
            replaces=read_replaced(target.manifest, target.key),
        )
        holders = self._trials(target).find_holders(refused, dropped).known
        makes_way = (
            self._deployment.spec.prune != "Never" and not self._owner.orphan and all(map(may_be_deleted, holders))
        )
        if not (holders and makes_way):
            return None
        note = f"once {', '.join(str(record.key) for record in holders)} is deleted, which has what it needs"
        return (
            self._overlay(target, live, note) if live else _as_rendered(target, Change.CREATED, f"{_RENDERED}, {note}")
        )

    def _classify(self, target: Target, error: ApiError) -> ApplyFailure:
        namespace = self._options.install_namespace
        return classify(error, target.key, install_namespace=namespace, characters=USER_CHARACTERS)

    def _try_elsewhere(self, target: Target) -> Difference:
        body = self._make_body(target, None)
        body = {**body, "metadata": {**body["metadata"], "namespace": _ANY_NAMESPACE}}
        try:
            path = self._resources[target.key].path(_ANY_NAMESPACE)
            self._client.create(path, body, manager=self._manager, dry_run=True)
        except ApiError as error:
            # Whatever else is refused there says nothing about a namespace that does not exist yet.
            if error.status == HTTPStatus.UNPROCESSABLE_ENTITY:
                return _difference(target, Change.REFUSED, None, None, self._classify(target, error).problem)
        return _as_rendered(target, Change.CREATED, f"{_RENDERED}, since its namespace does not exist yet")

    def _is_computed(self, target: Target, live: Manifest, failure: ApplyFailure) -> bool:
        if failure.recovery is not Recovery.TAKE_OVER_FIELDS:
            return failure.recovery in _COMPUTED
        return claimed_fields(live, target.manifest, self._manager, failure.fields) is not None

    def _read_and_compute(self, target: Target) -> Difference:
        try:
            live = self._read(target)
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return _as_rendered(target, Change.CREATED, f"{_RENDERED}, since you may not apply it")
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            return _as_rendered(target, Change.UNREAD, "")
        task = decide_about(target, project(live, target.key.group, target.key.kind), self._options)
        if target.bare or task.action is Action.USE:
            return self._use(target, task)
        return self._overlay(target, live, "computed, since you may not apply it")

    def _overlay(
        self, target: Target, live: Manifest, note: str, manager: str = "", taken: Tree | None = None
    ) -> Difference:
        # `manager` applied the object before, if it is not ours; `taken` goes with its adoption.
        after = overlay(pruned(live, taken or {}), self._make_body(target, live), manager or self._manager)
        return _difference(target, Change.CHANGED, live, after, note)

    # beside the objects

    def _inspect(self, difference: Difference) -> Difference:
        if difference.key[:2] != CRD or difference.change is not Change.CHANGED:
            return difference
        target = self._targets.by_key[difference.key]
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{difference.key.name}"
        try:
            warnings = inspect_upgrade(self._client, path, target.manifest, self._options.crd_upgrade_safety)
        except BundleError as error:
            return _difference(target, Change.REFUSED, None, None, error.message)
        except ApiError as error:
            warnings = (f"{difference.key}: its upgrade could not be checked: {error}",)
        self._problems += warnings
        return difference


def _why_untried(task: Task) -> tuple[str, str] | None:
    if task.action is Action.TAKE_OVER and task.record:
        owner = task.record.owner
        return f'taken over from BundleDeployment "{owner}"; computed', names.field_manager(owner)
    if task.action is Action.TAKE_BACK and task.evicts:
        return "computed, since another object controls it until it is adopted", ""
    return None


def _difference(target: Target, change: Change, before: Any, after: Any, note: str = "") -> Difference:
    old, new = clean(before) if before else None, clean(after) if after else None
    if change is Change.CHANGED and old == new:
        change, old, new, note = Change.NONE, None, None, ""
    version = target.kind.api_version
    return Difference(key=target.key, api_version=version, change=change, before=old, after=new, note=note)


def _as_rendered(target: Target, change: Change, note: str) -> Difference:
    return _difference(target, change, None, united(target.manifest, target.initial), note)


def overlay(live: Mapping[str, Any], body: Mapping[str, Any], manager: str) -> dict[str, Any]:
    """Return an object with the fields of an apply, and without those that only the apply before had set.

    Args:
        live: the object as it is.
        body: the object as it is sent.
        manager: the field manager of the apply.
    """
    return _merge(live, body, fields_of(entry_of(live, manager)), ())


def _merge(live: Mapping[str, Any], body: Mapping[str, Any], owned: Mapping[str, Any], path: Path) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for key, value in live.items():
        node = owned.get(f"f:{key}")
        if key in body:
            merged[key] = _merge_value(value, body[key], node or {}, (*path, key))
        elif node is None:
            merged[key] = value
        elif node and isinstance(value, dict) and (rest := _merge(value, {}, node, (*path, key))):
            merged[key] = rest  # other clients have put fields into it, too
    return merged | {key: value for key, value in body.items() if key not in live}


def _merge_value(live: Any, ours: Any, owned: Mapping[str, Any], path: Path) -> Any:
    if isinstance(ours, dict) and isinstance(live, dict):
        return _merge(live, ours, owned, path)
    if isinstance(ours, list) and isinstance(live, list):
        return _merge_lists(live, ours, owned, path)
    return ours


def _merge_lists(live: list[Any], ours: list[Any], owned: Mapping[str, Any], path: Path) -> list[Any]:
    keys = merge_keys(ours, path)
    if not keys or not all(isinstance(item, dict) for item in live):
        return ours
    nodes: dict[int | None, Tree] = {place: node for _, node, place in find_items(owned, live)}
    merged, unclaimed, left = [], UnclaimedItems(live), set(range(len(live)))
    for item in ours:
        place = unclaimed.claim({key: item[key] for key in keys if key in item})
        left.discard(-1 if place is None else place)
        merged.append(_merge({} if place is None else live[place], item, nodes.get(place, {}), path))
    return [*merged, *(live[place] for place in sorted(left) if place not in nodes)]
