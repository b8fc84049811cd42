"""The names that are written to clusters: frozen, so each stands here once more."""

from __future__ import annotations

import pytest

from rukpak.api import names

FROZEN = {
    "GROUP": "core.rukpak.io",
    "KIND": "BundleDeployment",
    "PLURAL": "bundledeployments",
    "OWNER_LABEL": "core.rukpak.io/bundle-deployment",
    "OWNER_UID": "core.rukpak.io/owner-uid",
    "APPLIED_DIGEST": "core.rukpak.io/applied-digest",
    "RELEASED_FROM": "core.rukpak.io/released-from",
    "RECONCILE_REQUESTED_AT": "core.rukpak.io/reconcile-requested-at",
    "IGNORE_FIELDS": "core.rukpak.io/ignore-fields",
    "DRIFT": "core.rukpak.io/drift",
    "RECREATE": "core.rukpak.io/recreate",
    "REPLACES": "core.rukpak.io/replaces",
    "OPTIONAL": "core.rukpak.io/optional",
    "PRUNE": "core.rukpak.io/prune",
    "SAFE_CRD_UPGRADE_VALIDATION": "core.rukpak.io/safe-crd-upgrade-validation",
    "FINALIZER": "core.rukpak.io/teardown",
    "REVISION_SECRET_TYPE": "core.rukpak.io/revision",
    "STATUS_MANAGER": "rukpak-status",
    "LEASE": "rukpak",
    "DEFAULT_NAMESPACE": "rukpak-system",
}


@pytest.mark.parametrize(("constant", "value"), FROZEN.items())
def test_a_name_is_never_changed(constant: str, value: str) -> None:
    assert getattr(names, constant) == value


def test_each_deployment_has_field_managers_of_its_own() -> None:
    assert (names.field_manager("foo"), names.initial_field_manager("foo")) == ("rukpak/foo", "rukpak-initial/foo")
