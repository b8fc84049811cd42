"""BundleDeployments, other objects and stored revisions, as the user who asks may read and change them; and who acts.

A decision carries the resourceVersion of what was shown, so that what has changed meanwhile is neither approved nor
denied. Not here: the questions before it, and what it leads to (cli/changes.py, ui/server.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from rukpak.api import names
from rukpak.api.v1alpha2.reading import try_to_read
from rukpak.api.v1alpha2.status import Pending
from rukpak.api.v1alpha2.types import BundleDeployment, Status
from rukpak.controller.building.revision import Revision
from rukpak.controller.content.limits import some
from rukpak.controller.kube.client import PAGE_ITEMS, Client, Response
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.errors import ApiError, attempt
from rukpak.controller.kube.lease import LEASES
from rukpak.controller.kube.resources import (
    DEPLOYMENTS,
    GroupVersionKind,
    Resource,
    is_shard_name,
    lease_of,
    read_kinds,
)
from rukpak.controller.kube.watch import ListWatch, parse_events
from rukpak.controller.observe.explanations import FEW_PODS, list_pods
from rukpak.controller.observe.health.explain import explain, explained, pods_of
from rukpak.controller.observe.health.verdict import State, Verdict
from rukpak.controller.observe.records import key_of, project
from rukpak.controller.revisions.store import RevisionSecrets, RevisionStore
from rukpak.controller.views import FailedError
from rukpak.controller.views.objects import find_owned_resources, is_hook, is_owned

Manifest = dict[str, Any]
PODS = Resource("", "v1", "Pod", "pods", namespaced=True)
RUNNING = {each.gvk: each for each in (Resource("batch", "v1", "Job", "jobs", namespaced=True), PODS)}
"""The kinds of hooks that run something."""
MANAGER = "kubectl-rukpak"
REQUESTS = 8
"""How many are sent at the same time."""
WATCH_SECONDS = 300
"""How long the API server is asked to keep a watch open."""


class NoApiError(ApiError):
    """The cluster does not serve BundleDeployments."""

    def __str__(self) -> str:
        """Return the message, with the remedy."""
        remedy = 'run "rukpak crd | kubectl apply --server-side -f -" to install the API'
        return f"the cluster does not serve BundleDeployments; {remedy}"

    tell_user = __str__


class Deployments:
    """The BundleDeployments of a cluster. Every method raises ApiError, NoApiError where the API is not installed."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def all(self, selector: str = "") -> list[Manifest]:
        """Return all BundleDeployments, or those whose labels match.

        Raises: ApiError.
        """
        with _explaining():
            return [typed(DEPLOYMENTS, item) for item in self._client.list(DEPLOYMENTS.path(), label_selector=selector)]

    def follow(self, selector: str = "") -> Iterator[tuple[str, Manifest]]:
        """Yield the BundleDeployments whose labels match, then each event with what it is about. Endless.

        Raises: ApiError, while iterating.
        """
        with _explaining():
            for event, value in follow(self._client, DEPLOYMENTS.path(), label_selector=selector):
                yield event, typed(DEPLOYMENTS, value)

    def get(self, name: str) -> Manifest | None:
        """Return a BundleDeployment; None if it does not exist.

        Raises: ApiError.
        """
        return _value_unless_missing(lambda: self._client.get(DEPLOYMENTS.path(name=name)))

    def read(self, name: str, missing: str = "") -> tuple[Manifest, BundleDeployment]:
        """Return a BundleDeployment, as it is on the cluster and validated.

        Raises: FailedError, if it does not exist with the message `missing` or one like it; ApiError.
        """
        value = self.get(name)
        if value is None:
            raise FailedError(missing or f'BundleDeployment "{name}" not found')
        deployment, problem = try_to_read(value)
        if deployment is None:
            raise FailedError(f"{name}: cannot be read: {problem}")
        return value, deployment

    def exists(self, name: str, uid: str) -> bool:
        """Return whether a BundleDeployment exists, with this UID unless that is empty.

        Raises: ApiError.
        """
        found = self.get(name)
        return found is not None and uid in ("", found["metadata"]["uid"])

    def create(self, value: Manifest) -> Manifest:
        """Create a BundleDeployment and return it.

        Raises: ApiError.
        """
        return _value_of(lambda: self._client.create(DEPLOYMENTS.path(), value, manager=MANAGER))

    def apply(self, value: Manifest, *, dry_run: bool = False) -> Manifest:
        """Create a BundleDeployment, or set the fields of one and remove those that an earlier apply has set.

        Raises: ApiError.
        """
        path = DEPLOYMENTS.path(name=value["metadata"]["name"])
        return _value_of(
            lambda: self._client.apply(path, value, manager=MANAGER, force=True, dry_run=dry_run, metadata=False)
        )

    def change(self, name: str, change: Mapping[str, Any]) -> Manifest | None:
        """Merge a change into a BundleDeployment and return the result; None if it does not exist.

        Raises: ApiError.
        """
        path = DEPLOYMENTS.path(name=name)
        return _value_unless_missing(lambda: self._client.merge_patch(path, change, manager=MANAGER))

    def delete(self, name: str) -> None:
        """Request the deletion of a BundleDeployment, if it exists.

        Raises: ApiError.
        """
        _value_unless_missing(lambda: self._client.delete(DEPLOYMENTS.path(name=name)))


