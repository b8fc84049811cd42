"""The command `rukpak`: one module a verb. Also `kubectl-rukpak`, so that `kubectl rukpak` works."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from controller.cli import run

VERBS: dict[str, tuple[Callable[[Sequence[str]], int], str]] = {"run": (run.main, "run the controller")}
MISUSE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out a verb; returns its exit status: 0 done, 1 failed, 2 and up misuse or broken."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] in VERBS:
        return VERBS[words[0]][0](words[1:])
    asked = words[:1] in (["--help"], ["-h"])
    print(_usage(), file=sys.stdout if asked else sys.stderr)
    return 0 if asked else MISUSE


def _usage() -> str:
    verbs = "\n".join(f"  {verb:10} {text}" for verb, (_, text) in VERBS.items())
    return f"usage: rukpak VERB [options]\n\n{verbs}\n\nrukpak VERB --help lists the options of a verb."
