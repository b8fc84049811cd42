"""What sources may use: the Secrets and ConfigMaps that they name, memory, and a place to report progress.

With `spec.serviceAccountName` a Secret is read as that account, so that a tenant cannot use a Secret that it may not
read; without one only in namespaces that the administrator allows. Values are passed to the source and nowhere else;
which Secrets they are from is passed on by UID and version (`Credentials.identity`). Of a Secret only name and version
are remembered, to watch it after a failure. Sources run on the threads of background.py.
"""

from __future__ import annotations

import base64
import binascii
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rukpak.api.errors import BundleError
from rukpak.api.plugins import MEBIBYTE, Credentials, LocalContent, Trusted
from rukpak.api.v1alpha2.conditions import OF_ABSENCE, Reason
from rukpak.api.v1alpha2.fields import SecretReference
from rukpak.api.v1alpha2.types import BundleDeployment, Source
from rukpak.api.v1alpha2.verification import config_maps_of, secrets_of
from rukpak.controller.building.request import BuildContext
from rukpak.controller.content.digests import digest_of, digest_of_json
from rukpak.controller.kube.client import Client
from rukpak.controller.kube.errors import ApiError, attempt
from rukpak.controller.kube.resources import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS
from rukpak.controller.observe.following import ObjectFollower, ObjectReference, Topic
from rukpak.controller.retries import OF_SECRETS
from rukpak.controller.revisions.accounts import (
    Account,
    Seen,
    account_in,
    check_before_reading,
    find_absence,
    translate_refusal,
    watched_account,
)
from rukpak.controller.revisions.background import Quarantine
from rukpak.controller.sharing import Admission, share_of
from rukpak.controller.sources.credentials import find_credentials, parse_pull_secrets, parse_secret
from rukpak.controller.sources.demands import SCHEME, name_demand
from rukpak.controller.sources.image.reference import chart_reference, find_endpoint, parse_reference

_NAMES_OF_KEYS = {
    ".cosign.keys[0].secret": ("*.pub",),
    ".secret": ("*.asc", "allowed_signers"),
    ".provenance.secret": ("*.asc", "*.gpg"),
}
"""Which keys of an administrator a source reads, by the field of `verify` that would name their Secret."""


def _files_of(manifest: dict[str, Any], what: str) -> dict[str, bytes]:
    texts = {key: text.encode("utf-8", "surrogatepass") for key, text in (manifest.get("data") or {}).items()}
    try:
        binary = {key: base64.b64decode(data) for key, data in (manifest.get("binaryData") or {}).items()}
    except (binascii.Error, ValueError):
        raise BundleError(Reason.CONTENT_REJECTED, "binaryData is not base64; correct it", place=what) from None
    return texts | binary


