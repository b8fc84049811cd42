"""`hack/fuzz [TARGET…] [--seconds N] [--list]`: search for inputs that break a parser.

Exit status: 0 if nothing was found, 1 if something was, 2 for misuse.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from hack.fuzzing.corpus import keep, kept_inputs
from hack.fuzzing.findings import Findings, draw_until
from hack.fuzzing.table import TARGETS
from hack.fuzzing.target import Target
from rukpak.controller.playground.programs import read_settings

_COUNTED = re.compile(r"^#(\d+)\s.*cov: (\d+)", re.MULTILINE)
_FOUND = re.compile(r"kept as .*/found-", re.MULTILINE)
_SECONDS = 60.0


def main(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    if options.list:
        width = max(map(len, TARGETS))
        for target in TARGETS.values():
            print(f"{target.name:{width}}  {target.covers} ({len(kept_inputs(target.name))} inputs kept)")
        return 0
    fuzz = _fuzz_guided if importlib.util.find_spec("atheris") else _fuzz_drawn
    if fuzz is _fuzz_drawn:
        print("atheris is not available: hypothesis generates the inputs, without coverage", file=sys.stderr)
    return 1 if sum(fuzz(TARGETS[name], options.seconds) for name in options.targets or TARGETS) else 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hack/fuzz", description="Search for inputs that break a parser.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="see --list; default: all of them")
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="seconds per target (default: %(default)g)")
    parser.add_argument("--list", action="store_true", help="list the targets")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.targets if name not in TARGETS]:
        parser.error(f'no target "{unknown[0]}"; see hack/fuzz --list')
    return options


def _fuzz_drawn(target: Target, seconds: float) -> int:
    findings = Findings(target, print)
    end = time.monotonic() + seconds
    count = draw_until(lambda: time.monotonic() >= end, target, findings)
    print(f"{target.name}: {count:,} inputs in {seconds:g} s, {len(findings)} found", flush=True)
    return len(findings)


def _fuzz_guided(target: Target, seconds: float) -> int:
    """Fuzz a target in a separate process, which an input may crash. Returns: the number of findings."""
    folder = read_settings().cache / "fuzz" / target.name
    (folder / "left").mkdir(parents=True, exist_ok=True)
    log = folder / "log"
    with log.open("w") as file:
        command = [sys.executable, "-P", "-m", "hack.fuzzing.guided", target.name, str(seconds), str(folder)]
        status = subprocess.run(command, stdout=file, stderr=file, check=False, env=os.environ).returncode
    text = log.read_text(errors="replace")
    found = len(_FOUND.findall(text)) + _keep_what_is_left(target, folder / "left")
    counted = _COUNTED.findall(text) or [("0", "0")]
    runs, edges = (int(number) for number in counted[-1])
    print(
        f"{target.name}: {runs:,} inputs in {seconds:g} s, {edges:,} edges covered, {found} found; see {log}",
        flush=True,
    )
    if status and not found:
        print(f"{target.name}: the fuzzer failed with status {status}; see {log}", file=sys.stderr)
        return 1
    return found


def _keep_what_is_left(target: Target, folder: Path) -> int:
    """Save the inputs that ended the process: by time, memory, or a crash outside Python."""
    left = [path for path in folder.iterdir() if path.name.startswith(("timeout-", "oom-", "crash-"))]
    for path in left:
        print(f"{target.name}: {path.name.partition('-')[0]}, kept as {keep(target.name, path.read_bytes())}")
        path.unlink()
    return len(left)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:  # findings so far are saved
        sys.exit(130)
