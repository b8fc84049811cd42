"""Wiring: disk and memory for the work."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version

from api.plugins import Limits
from controller.content.store import ContentStore
from controller.processes.memory_limit import MemoryLimit
from controller.revisions.quarantine import Quarantine
from controller.settings import Settings
from controller.sharing.admission import Admission


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
    store = ContentStore(settings.store_folder())
    memory = settings.memory_limit()
    return Resources(
        store=store,
        memory=memory,
        limits=memory.limits(Limits()),
        admission=Admission(memory.work_bytes),
        quarantine=Quarantine(store.folder and store.folder / "quarantine", f"{version('rukpak')} {memory.bytes}"),
    )
