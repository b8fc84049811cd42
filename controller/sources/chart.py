"""Helm charts: a version is found in the index of a repository, and pinned by the digest of the packaged chart.

index.yaml says which versions there are, and where. The content is the directory of the chart, as `helm pull --untar`
writes it, without its own name. A provenance file is read only for `verify`, and before the chart.

Invariants: no chart is unpacked before its digest is verified; credentials are sent over verified https only, and only
to the host of the repository, wherever index.yaml leads; with `passCredentials` also to the allowed host that it names,
if the repository itself has sent it. No redirect gets them.

Not here: the meaning of index.yaml, and who shares it (chart_index.py); which version is meant, and registries
(chart_registry.py).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Literal
from urllib.parse import quote as quote_url
from urllib.parse import urlsplit

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Credentials, Entry, Resolution, Signer
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.disk import Spool
from rukpak.controller.content.limits import quote
from rukpak.controller.sources.chart_index import (
    INDEX_BYTES,
    READING_BYTES,
    Index,
    Release,
    SharedAnswers,
    TooLargeError,
    UnreadableError,
    read_charts,
)
from rukpak.controller.sources.chart_registry import (
    RegistryRepository,
    parse_request,
    pinned_version,
    read_chart,
    request_problems,
)
from rukpak.controller.sources.chart_registry import connected as connected_to_registry
from rukpak.controller.sources.hosts import (
    PRINTABLE,
    Address,
    Detour,
    check_host,
    find_url_problems,
    follow,
    parse_address,
)
from rukpak.controller.sources.http import Download, Wanted, connect, find_validator, read_signature
from rukpak.controller.sources.image.reference import OCI, registry_address
from rukpak.controller.sources.pace import check_deadline
from rukpak.controller.sources.signatures import UnusableKeysError, checking
from rukpak.controller.sources.signatures.openpgp import (
    PROVENANCE_BYTES,
    ChartArchive,
    read_keys,
    split_provenance,
    verify_provenance,
)
from rukpak.controller.sources.transport import Transport
from rukpak.controller.sources.trust import certificate_problems, certificates_of, credential_headers

_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{64})")
_KEYS = ".provenance.secret"
_FETCH_AGE = 60.0  # seconds; a fetch mostly follows what has just resolved the version
_SALT = secrets.token_bytes(32)  # keys of shared answers tell nothing about the credentials in them


class ChartSource:
    """The kind `chart`.

    Parameters: repository, name, version, sha256, passCredentials, verify, insecureSkipTLSVerify, certificateData.
    """

    def __init__(self) -> None:
        # What repositories have answered this process.
        self.indexes = SharedAnswers[Index](lambda index: index.size)
        self.permissions = SharedAnswers[Literal[True]]()
        """Whether a repository has a file for some credentials."""

    def validate(self, parameters: Mapping[str, Any], path: str) -> list[str]:
        """Return what is wrong with the parameters, each with its field path below `path`."""
        url = parameters.get("repository", "")
        problems = find_url_problems(url, f"{path}.repository", lambda _url: _address(parameters))
        return problems + request_problems(parameters, path) + certificate_problems(parameters, path)

    def identity(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return repository in normal form, name, version and sha256."""
        request = parse_request(parameters)
        return {
            "repository": _address(parameters),
            "name": request.name,
            "version": request.version,
            "sha256": request.digest,
        }

    def origin(self, parameters: Mapping[str, Any]) -> str:
        """Return the repository, with its query; in a registry that of the chart."""
        return _address(parameters)

    def resolve(self, parameters: Mapping[str, Any], access: Access) -> Resolution:
        """Return the version that the spec asks for, as the repository has it now.

        Returns: pinned as `repository/name:version@digest`, digest as that of the packaged chart.
        Raises: BundleError (NotFound, DigestMismatch, ContentRejected, UnsupportedContent, Unauthorized, Unreachable,
            TLSVerificationFailed, InsecureRefused, InvalidReference, SecretInvalid).
        """
        with self._connected(parameters, access, Reason.NOT_FOUND) as found:
            return found.resolve()

    def content_key(self, parameters: Mapping[str, Any], resolution: Resolution) -> str:  # noqa: ARG002 - the contract
        """Return the digest, which is verified before anything is unpacked, and how it is read."""
        return resolution.digest

    def fetch(self, parameters: Mapping[str, Any], resolution: Resolution, access: Access) -> Iterator[Entry]:
        """Yield the files of the chart that was resolved.

        Raises: BundleError (PinnedContentGone, and those of `resolve` except NotFound).
        """
        with self._connected(parameters, access, Reason.PINNED_CONTENT_GONE) as found:
            yield from found.fetch(resolution)

    @contextmanager
    def _connected(
        self, parameters: Mapping[str, Any], access: Access, missing: Reason
    ) -> Iterator[Repository | RegistryRepository]:
        if _is_in_registry(parameters):
            with connected_to_registry(parameters, access, missing) as registry:
                yield registry
            return
        try:
            address = repository_address(parameters["repository"])
        except ValueError as error:
            raise BundleError(Reason.INVALID_REFERENCE, f"the URL {error}", place=f"{access.path}.repository") from None
        transport = connect(address, parameters, access, "repository")
        if access.credentials and access.credentials.registries:
            problem = "the Secret has a type for registries; give it keys username and password, or bearerToken"
            raise BundleError(Reason.SECRET_INVALID, problem, place=f"{access.path}.auth")
        with transport:
            yield Repository(transport, parameters, access, self)


