"""`rukpak diff`: what a revision would change, as the API server answers a dry run of each apply.

Exit status: 0 no difference, 1 a difference, 2 something failed or would be refused.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import sys

from controller.apply.targets import TargetSet, leave_out_missing, make_targets
from controller.build.revision import Revision
from controller.cli.command import MisuseError, tell
from controller.cli.deployments.waiting import ProgressLine
from controller.cli.output import to_json, to_yaml
from controller.cli.review.differences import Comparison, compare_hooks, compare_revisions
from controller.cli.review.dry_run import DryRun, owner_of
from controller.cli.review.revisions import Reviewed, find, find_new, list_stored, read_stored
from controller.cli.review.unified import to_value, write
from controller.kube.client import Client
from controller.kube.discovery import Discovery

DIFFERENT = 1
BROKEN = 2
_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{8,64})").fullmatch


def main(options: argparse.Namespace) -> int:
    """Show what a revision would change; return the exit status.

    Raises: as `revisions.find`.
    """
    if (options.before or options.to) and options.file:
        raise MisuseError("--from and --to name revisions of the revision store and require NAME")
    reviewed = find_new(options) if options.file else find("diff", options)
    if reviewed is None:
        return BROKEN
    client, deployment = reviewed.on_cluster(), reviewed.deployment
    if not options.file and deployment.status.observed_generation != deployment.metadata.generation:
        tell(f"warning: {options.name}: the controller has not observed the latest spec yet")
    if options.to:
        reviewed = reviewed.of(_read_named(client, options, "--to", options.to))
    before = _read_named(client, options, "--from", options.before) if options.before else None
    comparison = compare_two(reviewed, before) if before else compare(reviewed, options)
    _show(comparison, options.output)
    if comparison.is_refused:
        return BROKEN
    return DIFFERENT if comparison.differs else 0


def _show(comparison: Comparison, output: str) -> None:
    key = secrets.token_bytes()
    if output:
        value = to_value(comparison, key)
        print(to_json(value) if output == "json" else to_yaml(value), end="")
        return
    colors = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for line in write(comparison, key, colors=colors):
        print(line)


def compare(reviewed: Reviewed, options: argparse.Namespace) -> Comparison:
    """Compare a revision with its cluster; progress is shown on a terminal.

    Raises: ApiError.
    """
    deployment, revision, client = reviewed.deployment, reviewed.revision, reviewed.on_cluster()
    digest = deployment.status.installed_revision
    is_same = digest == revision.digest
    installed = revision if is_same else read_stored(client, options, digest) if digest else None
    discovery = Discovery(client)
    targets = leave_out_missing(find_targets(reviewed, discovery), lambda kind: discovery.resource(kind) is None)
    line = ProgressLine()
    try:
        found = DryRun(client, discovery, deployment, targets, installed).compare(
            lambda done, count: line.show(f"comparing {done} of {count} objects")
        )
    finally:
        line.clear()
    pending = deployment.status.pending
    said = pending.problems if pending and pending.revision == revision.digest else ()
    return Comparison(
        name=deployment.metadata.name,
        revision=revision.digest,
        against="the cluster",
        objects=found.objects,
        hooks=[] if is_same else compare_hooks(installed, revision, is_upgrade=bool(digest)),
        problems=list(dict.fromkeys([*found.problems, *said])),
    )


def compare_two(reviewed: Reviewed, before: Revision) -> Comparison:
    """Compare a revision with another one, as they were rendered.

    Raises: ApiError if discovery fails.
    """
    discovery = Discovery(reviewed.on_cluster())
    old, new = (find_targets(each, discovery) for each in (reviewed.of(before), reviewed))
    hooks = compare_hooks(before, reviewed.revision, is_upgrade=True)
    changed = [each for each in hooks if each.before != each.after]
    return compare_revisions(reviewed.deployment.metadata.name, old, new, changed)


def find_targets(reviewed: Reviewed, discovery: Discovery) -> TargetSet:
    """Return the targets of a revision.

    Raises: ApiError if discovery fails.
    """
    deployment = reviewed.deployment
    orphan = deployment.spec.deletion_policy == "Orphan"
    return make_targets(reviewed.revision, owner_of(deployment), orphan=orphan, is_namespaced=discovery.is_namespaced)


def _read_named(client: Client, options: argparse.Namespace, flag: str, text: str) -> Revision:
    """Return the stored revision that a flag names, by its digest or the beginning of it.

    Raises: MisuseError if there is none, or more than one; ApiError.
    """
    match = _DIGEST(text)
    known = list_stored(client, options) if match else []
    found = [digest for digest in known if match and digest.removeprefix("sha256:").startswith(match[1])]
    revision = read_stored(client, options, found[0], required=True) if len(found) == 1 else None
    if revision is None:
        stored = f"; stored are {', '.join(known)}" if known else ""
        raise MisuseError(f'{flag} "{text}": not the digest of one stored revision, nor its beginning{stored}')
    return revision
