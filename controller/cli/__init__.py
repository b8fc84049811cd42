"""The command `rukpak`, with one module for each verb. Also installed as `kubectl-rukpak`, for `kubectl rukpak`.

Results are written to stdout, everything else to stderr. Exit status: 0 done, 1 failed, 2 and above misuse or a bug. A
user error is reported in one line, never as a traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from api.errors import BundleError
from controller.cli.command import FAILED, MISUSE, MisuseError, tell
from controller.kube.errors import ApiError, ConfigurationError

INTERRUPTED = 130
BROKEN_PIPE = 141


def _verb(module: str, function: str = "main") -> Callable[[Sequence[str]], int]:
    """Return a verb whose module is imported when it runs: `render` needs no Kubernetes client."""

    def _run(arguments: Sequence[str]) -> int:
        status: int = getattr(import_module(f"controller.cli.{module}"), function)(arguments)
        return status

    return _run


VERBS: dict[str, tuple[Callable[[Sequence[str]], int], str]] = {
    "run": (_verb("run"), "run the controller"),
    "render": (_verb("render"), "print the objects of a bundle as the controller would apply them"),
    "capabilities": (_verb("capabilities"), "print the kinds that a cluster serves, for render"),
    "status": (_verb("status"), "show the state of BundleDeployments"),
    "pause": (_verb("pause", "pause"), "pause BundleDeployments: report drift, change nothing"),
    "resume": (_verb("pause", "resume"), "resume paused BundleDeployments"),
    "reconcile": (_verb("reconcile"), "re-resolve all sources and retry failures immediately"),
    "crd": (_verb("crd"), "print the CustomResourceDefinition"),
    "uninstall": (_verb("uninstall"), "remove RukPak from a cluster"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb and return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        try:
            return _run_verb(words[0], words[1:]) if words and words[0] in VERBS else _help(words)
        finally:
            sys.stdout.flush()  # also after the help of a verb, which exits
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains when it exits
        return BROKEN_PIPE


def _run_verb(verb: str, arguments: Sequence[str]) -> int:
    try:
        return VERBS[verb][0](arguments)
    except BundleError as error:
        for line in error.message.splitlines():
            tell(f"{error.reason.value}: {line}")
        return FAILED
    except (ApiError, ConfigurationError, MisuseError) as error:
        tell(f"rukpak {verb}: {error}")
        return MISUSE if isinstance(error, MisuseError) else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def _help(words: Sequence[str]) -> int:
    is_asked = words[:1] in (["--help"], ["-h"])
    print(_usage(), file=sys.stdout if is_asked else sys.stderr)
    return 0 if is_asked else MISUSE


def _usage() -> str:
    verbs = "\n".join(f"  {verb:13} {text}" for verb, (_, text) in VERBS.items())
    return f'usage: rukpak VERB [options]\n\n{verbs}\n\nUse "rukpak VERB --help" to list the options of a verb.'
