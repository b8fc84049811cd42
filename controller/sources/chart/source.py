"""Helm charts: a version is found in the index of a repository, and pinned by the digest of the packaged chart.

The content is the directory of the chart, as `helm pull --untar` writes it, without its own name. Provenance files are
not read.

Not here: which version is meant (chart.py), repositories with an index (repository.py), and registries (registry.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from api.plugins import Access, Entry, Resolution
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote
from controller.sources.chart import registry, repository
from controller.sources.chart.chart import ChartRequest, parse_request, request_problems
from controller.sources.http.source import READ_AS
from controller.sources.trust import certificate_problems


class ChartSource:
    """The kind `chart`. Parameters: repository, name, version, sha256, insecureSkipTLSVerify, certificateData."""

    def __init__(self) -> None:
        self._shared = repository.Shared()

    def validate(self, parameters: Mapping[str, Any], path: str) -> list[str]:
        """Return what is wrong with the parameters, each with its field path below `path`."""
        problems = []
        url = parameters.get("repository", "")
        try:
            _address(parameters)
        except ValueError as error:
            # Not quoted if it may contain a password.
            problems.append(f"{path}.repository: {'the URL' if '@' in url else quote(url)} {error}")
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
            return found.resolve(parse_request(parameters))

    def content_key(self, parameters: Mapping[str, Any], resolution: Resolution) -> str:  # noqa: ARG002 - the contract
        """Return the digest, which is verified before anything is unpacked, and how it is read."""
        return f"{resolution.digest}|{READ_AS}"

    def fetch(self, parameters: Mapping[str, Any], resolution: Resolution, access: Access) -> Iterator[Entry]:
        """Yield the files of the chart that was resolved.

        Raises: BundleError (PinnedContentGone, and those of `resolve` except NotFound).
        """
        with self._connected(parameters, access, Reason.PINNED_CONTENT_GONE) as found:
            yield from found.fetch(parse_request(parameters), resolution)

    def _connected(
        self, parameters: Mapping[str, Any], access: Access, missing: Reason
    ) -> AbstractContextManager[_Repository]:
        if _is_in_registry(parameters):
            return registry.connected(parameters, access, missing)
        return repository.connected(parameters, access, self._shared, missing)


class _Repository(Protocol):
    """Where a chart is, for one call."""

    def resolve(self, request: ChartRequest, /) -> Resolution:
        """Return the version to use."""

    def fetch(self, request: ChartRequest, resolution: Resolution, /) -> Iterator[Entry]:
        """Yield the files of the chart that was resolved."""


def _is_in_registry(parameters: Mapping[str, Any]) -> bool:
    return str(parameters.get("repository", "")).startswith(registry.OCI)


def _address(parameters: Mapping[str, Any]) -> str:
    """Return what is asked for the chart, in normal form. Raises: ValueError with the problem and the remedy."""
    if _is_in_registry(parameters):
        return registry.registry_address(parameters["repository"], parameters.get("name", ""))
    return repository.repository_address(parameters.get("repository", "")).url
