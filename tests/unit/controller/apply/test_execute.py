"""Plans over a cluster in memory: which requests are sent, what they answer, and what comes of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple, cast

import pytest

from rukpak.api import names
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.policies import CrdUpgradeSafety
from rukpak.controller.apply.execute import AccessReviewer, Applier, find_unfinished, refuse_unheld
from rukpak.controller.apply.ledger import Ledger
from rukpak.controller.apply.ownership import Giver, HandOver, Owner
from rukpak.controller.apply.plan import Action, ApplyOptions, Outcome, Plan, Task, make_plan
from rukpak.controller.apply.rights import RbacRight
from rukpak.controller.apply.targets import Target, TargetSet, make_targets
from rukpak.controller.building.revision import Revision, Terms
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.client import User
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.kube.resources import GroupVersionKind, Resource
from rukpak.controller.observe.health.verdict import HEALTHY, Verdict, failed, progressing
from rukpak.controller.observe.records import Record
from rukpak.controller.retries import Retries
from tests.support.deployments import options_for
from tests.support.fake_cluster import SERVED, VERBS, FakeCluster, FakeWatches

OWNER = Owner("foo", "uid-foo")
WIDGETS = Resource("example.com", "v1", "Widget", "widgets", namespaced=True, verbs=VERBS)
NAMESPACE_PATH = "/api/v1/namespaces/shop"
MAP_PATH = "/api/v1/namespaces/shop/configmaps/a"
WIDGET_PATH = "/apis/example.com/v1/namespaces/shop/widgets/w"
DEFINITION_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com"
KEY = ObjectKey("", "ConfigMap", "shop", "a")
HOLD = {"finalizers": ["example.com/hold"], "deletionTimestamp": "2026-01-01T00:00:00Z"}


def manifest(kind: str, name: str, *, api_version: str = "v1", namespace: str = "shop", **content: Any) -> Any:
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **place}, **content}


def config_map(name: str = "a", value: str = "1", namespace: str = "shop") -> Any:
    return manifest("ConfigMap", name, namespace=namespace, data={"a": value})


NAMESPACE = manifest("Namespace", "shop", namespace="")
WIDGET = manifest("Widget", "w", api_version="example.com/v1")
DEFINITION = manifest(
    "CustomResourceDefinition",
    "widgets.example.com",
    api_version="apiextensions.k8s.io/v1",
    namespace="",
    spec={"group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"}},
)
ESTABLISHED = {"conditions": [{"type": kind, "status": "True"} for kind in ("Established", "NamesAccepted")]}
GATE = manifest("ValidatingWebhookConfiguration", "gate", api_version="admissionregistration.k8s.io/v1", namespace="")
GATES = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)
APIS = Resource("apiregistration.k8s.io", "v1", "APIService", "apiservices", namespaced=False)


class Bench:
    """An applier over a cluster in memory, and what a BundleDeployment remembers between passes."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.cluster = FakeCluster(*SERVED, WIDGETS, GATES, APIS)
        self.watches = FakeWatches(self.cluster)
        self.retries = Retries(lambda: self.now, jitter=lambda: 1.0)
        self.ledger = Ledger(clock=lambda: self.now)
        self.applier = Applier(self.cluster.client, self.cluster.discovery, self.watches.watches, workers=2)
        self.proceed: Callable[[], bool] = lambda: True
        self.protection, self.spec_version = "Prevent", "1"
        self.safety = CrdUpgradeSafety()
        self.user: User | None = None
        self.conceals = False
        self.namespace: dict[str, Any] = {}
        self.earlier: tuple[Target, ...] = ()
        self.cluster.put(NAMESPACE)

    def targets(self, *manifests: Any) -> TargetSet:
        terms = Terms(inputs="", install_namespace="shop")
        revision = Revision(digest="sha256:aa", objects=manifests, terms=terms, namespace=self.namespace)
        return make_targets(revision, OWNER, self.watches.served.is_namespaced)

    def plan(self, targets: TargetSet) -> tuple[Plan, ApplyOptions]:
        options = ApplyOptions(
            user=self.user,
            retries=self.retries,
            owner=OWNER,
            collision_protection=self.protection,
            install_namespace="shop",
            spec_version=self.spec_version,
            wanted=targets,
            installed=False,
            ledger=self.ledger,
            exists=lambda name, uid: (name, uid) == ("foo", "uid-foo"),
            proceed=self.is_wanted_still,
            crd_upgrade_safety=self.safety,
            conceals=self.conceals,
        )
        return make_plan(options, self.earlier, self.watches.objects.of("foo")), options

    def is_wanted_still(self) -> bool:
        """Ask `proceed` as it is by then: it may change during a pass."""
        return self.proceed()

    def run(self, *manifests: Any) -> dict[str, Outcome]:
        """Carry out one pass; returns the outcomes by name of the object."""
        outcomes = self.applier.execute(*self.plan(self.targets(*manifests)))
        done = [outcome for outcome in outcomes if not outcome.error and not outcome.postponed]
        self.ledger.learn(outcome.record for outcome in done if outcome.record)
        return {outcome.task.target.key.name: outcome for outcome in outcomes}

    def installed(self, *manifests: Any) -> None:
        """Have objects applied, and their requests forgotten."""
        assert not any(outcome.error for outcome in self.run(*manifests).values())
        self.cluster.taken()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.applier.stop()


def reasons(outcomes: dict[str, Outcome]) -> dict[str, Reason | None]:
    return {name: outcome.error.reason if outcome.error else None for name, outcome in outcomes.items()}


