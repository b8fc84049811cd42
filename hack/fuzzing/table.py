"""All targets, by name."""

from __future__ import annotations

from hack.fuzzing import archives, documents, records, signatures, texts
from hack.fuzzing.target import Target

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (*archives.TARGETS, *documents.TARGETS, *texts.TARGETS, *records.TARGETS, *signatures.TARGETS)
}
