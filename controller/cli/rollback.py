"""`rukpak rollback`: pin a BundleDeployment to a revision that is kept, or undo that.

Not here: which revisions are kept (changes.py).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.cli.command import NoConsentError, confirm, connect, tell
from rukpak.controller.cli.deployments import awaits_ready, conclude, wait_if_asked
from rukpak.controller.cli.parser import program
from rukpak.controller.content.limits import one_line
from rukpak.controller.kube.client import Client
from rukpak.controller.status.report import short
from rukpak.controller.views.access import Deployments, Manifest
from rukpak.controller.views.acts import find_kept, find_previous, kept_revisions, pin
from rukpak.controller.views.mistakes import FailedError, MisuseError


def main(options: argparse.Namespace) -> int:
    """Roll a BundleDeployment back, or forward again; return the exit status.

    Raises: MisuseError, ApiError, ConfigurationError.
    """
    if options.undo and options.to:
        raise MisuseError("specify only one of --to and --undo")
    client = connect(options)
    deployments = Deployments(client)
    found, deployment = deployments.read(options.name)
    if options.undo:
        _ask_to_undo(client, options, found)
        digest, done = None, "rollback undone"
    else:
        digest = _choose_revision(deployment, options.to)
        done = f"rolled back to revision {short(digest)}"
    value = pin(deployments, deployment, digest)
    values, failures = wait_if_asked(options, deployments, awaits_ready, [value])
    if digest:
        undo = f"{program()} rollback {options.name} --undo"
        tell(f"new content and config are ignored until the rollback is undone: {undo}")
    return conclude("rollback", options, values, failures, done=done)


def _choose_revision(deployment: BundleDeployment, text: str) -> str:
    """Return the digest of the revision that the user names, or else of the last one that was healthy."""
    status, name = deployment.status, deployment.metadata.name
    if not text:
        if found := find_previous(status):
            return found
        raise FailedError(f"{name}: no earlier revision that was healthy is kept; name one with --to")
    if found := find_kept(status, text):
        return found
    kept = ", ".join(map(short, kept_revisions(status))) or "none"
    raise FailedError(f"{name}: --to: not one of the revisions that are kept: {kept}")


def _ask_to_undo(client: Client, options: argparse.Namespace, found: Manifest) -> None:
    """Show what the BundleDeployment leads to without the pin, and ask.

    Raises: FailedError if nothing is pinned, or the user declines; MisuseError, ApiError, ConfigurationError.
    """
    if not found["spec"].get("pinnedRevision"):
        raise FailedError(f"{options.name}: not rolled back: spec.pinnedRevision is not set")
    for line in _preview(client, options, found):
        tell(one_line(line))
    confirm(options, "nothing was undone")


def _preview(client: Client, options: argparse.Namespace, found: Manifest) -> Iterator[str]:
    from rukpak.controller.cli.content import Draft  # noqa: PLC0415
    from rukpak.controller.cli.diff import compare  # noqa: PLC0415
    from rukpak.controller.cli.render import render_new  # noqa: PLC0415
    from rukpak.controller.views.comparison import summarize  # noqa: PLC0415 - slow to import, and only needed here

    unpinned = Draft(value=found, origin=f'BundleDeployment "{options.name}"').with_spec(
        {key: value for key, value in found["spec"].items() if key != "pinnedRevision"}
    )
    try:
        _, reviewed = render_new(client, options, unpinned)
    except NoConsentError:
        yield "warning: what follows is not shown, since no Secret was read"
    except BundleError as error:  # the controller may be able to fetch what this machine is not
        yield f"warning: what follows cannot be shown: {error.reason.value}: {error.message}"
    else:
        yield from summarize(compare(reviewed, options))
