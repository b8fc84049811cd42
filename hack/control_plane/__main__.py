"""hack/cluster: named control planes that run until they are taken down."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from hack.control_plane.builds import BUILDS
from hack.control_plane.images import obtain_tiny
from hack.control_plane.nodes import NodeError, NodePlane, find_node, install_needs
from rukpak.controller.playground.binaries import Binaries, MissingError
from rukpak.controller.playground.cluster import STATE, Registry, load_control_plane, make_control_plane
from rukpak.controller.playground.processes import take_away
from rukpak.controller.playground.programs import CONTROL_PLANE, NODE, PROGRAMS, Settings, read_settings

DEFAULT_NAME = "rukpak"


class UsageError(Exception):
    """The request cannot be fulfilled; the message says what to do, in one line."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        options.command(options, read_settings())
    except (MissingError, NodeError, UsageError, TimeoutError, RuntimeError) as error:
        print(f"hack/cluster: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hack/cluster", description="Real Kubernetes control planes on this machine.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="create and start a control plane, and print how to use it")
    up.add_argument("--audit", action="store_true", help="write an audit log of all requests (metadata)")
    nodes = up.add_mutually_exclusive_group()
    nodes.add_argument("--kwok", action="store_true", help="add a fake node, on which pods become Ready")
    nodes.add_argument("--node", action="store_true", help="add a real node, on which pods run (as root)")
    nodes.add_argument("--nodes", type=int, default=0, metavar="N", help="add several real nodes")
    up.add_argument("--registry", action="store_true", help="add an OCI registry with plain http")
    up.set_defaults(command=_up)
    down = commands.add_parser("down", help="stop a control plane and delete its data")
    down.set_defaults(command=_down)
    env = commands.add_parser("env", help="print the environment of a control plane, for eval")
    env.set_defaults(command=_env)
    for command in (up, down, env):
        command.add_argument("name", nargs="?", default=DEFAULT_NAME, type=_name, help=f"default: {DEFAULT_NAME}")
    execute = commands.add_parser("exec", help="run a command on a real node, as root")
    execute.add_argument("--on", default="node-1", metavar="NODE", help="default: node-1")
    execute.add_argument("name", type=_name)
    execute.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND")
    execute.set_defaults(command=_execute)
    listing = commands.add_parser("list", help="list all control planes and whether they are running")
    listing.set_defaults(command=_list)
    programs = commands.add_parser("programs", help="list the programs of tests; exit status 1 if one is missing")
    programs.set_defaults(command=_programs)
    return parser


def _name(text: str) -> str:
    if not text.replace("-", "").isalnum() or not text.isascii():
        raise argparse.ArgumentTypeError(f'"{text}": must consist of letters, digits and "-"')
    return text


def _up(options: argparse.Namespace, settings: Settings) -> None:
    count = options.nodes or int(options.node)
    if count:
        install_needs(settings.cache)
    added = [*(name for name in ("kwok", "registry") if getattr(options, name)), *(NODE if count else ())]
    programs = Binaries(settings, builds=BUILDS).obtain([*CONTROL_PLANE, *added])
    tiny = obtain_tiny(settings) if count else None
    folder = settings.running / options.name
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        message = f"{options.name} exists already, see hack/cluster env {options.name}, or take it down first"
        raise UsageError(message) from None
    try:
        if tiny:
            nodes = NodePlane(folder, programs, tiny, count=count, audit=options.audit)
            nodes.start()
            cluster = nodes.plane
        else:
            cluster = make_control_plane(folder, programs, audit=options.audit)
            cluster.start()
        if options.registry:
            Registry(folder, programs["registry"]).start()
    except BaseException:
        take_away(folder)
        raise
    print(cluster.exports(), end="")


def _down(options: argparse.Namespace, settings: Settings) -> None:
    folder = settings.running / options.name
    if not folder.is_dir():
        raise UsageError(f"there is no {options.name}; see hack/cluster list")
    take_away(folder)


def _env(options: argparse.Namespace, settings: Settings) -> None:
    print(load_control_plane(_existing(options.name, settings)).exports(), end="")


def _execute(options: argparse.Namespace, settings: Settings) -> None:
    node = find_node(_existing(options.name, settings), options.on)
    raise SystemExit(node.call(options.words or ["/bin/sh"]))


def _list(_options: argparse.Namespace, settings: Settings) -> None:
    for state in sorted(settings.running.glob(f"*/{STATE}")):
        cluster = load_control_plane(state.parent)
        print(f"{state.parent.name:20} {'running' if cluster.is_running() else 'stopped':8} {cluster.server}")


def _programs(_options: argparse.Namespace, settings: Settings) -> None:
    # Only root can have real nodes.
    names = [name for name in PROGRAMS if name not in NODE or os.geteuid() == 0]
    found = Binaries(settings, builds=BUILDS).find(names)
    for name in names:
        print(f"{name:24} {found.get(name, 'missing')}")
    if missing := [name for name in names if name not in found]:
        raise UsageError(f"{', '.join(missing)}: will be downloaded or built when needed")


def _existing(name: str, settings: Settings) -> Path:
    folder = settings.running / name
    if not (folder / STATE).exists():
        raise UsageError(f"there is no {name}; see hack/cluster list")
    return folder


if __name__ == "__main__":
    sys.exit(main())
