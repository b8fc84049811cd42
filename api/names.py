"""The names that are written to clusters. They are API: added freely, never renamed."""

from __future__ import annotations

GROUP = "core.rukpak.io"
KIND = "BundleDeployment"
PLURAL = "bundledeployments"

OWNER_LABEL = f"{GROUP}/bundle-deployment"
"""Label on every managed object: the name of its BundleDeployment."""

OWNER_UID = f"{GROUP}/owner-uid"
APPLIED_DIGEST = f"{GROUP}/applied-digest"
RELEASED_FROM = f"{GROUP}/released-from"
RECONCILE_REQUESTED_AT = f"{GROUP}/reconcile-requested-at"
IGNORE_FIELDS = f"{GROUP}/ignore-fields"
DRIFT = f"{GROUP}/drift"
RECREATE = f"{GROUP}/recreate"
OPTIONAL = f"{GROUP}/optional"
PRUNE = f"{GROUP}/prune"
TEARDOWN_AS = f"{GROUP}/teardown-as"
"""Annotation on a BundleDeployment: as whom its objects are deleted. To set it takes the controller's rights."""
CONTROLLER = "controller"
"""Value of `TEARDOWN_AS`: with the controller's own rights, whatever has become of the account."""
ACCEPTED_ACCOUNT = f"{GROUP}/accepted-account"
"""Annotation on a BundleDeployment: `<UID of namespace>/<UID of ServiceAccount>`, which may be used from now on."""
ORDERS = (RECONCILE_REQUESTED_AT, TEARDOWN_AS, ACCEPTED_ACCOUNT)
"""The annotations of a BundleDeployment that ask for something."""
HOOK_RUN = f"{GROUP}/hook-run"
"""Annotation on the object of a hook: the event and the revision that it was made for. It is no managed object."""
SAFE_CRD_UPGRADE_VALIDATION = f"{GROUP}/safe-crd-upgrade-validation"

FINALIZER = f"{GROUP}/teardown"
REVISION_SECRET_TYPE = f"{GROUP}/revision"
REVISION_LABEL = f"{GROUP}/revision-of"
"""Label on the Secrets of the revision store: the name of the BundleDeployment. They are not managed objects."""
REVISION_NAMESPACE_LABEL = f"{GROUP}/revision-namespace"
"""Label on those whose BundleDeployment acts as an account: the namespace of the account."""

STATUS_MANAGER = "rukpak-status"
LEASE = "rukpak"
DEFAULT_NAMESPACE = "rukpak-system"


def field_manager(deployment: str) -> str:
    """Return the field manager of one BundleDeployment: with one for all, a second would take objects silently."""
    return f"rukpak/{deployment}"


def initial_field_manager(deployment: str) -> str:
    """Return the manager that holds the fields which are set at creation and then left alone."""
    return f"rukpak-initial/{deployment}"
