"""A reconciler with all its real parts and a cluster in memory; the content of its sources is a dictionary.

Everything happens immediately and on the thread of the test, except the requests of one step of applying. Only the test
moves the clock. A restart keeps the cluster and forgets everything else.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Any, TypeVar, cast

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.plugins import Capabilities, Limits
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.types import BundleDeployment, SourcePin, Spec
from rukpak.controller.apply.execute import Applier
from rukpak.controller.apply.hooks import HookRunner
from rukpak.controller.apply.removal import Remover
from rukpak.controller.building.builder import Builder
from rukpak.controller.building.request import BuildContext, Pins, Request, Resolved, spec_digest, terms_of
from rukpak.controller.building.revision import PackedRevision, Revision, pack
from rukpak.controller.formats.applicable import make_applicable, revision_digest
from rukpak.controller.kube.events import EventRecorder, Note, Regarding
from rukpak.controller.kube.resources import DEPLOYMENTS, SECRETS
from rukpak.controller.observe.explanations import Explainer
from rukpak.controller.observe.following import ObjectFollower, ObjectReference, Seen, Topic
from rukpak.controller.reconcile.context import Context, Requeue, Services
from rukpak.controller.reconcile.finding import BUILD
from rukpak.controller.reconcile.memory import MOST_BYTES, InstalledTargetsCache, Memory
from rukpak.controller.reconcile.reconciler import Reconciler
from rukpak.controller.retries import Retries
from rukpak.controller.revisions.accounts import AccountPolicy, Accounts
from rukpak.controller.revisions.background import BackgroundWork, Place
from rukpak.controller.revisions.polling import Poller
from rukpak.controller.revisions.references import find_waiting, read_config
from rukpak.controller.revisions.source_access import SourceAccess, SourceProgress
from rukpak.controller.revisions.store import LargeRevisions, RevisionSecrets, RevisionStore, StoredSecret, make_stored
from rukpak.controller.sharing import Admission
from rukpak.controller.status.writer import StatusWriter
from tests.support.deployments import manifest
from tests.support.fake_cluster import FakeCluster, FakeWatches, Json

Result = TypeVar("Result")
NAME = "shop"
START = datetime(2026, 1, 1, tzinfo=UTC)
PATH = DEPLOYMENTS.path(name=NAME)


class Shelf:
    """Stands for a Builder: resolves, builds and renders what is on the shelf under a tag."""

    def __init__(self) -> None:
        self.tags: dict[str, str] = {}
        """Tag to digest."""
        self.contents: dict[str, list[Json] | BundleError] = {}
        """Digest to objects, or to the error of rendering them."""
        self.hooks: dict[str, tuple[Json, ...]] = {}
        self.calls: list[str] = []
        self.refusal = Reason.NOT_FOUND
        """Of a tag that is not on the shelf."""
        self.packs = False
        """Whether revisions are made in another process."""
        self.shows_config = False
        """Whether the data of the first object contain the config."""

    def put(self, tag: str, *objects: Json, hooks: Iterable[Json] = ()) -> None:
        """Have objects under a tag, and hooks as a revision has them."""
        digest = revision_digest(objects, found := tuple(hooks))
        self.tags[tag], self.contents[digest], self.hooks[digest] = digest, list(objects), found

    def resolve(self, spec: Spec, pins: Pins, cancelled: threading.Event, build_context: BuildContext) -> Resolved:
        found = [pin or self._pin(spec, index) for index, pin in enumerate(pins)]
        missing = next((source.image.ref for source, pin in zip(spec.sources, found, strict=True)
                        if pin is None and source.image), "")  # fmt: skip
        failure = BundleError(self.refusal, f'no tag "{missing}"', place="spec.sources") if missing else None
        return Resolved(pins=tuple(found), failure=failure)

    def _pin(self, spec: Spec, index: int) -> SourcePin | None:
        source = spec.sources[index]
        ref = source.image.ref if source.image else ""
        self.calls.append(f"resolve {ref}")
        if ref not in self.tags:
            return None
        return SourcePin(
            destination=source.target,
            kind=source.kind,
            resolved=f"{ref}@{self.tags[ref]}",
            digest=self.tags[ref],
            spec_digest=spec_digest(source),
            origin="v1:origin",
            resolved_at=START,
            reference=ref,
        )

    def build(
        self,
        request: Request,
        capabilities: Capabilities,
        cancelled: threading.Event,
        build_context: BuildContext,
        *,
        kept: Sequence[Revision | PackedRevision] = (),
        given: Mapping[str, PackedRevision] | None = None,
    ) -> Revision | PackedRevision:
        del given  # nothing is left out
        self.calls.append("build " + ",".join(pin.resolved.partition("@")[0] for pin in request.pins))
        contents = [self.contents[pin.digest] for pin in request.pins]
        if failures := [each for each in contents if isinstance(each, BundleError)]:
            raise failures[0]
        manifests = [each for content in contents if isinstance(content, list) for each in content]
        if self.shows_config:
            first = {**manifests[0], "data": {"config": json.dumps(request.spec.config)}}
            manifests = [first, *manifests[1:]]
        objects = make_applicable(
            manifests,
            install_namespace=request.install_namespace,
            is_namespaced=capabilities.is_namespaced,
        )
        terms = terms_of(request, request.install_namespace, "")
        hooks = tuple(hook for pin in request.pins for hook in self.hooks.get(pin.digest, ()))
        made = Revision(digest=revision_digest(objects, hooks), objects=tuple(objects), hooks=hooks, terms=terms)
        return pack(made) if self.packs else made


class AtOnce:
    """Stands for BackgroundWork: runs work when a pass asks for it, unless it is `busy`."""

    def __init__(self) -> None:
        self.busy = False
        self.building = False
        """Whether no build ends."""
        self.full = False
        """Whether all work stays queued."""
        self.taken: list[str] = []
        """Tickets that passes have asked for."""
        self.begun: list[str] = []
        """Tickets of work that was started before a pass asked for it."""

    def take(self, name: str, ticket: str, work: Callable[[threading.Event], Result], place: Place) -> Result | None:
        self.taken.append(ticket)
        is_active = self.building and ticket.startswith(BUILD)
        return None if is_active or self.busy or self.full else work(threading.Event())

    def begin(self, name: str, ticket: str, work: Callable[[threading.Event], object], place: Place) -> None:
        self.begun.append(ticket)  # not run here: a pass asks for it, too

    def is_busy(self, name: str) -> bool:
        return self.busy or self.full

    def is_queued(self, name: str, purpose: str) -> bool:
        return self.full

    def cancel(self, name: str, *purposes: str) -> None:
        pass  # nothing is under way


class Unaided:
    """Stands for a SourceAccess: there are no Secrets and no progress."""

    def build_context(self, deployment: BundleDeployment, progress: SourceProgress) -> BuildContext:
        return BuildContext()


class Follower:
    """Stands for ObjectFollower: keeps what each BundleDeployment follows, and nothing changes."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[Topic, Mapping[ObjectReference, Seen | None]]] = defaultdict(dict)
        self.found_newer: dict[Topic, Callable[[], None]] = {}
        """Called once, when objects are followed: one of them has changed since it was read."""
        self.lacking: set[str] = set()
        """BundleDeployments that follow rights."""

    def follow(
        self, name: str, topic: Topic, objects: Mapping[ObjectReference, Seen | None], *, share: str = ""
    ) -> None:
        self._objects[name][topic] = dict(objects)
        if notify := self.found_newer.pop(topic, None):
            notify()

    def followed(self, name: str, topic: Topic) -> list[ObjectReference]:
        return list(self.seen(topic, name))

    def seen(self, topic: Topic, name: str = NAME) -> Mapping[ObjectReference, Seen | None]:
        """Return what is followed, and how it was seen."""
        return self._objects[name].get(topic, {})

    def topics(self, name: str = NAME) -> set[Topic]:
        """Return what objects were followed for, also if there were none."""
        return set(self._objects[name])

    def names(self, topic: Topic, name: str = NAME) -> list[str]:
        """Return the names of the objects that are followed."""
        return sorted(each.name for each in self.seen(topic, name))

    def follow_rights(self, name: str, *, lacks: bool) -> None:
        (self.lacking.add if lacks else self.lacking.discard)(name)

    def forget(self, name: str) -> None:
        self._objects.pop(name, None)
        self.lacking.discard(name)


