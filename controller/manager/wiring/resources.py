"""Wiring: disk and memory for the work."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from importlib.metadata import version

from api.plugins import Limits
from controller.content.store import ContentStore, StoreInUseError
from controller.processes.memory_limit import MemoryLimit
from controller.revisions.quarantine import Quarantine
from controller.settings import Settings
from controller.sharing.admission import Admission

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Shared by the work on all BundleDeployments."""

    store: ContentStore
    memory: MemoryLimit
    limits: Limits
    """Of one bundle, scaled to the memory."""
    admission: Admission
    quarantine: Quarantine


def make_resources(settings: Settings) -> Resources:
    """Open the content store and determine the memory limit.

    Raises: OSError or StoreInUseError if the content store cannot be opened.
    """
    store = _open_store(settings)
    memory = settings.memory_limit()
    return Resources(
        store=store,
        memory=memory,
        limits=memory.limits(Limits()),
        admission=Admission(memory.work_bytes),
        quarantine=Quarantine(
            lambda: store.folder and store.folder / "quarantine", f"{version('rukpak')} {memory.bytes}"
        ),
    )


def _open_store(settings: Settings) -> ContentStore:
    """Open the first content store that no other process uses."""
    *others, last = settings.store_folders()
    for folder in others:
        try:
            return ContentStore(folder)
        except StoreInUseError:
            log.info("content store is in use by another process, trying the next one", extra={"folder": str(folder)})
    return ContentStore(last)