def _value_of(request: Callable[[], Response]) -> Manifest:
    with _explaining():
        value: Manifest = request().value
        return value


def _value_unless_missing(request: Callable[[], Response]) -> Manifest | None:
    try:
        return _value_of(request)
    except ApiError as error:
        if error.status == HTTPStatus.NOT_FOUND and error.reason:
            return None
        raise


@contextmanager
def _explaining() -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        # Only an object that does not exist has a reason: for an unknown path the reply is plain text.
        if error.status == HTTPStatus.NOT_FOUND and not error.reason:
            raise NoApiError(error.status, error.reason, error.message) from None
        raise


def typed(resource: Resource, item: Mapping[str, Any]) -> Manifest:
    """Return an item of a list with its apiVersion and kind, which lists leave out."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, **item}


def try_to_list(
    client: Client, resource: Resource, namespace: str = "", label_selector: str = ""
) -> list[Manifest] | None:
    """Return objects of a kind, with their apiVersion and kind, which lists leave out; None if the user may not.

    Raises: ApiError.
    """
    path = resource.path(namespace)
    return attempt(
        lambda: [typed(resource, item) for item in client.list(path, label_selector=label_selector)],
        HTTPStatus.FORBIDDEN,
    )


def follow(
    client: Client,
    path: str,
    *,
    label_selector: str = "",
    field_selector: str = "",
    order: Callable[[Manifest], str] = lambda value: str(value["metadata"]["name"]),
) -> Iterator[tuple[str, Manifest]]:
    """Yield the objects of a collection in order, then each that is created, changed or deleted. Endless.

    Each comes with the type of its event as the API server has it; `ADDED` at first.

    Raises: ApiError, while iterating.
    """
    collection = ListWatch(client, path, label_selector=label_selector, field_selector=field_selector)
    version = ""
    while True:
        if not version:
            pages = list(collection.pages(PAGE_ITEMS))
            version = pages[-1].resource_version
            found = sorted((item for page in pages for item in page.items), key=order)
            yield from (("ADDED", item) for item in found)
        try:
            with collection.open_watch(version, WATCH_SECONDS, WATCH_SECONDS) as stream:
                for kind, value in parse_events(stream):
                    version = value["metadata"]["resourceVersion"]
                    if kind != "BOOKMARK":
                        yield kind, value
        except ApiError as error:
            if error.status != HTTPStatus.GONE:
                raise
            version = ""


def open_store(client: Client, namespace: str) -> RevisionStore:
    """Return the revision store in the namespace of the controller, as far as the user may read it."""
    return RevisionStore(client, RevisionSecrets(client, namespace, lambda _: None, lambda: None))


def read_revisions(client: Client, namespace: str, deployment: BundleDeployment) -> Mapping[str, Revision] | None:
    """Return the installed and the wanted revision by digest; None for users who may not read them.

    Raises: ApiError.
    """
    store, name = open_store(client, namespace), deployment.metadata.name
    digests = sorted({deployment.status.installed_revision, deployment.status.revision} - {""})
    found = attempt(lambda: [store.read(name, digest) for digest in digests], HTTPStatus.FORBIDDEN)
    return None if found is None else {revision.digest: revision for revision in found if revision}


@dataclass(frozen=True, slots=True)
class Listing:
    """The objects of a BundleDeployment, as far as the user may list them."""

    objects: Sequence[Manifest]
    unlisted: Sequence[tuple[str, str]]
    """Kinds that could not be listed, and why."""


def list_objects(client: Client, discovery: Discovery, deployment: BundleDeployment) -> Listing:
    """Return the objects of a BundleDeployment, without its hooks.

    Raises: ApiError.
    """
    return _list_marked(client, discovery, deployment, read_kinds(deployment.status.managed_kinds), is_owned)


def list_hooks(
    client: Client, discovery: Discovery, deployment: BundleDeployment, kinds: Iterable[GroupVersionKind]
) -> Sequence[Manifest]:
    """Return the hooks of a BundleDeployment that exist; without those of kinds that the user cannot list.

    Raises: ApiError.
    """
    if not (deployment.status.revision or deployment.status.installed_revision):
        return []  # no revision, no hooks
    return _list_marked(client, discovery, deployment, sorted(kinds), is_hook).objects


def _list_marked(
    client: Client,
    discovery: Discovery,
    deployment: BundleDeployment,
    kinds: Iterable[GroupVersionKind],
    is_wanted: Callable[[Manifest, BundleDeployment], bool],
) -> Listing:
    objects: list[Manifest] = []
    unlisted = []
    for kind in kinds:
        resource = RUNNING.get(kind) or discovery.resource(kind)
        items = try_to_list(client, resource, "", select_owned(deployment.metadata.name)) if resource else None
        if items is None:
            why = "you cannot list this kind" if resource else "the cluster does not serve this kind"
            unlisted.append((kind.kind, why))
        objects += [item for item in items or () if is_wanted(item, deployment)]
    return Listing(objects, unlisted)


def list_owned(client: Client, values: Iterable[Manifest]) -> Listing:
    """Return what workloads may own: all objects of these kinds in their namespaces. Of the others it names namespaces.

    Raises: ApiError.
    """
    objects: list[Manifest] = []
    unlisted = []
    for namespace, resource in find_owned_resources(map(key_of, values)):
        found = try_to_list(client, resource, namespace)
        if found is None:
            unlisted.append((resource.kind, f'you cannot list this kind in namespace "{namespace}"'))
        objects += found or ()
    return Listing(objects, unlisted)


def with_pods(client: Client, manifest: Manifest, verdict: Verdict) -> Verdict:
    """Return the verdict on an object as its pods explain it, if it has some; itself if the user may not list these."""
    key = key_of(manifest)
    record = project(manifest, key.group, key.kind, verdict, pods_of(manifest, verdict))
    if verdict.state is State.HEALTHY or not record.pods:
        return verdict
    try:
        explanation = explain(list_pods(client, record, FEW_PODS))
    except ApiError:
        return verdict
    return explained(verdict, explanation, kind=key.kind) if explanation else verdict


def select_owned(name: str) -> str:
    """Return the label selector of the objects of a BundleDeployment."""
    return f"{names.OWNER_LABEL}={name}"


TRIES = 5
"""Status may change between reading and writing; what waits usually does not."""
_UNMARKED = {"annotations": {names.PAUSED_WITH_ALL: None}}
PAUSE: Mapping[str, Any] = {"metadata": _UNMARKED, "spec": {"paused": True}}
"""Also makes a pause with all others its own, which stays when all are resumed."""
RESUME: Mapping[str, Any] = {"metadata": _UNMARKED, "spec": {"paused": False}}


def make_request(requested_at: str) -> Mapping[str, Any]:
    """Return the change that requests to re-resolve all sources; the time tells requests apart."""
    return {"metadata": {"annotations": {names.RECONCILE_REQUESTED_AT: requested_at}}}


@dataclass(frozen=True, slots=True)
class Choice:
    """A revision to approve or deny, of a BundleDeployment as it was read."""

    deployment: BundleDeployment
    digest: str

    @property
    def pending(self) -> Pending | None:
        """What status says about the revision; None if it does not wait."""
        pending = self.deployment.status.pending
        return pending if pending and pending.revision == self.digest else None


def decide(verb: str, deployments: Deployments, choice: Choice, choose: Callable[[], Choice]) -> Manifest:
    """Write the decision, unless what was shown has changed since; a new status alone changes nothing.

    Args:
        verb: `approve` or `deny`.
        deployments: of the cluster.
        choice: what was shown.
        choose: reads the BundleDeployment again, and returns what would be shown now.

    Raises: FailedError if it has changed; ApiError.
    """
    name = choice.deployment.metadata.name
    for _ in range(TRIES):
        version = choice.deployment.metadata.resource_version
        change = {"metadata": {"resourceVersion": version}, "spec": _decision(verb, choice)}
        try:
            value = deployments.change(name, change)
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
        else:
            if value is None:
                break
            return value
        again = choose()
        if _shown(again) != _shown(choice):
            break
        choice = again
    raise FailedError(f'"{name}" has changed meanwhile; run the command again')


def _shown(choice: Choice) -> tuple[object, ...]:
    metadata = choice.deployment.metadata
    return metadata.uid, metadata.generation, choice.digest, choice.pending


def _decision(verb: str, choice: Choice) -> Mapping[str, Any]:
    spec, digest = choice.deployment.spec, choice.digest
    if verb == "deny":
        withdrawn = {"approvedRevision": None, "approvedServiceAccountName": None}
        return {"deniedRevision": digest, **(withdrawn if spec.approved_revision == digest else {})}
    # The controller may complete an account that is not named.
    account = choice.pending.service_account_name if choice.pending else spec.service_account_name or None
    reconsidered = {"deniedRevision": None} if spec.denied_revision == digest else {}
    return {"approvedRevision": digest, "approvedServiceAccountName": account, **reconsidered}


def kept_revisions(status: Status) -> list[str]:
    """Return the digests of the revisions that status says are kept, newest first."""
    named = [*(each.revision for each in status.history), status.revision, status.installed_revision]
    pending = [status.pending.revision] if status.pending else []
    return [digest for digest in dict.fromkeys([*named, *pending]) if digest]


def find_kept(status: Status, text: str) -> str:
    """Return the digest of the one kept revision that begins so, as `find_digest` does."""
    return find_digest(kept_revisions(status), text)


def find_digest(known: Iterable[str], text: str) -> str:
    """Return the one digest that begins so, with or without `sha256:`; empty if there is none."""
    beginning = text.removeprefix("sha256:")
    found = [each for each in known if each.removeprefix("sha256:").startswith(beginning)]
    return found[0] if len(found) == 1 else ""


def find_previous(status: Status) -> str:
    """Return the digest of the last revision before the desired one that was healthy; empty if there is none."""
    return next(
        (each.revision for each in status.history if each.outcome == "Healthy" and each.revision != status.revision), ""
    )


def pin(deployments: Deployments, deployment: BundleDeployment, digest: str | None) -> Manifest:
    """Set `spec.pinnedRevision`, or remove it, unless the BundleDeployment has changed since it was read.

    Raises: FailedError if it has changed, or does not exist; ApiError.
    """
    metadata = deployment.metadata
    change = {"metadata": {"resourceVersion": metadata.resource_version}, "spec": {"pinnedRevision": digest}}
    try:
        value = deployments.change(metadata.name, change)
    except ApiError as error:
        if error.status == HTTPStatus.CONFLICT:
            raise FailedError(f"{metadata.name}: changed meanwhile; run the command again") from None
        raise
    if value is None:
        raise FailedError(f"{metadata.name}: not found")
    return value


# the controllers that act


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The controller that holds the Lease."""

    host: str
    """The pod or machine that it runs on."""
    version: str
    """Empty: unknown, since an older release does not record it."""
    seconds: float
    """Since it renewed the Lease, by the clocks of the cluster and of the controller."""
    is_running: bool
    """Whether it has renewed the Lease before a silent controller loses it."""


