"""The command `rukpak`. Also installed as `kubectl-rukpak`, for `kubectl rukpak`.

Results are written to stdout, everything else to stderr. Exit status: 0 done, 1 failed, 2 and above misuse or a bug. A
user error is reported in one line, never as a traceback. What a verb does is imported when it runs: help and mistakes
need neither the Kubernetes client nor the models of the API.

    verbs          START HERE: every verb, its flags and the function that runs it
    parser         argparse, with help as kubectl has it
    completion     what shells and kubectl ask to complete command lines
    command        shared by the verbs: exit statuses, the client, files, stderr, questions
    deployments    which BundleDeployments are named, --wait, who acts

A verb, or a family of verbs, is a module; README.md has the table. What verbs share with the page is in
`controller/views`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from rukpak.api.errors import BundleError
from rukpak.controller.cli.command import MISUSE, NoConsentError, explain, tell
from rukpak.controller.cli.parser import program, suggest
from rukpak.controller.cli.verbs import GROUPS, VERBS, load, make_parser
from rukpak.controller.views import FailedError, MisuseError

# Pydantic would read the metadata of all installed packages, to find some that observe models; a verb is then imported.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
INTERRUPTED = 130
BROKEN_PIPE = 141
_INSTEAD = {
    "list": '"rukpak status"',
    "ls": '"rukpak status"',
    "get": '"rukpak status", or "kubectl get bundledeployments"',
    "describe": '"rukpak status NAME"',
    "create": '"rukpak install"',
    "upgrade": '"rukpak install NAME SOURCE"',
    "apply": '"rukpak install -f FILE", or "kubectl apply -f FILE"',
    "delete": '"kubectl delete bundledeployment NAME"',
    "remove": '"kubectl delete bundledeployment NAME"',
    "suspend": '"rukpak pause"',
    "template": '"rukpak render"',
    "build": '"rukpak render"',
    "sync": '"rukpak reconcile"',
}
"""Verbs of other programs, and what does the same."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb and return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        try:
            return _run(words)
        finally:
            sys.stdout.flush()  # also after the help of a verb, which exits
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains when it exits
        return BROKEN_PIPE


def _run(words: Sequence[str]) -> int:
    match words:
        case ["--help" | "-h" | "help"]:
            print(_usage())
            return 0
        case ["help", verb]:
            return _run([verb, "--help"])
        case ["--version"]:
            return _run(["version", "--client"])
        case ["__complete", *line]:  # help does not list it; cobra calls it the same
            from rukpak.controller.cli.completion import answer  # noqa: PLC0415 - only for shells

            return answer(line)
        case [verb, *arguments] if verb in VERBS:
            return _run_verb(make_parser(verb).read(arguments))
    return _refuse(words)


def _run_verb(options: argparse.Namespace) -> int:
    run = load(options.verb)
    from rukpak.controller.kube.errors import ApiError, ConfigurationError  # noqa: PLC0415 - slow to import, not for --help

    try:
        return run(options)
    except BundleError as error:
        for line in error.message.splitlines():
            tell(f"{error.reason.value}: {line}")
    except NoConsentError:
        tell("rukpak: canceled; no Secret was read")
    except MisuseError as error:
        tell(f"rukpak {options.verb}: {error}")
        return MISUSE
    except (FailedError, ApiError, ConfigurationError) as error:
        tell(f"rukpak {options.verb}: {explain(error)}")
    return VERBS[options.verb].failed


def _refuse(words: Sequence[str]) -> int:
    if not words:
        print(_usage(), file=sys.stderr)
        return MISUSE
    verb = next((word for word in words if word in VERBS), "VERB")
    if words[0].startswith("-"):
        tell(f'rukpak: "{words[0]}" is before the verb; put flags after it: {program()} {verb} {words[0]}')
    else:
        remedy = f"; use {_INSTEAD[words[0]]}" if words[0] in _INSTEAD else suggest(words[0], VERBS)
        tell(f'rukpak: unknown verb "{words[0]}"{remedy}')
    tell(f'See "{program()} --help" for usage')
    return MISUSE


def _usage() -> str:
    lines = [f"rukpak {version('rukpak')}: installs bundles on Kubernetes and keeps them installed", ""]
    lines += [f"usage: {program()} VERB [flags]"]
    width = max(map(len, VERBS))
    for title, verbs in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {name:{width}} {verb.summary}" for name, verb in verbs.items())]
    return "\n".join([*lines, "", f'Use "{program()} VERB --help" for the flags of a verb, with examples.'])
