"""The status of each BundleDeployment as this process left it: what a pass continues with if another client changes it.

What is unknown is found out again, from the revision store and from all kinds that it names.

A field that another client sets or removes leaves our entry, whose time is that of our last write. So our entry has
another time, or no field less, if only we have written since.

Status records what cannot be found out again, such as pins, so a status that was wiped or edited is not believed but
written again. One that another process of the controller wrote is believed: it led before, or leads by mistake, and
would write it again, too. A process that has seen no status yet believes what it finds, as far as it can be used.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rukpak.api import names
from rukpak.api.v1alpha2.conditions import ConditionType, Reason
from rukpak.api.v1alpha2.types import BundleDeployment, Condition, Status
from rukpak.controller.content.digests import canonical_json, is_digest
from rukpak.controller.kube.resources import read_kinds
from rukpak.controller.observe.records import Entry, Tree, entries_of, fields_of
from rukpak.controller.untrusted import mapping, text

_STATE = re.compile(r"v[0-9]{1,9}:(?P<digest>.*)")
_TYPES, _REASONS = frozenset(each.value for each in ConditionType), frozenset(each.value for each in Reason)


def only_valid(status: Status) -> Status:
    """Return a status without texts that the controller never writes; the status itself if there are none."""
    state = _STATE.fullmatch(status.managed_state)
    usable: dict[str, Any] = {
        "revision": status.revision if is_digest(status.revision) else "",
        "installed_revision": status.installed_revision if is_digest(status.installed_revision) else "",
        "managed_state": status.managed_state if state and is_digest(state["digest"]) else "",
        "managed_kinds": tuple(map(str, read_kinds(status.managed_kinds))),
        "skipped_kinds": tuple(map(str, read_kinds(status.skipped_kinds))),
        "conditions": tuple(filter(_is_known, status.conditions)),
    }
    changes = {name: value for name, value in usable.items() if value != getattr(status, name)}
    return status.model_copy(update=changes) if changes else status


def _is_known(condition: Condition) -> bool:
    """Whether this release knows type and reason; a newer one may write others."""
    return condition.type in _TYPES and condition.reason in _REASONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Writers:
    """The entries of managedFields with fields of the status, as JSON, by manager, operation and apiVersion."""

    times: tuple[str, ...] = ()
    """When the controller last set a field; empty if it has set none of those that exist."""
    ours: bytes = b"{}"
    others: bytes = b"{}"

    def has_set(self, field: str) -> bool:
        """Whether the controller was the last to set a field of the status."""
        return any(f"f:{field}" in fields for fields in json.loads(self.ours).values())

    def is_ours_since(self, known: Writers) -> bool:
        """Whether the controller wrote the changes since an earlier state."""
        if not self.times or self.times != known.times:
            return bool(self.times)
        kept = _covers(json.loads(self.ours), json.loads(known.ours))
        return kept and _covers(json.loads(known.others), json.loads(self.others))


def writers_of(manifest: Mapping[str, Any]) -> Writers:
    """Return who wrote the status of an object."""
    entries = [each for each in entries_of(manifest) if _status_fields(each)]
    ours = [each for each in entries if each.get("manager") == names.STATUS_MANAGER]
    return Writers(
        times=tuple(text(each, "time") for each in ours),
        ours=_dump(ours),
        others=_dump(each for each in entries if each not in ours),
    )


def _status_fields(entry: Entry) -> Tree:
    return mapping(fields_of(entry), "f:status")


def _dump(entries: Any) -> bytes:
    key = ("manager", "operation", "apiVersion")
    return canonical_json({" ".join(text(each, part) for part in key): _status_fields(each) for each in entries})


def _covers(fields: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Whether a set of fields, as in fieldsV1, has all of another one."""
    return all(key in fields and _covers(fields[key], below) for key, below in others.items())


@dataclass(slots=True)
class _Own:
    uid: str
    generation: int
    status: Status
    """As it was first believed, or written last."""
    writers: Writers
    sent: Status | None = None
    """What is being written, or was written without a reply."""


class OwnStatuses:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._own: dict[str, _Own] = {}

    def restore(self, deployment: BundleDeployment, writers: Writers) -> BundleDeployment:
        """Return a BundleDeployment with its status as the controller left it, without what cannot be used.

        A status is also believed if it is the first one that this process sees, or if the generation went backwards:
        etcd was restored from a backup then.
        """
        metadata = deployment.metadata
        with self._lock:
            own = self._own.get(metadata.name)
            if own is None or own.uid != metadata.uid or metadata.generation < own.generation:
                own = _Own(metadata.uid, metadata.generation, deployment.status, writers)
                self._own[metadata.name] = own
            own.generation = metadata.generation
            _believe(own, deployment, writers)
            return deployment.model_copy(update={"status": only_valid(own.status)})

    def send(self, deployment: BundleDeployment, status: Status) -> None:
        """Note that a status is about to be written: its event may arrive before the reply."""
        with self._lock:
            if own := self._find(deployment):
                own.sent = status

    def keep(self, deployment: BundleDeployment, writers: Writers) -> None:
        """Note the status in the reply to a write."""
        with self._lock:
            if own := self._find(deployment):
                own.status, own.writers, own.sent = deployment.status, writers, None

    def is_foreign(self, deployment: BundleDeployment, writers: Writers) -> bool:
        """Whether another client changed the newest known status; one of another process of ours is believed."""
        with self._lock:
            own = self._find(deployment)
            return own is not None and not _believe(own, deployment, writers)

    def _find(self, deployment: BundleDeployment) -> _Own | None:
        own = self._own.get(deployment.metadata.name)
        return own if own and own.uid == deployment.metadata.uid else None

    def drop(self, name: str) -> None:
        """Forget a BundleDeployment that is gone."""
        with self._lock:
            self._own.pop(name, None)

    def clear(self) -> None:
        """Forget all, and believe what the cluster says."""
        with self._lock:
            self._own.clear()


def _believe(own: _Own, deployment: BundleDeployment, writers: Writers) -> bool:
    """Continue with a status from the cluster if the controller wrote it; returns whether that is so."""
    status = deployment.status
    if deployment.status_problem:
        return False
    if status == own.sent:
        own.sent = None
    elif status != own.status and not (
        only_valid(status) is status and (writers.is_ours_since(own.writers) or _is_move(own.status, status, writers))
    ):
        return False
    own.status, own.writers = status, writers
    return True


def _is_move(known: Status, now: Status, writers: Writers) -> bool:
    """Whether another shard has recorded that it takes the BundleDeployment, or lets it go.

    That drops fields, which managedFields cannot tell from a change of another client within the same second. But no
    such client has our entry set relabeling.
    """
    return now.shard != known.shard and now.relabeling is True and writers.has_set("relabeling")
