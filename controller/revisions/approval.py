"""Which revision may be applied: whether a person must approve it, and whether it is older than what is installed.

What is approved is one revision, by its digest, applied by one account. The revision store records which revisions wait
(`Terms.held`), because users who may write a status must not be able to approve anything: a revision that is held there
is neither applied nor repaired nor deletes anything, whatever status says.

A range of versions leads to a lower version if the tag of the installed one was deleted, or another range excludes it.
A tag that the spec names is not refused: whoever writes it wants that version.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.types import SourcePin, Spec
from rukpak.controller.building.revision import Revision, Terms
from rukpak.controller.content.limits import quote
from rukpak.controller.sources.versions import Version, is_version, parse_version

NEW = "New"
"""A revision that has never been applied: nothing on the cluster is its."""
REPLACED = "Replaced"
"""A revision that was applied, until another one was: it names objects that may still exist."""


def refuse_downgrade(wanted: Sequence[SourcePin], installed: Iterable[SourcePin]) -> None:
    """Refuse pins of a spec, in its order, that are lower versions of the same sources than those that are installed.

    Raises: BundleError (Downgrade).
    """
    versions = {
        _place_of(pin): (pin.verified_version or pin.version, found) for pin in installed if (found := _version_of(pin))
    }
    for index, pin in enumerate(wanted):
        now = _version_of(pin)
        name, before = versions.get(_place_of(pin), ("", None))
        if now and before and now < before:
            signed = pin.verified_version
            told = f", signed as {quote(signed)}" if signed and not is_version(pin.version, signed) else ""
            told = f"the range leads to {quote(pin.version)}{told}"
            problem = f"{told}, which is lower than {quote(name)}, the installed version"
            remedy = "publish a higher version, or set spec.allowDowngrade: true"
            raise BundleError(Reason.DOWNGRADE, f"spec.sources[{index}]: {problem}; {remedy}")


def _version_of(pin: SourcePin) -> Version | None:
    # The name that the range leads to may say anything.
    found = (pin.verified_version or pin.version) if pin.version else ""
    return parse_version(found.replace("_", "+"))


def _place_of(pin: SourcePin) -> tuple[str, str, str]:
    name = pin.resolved.rpartition("@")[0]
    return pin.kind, pin.destination, name.removesuffix(pin.version) if pin.version else name


class Decision(Enum):
    """What is done with the revision that a spec asks for."""

    GO_AHEAD = "go ahead"
    AWAIT = "await approval"
    AWAIT_ACCOUNT = "await approval of the account"
    """The revision is the one on the cluster; another account would apply it."""
    DENY = "deny"


def decide(
    spec: Spec,
    wanted: Revision,
    target: Revision | None,
    *,
    adds_permissions: bool = True,
    is_recalled: bool = False,
) -> Decision:
    """Decide whether a revision may be applied.

    Args:
        spec: completed with the default account.
        wanted: what the spec asks for. Its terms name the account that may apply it if it was approved before.
        target: the revision that the cluster is to have, and may have in part; None before the first.
        adds_permissions: whether the wanted one may do more than the target, once they run.
        is_recalled: whether it was applied before, so that it was approved then, and is wanted again.
    """
    is_target = target is not None and target.digest == wanted.digest
    if wanted.digest == spec.denied_revision and not is_target:
        return Decision.DENY
    if not spec.requires_approval or _is_approved(spec, wanted):
        return Decision.GO_AHEAD
    if is_target:
        return Decision.GO_AHEAD if _keeps_account(spec, wanted) else Decision.AWAIT_ACCOUNT
    # Nothing is new but what the same account may apply.
    needs_none = spec.approval == "NewPermissions" and not adds_permissions and _keeps_account(spec, target)
    was_approved = is_recalled and wanted.terms.held != NEW and _keeps_account(spec, wanted)
    return Decision.GO_AHEAD if needs_none or was_approved else Decision.AWAIT


def keeps_account(spec: Spec, kept: Terms) -> bool:
    """Whether a kept revision stays with its account until another one is approved."""
    return spec.requires_approval and kept.held != NEW


def _keeps_account(spec: Spec, revision: Revision | None) -> bool:
    return revision is not None and revision.terms.service_account_name == spec.service_account_name


def _is_approved(spec: Spec, wanted: Revision) -> bool:
    if spec.approved_revision != wanted.digest:
        return False
    if spec.approved_service_account_name is not None:
        return spec.approved_service_account_name == spec.service_account_name
    # An approval counts for the account that it was first seen with.
    return wanted.terms.held == NEW or wanted.terms.service_account_name == spec.service_account_name
