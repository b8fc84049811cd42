"""`rukpak verify`: who has signed the sources of a BundleDeployment, checked by the code of the controller.

What the administrator demands is checked as well, if the option of the controller is given (`--require-verified`).
What cannot be signed, such as a ConfigMap, is told and is no failure, unless the administrator demands a signature of
it: else a BundleDeployment with such a source could never pass.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.types import BundleDeployment, SourcePin
from rukpak.controller.building.request import check, find_unchecked
from rukpak.controller.cli import manifest
from rukpak.controller.cli.command import FAILED, connect, read_file
from rukpak.controller.cli.content import Draft
from rukpak.controller.cli.render import ask_for_consent, make_builder, make_context, network_of, new_store
from rukpak.controller.sources.demands import SignaturePolicy, can_be_signed, parse_demands
from rukpak.controller.views import MisuseError
from rukpak.controller.views.access import Deployments
from rukpak.controller.views.objects import describe_signer
from rukpak.controller.views.texts import dump_as

_NOT_ASKED = SourcePin(
    kind="", resolved="", digest="", spec_digest="", origin="-", resolved_at=datetime.fromtimestamp(0, UTC)
)
"""In place of the pin of a source that is not asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found about one source."""

    pin: SourcePin | None = None
    """With its signer; None if there is a problem or a note."""
    problem: str = ""
    """Why it is not signed as it must be; starts with the field path."""
    note: str = ""
    """Why it need not be; starts with the field path."""


def main(options: argparse.Namespace) -> int:
    """Print who has signed each source; return the exit status: 1 if one is not signed as it must be.

    Raises: MisuseError, NoConsentError; BundleError for a BundleDeployment that is not valid; FailedError without the
    one that is named; ApiError, ConfigurationError.
    """
    if bool(options.name) == bool(options.file):
        raise MisuseError("specify NAME or -f FILE")
    policy = _policy_of(options)
    draft, deployment = _read(options)
    check(deployment.spec)
    ask_for_consent(options, deployment, draft.origin)
    findings = verify(options, draft, policy.complete(deployment))
    print(_show(findings, options.output), end="")
    return FAILED if any(each.problem for each in findings) else 0


def _read(options: argparse.Namespace) -> tuple[Draft, BundleDeployment]:
    if options.file:
        value = manifest.find(read_file(options.file), options.file)
        return Draft(value=value, origin=options.file), manifest.read(value, options.file)
    found, deployment = Deployments(connect(options)).read(options.name)
    return Draft(value=found, origin=options.name), deployment


def _policy_of(options: argparse.Namespace) -> SignaturePolicy:
    try:
        demands = parse_demands(options.require_verified, options.namespace)
    except ValueError as error:
        raise MisuseError(str(error)) from None
    return SignaturePolicy(demands=demands, mirrors=network_of(options).registry_mirrors)


def verify(options: argparse.Namespace, draft: Draft, deployment: BundleDeployment) -> list[Finding]:
    """Return what is found about each source, in spec order.

    Args:
        options: of the verb.
        draft: of the BundleDeployment.
        deployment: validated, with what is demanded of it; of what its status records, the signatures are checked
            anew.
    """
    spec, failures = deployment.spec, dict[int, BundleError]()

    def _note(index: int, failure: BundleError | None) -> None:
        if failure:
            failures[index] = failure

    recorded = [pin.model_copy(update={"verify_digest": ""}) for pin in deployment.status.sources]
    context = replace(make_context(options, draft, deployment), ended=_note, unchecked=find_unchecked(spec, recorded))
    pins = tuple(None if source.needs_signature else _NOT_ASKED for source in spec.sources)
    with new_store() as store:
        resolved = make_builder(options, store).resolve(spec, pins, threading.Event(), context)
    findings = []
    for index, (source, pin) in enumerate(zip(spec.sources, resolved.pins, strict=True)):
        path = f"spec.sources[{index}].{source.block}"
        if not (source.needs_signature or can_be_signed(source)):
            findings.append(Finding(note=f"{path}: sources of this kind cannot be signed"))
        elif not source.needs_signature:
            findings.append(Finding(problem=f"{path}: nobody has to sign it; say who in verify"))
        elif failure := failures.get(index):
            findings.append(Finding(problem=failure.message))
        else:
            findings.append(Finding(pin=pin))
    return findings


def _show(findings: Sequence[Finding], output: str) -> str:
    if output:
        return dump_as(output, {"sources": list(map(_as_value, findings))})
    return "".join(f"{line}\n" for finding in findings for line in _lines(finding))


def _as_value(finding: Finding) -> dict[str, Any]:
    if finding.pin is None:
        return {"problem": finding.problem} if finding.problem else {"note": finding.note}
    return finding.pin.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)


def _lines(finding: Finding) -> Iterator[str]:
    pin = finding.pin
    if pin is None or pin.verified is None:
        yield f"not verified: {finding.problem}" if finding.problem else f"not checked: {finding.note}"
        return
    yield f"{pin.kind} {pin.resolved}"
    if pin.digest.rpartition(":")[2] not in pin.resolved:
        yield f"  {pin.digest}"
    yield f"  {describe_signer(pin.verified)}"