class Asked:
    """Stands for a Sweeper: counts how often it is asked."""

    def __init__(self) -> None:
        self.times = 0

    def ask(self) -> None:
        self.times += 1


class SeenSecrets(RevisionSecrets):
    """A RevisionSecrets that sees everything on a FakeCluster immediately."""

    synced = True

    def __init__(self, cluster: FakeCluster, namespace: str) -> None:
        self._cluster, self.namespace = cluster, namespace
        self.collection = SECRETS.path(namespace)

    def all_of(self, name: str) -> list[StoredSecret]:
        found = [make_stored(each) for path, each in self._cluster.objects.items() if path.startswith(self.collection)]
        return [each for each in found if each.deployment == name]

    def get(self, secret_name: str) -> StoredSecret | None:
        found = self._cluster.objects.get(f"{self.collection}/{secret_name}")
        return make_stored(found) if found else None

    def learn(self, manifest: Mapping[str, Any]) -> None:
        pass  # it is known already

    learn_gone = learn  # type: ignore[assignment]


class Told:
    """Stands for an EventRecorder: keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[Note] = []

    def record(self, regarding: Regarding, note: Note) -> None:
        self.notes.append(note)


class World:
    """One BundleDeployment, `shop`, and a controller for it."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.watches = FakeWatches(self.cluster)
        self.shelf, self.background, self.events = Shelf(), AtOnce(), Told()
        self.policy, self.sweeps = AccountPolicy(), Asked()
        self.seconds = 0.0
        self.admission, self.woken = Admission(1 << 40), list[str]()
        self.installed_bytes = MOST_BYTES
        """Of the targets that a controller keeps for repairs."""
        self.start()

    def start(self) -> None:
        """Start a controller that remembers nothing."""
        client, discovery = self.cluster.client, self.cluster.discovery
        background, builder = cast("BackgroundWork", self.background), cast("Builder", self.shelf)
        self.access, self.follower = Unaided(), Follower()
        self.secrets = cast("RevisionSecrets", SeenSecrets(self.cluster, names.DEFAULT_NAMESPACE))
        self.revision_store = RevisionStore(client, self.secrets)
        revisions, access = self.revision_store, cast("SourceAccess", self.access)
        self.applier = Applier(client, discovery, self.watches.watches, workers=2)

        watches = self.watches.watches
        self.installed = InstalledTargetsCache(self.installed_bytes)
        writer = StatusWriter(client, watches.deployments, cast("EventRecorder", self.events))
        remover = Remover(client, discovery, self.applier.pool, watches.served.at_storage_version)
        follower = cast("ObjectFollower", self.follower)
        accounts = Accounts(client, self.policy, follower)
        self.large = LargeRevisions(self.admission, Limits(), self.woken.append)
        self.services = Services(
            watches=watches,
            discovery=discovery,
            revisions=revisions,
            large=self.large,
            accounts=accounts,
            follower=follower,
            find_waiting=partial(find_waiting, client, discovery, watches),
            writer=writer,
            builder=builder,
            background=background,
            access=access,
            read_config=partial(read_config, client),
            poller=Poller(builder, background, access, clock=self.read_clock, now=self.read_clock),
            applier=self.applier,
            remover=remover,
            hook_runner=HookRunner(client, discovery, watches.objects),
            explainer=Explainer(client, lambda _name: None),
            installed=self.installed,
            now=self.now,
        )
        self.make_retries = partial(Retries, lambda: self.seconds, jitter=lambda: 1.0)
        self.reconciler = Reconciler(self.services, self.sweeps.ask, self.make_retries)

    def now(self) -> datetime:
        """Return the time of day, as a test has set it."""
        return START + timedelta(seconds=self.seconds)

    def read_clock(self) -> float:
        """Return the same in seconds since 1970."""
        return self.now().timestamp()

    def restart(self) -> None:
        """Start another controller."""
        self.applier.stop()
        self.start()

    def context(self, memory: Memory) -> Context:
        """Return the context of a pass that starts now."""
        return Context(deployment=self.deployment, memory=memory, services=self.services)

    @property
    def memory(self) -> Memory:
        """What the controller remembers of the BundleDeployment."""
        return self.reconciler.memories.of(self.deployment.metadata)

    # what a user does

    def wish(self, tag: str, **spec: Any) -> None:
        """Write the BundleDeployment, as a user does who wants the content of a tag."""
        generation = self.cluster.objects.get(PATH, {}).get("metadata", {}).get("generation", 0) + 1
        fresh = manifest(NAME, spec={"sources": [{"kind": "image", "image": {"ref": tag}}], **spec})
        if PATH not in self.cluster.objects:
            self.cluster.put({**fresh, "metadata": {**fresh["metadata"], "generation": generation}})
            return
        known = self.cluster.objects[PATH]
        metadata = {**known["metadata"], "generation": generation}
        self.cluster.put({**fresh, "metadata": metadata, "status": known["status"]})

    def ask(self, when: str | None) -> None:
        """Set the annotation that requests a new resolution; None removes it."""
        self.cluster.patch(PATH, {"metadata": {"annotations": {names.RECONCILE_REQUESTED_AT: when}}})

    def delete(self, *finalizers: str) -> None:
        """Delete the BundleDeployment; finalizers such as `orphan` are added, as the API server does."""
        known = self.cluster.objects[PATH]["metadata"]
        change = {
            "deletionTimestamp": self.now().isoformat(),
            "finalizers": [*known.get("finalizers", []), *finalizers],
            "generation": known["generation"] + 1,
        }
        self.cluster.patch(PATH, {"metadata": change})

    # what the controller does

    def reconcile(self) -> Requeue:
        """Run one pass."""
        return self.reconciler.reconcile(NAME)

    def settle(self) -> None:
        """Run passes until one sends nothing; forget their requests."""
        for _ in range(10):
            self.cluster.taken()
            self.reconcile()
            if not self.cluster.taken():
                return
        raise AssertionError("it does not come to rest")

    def reconcile_until_idle(self) -> None:
        """Run passes until one sends nothing; keep their requests."""
        for _ in range(10):
            sent = self.cluster.taken()
            self.reconcile()
            idle = self.cluster.taken()
            self.cluster.requests = [*sent, *idle]
            if not idle:
                return
        raise AssertionError("it does not come to rest")

    def requests(self) -> list[str]:
        """Return the requests since the last call, abbreviated; concurrent ones are sorted by name."""
        runs = groupby(map(_shorten, self.cluster.taken()), key=_sent_together)
        return [request for together, run in runs for request in (sorted(run) if together else run)]

    @property
    def deployment(self) -> BundleDeployment:
        """The BundleDeployment as it is."""
        found = self.watches.deployments.outline(NAME)
        assert found is not None
        return found

    @property
    def conditions(self) -> dict[str, str]:
        """Each condition as `status reason`."""
        return {each.type: f"{each.status} {each.reason}" for each in self.deployment.status.conditions}

    def message(self, condition: str) -> str:
        """Return the message of a condition."""
        return next(each.message for each in self.deployment.status.conditions if each.type == condition)

    def exists(self, *path: str) -> bool:
        """Whether objects exist."""
        return all(each in self.cluster.objects for each in path)


def _sent_together(request: str) -> str:
    """Return a key that is equal for concurrent neighbours; empty for a request that is sent alone."""
    verb, _, path = request.partition(" ")
    if path.startswith(("BundleDeployment", "revision")):
        return ""
    return {"GET": "look", "APPLY": "apply", "TRY": "apply"}.get(verb, "")


def _shorten(request: str) -> str:
    verb, _, path = request.partition(" ")
    if path.startswith(PATH):
        return f"{verb} BundleDeployment{path.removeprefix(PATH)}"
    if path.startswith(f"/api/v1/namespaces/{names.DEFAULT_NAMESPACE}/secrets"):
        return f"{verb} revision"
    return f"{verb} {path.removeprefix('/apis/').removeprefix('/api/v1/').removeprefix('namespaces/shop/')}"
