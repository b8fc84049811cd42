"""Objects at random, of values that controllers write."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.unit.controller.observe.health.objects import Manifest, conditions, crashed, ended, manifest, waiting

CRD = "apiextensions.k8s.io/v1 CustomResourceDefinition"
COUNT = st.integers(0, 4)
OBSERVED = st.sampled_from([None, 1, 2])


def counts(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(dict.fromkeys(names, COUNT))


def some_conditions(*choices: list[str]) -> st.SearchStrategy[list[dict[str, str]]]:
    """Any of the spellings of each condition or none, in any order."""
    picks = st.tuples(*(st.sampled_from(["", *spellings]) for spellings in choices))
    present = picks.map(lambda pick: [entry for entry in pick if entry])
    return present.flatmap(st.permutations).map(lambda entries: conditions(*entries))


NO_SPEC: st.SearchStrategy[Any] = st.just({})
NO_CONDITIONS = some_conditions()


def objects_of(
    kind: str,
    *,
    status: st.SearchStrategy[Any],
    spec: st.SearchStrategy[Any] = NO_SPEC,
    found: st.SearchStrategy[Any] = NO_CONDITIONS,
) -> st.SearchStrategy[Manifest]:
    def build(spec: Any, status: Any, found: Any, observed: Any, deleted: Any) -> Manifest:
        whole = {"observedGeneration": observed, "conditions": found, **status}
        return manifest(kind, spec=spec, status=whole, generation=1, **deleted)

    deleted = st.sampled_from([{}, {}, {}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}])
    return st.builds(build, spec, status, found, OBSERVED, deleted)


GENERIC = (["Reconciling=True"], ["Stalled=True"], ["Ready=True", "Ready=False", "Ready=Unknown"])
REPLICAS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
STATE = st.sampled_from([waiting("CrashLoopBackOff"), waiting("ErrImagePull"), crashed(2), crashed(4), ended(0)])

OBJECTS = st.one_of(
    objects_of("example.com/v1 Cache", status=st.just({"phase": "Up"}), found=some_conditions(*GENERIC)),
    objects_of(
        "apps/v1 Deployment",
        spec=st.fixed_dictionaries(
            {"replicas": COUNT, "paused": st.booleans(), "progressDeadlineSeconds": st.sampled_from([600, 2**31 - 1])}
        ),
        status=counts(*REPLICAS),
        found=some_conditions(
            ["Progressing=True/NewReplicaSetAvailable", "Progressing=False/ProgressDeadlineExceeded"],
            ["Available=True", "Available=False"],
            ["ReplicaFailure=True/FailedCreate"],
            ["Stalled=True"],
        ),
    ),
    objects_of(
        "apps/v1 StatefulSet",
        spec=st.fixed_dictionaries(
            {
                "replicas": COUNT,
                "minReadySeconds": st.sampled_from([0, 30]),
                "updateStrategy": st.sampled_from(
                    [
                        {"type": "OnDelete"},
                        {"type": "RollingUpdate"},
                        {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                        {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}},
                    ]
                ),
            }
        ),
        status=st.fixed_dictionaries(
            dict.fromkeys((*REPLICAS, "currentReplicas"), COUNT)
            | {name: st.sampled_from(["web-1", "web-2"]) for name in ("currentRevision", "updateRevision")}
        ),
    ),
    objects_of(
        "apps/v1 DaemonSet",
        spec=st.fixed_dictionaries({"updateStrategy": st.sampled_from([{"type": "OnDelete"}, {"type": "X"}])}),
        status=counts(
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberReady",
        ),
    ),
    objects_of(
        "apps/v1 ReplicaSet",
        spec=counts("replicas"),
        status=counts("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
        found=some_conditions(["ReplicaFailure=True/FailedCreate", "ReplicaFailure=False"]),
    ),
    objects_of(
        "v1 Pod",
        status=st.fixed_dictionaries(
            {
                "phase": st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
                "containerStatuses": st.lists(STATE, max_size=2),
                "initContainerStatuses": st.lists(STATE, max_size=2),
            }
        ),
        found=some_conditions(["Ready=False"], ["PodScheduled=False/Unschedulable", "PodScheduled=True"]),
    ),
    objects_of(
        "batch/v1 Job",
        spec=st.fixed_dictionaries({"suspend": st.booleans()}),
        status=st.fixed_dictionaries({"startTime": st.sampled_from([None, "2026-01-01T00:00:00Z"])}),
        found=some_conditions(
            ["Complete=True", "Failed=True/DeadlineExceeded"], ["FailureTarget=True"], ["SuccessCriteriaMet=True"]
        ),
    ),
    objects_of(
        CRD,
        status=st.just({}),
        found=some_conditions(
            ["NamesAccepted=False/KindConflict", "NamesAccepted=True"],
            ["Established=False/InvalidCABundle", "Established=False/Installing"],
        ),
    ),
)
