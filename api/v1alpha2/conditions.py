"""Every condition type and every reason: what it means and what to do about it.

Reasons are API, since scripts match on them: add new ones freely, never rename one. `hack/generate` writes the table in
`api/README.md` from here. The retry class of a reason says when the controller retries; every class is also retried
immediately when the spec or the annotation `core.rukpak.io/reconcile-requested-at` changes.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from itertools import takewhile


class ConditionType(StrEnum):
    """Types of `status.conditions`: the name, what True means, and what else the status can say."""

    meaning: str

    def __new__(cls, name: str, meaning: str = "") -> ConditionType:
        """Make a member whose value is only its name. The defaults let type checkers accept `ConditionType(name)`."""
        self = str.__new__(cls, name)
        self._value_ = name
        self.meaning = meaning
        return self

    # fmt: off
    UNPACKED = "Unpacked", "every source is resolved, and its content is fetched and verified; False: a source failed"
    INSTALLED = "Installed", "every object of the desired revision is applied; False: the message names the installed and the desired revision and the cause"
    HEALTHY = "Healthy", "every managed object is healthy; False: the message says which is not, and why; a fall to Progressing is shown after 15 s, unless an object is missing and will not be created again; Unknown: nothing has been applied yet, or the installed revision is lost"
    READY = "Ready", "Installed and Healthy are True for this generation; False: the reason is the one to look at first"
    RECONCILING = "Reconciling", "the controller is working or waiting for an event; absent otherwise"
    STALLED = "Stalled", "no progress until a person acts, here or elsewhere; absent otherwise"
    PAUSED = "Paused", "spec.paused is true, since lastTransitionTime; absent otherwise"
    DRIFTED = "Drifted", "managed objects were modified and are not repaired: the BundleDeployment is paused, spec.drift.mode is Report, or another client keeps changing them; absent otherwise"
    PINNED = "Pinned", "spec.pinnedRevision names the revision to apply, whatever the sources lead to; absent otherwise"
    ROLLED_BACK = "RolledBack", "an upgrade has failed and was rolled back: the message says from what, to what and why; absent otherwise, and again once the spec or the pins change"
    # fmt: on


class Retry(Enum):
    """When a failure is retried."""

    NONE = "–"
    """Not a failure."""
    PERMANENT = "P"
    """Only when the spec, a named Secret or the bundle changes."""
    SLOW = "S"
    """Every 5 minutes with jitter, because the cause may be fixed elsewhere."""
    TRANSIENT = "T"
    """With backoff from 1 s, doubled up to 5 minutes, with jitter; Retry-After is honored."""
    WAIT = "W"
    """At the event that ends the wait, and as often as SLOW."""

    @property
    def stalls(self) -> bool:
        """Whether a person must act (Stalled), as opposed to work in progress or an awaited event (Reconciling)."""
        return self in (Retry.PERMANENT, Retry.SLOW)


class Reason(str, Enum):
    """Every reason of a condition: name, retry class, meaning and remedy."""

    retry: Retry
    meaning: str
    remedy: str

    def __new__(cls, name: str, retry: Retry = Retry.NONE, meaning: str = "", remedy: str = "") -> Reason:
        """Make a member whose value is only its name. The defaults let type checkers accept `Reason(name)`."""
        self = str.__new__(cls, name)
        self._value_ = name
        self.retry, self.meaning, self.remedy = retry, meaning, remedy
        return self

    def __str__(self) -> str:
        return str.__str__(self)

    # fmt: off
    # Unpacked
    UNPACKED = "Unpacked", Retry.NONE, "the content of every source is available, or is not needed"
    FETCHING = "Fetching", Retry.NONE, "sources are being resolved or fetched"
    NOT_FOUND = "NotFound", Retry.SLOW, "the repository, tag, branch, ref, URL or chart does not exist, or no version is in the range", "correct the name or the range, or push what it names"
    UNAUTHORIZED = "Unauthorized", Retry.SLOW, "the source rejected the credentials, or requires some", "correct the Secret that auth names, or its permissions at the source"
    SECRET_NOT_FOUND = "SecretNotFound", Retry.WAIT, "the Secret that auth or verify names does not exist", "create it, or correct its name and namespace"
    SECRET_INVALID = "SecretInvalid", Retry.WAIT, "the Secret that auth names has the wrong type or lacks a key", "give it the type and keys that the message lists"
    SECRET_FORBIDDEN = "SecretForbidden", Retry.WAIT, "the Secret, or a ConfigMap with content, may not be read for this BundleDeployment", "grant get on it, or move it to an allowed namespace"
    UNREACHABLE = "Unreachable", Retry.TRANSIENT, "the source did not answer, or answered with a server error", "check the address and the network; the source is retried automatically"
    TLS_VERIFICATION_FAILED = "TLSVerificationFailed", Retry.SLOW, "the certificate of the source could not be verified", "set certificateData to the CA that issued it"
    HOST_KEY_UNKNOWN = "HostKeyUnknown", Retry.PERMANENT, "known_hosts has no entry for the host", "add known_hosts to the Secret"
    HOST_KEY_MISMATCH = "HostKeyMismatch", Retry.PERMANENT, "the ssh key of the host differs from the one in known_hosts", "find out why, then correct known_hosts"
    DIGEST_MISMATCH = "DigestMismatch", Retry.SLOW, "the content does not match its digest and was not used", "find out who changed it; correct the digest if it is wrong"
    VERIFICATION_FAILED = "VerificationFailed", Retry.SLOW, "what the source leads to has no signature that verify accepts; it was not read", "sign it, or correct the keys or identities that verify names; find out who changed it if it was signed"
    VERIFICATION_UNAVAILABLE = "VerificationUnavailable", Retry.TRANSIENT, "the signature could not be read or checked", "check the address and the network, or install what the message names; it is retried automatically"
    INVALID_VERIFICATION = "InvalidVerification", Retry.PERMANENT, "verify has no usable key, or an expression or trusted root that cannot be read", "correct the field, Secret or ConfigMap that the message names"
    PINNED_CONTENT_GONE = "PinnedContentGone", Retry.SLOW, "the source no longer has the recorded digest or commit", "push it again, or request a new resolution with the annotation core.rukpak.io/reconcile-requested-at"
    AMBIGUOUS_REFERENCE = "AmbiguousReference", Retry.PERMANENT, "an abbreviated commit matches more than one", "use more digits"
    DIRECTORY_NOT_FOUND = "DirectoryNotFound", Retry.PERMANENT, "the repository has no such directory at that commit", "correct directory"
    PLATFORM_NOT_FOUND = "PlatformNotFound", Retry.PERMANENT, "the index has no image for the platform", "set platform to one that the message lists"
    UNSUPPORTED_CONTENT = "UnsupportedContent", Retry.PERMANENT, "the media type, LFS pointer, submodule or encryption is not supported", "publish the content in a supported form"
    CONTENT_REJECTED = "ContentRejected", Retry.PERMANENT, "an entry that the format reads violates a rule, or the content exceeds a limit; nothing was applied", "correct the entry that the message names, or raise the limit"
    CONTENT_CONFLICT = "ContentConflict", Retry.PERMANENT, "two sources contain the same path", "give them different destinations, or remove the path from one"
    INVALID_REFERENCE = "InvalidReference", Retry.PERMANENT, "the image reference, digest, URL or git ref is malformed", "correct it"
    INSECURE_REFUSED = "InsecureRefused", Retry.PERMANENT, "credentials would go over plain http or unverified TLS, or the policy forbids an address or redirect", "use https with a certificate that can be verified, or have the administrator allow the address"
    STORAGE_FULL = "StorageFull", Retry.TRANSIENT, "the disk of the content store, or the tenant's share of it, is full", "enlarge it, or wait until fewer fetches are running; the fetch is retried automatically"
    STORAGE_BROKEN = "StorageBroken", Retry.TRANSIENT, "the directory of the content store cannot be used: it was removed or replaced, it is read-only, or its disk reports errors", "make the directory writable, or mount its disk again; the fetch is retried automatically"
    UNKNOWN_SOURCE_KIND = "UnknownSourceKind", Retry.PERMANENT, "no installed plug-in provides this kind of source", "install the plug-in, or correct kind"

    # Installed
    INSTALLED = "Installed", Retry.NONE, "every object of the desired revision is applied"
    APPLYING = "Applying", Retry.NONE, "the desired revision is being applied"
    NO_CONTENT = "NoContent", Retry.PERMANENT, "the content has no manifests where the format expects them", "move them to where the message says, or correct format and destination"
    DOWNGRADE = "Downgrade", Retry.PERMANENT, "a range of versions leads to a lower version than the installed one, which is kept and repaired", "publish a higher version, or set spec.allowDowngrade"
    INVALID_BUNDLE = "InvalidBundle", Retry.PERMANENT, "a file of the bundle is not valid for the format", "correct the file and line that the message names"
    INVALID_CONFIG = "InvalidConfig", Retry.PERMANENT, "the format does not accept spec.config, a processor cannot do what spec.processors says, or this release cannot read the spec", "correct the field that the message names"
    RENDER_FAILED = "RenderFailed", Retry.PERMANENT, "the format could not render the content", "correct the bundle or the config as the message says"
    PROCESSOR_FAILED = "ProcessorFailed", Retry.PERMANENT, "a processor refuses the rendered objects, or could not process them", "correct the bundle or spec.processors as the message says"
    RENDER_LIMIT_EXCEEDED = "RenderLimitExceeded", Retry.PERMANENT, "rendering exceeded its limit of time, memory or output", "make the bundle smaller, or raise the limit"
    QUARANTINED = "Quarantined", Retry.SLOW, "the controller crashed twice while it prepared the bundle, and does not try again until something changes", "make the bundle smaller or raise the controller's memory limit; then change the spec or the annotation"
    UNKNOWN_FORMAT = "UnknownFormat", Retry.PERMANENT, "no installed plug-in provides this format", "install the plug-in, or correct format"
    UNKNOWN_PROCESSOR = "UnknownProcessor", Retry.PERMANENT, "no installed plug-in provides this kind of processor", "install the plug-in, or correct kind"
    PLUGIN_FAILED = "PluginFailed", Retry.TRANSIENT, "a plug-in of another package cannot be loaded, has failed, hangs, or does not keep its contract", "follow the message; rukpak plugins lists all plug-ins and what is wrong with them"
    NOT_SUPPORTED = "NotSupported", Retry.PERMANENT, "this release or this machine does not support what the spec asks for", "follow the message: remove the field, upgrade, or change the option that it names"
    COLLISION = "Collision", Retry.WAIT, "an object already exists and has another owner", "delete it, allow its adoption with spec.collisionProtection, or take it over from the BundleDeployment that has it with spec.takeOver"
    FORBIDDEN = "Forbidden", Retry.SLOW, "the account that applies the objects lacks permissions", "grant the rules that the message lists, or those for the whole bundle that rukpak rights NAME prints"
    REFUSED = "Refused", Retry.SLOW, "the API server or an admission policy rejected an object", "correct the field that the message names, or the policy"
    IMMUTABLE = "Immutable", Retry.PERMANENT, "an immutable field differs", 'delete the object, which is recreated immediately, or set the annotation core.rukpak.io/recreate to "true" on it in the bundle'
    TOO_LARGE = "TooLarge", Retry.PERMANENT, "an object or the revision is too large to store in the cluster", "split it"
    QUOTA_EXCEEDED = "QuotaExceeded", Retry.SLOW, "the revisions of one namespace exceed their storage limit; installed objects are kept", "delete BundleDeployments that use the namespace, make the bundle smaller, or raise --revision-mebibytes"
    UNSAFE_CRD_UPGRADE = "UnsafeCRDUpgrade", Retry.PERMANENT, "the change of a CustomResourceDefinition would break its users", "make the change compatible, or allow it as the message says"
    KIND_NOT_SERVED = "KindNotServed", Retry.WAIT, "the cluster does not serve the kind of an object", "install the CustomResourceDefinition or API server that serves it; the object is then applied automatically"
    NAMESPACE_TERMINATING = "NamespaceTerminating", Retry.WAIT, "the namespace of an object is being deleted", "wait until it is deleted, or find out what blocks its deletion"
    WAITING_FOR_CRD = "WaitingForCRD", Retry.WAIT, "a CustomResourceDefinition is not established yet", "if this persists, check its conditions"
    WAITING_FOR_WAVE = "WaitingForWave", Retry.WAIT, "objects of later waves wait until those of an earlier one are applied and healthy; what is installed of them is kept and repaired", "check the objects that the message names; once they are healthy, the next wave is applied automatically"
    WAITING_FOR_HOOK = "WaitingForHook", Retry.WAIT, "a hook has not finished yet", "if this persists, check its Job or Pod"
    WEBHOOK_UNAVAILABLE = "WebhookUnavailable", Retry.TRANSIENT, "an admission or conversion webhook could not be called", "check the workload that serves it"
    HOOK_FAILED = "HookFailed", Retry.SLOW, "a hook failed, or was not done within spec.progressDeadline", "check its Job or Pod, and the logs of that"
    SERVICE_ACCOUNT_NOT_FOUND = "ServiceAccountNotFound", Retry.WAIT, "the ServiceAccount that spec.serviceAccountName names does not exist", "create it"
    SERVICE_ACCOUNT_REPLACED = "ServiceAccountReplaced", Retry.PERMANENT, "the ServiceAccount was deleted and recreated; it may have another owner, so it is not used", "change the spec, set the annotation core.rukpak.io/accepted-account as the message says, or delete the BundleDeployment"
    NAMESPACE_REPLACED = "NamespaceReplaced", Retry.PERMANENT, "the install namespace was deleted and recreated; it may have another owner, so it is not used", "change the spec, set the annotation core.rukpak.io/accepted-account as the message says, or delete the BundleDeployment"
    NAMESPACE_NOT_FOUND = "NamespaceNotFound", Retry.WAIT, "the namespace of an object does not exist", "create it, or add it to the bundle"
    REVISION_LOST = "RevisionLost", Retry.SLOW, "no stored revision can be read, so the controller does not know which objects are installed", "correct what Unpacked reports: the revision is stored again once its sources can be read; if the BundleDeployment is being deleted, delete the remaining objects yourself; to have the controller delete them, set the annotation core.rukpak.io/teardown-as to controller before the deletion"
    INTERNAL_ERROR = "InternalError", Retry.TRANSIENT, "a bug of the controller ended a pass, or a fetch or rendering for it; the other conditions may be older", "find the traceback in the log of the controller by the reconcileID in the message, and report it"
    API_UNAVAILABLE = "APIUnavailable", Retry.TRANSIENT, "the API server, or one of its API groups, is unavailable or returns errors", "if this persists, check the API server; it is retried automatically"
    PAUSED_WITH_CHANGES = "PausedWithChanges", Retry.WAIT, "another revision will be applied when spec.paused is false", "set spec.paused to false"
    CONFIG_NOT_FOUND = "ConfigNotFound", Retry.WAIT, "a ConfigMap or Secret that spec.configFrom names does not exist, or lacks the key; what is installed is kept and repaired", "create it, correct its name and key, or set optional"
    CONFIG_FORBIDDEN = "ConfigForbidden", Retry.WAIT, "a ConfigMap or Secret that spec.configFrom names may not be read for this BundleDeployment", "grant get, list and watch on it to the account"
    DEPENDENCY_NOT_READY = "DependencyNotReady", Retry.WAIT, "a BundleDeployment that spec.dependsOn names is not Ready, or another object not healthy; what is installed is kept and repaired", "check the one that the message names; when it is ready, the revision is applied automatically"
    DEPENDENCY_CYCLE = "DependencyCycle", Retry.PERMANENT, "BundleDeployments depend on each other in a cycle, so that none of them may be applied first", "remove one of the dependencies that the message names from spec.dependsOn"
    AWAITING_APPROVAL = "AwaitingApproval", Retry.WAIT, "a revision, or another ServiceAccount, waits for approval; what is installed is kept and repaired", "look at status.pending, then run kubectl rukpak approve NAME or kubectl rukpak deny NAME"
    PINNED = "Pinned", Retry.NONE, "spec.pinnedRevision names the revision to apply", "run kubectl rukpak rollback NAME --undo, or remove spec.pinnedRevision, to apply what the sources lead to"
    PINNED_WITH_CHANGES = "PinnedWithChanges", Retry.WAIT, "what to install was changed in the spec after spec.pinnedRevision was set; the pinned revision is installed and repaired", "run kubectl rukpak rollback NAME --undo, or remove spec.pinnedRevision, to apply the change; or revert the change"
    DENIED = "Denied", Retry.PERMANENT, "spec.deniedRevision names the revision that the sources and the spec lead to; what is installed is kept and repaired", "change the sources or the spec; to allow the revision after all, remove spec.deniedRevision"

    REVISION_NOT_KEPT = "RevisionNotKept", Retry.PERMANENT, "spec.pinnedRevision names a revision that is not kept", "name one that the message lists, or remove spec.pinnedRevision"
    ROLLED_BACK = "RolledBack", Retry.PERMANENT, "an upgrade has failed, and an older revision was applied again", "look at the condition RolledBack, then change the sources or the spec; any change of the spec retries the failed revision"

    # Healthy
    HEALTHY = "Healthy", Retry.NONE, "every managed object is healthy"
    PROGRESSING = "Progressing", Retry.NONE, "a managed object is not healthy yet"
    FAILED = "Failed", Retry.NONE, "a managed object has failed", "check the object that the message names"
    PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded", Retry.NONE, "a managed object did not become healthy within spec.progressDeadline", "check the object that the message names"
    NOT_INSTALLED = "NotInstalled", Retry.NONE, "nothing has been applied yet"

    # Ready, Paused, Drifted, Reconciling, deletion
    READY = "Ready", Retry.NONE, "installed and healthy at this generation"
    PAUSED = "Paused", Retry.NONE, "spec.paused is true; nothing on the cluster is changed", "set spec.paused to false"
    REPORT_ONLY = "ReportOnly", Retry.NONE, "drift is reported but not repaired (spec.drift.mode is Report)", "set spec.drift.mode to Repair"
    DRIFT_CONFLICT = "DriftConflict", Retry.NONE, "another client keeps changing a field that the bundle sets", "stop the field manager that the message names, or ignore the field with spec.drift.ignore"
    STRAYS = "Strays", Retry.NONE, "objects are marked as owned by the BundleDeployment but part of no revision, so that they are neither changed nor deleted: another controller or client has made them", "look at status.strays, then delete them with kubectl rukpak prune NAME, or remove their label"
    PRUNE_PENDING = "PrunePending", Retry.WAIT, "objects of the old revision are kept until the new one is healthy, or are still being deleted", "fix the object that the message names, resolve what holds its deletion, or set spec.prune to AfterApply"
    DELETING = "Deleting", Retry.TRANSIENT, "the objects of the bundle are being deleted"
    DELETION_BLOCKED = "DeletionBlocked", Retry.WAIT, "an object that is being deleted still exists", "check the finalizers that the message names"
    # fmt: on


UNPACKED_REASONS = frozenset(takewhile(lambda reason: reason is not Reason.INSTALLED, Reason))
"""Reasons of the condition Unpacked: after a failure with one of them, content is not available."""

OF_ABSENCE = frozenset({Reason.SERVICE_ACCOUNT_NOT_FOUND, Reason.NAMESPACE_NOT_FOUND})
OF_ACCOUNT = OF_ABSENCE | {Reason.SERVICE_ACCOUNT_REPLACED, Reason.NAMESPACE_REPLACED}
"""Why the ServiceAccount of a BundleDeployment cannot be used."""

DECISIONS = (Reason.DENIED, Reason.PINNED_WITH_CHANGES)
"""Why Ready is False although nothing is wrong: a user has decided so."""
