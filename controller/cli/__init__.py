"""The command `rukpak`: one module a verb. Also `kubectl-rukpak`, so that `kubectl rukpak` works.

Results go to stdout, talk goes to stderr. The exit status is 0: done, 1: failed, 2 and up: misuse or broken. A mistake
of a user ends with one line that says what is wrong, and never with a traceback.
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
    """Return a verb whose module is loaded when it is carried out: `render` needs no Kubernetes client."""

    def carry_out(arguments: Sequence[str]) -> int:
        status: int = getattr(import_module(f"controller.cli.{module}"), function)(arguments)
        return status

    return carry_out


VERBS: dict[str, tuple[Callable[[Sequence[str]], int], str]] = {
    "run": (_verb("run"), "run the controller"),
    "render": (_verb("render"), "show the objects of a bundle, as the controller would apply them"),
    "capabilities": (_verb("capabilities"), "write down what a cluster serves, for render"),
    "status": (_verb("status"), "show how BundleDeployments are, and why"),
    "pause": (_verb("pause", "pause"), "keep hands off what BundleDeployments have installed"),
    "resume": (_verb("pause", "resume"), "go on with BundleDeployments that are paused"),
    "reconcile": (_verb("reconcile"), "ask all sources anew, and try at once what failed"),
    "crd": (_verb("crd"), "print the CustomResourceDefinition"),
    "uninstall": (_verb("uninstall"), "take RukPak off a cluster"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out a verb; returns its exit status: 0 done, 1 failed, 2 and up misuse or broken."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] in VERBS:
        return _carry_out(words[0], words[1:])
    asked = words[:1] in (["--help"], ["-h"])
    print(_usage(), file=sys.stdout if asked else sys.stderr)
    return 0 if asked else MISUSE


def _carry_out(verb: str, arguments: Sequence[str]) -> int:
    try:
        status = VERBS[verb][0](arguments)
        sys.stdout.flush()
    except BundleError as error:
        for line in error.message.splitlines():
            tell(f"{error.reason.value}: {line}")
        return FAILED
    except (ApiError, ConfigurationError) as error:
        tell(f"rukpak {verb}: {error}")
        return FAILED
    except MisuseError as error:
        tell(f"rukpak {verb}: {error}")
        return MISUSE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains at its end
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _usage() -> str:
    verbs = "\n".join(f"  {verb:13} {text}" for verb, (_, text) in VERBS.items())
    return f"usage: rukpak VERB [options]\n\n{verbs}\n\nrukpak VERB --help lists the options of a verb."
