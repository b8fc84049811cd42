"""`rukpak diff`: what a revision would change, compared with the cluster or with another revision.

Exit status: 0 no difference, 1 a difference, 2 something failed or would be refused.
"""

from __future__ import annotations

import argparse
import re
import secrets
from collections.abc import Container
from dataclasses import replace

from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.building.revision import Revision
from rukpak.controller.cli.command import tell
from rukpak.controller.cli.content import is_described
from rukpak.controller.cli.deployments import ProgressLine
from rukpak.controller.cli.render import find, find_new, read_stored
from rukpak.controller.kube.client import Client
from rukpak.controller.views import MisuseError, dry_run
from rukpak.controller.views.access import find_digest, open_store
from rukpak.controller.views.comparison import Comparison, to_value, write
from rukpak.controller.views.dry_run import Reviewed, compare_two
from rukpak.controller.views.texts import dump_as, is_colored

DIFFERENT = 1
BROKEN = 2
_DIGEST = re.compile(r"(sha256:)?[0-9a-f]{8,64}").fullmatch


def main(options: argparse.Namespace) -> int:
    """Show what a revision would change; return the exit status.

    Raises: as `render.find`.
    """
    is_new = is_described(options)
    if (options.before or options.to) and is_new:
        raise MisuseError("--from and --to name revisions of the revision store and require NAME alone")
    reviewed = find_new(options) if is_new else find(options)
    client, deployment = reviewed.on_cluster(), reviewed.deployment
    if not is_new and deployment.status.observed_generation != deployment.metadata.generation:
        tell(f"warning: {options.name}: the controller has not observed the latest spec yet")
    if options.to:
        reviewed = replace(reviewed, revision=_read_named(client, options, "--to", options.to))
    before = _read_named(client, options, "--from", options.before) if options.before else None
    comparison = compare_two(reviewed, before) if before else compare(reviewed, options)
    _show(comparison, options)
    if comparison.is_refused:
        return BROKEN
    return DIFFERENT if comparison.differs else 0


def _show(comparison: Comparison, options: argparse.Namespace) -> None:
    key = secrets.token_bytes()
    if options.output:
        value = to_value(comparison, key)
        print(dump_as(options.output, value), end="")
        return
    for line in write(comparison, key, colors=is_colored(options.color)):
        print(line)


def compare(reviewed: Reviewed, options: argparse.Namespace, passing_on: Container[str] = ()) -> Comparison:
    """Compare a revision with its cluster; progress is shown on a terminal.

    `passing_on`: more field managers whose fields become the BundleDeployment's; see `records.pass_on`.

    Raises: ApiError.
    """
    line = ProgressLine(is_logged=False)
    try:
        return dry_run.compare(
            reviewed,
            lambda digest: read_stored(reviewed.on_cluster(), options, digest),
            _name_bundle(reviewed.deployment, options),
            lambda done, count: line.show(f"comparing {done} of {count} objects"),
            passing_on,
        )
    finally:
        line.clear()


def _name_bundle(deployment: BundleDeployment, options: argparse.Namespace) -> str:
    name, spec = deployment.metadata.name, deployment.spec
    if deployment.metadata.uid or not (options.file or options.source):
        return name
    if options.file:
        return f"-f {options.file}"
    return f"{name} {options.source} -n {spec.install_namespace} --service-account {spec.service_account_name}"


def _read_named(client: Client, options: argparse.Namespace, flag: str, text: str) -> Revision:
    """Return the stored revision that a flag names, by its digest or the beginning of it.

    Raises: MisuseError if there is none, or more than one; ApiError.
    """
    known = open_store(client, options.namespace).digests(options.name) if _DIGEST(text) else []
    digest = find_digest(known, text)
    revision = read_stored(client, options, digest, required=True) if digest else None
    if revision is None:
        stored = f"; stored are {', '.join(known)}" if known else ""
        raise MisuseError(f'{flag} "{text}": not the digest of one stored revision, nor its beginning{stored}')
    return revision
