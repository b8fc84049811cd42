"""The program rukpak-hosts, for authors: checks a bundle, prints its digest, and tries it on a root folder.

`run` and `remove` call the very agent that runs on nodes. For whoever is not root, scripts run in a user namespace, and
can do nothing to this machine that their caller could not. Those of root are root.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import rukpak_hosts_agent as agent
from rukpak.plugins import BundleError, ContentTree, LargeTextError, Means, TextBudget
from rukpak_host_bundles import Bundle, make_plan, read_bundle

_OWNER = "rukpak-hosts/run"
_SCRIPTS = (agent.INSTALL, agent.VERIFY, agent.UNINSTALL)
_SHELLS = ("sh", "bash", "dash", "ksh")
_PROGRAMS = ("usr", "bin", "sbin", "lib", "lib64")
_EMPTY = {"string": "", "integer": 0, "boolean": False}
_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_MISUSE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status: 1 if the bundle is wrong or fails, 2 for what cannot be tried."""
    options = _make_parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], None] = options.command
    try:
        command(options)
    except BundleError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return 1
    except (agent.HostError, LargeTextError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return _MISUSE
    return 0


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rukpak-hosts", description="Check bundles for hosts, and try them.")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    for name, command, text in (
        ("lint", _lint, "check host-bundle.yaml, what must be there, and the syntax of scripts"),
        ("digest", _digest, "print the digest of the content, for spec.config.digest"),
        ("run", _run, "install the bundle to a root folder, as on a host"),
        ("remove", _remove, "run uninstall.sh of what is installed in a root folder"),
    ):
        verb = verbs.add_parser(name, help=text, description=text)
        verb.set_defaults(command=command)
        verb.add_argument("folder", type=Path, help="the content of the bundle")
        if command in (_run, _remove):
            verb.add_argument(
                "--root",
                type=Path,
                required=True,
                metavar="DIR",
                help="the root folder of a host; one without programs gets those of this machine, read-only",
            )
        if command is _run:
            verb.add_argument(
                "--env",
                action="append",
                default=[],
                metavar="NAME=VALUE",
                help="a variable, as in spec.config.env; can be repeated",
            )
    return parser


def _lint(options: argparse.Namespace) -> None:
    bundle = _read(options.folder)
    for name in _SCRIPTS:
        if (options.folder / name).exists():
            _check_syntax(options.folder / name)
    print(f"{bundle.name} {bundle.version}: {agent.digest_of_folder(options.folder)}")
    if bundle.type != "Sysext" and not (options.folder / agent.UNINSTALL).exists():
        print(f"warning: without {agent.UNINSTALL}, what was installed stays on hosts", file=sys.stderr)


def _digest(options: argparse.Namespace) -> None:
    _read(options.folder)
    print(agent.digest_of_folder(options.folder))


def _run(options: argparse.Namespace) -> None:
    bundle = _read(options.folder)
    plan = _plan(bundle, options.folder, _parse_env(options.env, bundle))
    _enter(options.root)
    agent.install(plan, options.folder, options.root)
    done = "installed, and needs a reboot" if agent.needs_reboot(plan, options.root) else "installed"
    print(f"{bundle.name} {bundle.version}: {done}", file=sys.stderr)


def _remove(options: argparse.Namespace) -> None:
    bundle = _read(options.folder)
    # The script gets the variables with which the bundle was installed.
    plan = _plan(bundle, options.folder, {name: _EMPTY[variable["type"]] for name, variable in bundle.env.items()})
    _enter(options.root)
    agent.remove(plan, options.root)
    print(f"{bundle.name}: removed", file=sys.stderr)


def _read(folder: Path) -> Bundle:
    tree = ContentTree(root=folder, destinations=("",))
    return read_bundle(tree, TextBudget.of(Means()))


def _plan(bundle: Bundle, folder: Path, env: Mapping[str, Any]) -> dict[str, Any]:
    config = {"env": env, "allowReboot": True}  # it is not the agent that reboots
    return make_plan(bundle, config, agent.digest_of_folder(folder), owner=_OWNER)


def _parse_env(given: Sequence[str], bundle: Bundle) -> dict[str, Any]:
    """Return variables with the types that the bundle has them in; others are refused with the plan."""
    values: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise agent.HostError(f'--env "{text}": must be NAME=VALUE')
        values[name] = value
        if bundle.env.get(name, {}).get("type") in ("integer", "boolean"):
            with suppress(ValueError):
                values[name] = json.loads(value)
    return values


def _check_syntax(script: Path) -> None:
    """Have the shell of a script read it, without running it. Raises: HostError."""
    command = agent.interpreter_of(script)
    if Path(command[0]).name not in _SHELLS:
        return
    result = subprocess.run(
        [command[0], "-n", script.name], cwd=script.parent, check=False, capture_output=True, text=True
    )
    if result.returncode:
        raise agent.HostError(result.stderr.strip())


# the root folder


def _enter(root: Path) -> None:
    """Enter namespaces in which a root folder can be entered, and has programs. Raises: HostError, OSError."""
    root.mkdir(parents=True, exist_ok=True)
    if root.resolve() != Path("/"):  # this machine has all that is needed
        enter_namespaces(as_user=os.geteuid() != 0)
        mount_programs(root)


def enter_namespaces(*, as_user: bool) -> None:
    """Enter a namespace of mounts, and one of users in which this user is root.

    Raises: HostError if this machine does not allow it.
    """
    uid, gid = os.geteuid(), os.getegid()
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNS | (_CLONE_NEWUSER if as_user else 0)):
        problem = os.strerror(ctypes.get_errno())
        raise agent.HostError(f"this machine has no namespaces for you: {problem}; try it as root of a virtual machine")
    if as_user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            Path("/proc/self", name).write_text(text, encoding="ascii")
    _mount("--make-rprivate", "/")


def mount_programs(root: Path) -> None:
    """Give a root folder what the kernel shows, and unless it has a shell the programs of this machine, read-only.

    The namespace of mounts must be one of its own. Raises: HostError.
    """
    if not (root / "bin/sh").exists():
        for name in _PROGRAMS:
            _mount_program_folder(root, name)
    for name in ("dev", "proc", "sys"):
        (root / name).mkdir(exist_ok=True)
        _mount("--rbind", f"/{name}", str(root / name))
    (root / "run").mkdir(exist_ok=True)
    _mount("--types", "tmpfs", "run", str(root / "run"))
    _mount("--make-rshared", "/")  # systemd-sysext merges in a namespace of its own, and shares what it has mounted


def _mount_program_folder(root: Path, name: str) -> None:
    outside, inside = Path("/", name), root / name
    if outside.is_symlink():
        try:
            inside.symlink_to(outside.readlink())
        except FileExistsError:
            if not inside.is_symlink():  # which another agent of this root may make, too
                raise
    elif outside.is_dir():
        inside.mkdir(exist_ok=True)
        _mount("--rbind", str(outside), str(inside))
        _mount("--options", "remount,bind,ro", str(inside))


def _mount(*arguments: str) -> None:
    command = ["mount", *arguments]  # of PATH, as the rest of a workstation
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode:
        raise agent.HostError(f"this machine allows no mounts in namespaces: {result.stderr.strip()}; try it as root")


if __name__ == "__main__":
    sys.exit(main())
