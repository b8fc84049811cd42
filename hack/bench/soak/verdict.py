"""Whether everything is as it should be: each BundleDeployment, its objects, and what nobody owns any more."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hack.bench.api import BUNDLE_DEPLOYMENTS
from hack.bench.rows import read_usage
from hack.bench.soak.churn import HISTORY_LIMIT, PLURALS, STORE, Identity, Manifest, collection, content, expected
from rukpak.api import names
from rukpak.controller.kube.client import Client
from rukpak.controller.revisions.store import REVISION

NOISE = 2.0
"""A trend that is less than so many standard deviations of the samples is none."""
LEAST = 0.01
"""A trend that is less than this part of the mean is none, however even the samples are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What a process holds at some time."""

    resident: float
    """MiB."""
    descriptors: int
    threads: int
    stored: float
    """MiB of its content store."""
    revisions: float
    """Revision Secrets for each BundleDeployment, beyond those that its status names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """How a figure has changed over a series of samples."""

    mean: float
    change: float
    """From the first to the last, along the line of best fit."""
    deviation: float
    """Standard deviation from that line."""

    @property
    def is_flat(self) -> bool:
        """Whether it has not grown beyond noise."""
        return self.change <= max(NOISE * self.deviation, LEAST * self.mean)


def take_sample(process: int, store: Path, revisions: float) -> Sample:
    """Measure a process.

    Args:
        process: its id.
        store: its content store.
        revisions: see Sample.

    Raises: OSError if it does not exist.
    """
    folder = Path("/proc") / str(process)
    return Sample(
        resident=read_usage(process).resident,
        descriptors=len(list((folder / "fd").iterdir())),
        threads=len(list((folder / "task").iterdir())),
        stored=_size(store) / (1 << 20),
        revisions=revisions,
    )


def find_trends(samples: Sequence[Sample]) -> dict[str, Trend]:
    """Return the trend of each figure over samples that were taken at equal intervals; at least three."""
    rows = [asdict(sample) for sample in samples]
    return {key: _find_trend([row[key] for row in rows]) for key in rows[0]}


def _find_trend(values: Sequence[float]) -> Trend:
    times = range(len(values))
    slope, start = statistics.linear_regression(times, values)
    residuals = [value - (start + slope * time) for time, value in zip(times, values, strict=True)]
    return Trend(
        mean=statistics.fmean(values), change=slope * (len(values) - 1), deviation=statistics.pstdev(residuals)
    )


def _size(folder: Path) -> int:
    """Return the bytes of all files below a folder, from which others may delete."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size
        except FileNotFoundError:
            continue
    return total


Objects = Mapping[Identity, object]
SETTLED = ("Unpacked", "Installed", "Healthy", "Ready")


def find_faults(client: Client) -> list[str]:
    """Return what is wrong on a cluster on which nothing is left to do; a line each, none if all is well.

    Raises: ApiError.
    """
    deployments = list(client.list(BUNDLE_DEPLOYMENTS))
    stored = Counter(secret["metadata"]["labels"][names.REVISION_LABEL] for secret in _revisions(client))
    return [
        *(fault for each in deployments for fault in _judge_status(each)),
        *compare({each["metadata"]["name"]: expected(each) for each in deployments}, _objects_by_owner(client)),
        *compare_revisions({each["metadata"]["name"]: len(_named(each)) for each in deployments}, stored),
    ]


def count_revisions(client: Client) -> float:
    """Return how many revision Secrets there are for each BundleDeployment, beyond those that its status names.

    Raises: ApiError.
    """
    named = {each["metadata"]["name"]: _named(each) for each in client.list(BUNDLE_DEPLOYMENTS)}
    unnamed = [
        secret
        for secret in _revisions(client)
        if _digest(secret) not in named.get(secret["metadata"]["labels"][names.REVISION_LABEL], ())
    ]
    return len(unnamed) / max(1, len(named))


def _named(deployment: Manifest) -> set[str]:
    """The installed revision, the desired one, which waits while it is paused, and what the history names."""
    status = deployment.get("status") or {}
    history = (each["revision"] for each in status.get("history") or [])
    return {status.get("installedRevision", ""), status.get("revision", ""), *history}


def _digest(secret: Manifest) -> str:
    digest: str = (secret["metadata"].get("annotations") or {}).get(REVISION, "")
    return digest


def _revisions(client: Client) -> Iterable[Manifest]:
    return client.list(STORE, label_selector=names.REVISION_LABEL, metadata=True)


def _objects_by_owner(client: Client) -> dict[str, Objects]:
    found: dict[str, dict[Identity, object]] = defaultdict(dict)
    for kind in PLURALS:
        for value in client.list(collection(kind), label_selector=names.OWNER_LABEL):
            about = value["metadata"]
            identity = (kind, about["namespace"], about["name"])
            found[about["labels"][names.OWNER_LABEL]][identity] = content({**value, "kind": kind})
    return dict(found)


def _judge_status(deployment: Manifest) -> list[str]:
    name, status = deployment["metadata"]["name"], deployment.get("status") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or []}
    return [
        *(
            f"{name}: {kind} is {conditions.get(kind, {}).get('reason', 'absent')}"
            for kind in SETTLED
            if conditions.get(kind, {}).get("status") != "True"
        ),
        *([f"{name}: status is of an earlier generation"] if _is_late(deployment) else []),
        *([] if status.get("installedRevision") == status.get("revision") else [f"{name}: revision is not installed"]),
        *([f"{name}: {conditions['Drifted']['message']}"] if "Drifted" in conditions else []),
        *([] if names.FINALIZER in deployment["metadata"].get("finalizers", []) else [f"{name}: no finalizer"]),
    ]


def _is_late(deployment: Manifest) -> bool:
    seen: int = (deployment.get("status") or {}).get("observedGeneration", 0)
    generation: int = deployment["metadata"]["generation"]
    return seen != generation


def compare(wanted: Mapping[str, Objects], found: Mapping[str, Objects]) -> list[str]:
    """Return the difference between the objects of each BundleDeployment as they are to be, and as they are."""
    faults = []
    for owner in sorted({*wanted, *found}):
        ours, theirs = wanted.get(owner, {}), found.get(owner, {})
        for kind, namespace, name in sorted({*ours, *theirs}):
            identity = (kind, namespace, name)
            if identity not in theirs:
                faults.append(f"{owner}: {kind} {namespace}/{name} is missing")
            elif identity not in ours:
                faults.append(f"{owner}: {kind} {namespace}/{name} is left over")
            elif ours[identity] != theirs[identity]:
                faults.append(f"{owner}: {kind} {namespace}/{name} is {theirs[identity]}, not {ours[identity]}")
    return faults


def compare_revisions(kept: Mapping[str, int], stored: Counter[str]) -> list[str]:
    """Return what is wrong with the revision store.

    Args:
        kept: how many revisions the status of each BundleDeployment at rest says are kept.
        stored: how many Secrets have its label.
    """
    return [
        *(
            f"{name}: {stored[name]} revision Secrets, not {kept.get(name, 0)}"
            for name in sorted({*kept, *stored})
            if stored[name] != kept.get(name, 0)
        ),
        *(
            f"{name}: {count} revisions are kept, not 1 to {HISTORY_LIMIT + 1}"
            for name, count in sorted(kept.items())
            if not 1 <= count <= HISTORY_LIMIT + 1
        ),
    ]