def repository_address(text: str) -> Address:
    """Return the address of a repository in normal form, without a slash at its end.

    Raises: ValueError as `parse_address`.
    """
    address = parse_address(text)
    return replace(address, path=address.path.rstrip("/"))


class Repository:
    """One repository, for one call of a source; its `kind` has what repositories have answered this process."""

    def __init__(self, transport: Transport, parameters: Mapping[str, Any], access: Access, kind: ChartSource) -> None:
        self._transport, self._access, self._kind = transport, access, kind
        self._request, self._check = parse_request(parameters), partial(check_deadline, access)
        address = self._address = repository_address(parameters["repository"])
        self._verify: bool = bool(parameters.get("verify"))
        self._trust = {"certificateData": parameters.get("certificateData") or ""}
        self._name = replace(address, query="").url  # a query may contain a secret
        self._index_address = replace(address, path=f"{address.path}/index.yaml")
        self._headers = credential_headers(parameters, access, address)
        self._passes_credentials = bool(parameters.get("passCredentials"))
        self._is_own_index = False
        """Whether the repository itself has sent the index that is used, and not a host that it redirects to."""
        verify = not parameters.get("insecureSkipTLSVerify")
        credentials = access.credentials or Credentials()
        self._has_credentials = bool(self._headers or credentials.client_key)
        sent = [sorted(self._headers.items()), credentials.client_certificate, credentials.client_key]
        shared_by = [address.url, certificates_of(parameters, access), verify, sent]
        self._key = hmac.new(_SALT, json.dumps(shared_by).encode(), hashlib.sha256).hexdigest()
        """What calls that may share an answer have in common."""

    def resolve(self) -> Resolution:
        """Return the version to use; the chart itself is read only if neither spec nor index has its digest.

        Raises: BundleError (NotFound, DigestMismatch, VerificationFailed, VerificationUnavailable, InvalidVerification,
            and those of a download).
        """
        if resolution := self._access.pinned:
            release = self._find(pinned_version(resolution))
        else:
            release = self._choose()
            digest = self._digest_of(release) or self._request.digest
            if not digest:
                return self._read_now(release)
            self._request.check_digest(release.version, digest, self._access.path)
            resolution = self._request.pin(self._name, release.version, digest)
        self._authorize(release, resolution)
        return replace(resolution, signer=self._find_signer(release, resolution.digest))

    def fetch(self, resolution: Resolution) -> Iterator[Entry]:
        """Yield the files of the chart that was resolved; its digest is verified before the first one.

        Raises: BundleError (PinnedContentGone, DigestMismatch, ContentRejected, UnsupportedContent, and those of a
            download).
        """
        release = self._find(pinned_version(resolution))
        if release.url.startswith(OCI):
            yield from self._fetch_from_registry(release, resolution)
            return
        with Spool(self._access.scratch, self._access.path) as spool:
            self._download(self._address_of(release), Reason.PINNED_CONTENT_GONE).fetch(spool)
            if spool.digest != resolution.digest:
                raise self._mismatch(release)
            yield from read_chart(spool.rewind(), self._access)

    def _fetch_from_registry(self, release: Release, resolution: Resolution) -> Iterator[Entry]:
        """Yield the files of a chart of which the index says that a registry has it, as Bitnami's do since 2024.

        The registry gets no credentials, and a message tells nothing about it: any index may name any host.
        """
        folder, _, last = release.url.rpartition("/")
        parameters = {**self._trust, "repository": folder, "name": last.partition(":")[0]}
        received = self._access.receive
        access = replace(self._access, credentials=None, progress=lambda done, _: received(done))
        detour = Detour(shown=self._not_in_registry(release, folder))
        try:
            with connected_to_registry(parameters, access, Reason.PINNED_CONTENT_GONE, detour) as found:
                yield from found.fetch(resolution)
        except BundleError as error:
            raise detour.end(error, access) from None

    def _not_in_registry(self, release: Release, folder: str) -> BundleError:
        problem = f"index.yaml has an address of version {quote(release.version)} in a registry, which cannot be used"
        remedy = f"set repository to {quote(folder)} to read it there, with auth if it requires some"
        return BundleError(Reason.UNREACHABLE, f"{problem}; {remedy}", place=f"{self._access.path}.repository")

    # versions

    def _choose(self) -> Release:
        index, name = self._index(self._access.max_age), self._request.name
        versions = index.versions(name)
        if versions is None:
            raise self._request.unknown(index.names, self._access.path, self._check)
        version = self._request.choose(versions, self._access.path, self._check)
        return next(index.releases(name, version))

    def _find(self, version: str) -> Release:
        name = self._request.name
        for max_age in (_FETCH_AGE, 0.0):
            if release := next(self._index(max_age).releases(name, version), None):
                return release  # the first of equal versions
        problem = f"the repository no longer has version {quote(version)} of chart {quote(name)}"
        remedy = f"publish it again, or set annotation {names.RECONCILE_REQUESTED_AT}"
        raise BundleError(Reason.PINNED_CONTENT_GONE, f"{problem}; {remedy}", place=f"{self._access.path}.version")

    def _digest_of(self, release: Release) -> str:
        found = _DIGEST.fullmatch(release.digest.lower())
        if release.digest and not found:
            problem = f"index.yaml has a digest of version {quote(release.version)} that is not a SHA-256"
            problem = f'{problem}; write it with "helm repo index"'
            raise BundleError(Reason.CONTENT_REJECTED, problem, place=self._access.path)
        return f"sha256:{found[1]}" if found else ""

    # index.yaml

    def _index(self, max_age: float) -> Index:
        found = self._kind.indexes.get(self._key, self._access, max_age, self._ask)
        self._is_own_index = found.is_own
        return found

    def _ask(self, known: Index | None) -> Index:
        limits = replace(self._access.limits, compressed_bytes=INDEX_BYTES)
        wanted = Wanted(
            address=self._index_address,
            headers=self._headers,
            field="repository",
            remedy="correct repository, which must contain that file",
        )
        download = Download(self._transport, wanted, replace(self._access, limits=limits))
        try:
            with Spool(self._access.scratch, self._access.path) as spool:
                answer = download.fetch(spool, known.validator if known else "")
                if known and (answer.is_unchanged or known.digest == spool.digest):
                    found = known
                else:
                    own, validator = not answer.place.is_elsewhere, find_validator(answer)
                    found = Index(self._read_charts(spool), spool.digest, validator, is_own=own)
        except BundleError as error:
            raise self._transport.conceal(error) from None  # before those that wait for this answer are told
        self._transport.settle()
        return found

    def _read_charts(self, spool: Spool) -> dict[str, bytes]:
        place = f"{self._access.path}.repository: index.yaml at {quote(self._address.authority)}"
        try:
            with self._access.room(READING_BYTES), self._access.computing():
                return read_charts(spool.rewind(), self._check)
        except UnreadableError as error:
            message = f"{place} is not an index of charts: {error}; correct repository, or publish the index again"
            raise BundleError(Reason.UNSUPPORTED_CONTENT, message) from None
        except TooLargeError as error:
            message = f"{place} is too large: {error}; remove what is not needed"
            raise BundleError(Reason.CONTENT_REJECTED, message) from None

    # charts

    def _read_now(self, release: Release) -> Resolution:
        if release.url.startswith(OCI):  # of a tag, which the digest of the chart would have to be asked of
            raise self._not_in_registry(release, release.url.rpartition("/")[0])
        previous = self._access.previous
        if previous and pinned_version(previous) != release.version:
            previous = None
        download = self._download(self._address_of(release))
        validator, provenance = previous.validator if previous and (previous.signer or not self._verify) else "", b""
        if self._verify:
            if previous and validator and download.ask(validator).is_unchanged:
                return previous
            provenance = self._read_provenance(release)  # first, as the signature of a file
        with Spool(self._access.scratch, self._access.path) as spool:
            answer = download.fetch(spool, validator)
            if previous and answer.is_unchanged:
                return previous
            resolution = self._request.pin(self._name, release.version, spool.digest, find_validator(answer))
            if self._verify:
                signer = self._check_signature(release, spool.digest, provenance)
                resolution = replace(resolution, signer=signer)
            self._access.keep(resolution, read_chart(spool.rewind(), self._access))
            return resolution

    def _authorize(self, release: Release, resolution: Resolution) -> None:
        """Check that the repository has a chart for these credentials, unless `fetch` does: the index may be public.

        A known digest was asked for before. Without credentials there is nothing to check.
        """
        previous = self._access.previous
        if previous and previous.digest == resolution.digest:
            return
        if not self._has_credentials or release.url.startswith(OCI) or not self._access.is_stored(resolution):
            return
        if self._gets_credentials(address := self._address_of(release)):
            key = f"{self._key} {address.url}"
            self._kind.permissions.get(key, self._access, self._access.max_age, lambda _: self._ask_for(address))

    def _ask_for(self, address: Address) -> Literal[True]:
        try:
            self._download(address).check()
        except BundleError as error:
            raise self._transport.conceal(error) from None
        return True

    def _is_elsewhere(self, address: Address) -> bool:
        return address.origin != self._index_address.origin

    def _gets_credentials(self, address: Address) -> bool:
        # `_address_of` has checked its host.
        return not self._is_elsewhere(address) or (self._passes_credentials and self._is_own_index)

    def _download(self, address: Address, missing: Reason = Reason.NOT_FOUND) -> Download:
        return Download(self._transport, self._wanted(address, missing), self._access)

    def _wanted(self, address: Address, missing: Reason = Reason.NOT_FOUND) -> Wanted:
        return Wanted(
            address=address,
            headers=self._headers if self._gets_credentials(address) else {},
            missing=missing,
            field="repository",
            remedy="publish the chart again",
            named=self._index_address.url,
            named_by=self._describe_elsewhere(address),
        )

    def _describe_elsewhere(self, address: Address) -> str:
        """Return what is told of another host with a chart, whatever is wrong there.

        Its name is no secret, if the repository that the spec names has told it. What it answers is one.
        """
        if not self._is_elsewhere(address) or not self._is_own_index:
            return ""
        problem = f"index.yaml at {quote(self._address.authority)} names another host, {quote(address.authority)}"
        problem = f"{problem}, which cannot be used"
        if self._has_credentials and not self._passes_credentials:
            remedy = "set passCredentials to send them there, too"
            return f"{problem}: credentials are sent to the repository only; {remedy}"
        return f"{problem}; check that host{' and auth' * self._has_credentials}"

    # signatures

    def _find_signer(self, release: Release, digest: str) -> Signer | None:
        if not self._verify:
            return None
        known = self._access.known_signer(digest)
        return known or self._check_signature(release, digest, self._read_provenance(release))

    def _read_provenance(self, release: Release) -> bytes:
        path = f"{self._access.path}.verify"
        if release.url.startswith(OCI):
            problem = f"version {quote(release.version)} is in a registry, without a provenance file"
            remedy = "set repository to that registry, and verify to cosign"
            raise BundleError(Reason.VERIFICATION_FAILED, f"{problem}; {remedy}", place=path)
        address = self._address_of(release)
        wanted = self._wanted(replace(address, path=f"{address.path}.prov"))
        remedy = "sign the chart with helm package --sign, and publish that file"
        wanted = replace(wanted, field="verify", remedy=remedy)
        found = read_signature(self._transport, wanted, self._access, PROVENANCE_BYTES)
        with checking(path, ""):
            split_provenance(found)
        self._transport.settle()  # it is what was looked for, wherever it is
        return found

    def _check_signature(self, release: Release, digest: str, provenance: bytes) -> Signer:
        with checking(f"{self._access.path}.verify", _KEYS):
            if not (keyring := read_keys(self._access.trusted.data.get(_KEYS, {}))):
                raise UnusableKeysError("the Secret has no keys; add OpenPGP keys as *.asc or *.gpg")
            chart = ChartArchive(name=self._request.name, version=release.version, digest=digest)
            return verify_provenance(chart, provenance, keyring, self._access, now=time.time())

    def _address_of(self, release: Release) -> Address:
        """Return where index.yaml says that a chart is; the same addresses are allowed as for redirects.

        Raises: BundleError (InsecureRefused, ContentRejected).
        """
        subject, version = f"{self._access.path}.repository: index.yaml", quote(release.version)
        if not release.url:
            problem = f"has no address of version {version}; publish the index again"
            raise BundleError(Reason.CONTENT_REJECTED, f"{subject} {problem}")
        try:
            address = parse_address(follow(self._index_address.url, quote_url(release.url, safe=PRINTABLE)))
        except ValueError:
            problem = f"has an address of version {version} that is not used: only https, or plain http on the same"
            message = f"{subject} {problem} host and port as the repository, without a user; correct it there"
            raise BundleError(Reason.INSECURE_REFUSED, message) from None
        is_relative = not urlsplit(release.url).netloc
        if self._passes_credentials and self._is_elsewhere(address) and self._is_own_index:
            check_host(f"{self._access.path}.passCredentials", address, self._access.network)
            self._transport.identify_to(address.origin)
        return replace(address, query=address.query or (self._address.query if is_relative else ""))

    def _mismatch(self, release: Release) -> BundleError:
        chart = f"version {quote(release.version)} of chart {quote(self._request.name)}"
        if self._request.digest:
            problem = f"{chart} does not have this digest; find out who changed it, or correct sha256"
            return BundleError(Reason.DIGEST_MISMATCH, f"{self._access.path}.sha256: {problem}")
        problem = f"{chart} is not what its digest says: it was replaced, or index.yaml is wrong"
        remedy = f"publish both again, or set annotation {names.RECONCILE_REQUESTED_AT}"
        return BundleError(Reason.DIGEST_MISMATCH, f"{problem}; {remedy}", place=self._access.path)


def _is_in_registry(parameters: Mapping[str, Any]) -> bool:
    return str(parameters.get("repository", "")).startswith(OCI)


def _address(parameters: Mapping[str, Any]) -> str:
    if _is_in_registry(parameters):
        return registry_address(parameters["repository"], parameters.get("name", ""))
    return repository_address(parameters.get("repository", "")).url