def read_if_exists(client: Client, path: str) -> Response | None:
    """Return the reply with an object; None if it does not exist.

    Raises: ApiError.
    """
    return attempt(lambda: client.get(path), HTTPStatus.NOT_FOUND)


def read_holder(client: Client, namespace: str, shard: str = "") -> Holder | None:
    """Return the controller that holds the Lease of a shard in a namespace; None: nobody does.

    Raises: ApiError.
    """
    reply = read_if_exists(client, LEASES.path(namespace, lease_of(shard)))
    spec: Mapping[str, Any] = (reply.value.get("spec") or {}) if reply else {}
    if reply is None or not spec.get("holderIdentity"):
        return None
    renewed, identity = str(spec.get("renewTime") or "1970-01-01T00:00:00Z"), str(spec["holderIdentity"])
    seconds = (server_time(reply) - datetime.fromisoformat(renewed)).total_seconds()
    return Holder(
        host=identity.rpartition("_")[0] or identity,
        version=str((reply.value["metadata"].get("annotations") or {}).get(names.VERSION) or ""),
        seconds=seconds,
        is_running=seconds <= float(spec.get("leaseDurationSeconds") or 0),
    )


def server_time(reply: Response) -> datetime:
    """Return when the API server sent a reply, to the second; the time of this machine if it does not say."""
    try:
        return parsedate_to_datetime(reply.headers.get("Date", ""))
    except ValueError:
        return datetime.now(UTC)