def data(bench: Bench) -> Any:
    return bench.cluster.objects[MAP_PATH]["data"]


def test_a_missing_object_is_looked_at_and_created_without_force(bench: Bench) -> None:
    outcomes = bench.run(config_map())
    assert reasons(outcomes) == {"shop": None, "a": None}
    assert bench.cluster.requests == [f"GET {NAMESPACE_PATH}", f"GET {MAP_PATH}", f"TRY {MAP_PATH}"]
    assert bench.watches.objects.of("foo")[KEY].owner_uid == "uid-foo"


def test_the_install_namespace_is_created_where_it_is_missing_and_is_not_ours(bench: Bench) -> None:
    bench.cluster.remove(NAMESPACE_PATH)
    bench.run(config_map())
    assert bench.cluster.requests == [f"TRY {NAMESPACE_PATH}", f"TRY {MAP_PATH}"]
    assert "labels" not in bench.cluster.objects[NAMESPACE_PATH]["metadata"]


def test_an_install_namespace_with_labels_is_looked_at_before_it_is_created(bench: Bench) -> None:
    bench.cluster.remove(NAMESPACE_PATH)
    bench.namespace = {"labels": {"team": "a"}}
    bench.run(config_map())
    assert bench.cluster.requests[:2] == [f"GET {NAMESPACE_PATH}", f"TRY {NAMESPACE_PATH}"]


def test_an_install_namespace_that_another_client_creates_meanwhile_is_not_taken_to_be_empty(bench: Bench) -> None:
    bench.watches.late_namespaces.add("shop")
    bench.cluster.put(config_map(value="theirs"))
    assert reasons(bench.run(config_map())) == {"shop": None, "a": Reason.COLLISION}
    assert bench.cluster.requests == [f"TRY {NAMESPACE_PATH}", f"GET {MAP_PATH}"]


def test_an_install_namespace_that_is_being_deleted_is_awaited_although_the_watch_lacks_it(bench: Bench) -> None:
    bench.watches.late_namespaces.add("shop")
    bench.cluster.patch(NAMESPACE_PATH, {"metadata": HOLD})
    assert reasons(bench.run(config_map())) == {"shop": Reason.NAMESPACE_TERMINATING, "a": Reason.APPLYING}
    assert bench.cluster.requests == [f"TRY {NAMESPACE_PATH}"]


def test_nothing_is_looked_at_in_a_namespace_that_was_created_just_now(bench: Bench) -> None:
    bench.cluster.remove(NAMESPACE_PATH)
    bench.run(config_map())
    assert f"GET {MAP_PATH}" not in bench.cluster.requests


def test_an_object_as_we_left_it_costs_no_request(bench: Bench) -> None:
    bench.installed(config_map())
    bench.ledger.used[ObjectKey("", "Namespace", "", "shop")] = None
    assert reasons(bench.run(config_map())) == {"shop": None, "a": None}
    assert not bench.cluster.requests


class Row(NamedTuple):
    name: str
    before: Callable[[Bench], object]
    """What happens to an object that was installed."""
    requests: list[str]
    error: Reason | None = None


def forget(bench: Bench) -> None:
    bench.ledger.left.clear()


def take(bench: Bench) -> None:
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}
    bench.cluster.patch(MAP_PATH, {"metadata": {"ownerReferences": [reference]}})


def unlabel(bench: Bench) -> None:
    bench.cluster.patch(MAP_PATH, {"metadata": {"labels": {names.OWNER_LABEL: None}}})


# fmt: off
ROWS = [
    Row("somebody has changed a field of ours: it is put back",
         lambda bench: bench.cluster.edit(MAP_PATH, data={"a": "2"}), [f"GET {MAP_PATH}", f"APPLY {MAP_PATH}"]),
    Row("somebody has added a field: it is left alone", lambda bench: bench.cluster.edit(MAP_PATH, extra="x"), []),
    Row("somebody has deleted it: it is made again", lambda bench: bench.cluster.remove(MAP_PATH),
         [f"GET {MAP_PATH}", f"TRY {MAP_PATH}"]),
    Row("it is being deleted: that is awaited", lambda bench: bench.cluster.patch(MAP_PATH, {"metadata": HOLD}), [],
         Reason.APPLYING),
    Row("after a restart it is compared, and left alone", forget, ["LIST /api/v1/configmaps"]),
    Row("our label was taken off: it is found and taken back", unlabel,
         [f"GET {MAP_PATH}", f"GET {MAP_PATH}", f"APPLY {MAP_PATH}"]),
    Row("another controller has taken it: it is refused", take, [], Reason.COLLISION),
]
# fmt: on


@pytest.mark.parametrize("case", ROWS, ids=attrgetter("name"))
def test_what_is_done_with_an_installed_object(case: Row, bench: Bench) -> None:
    bench.installed(config_map())
    bench.ledger.used[ObjectKey("", "Namespace", "", "shop")] = None
    case.before(bench)
    assert reasons(bench.run(config_map()))["a"] == case.error
    assert bench.cluster.requests == case.requests
    assert data(bench) == {"a": "1"}


def test_another_revision_is_applied(bench: Bench) -> None:
    bench.installed(config_map())
    bench.run(config_map(value="2"))
    assert f"APPLY {MAP_PATH}" in bench.cluster.requests
    assert data(bench) == {"a": "2"}


