"""`rukpak install`: a BundleDeployment from a command line, shown before it is created.

What was shown is what is installed, if approvals are required: then its revision is approved in advance. Otherwise a
tag may move between the two, which `--wait` reports.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from api import names
from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import BundleDeployment
from controller.cli import manifest
from controller.cli.command import FailedError, MisuseError, confirm, connect, tell
from controller.cli.comparison import summarize
from controller.cli.deployments import Deployments, Manifest, awaits_ready, conclude, wait_if_asked
from controller.cli.diff import compare
from controller.cli.output import fit, name_of, show, to_json
from controller.cli.permissions import describe
from controller.cli.render import OCI, read_config
from controller.cli.revisions import Reviewed, render_new
from controller.kube.client import Client
from controller.permissions.permissions import permissions_of
from controller.permissions.statement import to_lines
from controller.status.report import short

_API_VERSION = f"{names.GROUP}/v1alpha2"
_DEFAULT_APPROVAL = "Automatic"
_FLAGS_OF = {
    "ref": ("git",),
    "directory": ("git",),
    "sha256": ("http", "chart"),
    "repository": ("chart",),
    "version": ("chart",),
}


def main(options: argparse.Namespace) -> int:
    """Install a bundle; return the exit status: 1 if it is not created, or with `--wait` does not become Ready.

    Raises: MisuseError; BundleError, ApiError and ConfigurationError as `rukpak render`.
    """
    value = make_deployment(options)
    client = connect(options)
    deployments = Deployments(client)
    if deployments.get(options.name):
        remedy = 'change it, and see "rukpak diff -f FILE"'
        raise FailedError(f'BundleDeployment "{options.name}" already exists; {remedy}')
    reviewed = _render(client, options, value)
    for line in fit(_describe(reviewed, options)).splitlines():
        tell(line)
    value = _approved(value, reviewed, options)
    if options.dry_run:
        print(show([value], options.output) if options.output else f"{name_of(value)} created (dry run)\n", end="")
        return 0
    confirm(options, "nothing was created")
    return _create(deployments, value, reviewed, options)


def make_deployment(options: argparse.Namespace) -> Manifest:
    """Return the BundleDeployment that a command line describes.

    Raises: MisuseError; BundleError for a file of config that is not valid.
    """
    spec: dict[str, Any] = {"format": options.format, "sources": [_make_source(options)]}
    fields = {
        "installNamespace": options.install_namespace,
        "serviceAccountName": options.service_account,
        "config": read_config(options.config) if options.config else None,
        "approval": options.approval if options.approval != _DEFAULT_APPROVAL else None,
    }
    spec |= {key: value for key, value in fields.items() if value}
    return {"apiVersion": _API_VERSION, "kind": names.KIND, "metadata": {"name": options.name}, "spec": spec}


def _make_source(options: argparse.Namespace) -> dict[str, Any]:
    blocks = {
        "image": {"ref": (options.image or "").removeprefix(OCI)},
        "git": {"repository": options.git, "ref": options.ref, "directory": options.directory},
        "http": {"url": options.http, "sha256": options.sha256},
        "chart": {
            "repository": options.repository,
            "name": options.chart,
            "version": options.version,
            "sha256": options.sha256,
        },
    }
    given = [kind for kind in blocks if getattr(options, kind)]
    if len(given) != 1:
        raise MisuseError("specify one of --image, --git, --http and --chart")
    kind = given[0]
    if wrong := next((flag for flag, kinds in _FLAGS_OF.items() if kind not in kinds and getattr(options, flag)), None):
        raise MisuseError(f"--{wrong} does not apply to --{kind}")
    if kind == "chart" and not options.repository:
        raise MisuseError("--chart requires --repository")
    block: dict[str, Any] = {key: value for key, value in blocks[kind].items() if value}
    if options.secret:
        block["auth"] = {"secret": {"name": options.secret}}
    return {"kind": kind, kind: block}


def _render(client: Client, options: argparse.Namespace, value: Manifest) -> Reviewed:
    deployment: BundleDeployment = manifest.read(to_json(value).encode(), "command line", {"name": None, "spec": {}})
    try:
        return render_new(client, options, deployment, f'BundleDeployment "{options.name}"')
    except BundleError as error:
        if error.reason is not Reason.NO_CONTENT:
            raise
        raise BundleError(error.reason, f"{error.message}; here it is --format, now {options.format}") from None


def _describe(reviewed: Reviewed, options: argparse.Namespace) -> Iterator[str]:
    yield from summarize(compare(reviewed, options))
    account = reviewed.deployment.spec.service_account_name
    yield f"  Applied as: {f'ServiceAccount {account}' if account else 'the controller'}"
    lines = to_lines(permissions_of(reviewed.revision))
    yield from (f"  {line}" for line in describe(lines))


def _approved(value: Manifest, reviewed: Reviewed, options: argparse.Namespace) -> Manifest:
    """Return the BundleDeployment with the approval of exactly what was shown, if approvals are required."""
    if options.approval == _DEFAULT_APPROVAL:
        return value
    account = {"approvedServiceAccountName": options.service_account} if options.service_account else {}
    return {**value, "spec": {**value["spec"], "approvedRevision": reviewed.revision.digest, **account}}


def _create(deployments: Deployments, value: Manifest, reviewed: Reviewed, options: argparse.Namespace) -> int:
    made = deployments.create(value)
    values, failures = wait_if_asked(options, deployments, awaits_ready, [made])
    _warn_of_another(values, reviewed.revision.digest)
    return conclude("install", options, values, failures, done="created")


def _warn_of_another(values: Sequence[Manifest], shown: str) -> None:
    for value in values:
        found = (value.get("status") or {}).get("revision") or shown
        if found != shown:
            tell(f"warning: revision {short(found)} is installed, not {short(shown)}: the source has changed meanwhile")
