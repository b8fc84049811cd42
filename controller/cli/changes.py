"""`rukpak pause`, `resume`, `reconcile`, `approve`, `deny`, `history` and `rollback`: changes of a BundleDeployment.

Each changes spec or an annotation, and tells with `--wait` what that leads to. What waits for approval is shown, and
then exactly that is approved or denied: the request carries the resourceVersion of what was shown, so that what has
changed meanwhile is neither approved nor denied.

`pause --all` marks those that it pauses, and `resume --all` resumes only these: each may be repeated after a failure,
and what somebody has paused by itself stays paused.

`history` shows the revisions that are kept; `rollback` pins a BundleDeployment to one of them, or undoes that.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.plugins import Lookup
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.reading import try_to_read
from rukpak.api.v1alpha2.status import HistoryEntry, Pending, dump
from rukpak.api.v1alpha2.types import BundleDeployment, Status
from rukpak.controller.building.revision import Revision
from rukpak.controller.cli.command import FAILED, NoConsentError, confirm, connect, explain, tell, tell_all
from rukpak.controller.cli.deployments import (
    AWAITING_CONTROLLER,
    DONE,
    Awaited,
    Awaits,
    awaits_ready,
    check,
    conclude,
    condition,
    find_each,
    is_complete,
    select,
    wait_if_asked,
)
from rukpak.controller.cli.parser import program
from rukpak.controller.content.digests import digest_of_json
from rukpak.controller.content.limits import one_line, some
from rukpak.controller.formats.helm.lookups import describe, make_answer
from rukpak.controller.kube.client import Client
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.errors import UNREACHABLE, ApiError, attempt
from rukpak.controller.revisions.references import look_up
from rukpak.controller.status.report import describe_changes, short
from rukpak.controller.untrusted import strings, text
from rukpak.controller.views import FailedError, MisuseError
from rukpak.controller.views.access import (
    PAUSE,
    RESUME,
    TRIES,
    Choice,
    Deployments,
    Manifest,
    decide,
    find_kept,
    find_previous,
    kept_revisions,
    make_request,
    open_store,
    pin,
)
from rukpak.controller.views.objects import describe_place, describe_sources
from rukpak.controller.views.texts import Cell, Color, Painted, age, dump_as, is_colored, to_table

RETRY_SECONDS = 10.0
"""After a request that changes no condition, the failure from before it counts as that of the retry, too."""
_DIGEST = re.compile(r"(sha256:)?([0-9a-f]{64})").fullmatch
_ABBREVIATED = re.compile(r"(sha256:)?([0-9a-f]{8,64})").fullmatch
Choose = Callable[[Manifest], Mapping[str, Any] | None]
"""Returns how to change a BundleDeployment as it is; None: not at all."""
HEADING = ("REVISION", "STATE", "OUTCOME", "INSTALLED", "BUNDLE", "SOURCES", "MESSAGE")
_OUTCOMES = {"Healthy": Color.GREEN, "Failed": Color.RED, "RolledBack": Color.RED}
_NAMED = re.compile(r"(?P<name>[^@]+)@(sha256:)?(?P<digest>[0-9a-f]{8,64})").fullmatch


def pause(options: argparse.Namespace) -> int:
    """Pause BundleDeployments (rule 8); return the exit status.

    Raises: MisuseError, ApiError, ConfigurationError.
    """
    if options.all:
        return _change_all(options, _pause_with_all, done="paused", awaits=awaits_pause)
    return _change(options, PAUSE, done="paused", awaits=awaits_pause)


def resume(options: argparse.Namespace) -> int:
    """Resume BundleDeployments; return the exit status.

    Raises: MisuseError, ApiError, ConfigurationError.
    """
    if options.all:
        return _change_all(options, _resume_with_all, done="resumed", awaits=awaits_ready)
    return _change(options, RESUME, done="resumed", awaits=awaits_ready)


def _pause_with_all(value: Manifest) -> Mapping[str, Any] | None:
    if value["spec"].get("paused"):
        return None
    return {"metadata": {"annotations": {names.PAUSED_WITH_ALL: "true"}}, "spec": {"paused": True}}


def _resume_with_all(value: Manifest) -> Mapping[str, Any] | None:
    return RESUME if _is_paused_with_all(value) else None


def _is_paused_with_all(value: Manifest) -> bool:
    return names.PAUSED_WITH_ALL in (value["metadata"].get("annotations") or {})


def reconcile(options: argparse.Namespace) -> int:
    """Set the annotation that makes the controller re-resolve all sources; return the exit status.

    Raises: MisuseError, ApiError, ConfigurationError.
    """
    requested_at = datetime.now(UTC).isoformat(timespec="microseconds")
    change = make_request(requested_at)
    awaits = _awaits_reconciliation(requested_at)
    return _change(options, change, done="reconciliation requested", awaits=awaits)


def _change(options: argparse.Namespace, change: Mapping[str, Any], *, done: str, awaits: Awaits) -> int:
    check(options, default_all=False)
    deployments = Deployments(connect(options))
    if not options.names:
        selected = select(options, deployments)
        options.names = [value["metadata"]["name"] for value in selected]
    found = find_each(options, lambda name: deployments.change(name, change))
    values, failures = wait_if_asked(options, deployments, awaits, found)
    status = conclude(options, values, failures, done=done)
    return status or (0 if is_complete(options, found) else FAILED)


def _change_all(options: argparse.Namespace, choose: Choose, *, done: str, awaits: Awaits) -> int:
    """Change all as far as possible: one that cannot be changed must not keep the others from it, in an incident."""
    check(options, default_all=False)
    deployments = Deployments(connect(options))
    found = select(options, deployments)
    changed, failed = [], False
    for value in found:
        try:
            if current := _change_as_read(deployments, value, choose):
                changed.append(current)
        except ApiError as error:
            if error.reason == UNREACHABLE:
                raise
            failed = True
            tell(f"rukpak {options.verb}: {value['metadata']['name']}: {explain(error)}")
    stay = [
        value["metadata"]["name"] for value in found if value["spec"].get("paused") and not _is_paused_with_all(value)
    ]
    if stay:
        remedy = "" if options.verb == "pause" else f'; "{program()} resume NAME" resumes one'
        tell(f"left as they were, paused by themselves: {some(stay)}{remedy}")
    values, failures = wait_if_asked(options, deployments, awaits, changed)
    return conclude(options, values, failures, done=done) or (FAILED if failed else 0)


def _change_as_read(deployments: Deployments, value: Manifest, choose: Choose) -> Manifest | None:
    """Merge what depends on the present state, which is read again if it has changed; return None if nothing does.

    Raises: ApiError, a 409 if it changes all the time.
    """
    current: Manifest | None = value
    for left in reversed(range(TRIES)):
        if current is None or (change := choose(current)) is None:
            return None
        metadata = current["metadata"]
        guarded = {**change["metadata"], "resourceVersion": metadata["resourceVersion"]}
        try:
            return deployments.change(metadata["name"], {**change, "metadata": guarded})
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT or not left:
                raise
        current = deployments.get(metadata["name"])
    return None


def awaits_pause(deployment: BundleDeployment) -> Awaited:
    """Return why a BundleDeployment is not Paused at its current generation."""
    status, _, _ = condition(deployment, "Paused")
    return DONE if status == "True" else Awaited(AWAITING_CONTROLLER)


def _awaits_reconciliation(requested_at: str) -> Awaits:
    sent_at = time.monotonic()

    def _awaits(deployment: BundleDeployment) -> Awaited:
        if deployment.status.last_handled_reconcile_at == requested_at:
            is_working, reason, message = condition(deployment, "Reconciling")
            return Awaited(message) if is_working and reason == Reason.FETCHING else awaits_ready(deployment)
        status, reason, message = condition(deployment, "Unpacked")
        if status != "False":
            return Awaited(f"sources are not re-resolved yet: {AWAITING_CONTROLLER}")
        is_retried = time.monotonic() - sent_at >= RETRY_SECONDS
        stalls = any(each.value == reason and each.retry.stalls for each in Reason)
        return Awaited(f"{reason}: {message}", is_hopeless=is_retried and stalls)

    return _awaits


def approve(options: argparse.Namespace) -> int:
    """Approve a revision; return the exit status.

    Raises: MisuseError, ApiError, ConfigurationError.
    """
    return _decide(options, "approved", awaits_ready)


def deny(options: argparse.Namespace) -> int:
    """Deny a revision; return the exit status.

    Raises: MisuseError, ApiError, ConfigurationError.
    """
    return _decide(options, "denied", _awaits_denial)


def _decide(options: argparse.Namespace, done: str, awaits: Awaits) -> int:
    deployments = Deployments(connect(options))
    choice = _choose(deployments, options)
    tell_all(_describe_choice(options.verb, choice))
    confirm(options, f"nothing was {done}")
    value = decide(options.verb, deployments, choice, lambda: _choose(deployments, options))
    values, failures = wait_if_asked(options, deployments, awaits, [value])
    return conclude(options, values, failures, done=f"revision {short(choice.digest)} {done}")


def _choose(deployments: Deployments, options: argparse.Namespace) -> Choice:
    _, deployment = deployments.read(options.name)
    pending = deployment.status.pending
    if options.revision:
        return Choice(deployment, _digest_of(options.revision, pending))
    if pending is None:
        raise FailedError(f"{options.name}: no revision waits for approval{_denied(deployment)}")
    return Choice(deployment, pending.revision)


def _denied(deployment: BundleDeployment) -> str:
    if not (digest := deployment.spec.denied_revision):
        return ""
    remedy = f'"{program()} approve {deployment.metadata.name} --revision {digest}" withdraws that and approves it'
    return f"; {short(digest)} was denied (spec.deniedRevision); {remedy}"


def _digest_of(text: str, pending: Pending | None) -> str:
    if found := _DIGEST(text):
        return f"sha256:{found[2]}"
    found = _ABBREVIATED(text)
    if found and pending and pending.revision.removeprefix("sha256:").startswith(found[2]):
        return pending.revision
    raise MisuseError(f'--revision "{text}": no revision that waits for approval begins so; give the digest in full')


def _describe_choice(verb: str, choice: Choice) -> Iterator[str]:
    pending, status = choice.pending, choice.deployment.status
    yield f"{choice.deployment.metadata.name}: {verb} revision {choice.digest}"
    if status.installed_revision:
        yield f"  Installed: {status.installed_revision}"
    if pending is None:
        yield "  It does not wait for approval: it is not known yet, or not what the spec asks for"
        return
    yield f"  Changes:   {describe_changes(pending.changes)}"
    yield f'  Details:   "{program()} diff {choice.deployment.metadata.name}" shows them'
    for line in pending.permissions.added:
        yield f"  Permission: {line}"
    if pending.permissions.truncated:
        yield "  Permission: and more"
    account = pending.service_account_name
    yield f"  Applied as: {f'ServiceAccount {account}' if account else 'the controller'}"
    for each in pending.sources:
        yield f"  Source:    {each.kind} {each.resolved}"
    for problem in pending.problems:
        yield f"  Problem:   {problem}"


def _awaits_denial(deployment: BundleDeployment) -> Awaited:
    return DONE if condition(deployment, "Installed")[0] else Awaited(AWAITING_CONTROLLER)


def show_history(options: argparse.Namespace) -> int:
    """Show the history of a BundleDeployment, the newest revision first; return the exit status.

    Raises: ApiError, ConfigurationError.
    """
    _, deployment = Deployments(connect(options)).read(options.name)
    entries = deployment.status.history
    if options.output:
        items = dump(deployment.status).get("history", [])
        print(dump_as(options.output, items), end="")
    elif entries:
        now = datetime.now(UTC)
        colors = is_colored(options.color)
        rows = [_row(each, deployment.status, now, colors=colors) for each in entries]
        print(to_table(HEADING, rows), end="")
    else:
        tell(f"{options.name}: no revision was applied yet")
    return 0


def _row(entry: HistoryEntry, status: Status, now: datetime, *, colors: bool) -> tuple[Cell, ...]:
    installed = age((now - entry.installed_at).total_seconds()) if entry.installed_at else ""
    text = entry.outcome or ""
    outcome = Painted(text, _OUTCOMES.get(text, Color.NONE)) if colors else text
    place = describe_place(entry.revision, status)
    return (short(entry.revision), place, outcome, installed, entry.bundle, describe_sources(entry), entry.message)


def read_kept(options: argparse.Namespace) -> tuple[BundleDeployment, Revision]:
    """Return the revision that `--revision NAME@DIGEST` names, and the BundleDeployment that it is of.

    Raises: MisuseError; FailedError if it is not kept; ApiError, also if the user may not read the Secrets of the
    revision store; ConfigurationError.
    """
    given = _NAMED(options.revision)
    if given is None:
        raise MisuseError(f'--revision "{options.revision}": write it like shop@sha256:1f2e3d4c5b6a')
    name, client = given["name"], connect(options)
    value = Deployments(client).get(name)
    deployment = try_to_read(value)[0] if value else None
    if deployment is None:
        raise FailedError(f'BundleDeployment "{name}" {"cannot be read" if value else "not found"}')
    digest = find_kept(deployment.status, given["digest"])
    found = open_store(client, options.namespace).read(name, digest) if digest else None
    if found is None:
        kept = _list_kept(deployment.status)
        raise FailedError(f"{name}: revision {given['digest'][:12]} is not kept; kept revisions: {kept}")
    return deployment, found


def roll_back(options: argparse.Namespace) -> int:
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
        for line in _describe_rotated(client, options, deployment, digest):
            tell(one_line(line))
        done = f"rolled back to revision {short(digest)}"
    value = pin(deployments, deployment, digest)
    values, failures = wait_if_asked(options, deployments, awaits_ready, [value])
    if digest:
        undo = f"{program()} rollback {options.name} --undo"
        tell(f"new content and config are ignored until the rollback is undone: {undo}")
    return conclude(options, values, failures, done=done)


def _choose_revision(deployment: BundleDeployment, text: str) -> str:
    status, name = deployment.status, deployment.metadata.name
    if not text:
        if found := find_previous(status):
            return found
        kept = [short(each) for each in kept_revisions(status) if each != status.revision]
        remedy = f"; name one of those that are kept with --to: {', '.join(kept)}" if kept else ""
        raise FailedError(f"{name}: no earlier revision that was healthy is kept{remedy}")
    if found := find_kept(status, text):
        return found
    raise FailedError(f"{name}: --to: not one of the revisions that are kept: {_list_kept(status)}")


def _list_kept(status: Status) -> str:
    return ", ".join(map(short, kept_revisions(status))) or "none"


def _describe_rotated(
    client: Client, options: argparse.Namespace, deployment: BundleDeployment, digest: str
) -> Iterator[str]:
    kept = attempt(lambda: open_store(client, options.namespace).read(options.name, digest), HTTPStatus.FORBIDDEN)
    if kept is None:
        if deployment.status.looked_up:
            yield "warning: what the chart has looked up is not compared with the cluster, since you may not read it"
        return
    discovery, own = Discovery(client), {_place(item): item for item in kept.objects if item["kind"] == "Secret"}
    asked = {Lookup(*each[:4]): each[5] for each in kept.terms.looked_up if each[3]}
    # A chart that has made a Secret itself may have looked it up in a list, or before it existed.
    is_read = any(each[:2] == ("v1", "Secret") for each in kept.terms.looked_up)
    for lookup in {**asked, **dict.fromkeys(own if is_read else ())}:
        try:
            found = look_up(client, discovery.resource, None, lookup).manifest
        except BundleError as error:
            yield f"warning: not compared with revision {short(digest)}: {error.message}"
            continue
        if lookup in own:
            is_same = not found or strings(own[lookup], "data").items() <= strings(found, "data").items()
        else:
            is_same = digest_of_json(make_answer(found, lookup) if found else {}) == asked[lookup]
        if not is_same:
            what = f"{describe(lookup)} differs from what revision {short(digest)} was rendered with"
            yield f"warning: {what}: its values come back, also of a password that has been rotated since"


def _place(item: Mapping[str, Any]) -> Lookup:
    return Lookup("v1", "Secret", text(item, "metadata", "namespace"), text(item, "metadata", "name"))


def _ask_to_undo(client: Client, options: argparse.Namespace, found: Manifest) -> None:
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