class SecretReader:
    """Reads Secrets when they are used, and keeps none. Thread-safe.

    Args:
        namespaces: where a BundleDeployment without an account may use Secrets, in addition to its install namespace.
            None: the command line, which reads as its user.
        mirrors: of registries, by host: pull Secrets may be for these.
    """

    def __init__(
        self, client: Client, namespaces: Collection[str] | None, mirrors: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._client, self._namespaces = client, None if namespaces is None else frozenset(namespaces)
        self._mirrors = mirrors

    def credentials(self, deployment: BundleDeployment, index: int, source: Source, seen: Seen) -> Credentials | None:
        """Return the credentials of a source, from its Secret or the imagePullSecrets of its account; None without any.

        Raises: BundleError (SecretNotFound, SecretInvalid, SecretForbidden, ServiceAccountNotFound, APIUnavailable).
        """
        path = f"spec.sources[{index}].{source.block}.auth"
        if source.secret:
            secret = self._read(deployment, source.secret, path, seen)
            return replace(parse_secret(secret, source.kind, path), identity=_identity_of([secret]))
        account = account_in(deployment.spec)
        if not (account and source.is_in_registry):
            return None
        secrets = self._pull_secrets(deployment, account, path, seen)
        # Only these are sent: others would keep accounts from sharing what they fetch from public registries.
        name = self._repository_of(source)
        used = [each for each in secrets if find_credentials(parse_pull_secrets([each], path).registries, name)]
        identity = _identity_of(used) if used else ""
        return replace(parse_pull_secrets(secrets, path), identity=identity) if secrets else None

    def trusted(self, deployment: BundleDeployment, index: int, source: Source, seen: Seen) -> Trusted:
        """Return the data of the Secrets and ConfigMaps that `verify` of a source names, read as its credentials are.

        Raises: BundleError (SecretNotFound, SecretForbidden, NotFound, InvalidVerification, ServiceAccountNotFound,
            APIUnavailable).
        """
        verification, path = source.verification, f"spec.sources[{index}].{source.block}.verify"
        data: dict[str, Mapping[str, bytes]] = {}
        versions: list[list[str]] = []
        for field_path, reference in secrets_of(verification) if verification else ():
            manifest = self._read(deployment, reference, path + field_path, seen)
            data[field_path] = _decode(manifest, path + field_path)
            versions.append([field_path, _identity_of([manifest])])
        for field_path, name in config_maps_of(verification) if verification else ():
            content = self.local_content(deployment, name.name, path + field_path, seen)
            data[field_path] = content.files
            versions.append([field_path, *(f"{key} {digest_of(text)}" for key, text in sorted(content.files.items()))])
        return Trusted(data=data, identity=digest_of_json(versions) if versions else "")

    def local_content(self, deployment: BundleDeployment, name: str, place: str, seen: Seen) -> LocalContent:
        """Return the content of a ConfigMap in the install namespace.

        Args:
            deployment: with an install namespace.
            name: of the ConfigMap.
            place: starts messages.
            seen: gets what was read.

        Raises: BundleError (NotFound, SecretForbidden, ContentRejected, ServiceAccountNotFound and its kin,
            APIUnavailable).
        """
        namespace, account = deployment.spec.install_namespace or "", self._account_of(deployment)
        watched = ObjectReference(namespace, name, account.user.name if account else "", CONFIG_MAPS)
        what = f'{place}: ConfigMap "{namespace}/{name}"'
        try:
            check_before_reading(self._client, deployment, account, seen)
            reader = self._client.acting_as(account.user if account else None)
            manifest = reader.get(CONFIG_MAPS.path(namespace, name)).value
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                seen(watched, "")
            missing, verbs = Reason.NOT_FOUND, "get, list and watch"
            raise translate_refusal(error, account, what, missing=missing, verbs=verbs) from None
        seen(watched, None if manifest.get("immutable") else manifest["metadata"]["resourceVersion"])
        return LocalContent(files=_files_of(manifest, what), annotations=manifest["metadata"].get("annotations") or {})

    def _account_of(self, deployment: BundleDeployment) -> Account | None:
        return None if self._namespaces is None else account_in(deployment.spec)

    def _repository_of(self, source: Source) -> str:
        image, chart = source.image, source.chart
        found = chart_reference(chart.repository, chart.name) if chart else parse_reference(image.ref if image else "")
        return find_endpoint(found, self._mirrors).name

    def _pull_secrets(
        self, deployment: BundleDeployment, account: Account, path: str, seen: Seen
    ) -> list[dict[str, Any]]:
        path_of_account, watched = SERVICE_ACCOUNTS.path(account.namespace, account.name), watched_account(account)
        try:
            found = attempt(lambda: self._client.get(path_of_account), HTTPStatus.NOT_FOUND)
            if found is None:
                seen(watched, "")
                raise find_absence(self._client, account)
        except ApiError as error:
            raise translate_refusal(error, None, account.place) from None
        manifest = found.value
        seen(watched, manifest["metadata"]["resourceVersion"])
        references = [
            SecretReference(namespace=account.namespace, name=reference["name"])
            for reference in manifest.get("imagePullSecrets") or []
            if reference.get("name")
        ]
        return [self._read(deployment, reference, path, seen) for reference in references]

    def _read(self, deployment: BundleDeployment, reference: SecretReference, path: str, seen: Seen) -> dict[str, Any]:
        namespace = reference.namespace or deployment.spec.install_namespace or ""
        account = self._account_of(deployment)
        allowed = {*(self._namespaces or ()), deployment.spec.install_namespace}
        if account is None and self._namespaces is not None and namespace not in allowed:
            problem = f'{path}: Secrets in namespace "{namespace}" are not allowed'
            remedy = "move the Secret to the install namespace or ask the administrator to add the namespace to"
            raise BundleError(Reason.SECRET_FORBIDDEN, f"{problem}; {remedy} --secret-namespaces")
        secret = ObjectReference(namespace, reference.name, account.user.name if account else "")
        seen(secret, "")
        if account:  # the Secrets of its successor are not for these sources
            try:
                check_before_reading(self._client, deployment, account, seen)
            except ApiError as error:
                raise translate_refusal(error, None, account.place) from None
        what = f'{path}: Secret "{namespace}/{reference.name}"'
        manifest = self._get(SECRETS.path(namespace, reference.name), account, what)
        seen(secret, manifest["metadata"]["resourceVersion"])
        return manifest

    def read_unfollowed(self, namespace: str, name: str, path: str) -> dict[str, Any]:
        """Return a Secret that no tenant may read, so that nobody waits for its changes: a failure is tried again."""
        try:
            return self._get(SECRETS.path(namespace, name), None, f'{path}: Secret "{namespace}/{name}"')
        except BundleError as error:
            raise BundleError(Reason.VERIFICATION_UNAVAILABLE, error.message, retry_after=error.retry_after) from None

    def _get(self, path: str, account: Account | None, what: str) -> dict[str, Any]:
        try:
            manifest: dict[str, Any] = self._client.acting_as(account.user if account else None).get(path).value
        except ApiError as error:
            raise translate_refusal(error, account, what) from None
        return manifest


def _identity_of(secrets: Iterable[Mapping[str, Any]]) -> str:
    found = (secret["metadata"] for secret in secrets)
    return digest_of_json([[each.get("uid", ""), each.get("resourceVersion", "")] for each in found])


def read_demanded(index: int, source: Source, read: Callable[[str, str, str], dict[str, Any]]) -> Trusted:
    """Return the keys with which the administrator demands that a source is signed.

    Args:
        index: of the source in the spec.
        source: with the demand.
        read: returns a Secret by its namespace and name; gets the path that starts messages.

    Raises: BundleError (VerificationUnavailable, InvalidVerification).
    """
    demanded = source.demanded
    if demanded is None or demanded.verification is None:
        return Trusted()
    path = name_demand(f"spec.sources[{index}].{source.block}")
    if demanded.keys.startswith(SCHEME):
        namespace, _, name = demanded.keys.removeprefix(SCHEME).partition("/")
        manifest = read(namespace, name, path)
        keys, identity = _decode(manifest, path), _identity_of([manifest])
    else:
        keys = _read_files(Path(demanded.keys), path)
        identity = digest_of_json([[name, digest_of(data)] for name, data in sorted(keys.items())])
    [field_path] = (field_path for field_path, _ in secrets_of(demanded.verification))
    wanted = _NAMES_OF_KEYS[field_path]
    if not any(fnmatchcase(name, pattern) for name in keys for pattern in wanted):
        problem = f"there are no keys for sources of this kind; add some as {' or '.join(wanted)}"
        raise BundleError(Reason.VERIFICATION_UNAVAILABLE, problem, place=path)
    return Trusted(data={field_path: keys}, identity=identity)


def _read_files(place: Path, path: str) -> dict[str, bytes]:
    # A mounted Secret is a folder.
    try:
        files = [each for each in sorted(place.iterdir()) if each.is_file()] if place.is_dir() else [place]
        return {each.name: each.read_bytes() for each in files}
    except OSError as error:
        message = f"{path}: the file of keys cannot be read: {error.strerror}"
        raise BundleError(Reason.VERIFICATION_UNAVAILABLE, message) from None


def _decode(secret: Mapping[str, Any], path: str) -> dict[str, bytes]:
    try:
        return {key: base64.b64decode(value, validate=True) for key, value in (secret.get("data") or {}).items()}
    except (binascii.Error, ValueError, TypeError):
        named = f"{secret['metadata'].get('namespace', '')}/{secret['metadata']['name']}"
        message = f'{path}: Secret "{named}": its data is not base64; correct it'
        raise BundleError(Reason.INVALID_VERIFICATION, message) from None


PROGRESS_SECONDS = 5.0
KIBIBYTE = 1024
# Failures that a changed Secret can resolve: forges answer 404 to unknown users, and it has certificates and host keys.
_FOLLOWED = (
    OF_SECRETS
    | OF_ABSENCE
    | {
        Reason.UNAUTHORIZED,
        Reason.NOT_FOUND,
        Reason.TLS_VERIFICATION_FAILED,
        Reason.HOST_KEY_UNKNOWN,
        Reason.HOST_KEY_MISMATCH,
        Reason.INSECURE_REFUSED,
        Reason.VERIFICATION_FAILED,
        Reason.INVALID_VERIFICATION,
    }
)


@dataclass(slots=True)
class SourceProgress:
    """What one piece of work reports about its sources. Thread-safe.

    Attributes:
        ticket: of the work.
        clock: monotonic seconds.
        text: the progress of the sources; changes at most every 5 s, so that status is not flooded.
    """

    ticket: str = ""
    clock: Callable[[], float] = time.monotonic
    text: str = ""
    _done: dict[int, tuple[int, int]] = field(default_factory=dict)
    _reported_at: float = 0.0
    _read: dict[int, dict[ObjectReference, str]] = field(default_factory=dict)
    _local: dict[int, dict[ObjectReference, str]] = field(default_factory=dict)
    _refused: set[int] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._reported_at = self.clock()

    def advance(self, index: int, done: int, total: int) -> bool:
        """Record the progress of a source, in bytes; returns whether there is a new text."""
        with self._lock:
            self._done[index] = (done, total)
            if self.clock() - self._reported_at < PROGRESS_SECONDS:
                return False
            self._reported_at = self.clock()
            self.text = ", ".join(_describe_amounts(index, *amounts) for index, amounts in sorted(self._done.items()))
            return True

    def note_secret(self, index: int, secret: ObjectReference, version: str | None) -> None:
        """Record the version of a Secret that was read for a source; None: it never changes."""
        if version is not None:
            with self._lock:
                self._read.setdefault(index, {})[secret] = version

    def note_local(self, index: int, watched: ObjectReference, version: str | None) -> None:
        """Record the version of a ConfigMap with content that was read for a source, to follow it; None: not to."""
        with self._lock:
            found = self._local.setdefault(index, {})
            found.pop(watched, None)
            if version is not None:
                found[watched] = version

    def note_end(self, index: int, failure: BundleError | None) -> None:
        """Record the result of a source."""
        with self._lock:
            if failure and failure.reason in _FOLLOWED:
                self._refused.add(index)
            else:
                self._refused.discard(index)

    def to_follow(self) -> dict[ObjectReference, str]:
        """Return the Secrets of the sources that fail now, and local content, each with the version that was read."""
        with self._lock:
            secrets = [self._read.get(index, {}) for index in self._refused]
            return {each: version for read in (*secrets, *self._local.values()) for each, version in read.items()}


def _describe_amounts(index: int, done: int, total: int) -> str:
    size, unit = (MEBIBYTE, "MiB") if max(done, total) >= MEBIBYTE else (KIBIBYTE, "KiB")
    of = f" of {total // size}" if total else ""
    return f"spec.sources[{index}]: {done // size}{of} {unit}"


class SourceAccess:
    """Gives each piece of work what its sources may use. Thread-safe.

    Args:
        wake: requests a pass over a BundleDeployment.
        admission: of memory.
        quarantine: marks each preparation.
    """

    def __init__(
        self,
        secrets: SecretReader,
        wake: Callable[[str], None],
        admission: Admission,
        quarantine: Quarantine,
    ) -> None:
        self._secrets, self._wake = secrets, wake
        self._admission, self._quarantine = admission, quarantine

    def build_context(self, deployment: BundleDeployment, progress: SourceProgress) -> BuildContext:
        """Return what the sources and the format of a BundleDeployment may use."""
        secrets, tenant = self._secrets, share_of(deployment)

        def _read_local(index: int, name: str) -> LocalContent:
            place = f"spec.sources[{index}].configMap"
            return secrets.local_content(deployment, name, place, partial(progress.note_local, index))

        def _report(index: int, done: int, total: int) -> None:
            if progress.advance(index, done, total):
                self._wake(deployment.metadata.name)

        @contextmanager
        def _room(size: int, cancelled: threading.Event) -> Iterator[None]:
            is_suspect = self._quarantine.is_suspect(deployment)
            needs = self._admission.total if is_suspect else size
            alone = self._quarantine.alone(deployment) if is_suspect else nullcontext()
            with self._admission.room(tenant, needs, cancelled), alone:
                yield

        return BuildContext(
            credentials=lambda index, source: secrets.credentials(
                deployment, index, source, partial(progress.note_secret, index)
            ),
            trusted=lambda index, source: secrets.trusted(
                deployment, index, source, partial(progress.note_secret, index)
            ),
            demanded=lambda index, source: read_demanded(index, source, secrets.read_unfollowed),
            config_map=_read_local,
            progress=_report,
            ended=progress.note_end,
            tenant=tenant,
            room=_room,
            guard=partial(self._quarantine.guard, deployment),
        )


def watch_secrets(follower: ObjectFollower, name: str, found: Iterable[SourceProgress], *, share: str = "") -> None:
    """Watch the Secrets of sources that fail, and local content, and nothing else, at the expense of a share."""
    secrets: dict[ObjectReference, str] = {}
    for progress in found:
        secrets |= progress.to_follow()
    follower.follow(name, Topic.SOURCES, secrets, share=share)
