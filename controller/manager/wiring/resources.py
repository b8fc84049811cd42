"""Wiring: the disk and the memory that work may use."""

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
    """What work on all BundleDeployments shares."""

    store: ContentStore
    memory: MemoryLimit
    limits: Limits
    """Of one bundle, as the memory allows."""
    admission: Admission
    quarantine: Quarantine


def make_resources(settings: Settings) -> Resources:
    """Open the content store, and find out how much memory there is.

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
