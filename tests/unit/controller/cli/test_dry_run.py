"""`rukpak diff` for whoever may not apply an object: what is shown of it, over a cluster in memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from api.v1alpha2.reading import try_to_read
from controller.apply.ownership import make_body
from controller.apply.targets import make_targets
from controller.build.revision import Revision, Terms
from controller.cli.comparison import Change, Difference
from controller.cli.diff import DryRun, owner_of
from controller.cli.revisions import Reviewed
from controller.kube.errors import ApiError
from controller.kube.resources import CONFIG_MAPS
from tests.support.deployments import observed
from tests.support.fake_cluster import FakeCluster

DEPLOYMENT, _ = try_to_read(observed())
assert DEPLOYMENT is not None
OWNER = owner_of(DEPLOYMENT)
PATH = CONFIG_MAPS.path("shop", "a")
COMPUTED = "computed, since you may not apply it"


def config_map(color: str) -> dict[str, Any]:
    metadata = {"name": "a", "namespace": "shop"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"color": color}}


class ReadOnly(FakeCluster):
    """A cluster on which the user may apply nothing."""

    def apply(self, path: str, body: Any, **_: Any) -> Any:
        raise ApiError(403, "Forbidden", f"{path} is forbidden")


def compare(cluster: FakeCluster) -> Difference:
    """Compare a ConfigMap of a BundleDeployment `shop` with the cluster."""
    assert DEPLOYMENT is not None
    terms = Terms(inputs="", install_namespace="shop")
    revision = Revision(digest="sha256:aa", objects=(config_map("blue"),), terms=terms)
    reviewed = Reviewed(deployment=DEPLOYMENT, revision=revision, client=cluster.client)
    targets = make_targets(revision, OWNER, orphan=False, is_namespaced=lambda kind: kind.kind != "Namespace")
    dry_run = DryRun(reviewed, cluster.discovery, targets, None)
    objects, _ = dry_run.compare(lambda _done, _all: None)
    return next(each for each in objects if each.key.kind == "ConfigMap")


class Case(NamedTuple):
    live: dict[str, Any] | None
    fault: ApiError | None
    """Of a request that reads it."""
    change: Change
    note: str


FORBIDDEN = ApiError(403, "Forbidden", "may not be read")
CASES = {
    "one that does not exist": Case(None, None, Change.CREATED, "as rendered, since you may not apply it"),
    "one that may be read": Case(config_map("red"), None, Change.CHANGED, COMPUTED),
    "one that may be listed": Case(make_body(config_map("red"), OWNER, orphan=False), None, Change.CHANGED, COMPUTED),
    "one that may not be read either": Case(config_map("red"), FORBIDDEN, Change.UNREAD, ""),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_shown_of_an_object_that_may_not_be_applied(case: Case) -> None:
    cluster = ReadOnly()
    if case.live:
        cluster.put(case.live)
    cluster.faults[f"GET {PATH}"] = [case.fault] if case.fault else []
    found = compare(cluster)
    assert (found.change, found.note) == (case.change, case.note)


def test_a_server_that_cannot_answer_is_no_difference() -> None:
    cluster = ReadOnly()
    cluster.faults[f"GET {PATH}"] = [ApiError(500, "InternalError", "etcd is away")]
    with pytest.raises(ApiError, match="InternalError"):
        compare(cluster)
