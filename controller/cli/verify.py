"""`rukpak verify`: who has signed the sources of a BundleDeployment, checked by the code of the controller.

What the administrator demands is checked as well, if the option of the controller is given (`--require-verified`).
What cannot be signed, such as a ConfigMap, is told and is no failure, unless the administrator demands a signature of
it: else a BundleDeployment with such a source could never pass.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
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
Finding = SourcePin | Mapping[str, str]
"""What was found about one source: the pin with its signer, or else `problem` or `note`, which starts with its field.

A problem is why it is not signed as it must be, a note why it need not be.
"""
_HEADS = {"problem": "not verified", "note": "not checked"}


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
    return FAILED if any(isinstance(each, Mapping) and "problem" in each for each in findings) else 0


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
    spec, failures = deployment.spec, dict[int, BundleError | None]()
    recorded = [pin.model_copy(update={"verify_digest": ""}) for pin in deployment.status.sources]
    context = replace(
        make_context(options, draft, deployment),
        ended=failures.__setitem__,
        unchecked=find_unchecked(spec, recorded),
    )
    pins = tuple(None if source.needs_signature else _NOT_ASKED for source in spec.sources)
    with new_store() as store:
        resolved = make_builder(options, store).resolve(spec, pins, threading.Event(), context)
    findings: list[Finding] = []
    for index, (source, pin) in enumerate(zip(spec.sources, resolved.pins, strict=True)):
        path = f"spec.sources[{index}].{source.block}"
        if not (source.needs_signature or can_be_signed(source)):
            findings.append({"note": f"{path}: sources of this kind cannot be signed"})
        elif not source.needs_signature:
            findings.append({"problem": f"{path}: nobody has to sign it; say who in verify"})
        elif failure := failures.get(index):
            findings.append({"problem": failure.message})
        else:
            findings.append(pin if pin and pin.verified else {"problem": f"{path}: no signature was checked"})
    return findings


def _show(findings: Sequence[Finding], output: str) -> str:
    if output:
        return dump_as(output, {"sources": [_dump(each) if isinstance(each, SourcePin) else each for each in findings]})
    return "".join(f"{line}\n" for finding in findings for line in _lines(finding))


def _dump(pin: SourcePin) -> dict[str, Any]:
    return pin.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)


def _lines(finding: Finding) -> Iterator[str]:
    if not isinstance(finding, SourcePin):
        yield from (f"{_HEADS[kind]}: {text}" for kind, text in finding.items())
    elif finding.verified:
        yield f"{finding.kind} {finding.resolved}"
        if finding.digest.rpartition(":")[2] not in finding.resolved:
            yield f"  {finding.digest}"
        yield f"  {describe_signer(finding.verified)}"