def test_an_object_of_somebody_else_is_refused_and_not_written_to(bench: Bench) -> None:
    bench.cluster.put(config_map(value="theirs"))
    outcome = bench.run(config_map())["a"]
    assert outcome.error is not None
    assert outcome.error.reason is Reason.COLLISION
    assert not [request for request in bench.cluster.requests if not request.startswith("GET")]
    assert data(bench) == {"a": "theirs"}


def test_one_that_may_be_taken_over_is_bound_to_the_version_that_was_judged(bench: Bench) -> None:
    bench.protection = "IfNoController"
    bench.cluster.put(config_map(value="theirs"))
    assert reasons(bench.run(config_map()))["a"] is None
    assert bench.watches.objects.of("foo")[KEY].controller_uid == "uid-foo"


# somebody was faster


def race(bench: Bench, act: Callable[[], object], read: str = MAP_PATH) -> None:
    """Let something happen between the look at an object and the apply."""
    look = bench.cluster.get

    def get(path: str, **options: Any) -> Any:
        try:
            return look(path, **options)
        finally:
            if path == read:
                bench.cluster.get = look  # type: ignore[method-assign]
                act()

    bench.cluster.get = get  # type: ignore[method-assign]


def test_an_object_that_somebody_creates_meanwhile_is_judged_again_and_refused(bench: Bench) -> None:
    race(bench, lambda: bench.cluster.put(config_map(value="theirs")))
    assert reasons(bench.run(config_map()))["a"] is Reason.COLLISION
    assert data(bench) == {"a": "theirs"}
    assert bench.cluster.requests.count(f"TRY {MAP_PATH}") == 1


def equal(manager: str) -> Any:
    """Return the object that is about to be applied, as another client has created it."""
    entry = {"manager": manager, "operation": "Apply", "fieldsV1": {"f:data": {"f:a": {}}}}
    made = config_map()
    return {**made, "metadata": {**made["metadata"], "managedFields": [entry]}}


def test_an_equal_object_that_somebody_creates_meanwhile_is_given_back_and_refused(bench: Bench) -> None:
    race(bench, lambda: bench.cluster.put(equal("helm")))
    assert reasons(bench.run(config_map()))["a"] is Reason.COLLISION
    metadata = bench.cluster.objects[MAP_PATH]["metadata"]
    assert not metadata["labels"]
    assert not metadata["annotations"]
    assert [entry["manager"] for entry in metadata["managedFields"]] == ["helm"]
    assert bench.cluster.requests.count(f"TRY {MAP_PATH}") == 1


def test_an_equal_object_that_may_be_adopted_is(bench: Bench) -> None:
    bench.protection = "IfNoController"
    race(bench, lambda: bench.cluster.put(equal("helm")))
    assert reasons(bench.run(config_map()))["a"] is None
    assert f"APPLY {MAP_PATH}" in bench.cluster.requests
    assert bench.watches.objects.of("foo")[KEY].controller_uid == "uid-foo"


def test_an_object_that_another_controller_of_this_kind_creates_meanwhile_is_ours(bench: Bench) -> None:
    race(bench, lambda: bench.cluster.put(equal("rukpak/foo")))
    assert reasons(bench.run(config_map()))["a"] is None
    assert bench.cluster.requests[-1] == f"TRY {MAP_PATH}"


def test_more_conflicts_at_once_than_there_are_workers_do_not_wait_for_each_other(bench: Bench) -> None:
    manifests = [config_map(name) for name in "abcdefgh"]
    for each in manifests:
        path = bench.cluster.path(each)
        bench.cluster.faults[f"TRY {path}"] = [ApiError(409, "Conflict", "somebody was faster")]
    ended: list[dict[str, Outcome]] = []
    thread = threading.Thread(target=lambda: ended.append(bench.run(*manifests)), daemon=True)
    thread.start()
    thread.join(60)
    assert ended
    assert not any(reasons(ended[0]).values())


def test_an_object_that_another_client_writes_at_the_same_time_is_judged_again_a_few_times(bench: Bench) -> None:
    conflict = ApiError(409, "Conflict", "the object has been modified")
    bench.cluster.faults[f"TRY {MAP_PATH}"] = [conflict] * 3
    assert reasons(bench.run(config_map()))["a"] is None


def test_one_that_is_written_all_the_time_waits_and_nothing_is_wrong(bench: Bench) -> None:
    conflict = ApiError(409, "Conflict", "the object has been modified")
    bench.cluster.faults[f"TRY {MAP_PATH}"] = [conflict] * 20
    assert reasons(bench.run(config_map()))["a"] is Reason.APPLYING
    assert not Reason.APPLYING.retry.stalls


# failures


class Failure(NamedTuple):
    name: str
    error: ApiError
    reason: Reason


FAILURES = [
    Failure("a refused value", ApiError(422, "Invalid", "no"), Reason.REFUSED),
    Failure("a missing right", ApiError(403, "Forbidden", "no"), Reason.FORBIDDEN),
    Failure("a server that is not there", ApiError(0, "Unreachable", "no"), Reason.API_UNAVAILABLE),
]


@pytest.mark.parametrize("case", FAILURES, ids=attrgetter("name"))
def test_a_failure_is_of_one_object_and_is_not_tried_again_too_soon(case: Failure, bench: Bench) -> None:
    bench.cluster.faults[f"TRY {MAP_PATH}"] = [case.error]
    assert reasons(bench.run(config_map("a"), config_map("b"))) == {"shop": None, "a": case.reason, "b": None}
    bench.cluster.taken()
    assert reasons(bench.run(config_map("a"), config_map("b")))["a"] is case.reason
    assert not [request for request in bench.cluster.requests if MAP_PATH in request]


