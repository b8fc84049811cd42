"""Coverage-guided inputs: libFuzzer through atheris, in a separate process.

libFuzzer never returns, writes statistics to stderr, and ends the process if an input takes too long or too much
memory; `__main__` reads the files it leaves. A defect does not end the run.
"""

from __future__ import annotations

import importlib
import random
import resource
import sys
from pathlib import Path
from typing import Any

from hack.fuzzing.corpus import kept_inputs

MEMORY_BYTES = 4 << 30
INPUT_SECONDS = 30
_LEAST_BYTES, _MOST_BYTES = 4096, 32 * 1024
_REPEATED = 0.05
"""The fraction of inputs with many repetitions, which reveal work that is not linear."""


def main(name: str, seconds: str, folder: str) -> None:
    """Fuzz a target, with its working corpus and results in a folder."""
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["rukpak"]):
        table = importlib.import_module("hack.fuzzing.table")
    findings_module = importlib.import_module("hack.fuzzing.findings")
    target = table.TARGETS[name]
    findings = findings_module.Findings(target, lambda text: print(text, flush=True))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))  # so that MemoryError has a traceback
    seeds = _write_seeds(name, Path(folder))
    for data in seeds.values():
        findings.try_input(data)
    arguments = _options(Path(folder), float(seconds), max(map(len, seeds.values()), default=0))
    atheris.Setup([sys.argv[0], *arguments], findings.try_input, custom_mutator=_mutator(atheris, target.words))
    atheris.Fuzz()


def _write_seeds(name: str, folder: Path) -> dict[str, bytes]:
    seeds = kept_inputs(name)
    for kind in ("seeds", "corpus", "left"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds.values()):
        (folder / "seeds" / str(number)).write_bytes(data)
    return seeds


def _options(folder: Path, seconds: float, longest: int) -> list[str]:
    length = min(_MOST_BYTES, max(_LEAST_BYTES, longest))
    return [
        f"-max_total_time={max(1, round(seconds))}",
        f"-max_len={length}",
        f"-timeout={INPUT_SECONDS}",
        f"-rss_limit_mb={MEMORY_BYTES >> 20}",
        f"-artifact_prefix={folder / 'left'}/",
        "-print_final_stats=1",
        "-use_value_profile=0",
        str(folder / "corpus"),
        str(folder / "seeds"),
    ]


def _mutator(atheris: Any, words: tuple[bytes, ...]) -> Any:
    """Return a mutator: libFuzzer's own changes, words of the language, and repetitions."""

    def mutate(data: bytes, size: int, seed: int) -> bytes:
        chance = random.Random(seed)  # noqa: S311 - inputs, not secrets
        kind, changed = chance.random(), bytearray(data)
        start = chance.randint(0, len(changed))
        end = min(len(changed), start + chance.choice((0, 1, 2, 8, 64, 512)))
        if kind < _REPEATED:
            changed[start:end] = changed[start:end] * chance.randint(2, 2000)
        elif words and kind < 4 * _REPEATED:
            changed[start:end] = chance.choice(words)
        else:
            return bytes(atheris.Mutate(data, size))
        return bytes(changed[:size])

    return mutate


if __name__ == "__main__":
    main(*sys.argv[1:])
