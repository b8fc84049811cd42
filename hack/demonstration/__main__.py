"""hack/demo: runs the demonstration and cleans up, also on Ctrl-C and on failure."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from hack.control_plane.binaries import MissingError
from hack.control_plane.settings import read_settings
from hack.demonstration.shell import CommandError
from hack.demonstration.stage import PLUGIN, OwnStage, RefusedError, Stage, UserStage
from hack.demonstration.story import tell

SIGNAL_STATUS = 128
"""The exit status that a shell reports for a signal is this plus the number of the signal."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration and return the exit status."""
    options = _parser().parse_args(arguments)
    for number in SIGNALS:
        signal.signal(number, _exit)
    settings = read_settings()
    try:
        stage = UserStage(settings, _kubeconfig(options)) if options.kubeconfig else OwnStage(settings)
        return _give(stage, keep=options.keep)
    except (FileNotFoundError, MissingError, RefusedError) as error:
        print(f"hack/demo: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hack/demo", description="Demonstrate RukPak on a real control plane.")
    parser.add_argument("--keep", action="store_true", help="leave everything running, and print how to stop it")
    parser.add_argument("--kubeconfig", metavar="FILE", help="use this cluster (current context)")
    parser.add_argument("--paths-from", type=Path, default=Path(), help=argparse.SUPPRESS)
    return parser


def _kubeconfig(options: argparse.Namespace) -> Path:
    path: Path = options.paths_from / options.kubeconfig
    return path.resolve(strict=True)


def _give(stage: Stage, *, keep: bool) -> int:
    begun, kept = time.monotonic(), False
    try:
        tell(stage, keep=keep)
        if keep:
            stage.keep()
            kept = True
    except (CommandError, TimeoutError, RuntimeError) as error:
        print(f"hack/demo: {error}\n{stage.last_words()}".rstrip(), file=sys.stderr)
        return 1
    finally:
        _ignore_signals()
        if not kept:
            stage.take_down()
    seconds = time.monotonic() - begun
    print(
        f"\n== Left running\n{_explain(stage)}"
        if keep
        else f"\n== Cleaned up: {stage.brought} are gone ({seconds:.0f} s)"
    )
    return 0


def _explain(stage: Stage) -> str:
    registry = f"A bundle of your own: rukpak package FOLDER {stage.registry_host}/NAME:TAG"
    return f"{registry}\nTo use it:\n{stage.explain_use()}\n{PLUGIN}\nTo stop it:\n{stage.explain_end()}"


def _exit(number: int, _frame: object) -> None:
    raise SystemExit(SIGNAL_STATUS + number)


def _ignore_signals() -> None:
    """Clean up completely, even if Ctrl-C is pressed repeatedly."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