def test_what_failed_is_tried_again_in_time_and_then_forgotten(bench: Bench) -> None:
    bench.cluster.faults[f"TRY {MAP_PATH}"] = [ApiError(0, "Unreachable", "no")]
    bench.run(config_map())
    bench.now += 1
    assert reasons(bench.run(config_map()))["a"] is None
    assert bench.retries.seconds_to_next() is None


def test_what_failed_is_tried_at_once_when_the_spec_version_has_changed(bench: Bench) -> None:
    bench.cluster.faults[f"TRY {MAP_PATH}"] = [ApiError(422, "Invalid", "no")]
    bench.run(config_map())
    bench.spec_version = "2"
    assert reasons(bench.run(config_map()))["a"] is None


def test_a_namespace_that_is_being_deleted_is_read_again_before_the_next_try(bench: Bench) -> None:
    bench.ledger.used[ObjectKey("", "Namespace", "", "shop")] = None
    going = ApiError(403, "Forbidden", "no", details={"causes": [{"reason": "NamespaceTerminating"}]})
    bench.cluster.faults[f"TRY {MAP_PATH}"] = [going]
    assert reasons(bench.run(config_map()))["a"] is Reason.NAMESPACE_TERMINATING
    assert f"GET {NAMESPACE_PATH}" not in bench.cluster.taken()
    bench.run(config_map())
    assert f"GET {NAMESPACE_PATH}" in bench.cluster.requests


def test_what_cannot_be_looked_at_is_not_written(bench: Bench) -> None:
    bench.cluster.faults[f"GET {MAP_PATH}"] = [ApiError(403, "Forbidden", "no")]
    assert reasons(bench.run(config_map()))["a"] is Reason.FORBIDDEN
    assert f"TRY {MAP_PATH}" not in bench.cluster.requests


def test_what_cannot_be_compared_is_not_applied_again(bench: Bench) -> None:
    bench.installed(config_map())
    forget(bench)
    bench.cluster.faults["LIST /api/v1/configmaps"] = [ApiError(503, "ServiceUnavailable", "no")]
    assert reasons(bench.run(config_map()))["a"] is Reason.API_UNAVAILABLE
    assert f"APPLY {MAP_PATH}" not in bench.cluster.requests


def test_a_kind_that_is_not_served_says_what_to_do(bench: Bench) -> None:
    gadget = manifest("Gadget", "g", api_version="example.org/v1")
    outcome = bench.run(gadget)["g"]
    assert outcome.error is not None
    assert outcome.error.reason is Reason.KIND_NOT_SERVED
    assert outcome.error.message == ("Gadget shop/g: the cluster does not serve example.org/v1/Gadget; install its API")


def test_a_kind_that_came_after_its_namespace_was_to_be_decided_is_left_for_the_next_pass(bench: Bench) -> None:
    widget = manifest("Widget", "w", api_version="example.com/v1", namespace="")
    bench.cluster.served.remove(WIDGETS)
    early = bench.targets(widget)
    bench.cluster.served.append(WIDGETS)
    (outcome,) = bench.applier.execute(*bench.plan(early))
    assert outcome.error is not None
    assert outcome.error.reason is Reason.KIND_NOT_SERVED
    assert bench.cluster.taken() == []


def test_warnings_of_the_server_are_kept(bench: Bench) -> None:
    bench.cluster.warnings = ("v1 is deprecated",)
    assert bench.run(config_map())["a"].warnings == ("v1 is deprecated",)


def test_warnings_of_the_server_show_no_text_of_an_object_where_values_of_secrets_were_rendered(bench: Bench) -> None:
    bench.cluster.warnings = ('unknown field "spec.hunter2"', "metadata.annotations[hunter2]: deprecated since v1.19")
    bench.conceals = True
    told = ('unknown field "…"', "metadata.annotations[…]: deprecated since v1.19")
    assert bench.run(config_map())["a"].warnings == told


# what waits for what


def test_the_content_of_a_namespace_that_is_going_waits(bench: Bench) -> None:
    bench.cluster.patch(NAMESPACE_PATH, {"metadata": HOLD})
    outcomes = bench.run(config_map(), config_map("x", namespace="elsewhere"))
    assert reasons(outcomes) == {"shop": Reason.NAMESPACE_TERMINATING, "a": Reason.APPLYING, "x": None}


def test_an_instance_waits_until_its_definition_is_established(bench: Bench) -> None:
    assert reasons(bench.run(WIDGET, DEFINITION))["w"] is Reason.WAITING_FOR_CRD
    assert f"TRY {WIDGET_PATH}" not in bench.cluster.requests
    bench.cluster.patch(DEFINITION_PATH, {"status": ESTABLISHED})
    assert reasons(bench.run(WIDGET, DEFINITION))["w"] is None
    assert f"TRY {WIDGET_PATH}" in bench.cluster.requests


def test_an_instance_of_a_definition_that_was_refused_says_so(bench: Bench) -> None:
    bench.cluster.faults[f"TRY {DEFINITION_PATH}"] = [ApiError(422, "Invalid", "no")]
    outcomes = bench.run(DEFINITION, WIDGET)
    assert reasons(outcomes)["w"] is Reason.WAITING_FOR_CRD
    error = outcomes["w"].error
    assert error is not None
    assert error.message.startswith("Widget shop/w: waiting for its CustomResourceDefinition: ")