def explain_unserved(client: Client, namespace: str, shard: str) -> str:
    """Return that no controller serves a shard, and what to do; empty if one does, or the user may not know.

    Args:
        client: of the cluster.
        namespace: of the controller.
        shard: empty: the default one.

    Raises: ApiError.
    """
    if is_served(client, namespace, shard):
        return ""
    if not shard:
        found = f'no controller is active in namespace "{namespace}"'
        return f'{found}; "rukpak check" says what is missing, and --namespace names another one'
    remedy = f'start one with "--shard {shard}"' if is_shard_name(shard) else "that cannot be the name of one"
    return f'no controller serves the shard "{shard}"; {remedy}, or change the label {names.SHARD}'


def describe_unserved(shards: Mapping[str, str], explain: Callable[[str], str]) -> list[str]:
    """Return a line for each shard without a controller: the BundleDeployments that nobody acts on, and what to do.

    Args:
        shards: the shard of each BundleDeployment, by name; empty for the default one.
        explain: see `explain_unserved`.

    Raises: whatever `explain` does.
    """
    found: dict[str, list[str]] = {}
    for name, shard in sorted(shards.items()):
        found.setdefault(shard, []).append(name)
    return [f"{some(found[shard])}: {why}" for shard in sorted(found) if (why := explain(shard))]


def is_served(client: Client, namespace: str, shard: str) -> bool:
    """Return whether a controller serves a shard, empty: the default one; true if the user may not know.

    Raises: ApiError.
    """
    if shard and not is_shard_name(shard):
        return False

    def _is_held() -> bool:
        holder = read_holder(client, namespace, shard)
        return holder is not None and holder.is_running

    return attempt(_is_held, HTTPStatus.FORBIDDEN) is not False
