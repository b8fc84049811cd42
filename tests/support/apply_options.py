"""ApplyOptions for tests: those of one BundleDeployment, `foo`."""

from __future__ import annotations

from typing import Any

from controller.apply.ledger import Ledger
from controller.apply.ownership import Owner
from controller.apply.plan import ApplyOptions
from controller.apply.targets import Target, TargetSet

OWNER = Owner("foo", "uid-foo")


def options_for(*targets: Target, **changes: Any) -> ApplyOptions:
    """Return the options for applying these targets."""
    wanted = TargetSet(
        revision="sha256:aa",
        targets=targets,
        by_key={each.key: each for each in targets},
        resources={},
        undecided=False,
    )
    fields: dict[str, Any] = {
        "owner": OWNER,
        "user": None,
        "orphan": False,
        "collision_protection": "Prevent",
        "install_namespace": "shop",
        "spec_version": "1",
        "wanted": wanted,
        "installed": False,
        "ledger": Ledger(),
        "exists": lambda name, uid: (name, uid) == ("foo", "uid-foo"),
        "proceed": lambda: True,
    }
    return ApplyOptions(**{**fields, **changes})