def enumerating(*colors: str) -> Any:
    """Return the definition with a schema that allows some colors."""
    schema = {"type": "object", "properties": {"color": {"type": "string", "enum": list(colors)}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {**DEFINITION, "spec": {**DEFINITION["spec"], "versions": [version]}}


def test_an_unsafe_change_of_a_definition_holds_up_its_instances_alone(bench: Bench) -> None:
    bench.installed(enumerating("blue", "red"))
    outcomes = bench.run(enumerating("blue"), WIDGET, config_map())
    unsafe = Reason.UNSAFE_CRD_UPGRADE
    assert reasons(outcomes) == {
        "shop": None, "widgets.example.com": unsafe, "w": Reason.WAITING_FOR_CRD, "a": None
    }  # fmt: skip
    assert bench.cluster.objects[DEFINITION_PATH]["spec"] == enumerating("blue", "red")["spec"]


def test_an_unsafe_change_is_tried_again_when_the_spec_changes_and_not_before(bench: Bench) -> None:
    bench.installed(enumerating("blue", "red"))
    bench.run(enumerating("blue"))
    bench.cluster.taken()
    bench.now += 1e6
    assert reasons(bench.run(enumerating("blue")))["widgets.example.com"] is Reason.UNSAFE_CRD_UPGRADE
    assert f"GET {DEFINITION_PATH}" not in bench.cluster.taken()
    bench.safety, bench.spec_version = CrdUpgradeSafety(enforcement="Warn"), "2"
    outcome = bench.run(enumerating("blue"))["widgets.example.com"]
    assert outcome.error is None
    assert "allowed enum values removed" in outcome.warnings[0]


def test_a_definition_that_is_adopted_is_compared_like_one_of_ours(bench: Bench) -> None:
    bench.protection = "None"
    bench.cluster.put(enumerating("blue", "red"))
    assert reasons(bench.run(enumerating("blue")))["widgets.example.com"] is Reason.UNSAFE_CRD_UPGRADE
    assert bench.cluster.objects[DEFINITION_PATH]["spec"] == enumerating("blue", "red")["spec"]


def test_a_definition_is_not_applied_for_a_spec_that_changes_while_it_is_compared(bench: Bench) -> None:
    bench.installed(enumerating("blue"))

    def change_the_spec() -> None:
        bench.proceed = lambda: False

    race(bench, change_the_spec, DEFINITION_PATH)
    outcomes = bench.run(enumerating("blue", "red"))
    assert reasons(outcomes)["widgets.example.com"] is Reason.APPLYING
    assert bench.cluster.objects[DEFINITION_PATH]["spec"] == enumerating("blue")["spec"]


def test_a_definition_that_somebody_changed_is_put_right_unasked(bench: Bench) -> None:
    bench.installed(enumerating("blue"))
    bench.cluster.edit(DEFINITION_PATH, spec=enumerating("blue", "red")["spec"])
    assert reasons(bench.run(enumerating("blue")))["widgets.example.com"] is None
    assert bench.cluster.objects[DEFINITION_PATH]["spec"] == enumerating("blue")["spec"]


def test_what_requests_go_through_waits_for_everything_else(bench: Bench) -> None:
    bench.cluster.faults[f"TRY {MAP_PATH}"] = [ApiError(0, "Unreachable", "no")]
    outcomes = bench.run(GATE, config_map("a"), config_map("b"))
    assert reasons(outcomes) == {
        "shop": None, "a": Reason.API_UNAVAILABLE, "b": None, "gate": Reason.APPLYING
    }  # fmt: skip
    bench.now += 1
    assert not any(reasons(bench.run(GATE, config_map("a"), config_map("b"))).values())


API = manifest("APIService", "v1.things.example.com", api_version="apiregistration.k8s.io/v1", namespace="")
OTHER_API = manifest("APIService", "v1.others.example.com", api_version="apiregistration.k8s.io/v1", namespace="")
THING = manifest("Thing", "thing", api_version="things.example.com/v1")


def test_an_api_does_not_wait_for_its_own_objects_which_wait_for_it(bench: Bench) -> None:
    outcomes = bench.run(GATE, THING, config_map("a"), API, OTHER_API)
    found = reasons(outcomes)
    assert (found["gate"], found["thing"]) == (Reason.APPLYING, Reason.KIND_NOT_SERVED)
    assert [found[each["metadata"]["name"]] for each in (API, OTHER_API)] == [None, None]


def test_an_api_waits_for_all_other_objects(bench: Bench) -> None:
    bench.cluster.faults[f"TRY {MAP_PATH}"] = [ApiError(0, "Unreachable", "no")]
    error = bench.run(THING, config_map("a"), API)[API["metadata"]["name"]].error
    assert error
    assert error.message.endswith("waiting for all other objects; not applied: ConfigMap shop/a")


def test_an_api_waits_for_objects_of_groups_that_the_bundle_does_not_add(bench: Bench) -> None:
    assert reasons(bench.run(THING, OTHER_API))[OTHER_API["metadata"]["name"]] is Reason.APPLYING


def test_a_spec_that_changes_meanwhile_ends_the_pass(bench: Bench) -> None:
    answers = iter([True] * 3)
    bench.proceed = lambda: next(answers, False)
    outcomes = bench.run(config_map("a"), manifest("Deployment", "web", api_version="apps/v1"))
    assert reasons(outcomes)["web"] is Reason.APPLYING
    assert not [request for request in bench.cluster.requests if "deployments" in request]


# repairs


def test_repairs_of_one_object_wait_longer_and_longer(bench: Bench) -> None:
    bench.installed(config_map())
    repaired = []
    for _ in range(20):
        bench.cluster.edit(MAP_PATH, data={"a": "2"})
        outcome = bench.run(config_map())["a"]
        repaired.append(not outcome.postponed)
        bench.now += 1
    assert [second for second, done in enumerate(repaired) if done] == [0, 2, 8]
    assert [str(conflict) for conflict in bench.ledger.conflicts()] == ["ConfigMap shop/a (data.a)"]


@pytest.mark.parametrize(
    ("disturb", "drift", "logged"),
    [
        pytest.param(
            lambda bench: bench.cluster.edit(MAP_PATH, data={"a": "2"}),
            "ConfigMap shop/a (data.a)",
            {"field": "data.a", "action": "repair"},
            id="modified",
        ),
        pytest.param(
            lambda bench: bench.cluster.remove(MAP_PATH),
            "ConfigMap shop/a (deleted)",
            {"drift": "deleted", "action": "create"},
            id="deleted",
        ),
    ],
)
def test_a_repair_says_which_field_was_modified_or_that_it_was_deleted(
    bench: Bench, caplog: pytest.LogCaptureFixture, disturb: Callable[[Bench], None], drift: str, logged: dict[str, str]
) -> None:
    bench.installed(config_map())
    disturb(bench)
    with caplog.at_level("INFO"):
        outcome = bench.run(config_map())["a"]
    assert str(outcome.repaired) == drift
    [line] = [vars(each) for each in caplog.records if each.getMessage() == "object applied"]
    assert {key: line[key] for key in logged} == logged


def test_an_object_with_ignored_fields_that_was_deleted_counts_as_repaired(bench: Bench) -> None:
    ignoring = config_map()
    ignoring["metadata"]["annotations"] = {names.IGNORE_FIELDS: "data.a"}
    bench.installed(ignoring)
    bench.cluster.remove(MAP_PATH)
    assert str(bench.run(ignoring)["a"].repaired) == "ConfigMap shop/a (deleted)"
    assert bench.ledger.seconds_to_repair(KEY) > 0


def test_who_cannot_be_asked_who_fights_puts_it_right_nevertheless(bench: Bench) -> None:
    bench.installed(config_map())
    bench.cluster.faults[f"GET {MAP_PATH}"] = [ApiError(403, "Forbidden", "no")] * 3
    for _ in range(3):
        bench.cluster.edit(MAP_PATH, data={"a": "2"})
        assert bench.run(config_map())["a"].repaired
        bench.now += 10
    assert data(bench) == {"a": "1"}
    assert [str(conflict) for conflict in bench.ledger.conflicts()] == ["ConfigMap shop/a"]


def test_an_object_that_is_deleted_again_and_again_is_a_fight_too(bench: Bench) -> None:
    bench.installed(config_map())
    for expected in (False, True):
        bench.cluster.remove(MAP_PATH)
        assert bench.run(config_map())["a"].postponed is expected


def test_an_object_that_is_taken_over_again_and_again_is_a_fight_too(bench: Bench) -> None:
    bench.protection = "None"
    bench.installed(config_map())
    for expected in (False, True):
        take(bench)
        assert bench.run(config_map())["a"].postponed is expected


def test_a_dropped_object_without_its_label_is_taken_back_however_often_it_was_repaired(bench: Bench) -> None:
    bench.installed(config_map())
    bench.cluster.edit(MAP_PATH, data={"a": "2"})
    bench.run(config_map())
    bench.cluster.patch(MAP_PATH, {"metadata": {"labels": {names.OWNER_LABEL: None}}})
    bench.earlier = tuple(each for each in bench.targets(config_map()).targets if each.key == KEY)
    assert not bench.run(config_map("b"))["a"].postponed
    assert bench.cluster.objects[MAP_PATH]["metadata"]["labels"][names.OWNER_LABEL] == "foo"


def test_another_revision_does_not_wait_for_a_fight_to_end(bench: Bench) -> None:
    bench.installed(config_map())
    bench.cluster.edit(MAP_PATH, data={"a": "2"})
    bench.run(config_map())
    outcome = bench.run(config_map(value="3"))["a"]
    assert not outcome.postponed
    assert data(bench) == {"a": "3"}


# immutable fields


def fixed(value: str, kind: str = "ConfigMap", recreate: str = "true", **metadata: Any) -> Any:
    """Return an object whose data cannot be changed."""
    made = manifest(kind, "a", immutable=True, data={"a": value})
    return {**made, "metadata": {**made["metadata"], "annotations": {names.RECREATE: recreate}, **metadata}}


@pytest.fixture
def fixed_bench(bench: Bench) -> Bench:
    """One with such an object installed, in a namespace that is known."""
    bench.installed(fixed("1"))
    bench.ledger.used[ObjectKey("", "Namespace", "", "shop")] = None
    return bench


def test_an_immutable_object_is_deleted_and_created_again_when_it_is_gone(fixed_bench: Bench) -> None:
    bench = fixed_bench
    outcome = bench.run(fixed("2"))["a"]
    assert outcome.recreated
    assert outcome.error is not None
    assert (outcome.error.reason, outcome.error.message) == (
        Reason.APPLYING,
        "ConfigMap shop/a: being deleted; will be applied again once it is gone",
    )
    assert bench.cluster.taken() == [f"APPLY {MAP_PATH}", f"DELETE {MAP_PATH}"]
    outcome = bench.run(fixed("2"))["a"]
    assert (outcome.error, outcome.recreated, outcome.repaired) == (None, False, None)
    assert bench.cluster.taken() == [f"GET {MAP_PATH}", f"TRY {MAP_PATH}"]
    assert data(bench) == {"a": "2"}


def test_its_deletion_is_awaited_while_it_is_still_seen(fixed_bench: Bench) -> None:
    bench = fixed_bench
    seen = bench.watches.objects.of("foo")[KEY]
    bench.run(fixed("2"))
    bench.cluster.taken()
    bench.watches.objects.behind[KEY] = seen
    assert reasons(bench.run(fixed("2")))["a"] is Reason.APPLYING
    assert bench.cluster.taken() == []
    bench.watches.objects.behind.clear()
    assert reasons(bench.run(fixed("2")))["a"] is None


def test_one_that_a_finalizer_holds_is_created_again_when_that_is_gone(fixed_bench: Bench) -> None:
    bench = fixed_bench
    bench.cluster.patch(MAP_PATH, {"metadata": {"finalizers": ["example.com/hold"]}})
    for _ in range(2):
        assert reasons(bench.run(fixed("2")))["a"] is Reason.APPLYING
    assert bench.cluster.taken() == [f"APPLY {MAP_PATH}", f"DELETE {MAP_PATH}"]
    bench.cluster.remove(MAP_PATH)
    assert reasons(bench.run(fixed("2")))["a"] is None


def test_after_a_kill_it_is_created_again(fixed_bench: Bench) -> None:
    bench = fixed_bench
    bench.run(fixed("2"))
    bench.ledger = Ledger(clock=lambda: bench.now)
    assert reasons(bench.run(fixed("2")))["a"] is None
    assert data(bench) == {"a": "2"}


class Kept(NamedTuple):
    name: str
    wanted: Any = fixed("2")
    meanwhile: Callable[[Bench], object] = lambda bench: None
    reason: Reason = Reason.IMMUTABLE


def stop(bench: Bench) -> None:
    """Let the BundleDeployment be paused as soon as the apply was refused."""
    bench.proceed = lambda: f"APPLY {MAP_PATH}" not in bench.cluster.requests


def forbid(bench: Bench) -> None:
    bench.cluster.faults[f"DELETE {MAP_PATH}"] = [ApiError(403, "Forbidden", "no")]


# fmt: off
KEPT = [
    Kept("without the annotation", wanted={**fixed("2"), "metadata": config_map()["metadata"]}),
    Kept("with another value of it", wanted=fixed("2", recreate="false")),
    Kept("paused meanwhile", meanwhile=stop, reason=Reason.APPLYING),
    Kept("its kind is not watched", meanwhile=lambda bench: bench.watches.objects.denied.add("ConfigMap")),
    Kept("the account may not delete it", meanwhile=forbid, reason=Reason.FORBIDDEN),
]
# fmt: on


@pytest.mark.parametrize("case", KEPT, ids=attrgetter("name"))
def test_an_immutable_object_is_not_deleted(case: Kept, bench: Bench) -> None:
    bench.installed(fixed("1"))
    bench.watches.objects.told = bench.watches.objects.of("foo")
    case.meanwhile(bench)
    outcome = bench.run(case.wanted)["a"]
    assert outcome.error is not None
    assert (outcome.error.reason, outcome.recreated) == (case.reason, False)
    assert data(bench) == {"a": "1"}


def test_data_is_never_deleted_to_change_it(bench: Bench) -> None:
    path = "/api/v1/namespaces/shop/persistentvolumeclaims/a"
    bench.installed(fixed("1", kind="PersistentVolumeClaim"))
    error = bench.run(fixed("2", kind="PersistentVolumeClaim"))["a"].error
    assert error is not None
    assert error.message.endswith("; revert the change, or delete the object")
    assert bench.cluster.objects[path]["data"] == {"a": "1"}


def test_an_object_that_is_taken_over_is_not_deleted(bench: Bench) -> None:
    bench.protection = "IfNoController"
    bench.cluster.put(fixed("theirs"))
    assert reasons(bench.run(fixed("1")))["a"] is Reason.IMMUTABLE
    assert data(bench) == {"a": "theirs"}


def test_an_object_that_another_client_has_made_its_own_meanwhile_is_not_deleted(bench: Bench) -> None:
    bench.installed(fixed("1"))
    bench.watches.objects.behind.update(bench.watches.objects.of("foo"))
    unlabel(bench)
    assert reasons(bench.run(fixed("2")))["a"] is Reason.APPLYING
    assert data(bench) == {"a": "1"}


def test_a_stateful_set_leaves_its_pods(bench: Bench) -> None:
    sets = Resource("apps", "v1", "StatefulSet", "statefulsets", namespaced=True, verbs=VERBS)
    bench.cluster.served.append(sets)
    before, after = (
        {**fixed(value, kind="StatefulSet"), "apiVersion": "apps/v1", "immutable": True} for value in ("1", "2")
    )
    bench.installed(before)
    assert bench.run(after)["a"].recreated
    assert bench.cluster.requests[-1] == "ORPHAN /apis/apps/v1/namespaces/shop/statefulsets/a"


# looking without touching


class Survey(NamedTuple):
    name: str
    before: Callable[[Bench], object]
    drifted: bool


# fmt: off
SURVEYS = [
    Survey("as we left it", lambda bench: None, drifted=False),
    Survey("after a restart", forget, drifted=False),
    Survey("changed", lambda bench: bench.cluster.edit(MAP_PATH, data={"a": "2"}), drifted=True),
    Survey("removed", lambda bench: bench.cluster.remove(MAP_PATH), drifted=True),
    Survey("being deleted", lambda bench: bench.cluster.patch(MAP_PATH, {"metadata": HOLD}), drifted=True),
    Survey("without our label", unlabel, drifted=True),
    Survey("without our other mark",
         lambda bench: bench.cluster.patch(MAP_PATH, {"metadata": {"annotations": {names.OWNER_UID: None}}}),
         drifted=True),
]
# fmt: on


@pytest.mark.parametrize("case", SURVEYS, ids=attrgetter("name"))
def test_a_survey_says_what_has_drifted_and_writes_nothing(case: Survey, bench: Bench) -> None:
    bench.installed(config_map())
    case.before(bench)
    found = bench.applier.survey(*bench.plan(bench.targets(config_map())))
    assert [each.key for each in found.drifted] == ([KEY] if case.drifted else [])
    assert [record.key for record in found.same] == ([] if case.drifted else [KEY])
    assert all(request.startswith(("GET", "LIST")) for request in bench.cluster.requests)


def test_every_action_that_writes_is_carried_out_once(bench: Bench) -> None:
    outcome = bench.run(config_map())["a"]
    assert (outcome.task.action, outcome.tried) == (Action.CREATE, True)


TARGET = Target(key=KEY, kind=GroupVersionKind("", "v1", "ConfigMap"), digest="d", carries_reference=True, manifest={})
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)
TASK = Task(target=TARGET, action=Action.TAKE_OVER, record=Record(key=KEY, owner="bar", owner_uid="uid-bar"))
ACCOUNT = User.service_account("shop", "installer")
PATCH = RbacRight(namespace="shop", groups=("",), resources=("configmaps",), verbs=("patch",))


class Reviewer:
    """Says that accounts lack a right, and remembers which ones were asked about."""

    def __init__(self) -> None:
        self.asked: list[User | None] = []

    def missing(self, items: Sequence[tuple[Target, Resource]], options: ApplyOptions) -> list[RbacRight]:
        self.asked.append(options.user)
        return [PATCH] if items else []


def examine(task: Task, giver: User | None, taker: User | None = None) -> tuple[Task, list[User | None]]:
    reviewer = Reviewer()
    givers = {"bar": Giver(owner=Owner("bar", "uid-bar"), user=giver)}
    options = options_for(TARGET, user=taker, hand_over=HandOver(givers=givers))
    found = refuse_unheld([(task, CONFIG_MAPS)], options, cast("AccessReviewer", reviewer))
    assert [resource for _, resource in found] == [CONFIG_MAPS]
    return found[0][0], reviewer.asked


def test_what_the_account_of_the_giver_may_not_apply_is_not_taken_over() -> None:
    refused, asked = examine(TASK, ACCOUNT)
    assert (refused.action, asked) == (Action.REFUSE, [ACCOUNT])
    assert refused.refusal
    assert refused.refusal.reason is Reason.FORBIDDEN
    assert refused.refusal.message == (
        'ConfigMap shop/a: "system:serviceaccount:shop:installer", the account of BundleDeployment "bar", may not hand '
        'it over; grant it patch configmaps in namespace "shop"'
    )


def test_the_controller_and_the_account_that_takes_over_are_not_asked_about() -> None:
    assert examine(TASK, None) == (TASK, [])
    assert examine(TASK, ACCOUNT, ACCOUNT) == (TASK, [])


def test_only_what_is_taken_over_from_it_is_asked_about() -> None:
    for task in (replace(TASK, action=Action.APPLY), replace(TASK, record=Record(key=KEY, owner="other"))):
        assert examine(task, ACCOUNT) == (task, [])


# waves


class Member(NamedTuple):
    name: str
    record: Record | None
    waits: bool


def seen(verdict: Verdict | None, digest: str = "") -> Record:
    return Record(key=KEY, owner="foo", applied_digest=digest or MEMBER.digest, verdict=verdict)


MEMBER = Target(
    key=KEY,
    kind=GroupVersionKind("", "v1", "ConfigMap"),
    digest="v1:sha256:aa",
    carries_reference=True,
    manifest=config_map(),
    wave=3,
)
MEMBERS = [
    Member("a healthy object", seen(HEALTHY), False),
    Member("an object of a kind without a rule", seen(None), False),
    Member("one that is on its way", seen(progressing("Rolling", "1 of 2")), True),
    Member("one that has failed", seen(failed("Crashed")), True),
    Member("one that may never change", seen(progressing("LoadBalancerPending", deadline=False)), False),
    Member("one whose operator has not seen it", seen(progressing("StatusNotReported", deadline=False)),
           True),
    Member("one that the watch shows as it was before", seen(HEALTHY, "v1:sha256:bb"),
           True),
    Member("one that is gone", None, True),
]  # fmt: skip


@pytest.mark.parametrize("case", MEMBERS, ids=attrgetter("name"))
def test_what_a_wave_waits_for(case: Member, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = TargetSet(revision="r", targets=(MEMBER,), by_key={KEY: MEMBER}, resources={}, undecided=False)
    found = {KEY: case.record} if case.record else {}
    monkeypatch.setattr(bench.watches.objects, "of", lambda _name: found)
    outcomes = [Outcome(task=Task(target=MEMBER, action=Action.CREATE))]
    error = find_unfinished(outcomes, bench.plan(wanted)[1], bench.watches.watches.objects)
    assert (error.awaited if error else frozenset()) == (frozenset({KEY}) if case.waits else frozenset())
    assert error is None or (error.wave, error.message) == (3, "later waves wait for wave 3")
