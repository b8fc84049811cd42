"""Every condition type and every reason, with what it means and what to do.

Reasons are API: scripts match on them. One is added freely, never renamed. The table in `api/README.md` is generated
from here. A reason's retry class says when the controller tries again; every class is also tried at once when the spec
or the annotation `core.rukpak.io/reconcile-requested-at` changes.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from itertools import takewhile


class ConditionType(StrEnum):
    """Types of `status.conditions`: name, what True means and what else there is."""

    meaning: str

    def __new__(cls, name: str, meaning: str = "") -> ConditionType:
        """Make a member whose value is its name alone. The defaults let type checkers pass `ConditionType(name)`."""
        self = str.__new__(cls, name)
        self._value_ = name
        self.meaning = meaning
        return self

    # fmt: off
    UNPACKED = "Unpacked", "every source is resolved, and its content fetched and verified; False: a source failed"
    INSTALLED = "Installed", "the wanted revision is applied in full; False: what is installed, what is wanted, why not yet"
    HEALTHY = "Healthy", "every managed object is healthy; False: which is not, and why; Unknown: nothing was applied yet"
    READY = "Ready", "Installed and Healthy at this generation; False: with the reason that a person needs first"
    RECONCILING = "Reconciling", "work is going on, or an event is awaited; absent otherwise"
    STALLED = "Stalled", "nothing goes on until a person acts, here or elsewhere; absent otherwise"
    PAUSED = "Paused", "spec.paused is true, since lastTransitionTime; absent otherwise"
    DRIFTED = "Drifted", "somebody changed managed objects, and that is not repaired: paused, Report, or a fight; absent otherwise"
    # fmt: on


class Retry(Enum):
    """When a failure is tried again."""

    NONE = "–"
    """Not a failure."""
    PERMANENT = "P"
    """Only when the spec, a named Secret or the bundle changes."""
    SLOW = "S"
    """Every 5 minutes with jitter, since somebody else may mend it."""
    TRANSIENT = "T"
    """Backoff from 1 s, doubled up to 5 minutes, with jitter; Retry-After is obeyed."""
    WAIT = "W"
    """At the event that ends the wait, and as SLOW besides."""

    @property
    def stalls(self) -> bool:
        """Whether a person has to act (Stalled), rather than work going on or an event being awaited (Reconciling)."""
        return self in (Retry.PERMANENT, Retry.SLOW)


class Reason(str, Enum):
    """Every reason of a condition: name, retry class, what it means, what to do."""

    retry: Retry
    meaning: str
    remedy: str

    def __new__(cls, name: str, retry: Retry = Retry.NONE, meaning: str = "", remedy: str = "") -> Reason:
        """Make a member whose value is its name alone. The defaults let type checkers pass `Reason(name)`."""
        self = str.__new__(cls, name)
        self._value_ = name
        self.retry, self.meaning, self.remedy = retry, meaning, remedy
        return self

    def __str__(self) -> str:
        return str.__str__(self)

    # fmt: off
    # Unpacked
    UNPACKED = "Unpacked", Retry.NONE, "the content of every source is at hand, or is not needed"
    FETCHING = "Fetching", Retry.NONE, "sources are being resolved or fetched"
    NOT_FOUND = "NotFound", Retry.SLOW, "no such repository, tag, branch, ref or URL", "correct the name, or push what it names"
    UNAUTHORIZED = "Unauthorized", Retry.SLOW, "the source refused the credentials, or wants some", "correct the Secret that auth names, or its rights at the source"
    SECRET_NOT_FOUND = "SecretNotFound", Retry.WAIT, "the Secret that auth names does not exist", "create it, or correct its name and namespace"
    SECRET_INVALID = "SecretInvalid", Retry.WAIT, "the Secret that auth names has the wrong type, or lacks a key", "give it the type and keys that the message lists"
    SECRET_FORBIDDEN = "SecretForbidden", Retry.WAIT, "the Secret may not be read for this BundleDeployment", "grant get on it, or put it into an allowed namespace"
    UNREACHABLE = "Unreachable", Retry.TRANSIENT, "the source did not answer, or answered with a failure of its own", "check the address and the network; it is tried again by itself"
    TLS_VERIFICATION_FAILED = "TLSVerificationFailed", Retry.SLOW, "the certificate of the source could not be verified", "set certificateData to the CA that issued it"
    HOST_KEY_UNKNOWN = "HostKeyUnknown", Retry.PERMANENT, "ssh has no known_hosts entry for the host", "add known_hosts to the Secret"
    HOST_KEY_MISMATCH = "HostKeyMismatch", Retry.PERMANENT, "the host showed another ssh key than known_hosts has", "find out why, then correct known_hosts"
    DIGEST_MISMATCH = "DigestMismatch", Retry.SLOW, "content is not what its digest says, and was not used", "find out who changed it; correct the digest if it is wrong"
    PINNED_CONTENT_GONE = "PinnedContentGone", Retry.SLOW, "the recorded digest or commit is not at the source any more", "push it again, or ask for a new resolution by the annotation core.rukpak.io/reconcile-requested-at"
    AMBIGUOUS_REFERENCE = "AmbiguousReference", Retry.PERMANENT, "an abbreviated commit names more than one", "write more of its digits"
    DIRECTORY_NOT_FOUND = "DirectoryNotFound", Retry.PERMANENT, "the repository has no such directory at that commit", "correct directory"
    PLATFORM_NOT_FOUND = "PlatformNotFound", Retry.PERMANENT, "the index has no image for the platform", "set platform to one that the message lists"
    UNSUPPORTED_CONTENT = "UnsupportedContent", Retry.PERMANENT, "a media type, LFS pointer, submodule or encryption that cannot be read", "publish the content in a supported form"
    CONTENT_REJECTED = "ContentRejected", Retry.PERMANENT, "an entry breaks a rule or a budget; nothing was unpacked", "correct the entry that the message names, or raise the budget"
    CONTENT_CONFLICT = "ContentConflict", Retry.PERMANENT, "two sources bring the same path", "give them different destinations, or take the path out of one"
    INVALID_REFERENCE = "InvalidReference", Retry.PERMANENT, "an image reference, digest, URL or git ref that cannot be one", "correct it"
    INSECURE_REFUSED = "InsecureRefused", Retry.PERMANENT, "credentials over plain http or unverified TLS, or an address or redirect that policy forbids", "use https with a certificate that is verified, or let the administrator allow the address by option"
    STORAGE_FULL = "StorageFull", Retry.TRANSIENT, "the disk of the content store is full, or a tenant's share of it", "give it more room, or wait until less is fetched at the same time; it is tried again"
    UNKNOWN_SOURCE_KIND = "UnknownSourceKind", Retry.PERMANENT, "no installed plug-in serves this kind of source", "install it, or correct kind"

    # Installed
    INSTALLED = "Installed", Retry.NONE, "the wanted revision is applied in full"
    APPLYING = "Applying", Retry.NONE, "the wanted revision is being applied"
    NO_CONTENT = "NoContent", Retry.PERMANENT, "the content holds no manifests where the format looks for them", "put them where the message says, or correct format and destination"
    INVALID_BUNDLE = "InvalidBundle", Retry.PERMANENT, "a file of the bundle is not what the format demands", "correct the file and line that the message names"
    INVALID_CONFIG = "InvalidConfig", Retry.PERMANENT, "spec.config is not what the format accepts, or the spec is not what this release reads", "correct the key that the message names"
    RENDER_FAILED = "RenderFailed", Retry.PERMANENT, "the format could not render the content", "correct the bundle or the config as the message says"
    RENDER_LIMIT_EXCEEDED = "RenderLimitExceeded", Retry.PERMANENT, "rendering took more time, memory or output than allowed", "make the bundle smaller, or raise the limit"
    QUARANTINED = "Quarantined", Retry.SLOW, "the controller died twice while it prepared the bundle, and tries no more until something has changed", "make the bundle smaller, or raise the controller's memory limit; then change the spec or the annotation"
    UNKNOWN_FORMAT = "UnknownFormat", Retry.PERMANENT, "no installed plug-in serves this format", "install it, or correct format"
    NOT_SUPPORTED = "NotSupported", Retry.PERMANENT, "the spec asks for something that this release does not have", "take the field that the message names out, or install a release that has it"
    COLLISION = "Collision", Retry.WAIT, "an object exists already and belongs to somebody else", "remove it there, or set collisionProtection"
    FORBIDDEN = "Forbidden", Retry.SLOW, "the account that applies may not do so", "grant the rules that the message lists"
    REFUSED = "Refused", Retry.SLOW, "the API server or an admission policy refused an object", "correct the field that the message names, or the policy"
    IMMUTABLE = "Immutable", Retry.PERMANENT, "a field that cannot be changed differs", "delete the object: it is applied anew at once"
    TOO_LARGE = "TooLarge", Retry.PERMANENT, "an object or the revision is larger than the cluster can keep", "split it"
    QUOTA_EXCEEDED = "QuotaExceeded", Retry.SLOW, "the revisions of one namespace are more than may be kept; what is installed stays", "delete BundleDeployments that act in the namespace, make the bundle smaller, or raise --revision-mebibytes"
    UNSAFE_CRD_UPGRADE = "UnsafeCRDUpgrade", Retry.PERMANENT, "a CustomResourceDefinition would change in a way that breaks its users", "make the change compatible, or allow it as the message says"
    KIND_NOT_SERVED = "KindNotServed", Retry.WAIT, "the cluster does not serve the kind of an object", "install what serves it; the object is applied as soon as it appears"
    NAMESPACE_TERMINATING = "NamespaceTerminating", Retry.WAIT, "the namespace of an object is being deleted", "wait until it is gone, or find out what holds it"
    WAITING_FOR_CRD = "WaitingForCRD", Retry.WAIT, "a CustomResourceDefinition is not established yet", "see its conditions if this lasts"
    WAITING_FOR_HOOK = "WaitingForHook", Retry.WAIT, "a hook has not finished yet", "see its Job or Pod if this lasts"
    WEBHOOK_UNAVAILABLE = "WebhookUnavailable", Retry.TRANSIENT, "an admission or conversion webhook could not be called", "see the workload that serves it"
    HOOK_FAILED = "HookFailed", Retry.SLOW, "a hook failed", "see the logs of its Job or Pod"
    SERVICE_ACCOUNT_NOT_FOUND = "ServiceAccountNotFound", Retry.WAIT, "the account that spec.serviceAccountName names does not exist", "create it"
    SERVICE_ACCOUNT_REPLACED = "ServiceAccountReplaced", Retry.PERMANENT, "the account was deleted and made again: it may be somebody else's, so that nothing is done as it", "change the spec, set the annotation core.rukpak.io/accepted-account as the message says, or delete the bundle"
    NAMESPACE_REPLACED = "NamespaceReplaced", Retry.PERMANENT, "the install namespace was deleted and made again: it may be somebody else's, so that nothing is done in it", "change the spec, set the annotation core.rukpak.io/accepted-account as the message says, or delete the bundle"
    NAMESPACE_NOT_FOUND = "NamespaceNotFound", Retry.WAIT, "the namespace of an object does not exist", "create it, or add it to the bundle"
    REVISION_LOST = "RevisionLost", Retry.SLOW, "no revision of what is to be taken away can be read, so that nothing says which objects are the bundle's", "delete what is left yourself, or set the annotation core.rukpak.io/teardown-as to controller"
    API_UNAVAILABLE = "APIUnavailable", Retry.TRANSIENT, "the API server, or a group of its APIs, does not answer as it should", "it is tried again by itself"
    PAUSED_WITH_CHANGES = "PausedWithChanges", Retry.WAIT, "another revision waits until spec.paused is false", "set spec.paused to false"

    # Healthy
    HEALTHY = "Healthy", Retry.NONE, "every managed object is healthy"
    PROGRESSING = "Progressing", Retry.NONE, "a managed object is on its way"
    FAILED = "Failed", Retry.NONE, "a managed object has failed", "see the object that the message names"
    PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded", Retry.NONE, "a managed object did not become healthy within spec.progressDeadline", "see the object that the message names"
    NOT_INSTALLED = "NotInstalled", Retry.NONE, "nothing was applied yet"

    # Ready, Paused, Drifted, Reconciling, deletion
    READY = "Ready", Retry.NONE, "installed and healthy at this generation"
    PAUSED = "Paused", Retry.NONE, "spec.paused is true: nothing on the cluster is changed", "set spec.paused to false"
    REPORT_ONLY = "ReportOnly", Retry.NONE, "drift is reported and not repaired, as spec.drift.mode says", "set spec.drift.mode to Repair"
    DRIFT_CONFLICT = "DriftConflict", Retry.NONE, "somebody keeps changing a field that the bundle sets", "stop the manager that the message names, or ignore the field by spec.drift.ignore"
    PRUNE_PENDING = "PrunePending", Retry.WAIT, "objects of the old revision stay until the new one is healthy", "mend the object that the message names, or set spec.prune"
    DELETING = "Deleting", Retry.TRANSIENT, "the bundle is being taken away"
    DELETION_BLOCKED = "DeletionBlocked", Retry.WAIT, "an object is not going away", "see to the finalizers that the message names"
    # fmt: on


UNPACKED_REASONS = frozenset(takewhile(lambda reason: reason is not Reason.INSTALLED, Reason))
"""Reasons of the condition Unpacked: a failure with one of them means that content is not at hand."""
