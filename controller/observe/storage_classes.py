"""StorageClasses: whether a claim is bound immediately or with its first pod. Watched once there is a claim.

If they cannot be listed, the health of a claim says so: the claim alone does not tell (health/README.md).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.kube.client import Client
from controller.kube.resources import Resource
from controller.kube.watch.reflector import Reflector
from controller.observe.health.subject import StorageClassInfo

STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
_DEFAULT_MARKS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Class:
    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    created: str
    binding_mode: str
    is_default: bool


class StorageClasses:
    """Thread-safe.

    Args:
        changed: called when claims may have to be judged again, on the thread of the watch.
        settled: called there once all are known, or cannot be listed.
    """

    def __init__(self, client: Client, changed: Callable[[], None], settled: Callable[[], None]) -> None:
        self._changed = changed
        self._lock = threading.Lock()
        self.reflector = Reflector[_Class](
            client,
            STORAGE_CLASSES.path(),
            project=_make_class,
            on_change=self._note,
            on_synced=settled,
            on_failed=settled,
        )

    def start(self) -> None:
        """Start to watch, unless already started."""
        with self._lock:
            if not self.reflector.started:
                self.reflector.start()

    def find(self, name: str | None) -> StorageClassInfo | None:
        """Return a StorageClass, the default one for None; None if StorageClasses cannot be read."""
        if not self.reflector.synced:
            return None
        known = self.reflector.get(("", name)) if name else self._default()
        return StorageClassInfo(volume_binding_mode=known.binding_mode if known else None)

    def _default(self) -> _Class | None:
        """Return the newest default class, as the API server does if there are several."""
        defaults = [each for each in self.reflector.records() if each.is_default]
        return max(defaults, key=lambda each: (each.created, each.name), default=None)

    def _note(self, old: _Class | None, new: _Class | None) -> None:
        if old is None or new is None or (old.binding_mode, old.is_default) != (new.binding_mode, new.is_default):
            self._changed()


def _make_class(manifest: Mapping[str, Any]) -> _Class:
    metadata = manifest["metadata"]
    annotations = metadata.get("annotations") or {}
    return _Class(
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        created=metadata.get("creationTimestamp") or "",
        binding_mode=manifest.get("volumeBindingMode") or "Immediate",
        is_default=any(annotations.get(mark) == "true" for mark in _DEFAULT_MARKS),
    )
