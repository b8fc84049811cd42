"""Refuses revisions whose ranges of versions lead to a lower version than the installed one. Pure.

That happens if the tag of the installed version was deleted, or another range excludes it. A tag that the spec names is
not refused: whoever writes it wants that version.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import SourcePin
from controller.content.limits import quote
from controller.sources.versions.version import Version, parse_version

_Place = tuple[str, str, str]


def refuse_downgrade(wanted: Sequence[SourcePin], installed: Iterable[SourcePin]) -> None:
    """Refuse pins of a spec, in its order, that are lower versions of the same sources than those that are installed.

    Raises: BundleError (Downgrade).
    """
    versions = {_place_of(pin): (pin.version, found) for pin in installed if (found := _version_of(pin))}
    for index, pin in enumerate(wanted):
        now = _version_of(pin)
        name, before = versions.get(_place_of(pin), ("", None))
        if now and before and now < before:
            problem = (
                f"the range leads to {quote(pin.version)}, which is lower than {quote(name)}, the installed version"
            )
            remedy = "publish a higher version, or set spec.allowDowngrade: true"
            raise BundleError(Reason.DOWNGRADE, f"spec.sources[{index}]: {problem}; {remedy}")


def _version_of(pin: SourcePin) -> Version | None:
    return parse_version(pin.version.replace("_", "+"))


def _place_of(pin: SourcePin) -> _Place:
    """Return what two versions of a source have in common: kind, destination, and the name without the version."""
    name = pin.resolved.rpartition("@")[0]
    return pin.kind, pin.destination, name.removesuffix(pin.version) if pin.version else name
