"""Names that are written to clusters. They are API: add new ones freely, never rename one."""

from __future__ import annotations

GROUP = "core.rukpak.io"
KIND = "BundleDeployment"
PLURAL = "bundledeployments"
DEFINITION = f"{PLURAL}.{GROUP}"
"""Name of the CustomResourceDefinition."""

PROXY = "rukpak-proxy"
"""Name of the Secret with the proxy for sources, whose keys are the variables that the controller reads."""
OWNER_LABEL = f"{GROUP}/bundle-deployment"
"""Label on every managed object: the name of its BundleDeployment."""

SHARD = f"{GROUP}/shard"
"""Label on a BundleDeployment: the shard whose controller serves it. Without it, that is the default shard."""

OWNER_UID = f"{GROUP}/owner-uid"
APPLIED_DIGEST = f"{GROUP}/applied-digest"
RELEASED_FROM = f"{GROUP}/released-from"
RECONCILE_REQUESTED_AT = f"{GROUP}/reconcile-requested-at"
PAUSED_WITH_ALL = f"{GROUP}/paused-with-all"
"""Annotation on a BundleDeployment: "true" if `rukpak pause --all` has paused it, and it was not paused before."""
IGNORE_FIELDS = f"{GROUP}/ignore-fields"
DRIFT = f"{GROUP}/drift"
RECREATE = f"{GROUP}/recreate"
"""Annotation on an object of a bundle: "true" lets it be deleted and created again to change an immutable field."""
REPLACES = f"{GROUP}/replaces"
"""Annotation on an object of a bundle: objects that the revision drops, and that are deleted before this one is
applied, because both cannot exist. Comma-separated; each is a name, or `Kind.group/namespace/name`."""
OPTIONAL = f"{GROUP}/optional"
WAVE = f"{GROUP}/wave"
"""Annotation on an object of a bundle: an integer, 0 by default. It is applied when all objects of lower waves are
applied and healthy."""
PRUNE = f"{GROUP}/prune"
ROLLOUT = f"{GROUP}/rollout"
"""Annotation on an object of a bundle: "false" lets the processor rollouts ignore it."""
CONFIG_DIGEST = f"{GROUP}/config-digest"
"""Annotation on a pod template: the digest of the ConfigMaps and Secrets of the bundle that the pods read."""
TEARDOWN_AS = f"{GROUP}/teardown-as"
"""Annotation on a BundleDeployment: which account deletes its objects. Setting it requires the controller's rights."""
CONTROLLER = "controller"
"""Value of `TEARDOWN_AS`: the controller's own account, regardless of the state of the ServiceAccount."""
ACCEPTED_ACCOUNT = f"{GROUP}/accepted-account"
"""Annotation on a BundleDeployment: `<UID of namespace>/<UID of ServiceAccount>`, which may be used from then on."""
ORDERS = (RECONCILE_REQUESTED_AT, TEARDOWN_AS, ACCEPTED_ACCOUNT)
"""The annotations of a BundleDeployment that request an action."""
VERSION = f"{GROUP}/version"
"""Annotation on the Lease: the release of the controller that holds it."""
HOOK_RUN = f"{GROUP}/hook-run"
"""Annotation on the object of a hook, which is not managed: the event and the revision that it was created for."""
SAFE_CRD_UPGRADE_VALIDATION = f"{GROUP}/safe-crd-upgrade-validation"

FINALIZER = f"{GROUP}/teardown"
REVISION_SECRET_TYPE = f"{GROUP}/revision"
CONTENT_LABEL = f"{GROUP}/content-of"
"""Label on the ConfigMaps that `rukpak push` creates: the name of the BundleDeployment."""
PART = f"{GROUP}/part"
"""Annotation on these: `<number>/<count> sha256:<digest>`, of an archive that they contain together."""
REVISION_LABEL = f"{GROUP}/revision-of"
"""Label on the Secrets of the revision store, which are not managed: the name of the BundleDeployment."""
REVISION_NAMESPACE_LABEL = f"{GROUP}/revision-namespace"
"""Label on those whose BundleDeployment has a ServiceAccount: the namespace of the account."""

STATUS_MANAGER = "rukpak-status"
LEASE = "rukpak"
DEFAULT_NAMESPACE = "rukpak-system"


def field_manager(deployment: str) -> str:
    """Return the field manager of a BundleDeployment: if all had the same, a second one would take objects silently."""
    return f"rukpak/{deployment}"


def initial_field_manager(deployment: str) -> str:
    """Return the manager that owns the fields that are set at creation and ignored afterwards."""
    return f"rukpak-initial/{deployment}"
