"""Gates: bundles that are not supported, refused before anything else is checked (upstream's `provider.go`)."""

from __future__ import annotations

import re

from api.bounds import read_count
from api.errors import BundleError
from api.plugins import Capabilities
from api.v1alpha2.conditions import Reason
from controller.formats.registry_v1.bundle.install_modes import ALL, MULTI, OWN, SINGLE
from controller.formats.registry_v1.bundle.service_version import ServiceVersion

_LARGEST = 10**9
_VERSION = re.compile(r"v?([0-9]+)\.([0-9]+)(?:\.([0-9]+))?(?:[-+].*)?\Z").match


def check_gates(version: ServiceVersion, capabilities: Capabilities, *, has_provider: bool) -> None:
    """Refuse a bundle that is not supported, with the first reason.

    Raises: BundleError (NotSupported).
    """
    if version.owns_api_services:
        raise _unsupported("unsupported bundle: apiServiceDefintions are not supported")
    if version.webhooks and not has_provider:
        raise _unsupported(
            "spec.config.certificateProvider: the webhooks of this bundle need certificates, which the cluster does not"
            ' issue; install cert-manager, or set it to "none" and bring your own'
            " (controller/formats/registry_v1/README.md)"
        )
    if version.install_modes.isdisjoint((ALL, MULTI, OWN, SINGLE)):
        # Upstream's message, although MultiNamespace is supported here.
        raise _unsupported(
            f"unsupported bundle: bundle must support at least one of [{ALL} {SINGLE} {OWN}] install modes"
        )
    needed, served = _parse(version.minimum_kubernetes), _parse(capabilities.kubernetes_version)
    if needed and served and needed > served:
        raise _unsupported(
            f"bundle requires Kubernetes {_write(needed)} or later (minKubeVersion), but the cluster runs"
            f" {_write(served)}; upgrade the cluster"
        )


def find_version_warnings(version: ServiceVersion) -> list[str]:
    """Return a warning if `minKubeVersion` is not a version."""
    text = version.minimum_kubernetes
    return [f'spec.minKubeVersion: ignored because "{text}" is not a version'] if text and not _parse(text) else []


def _parse(text: str) -> tuple[int, ...]:
    """Return major, minor and patch; empty if the text is not a version."""
    match = _VERSION(text.strip())
    return tuple(read_count(part or "0", _LARGEST) or 0 for part in match.groups()) if match else ()


def _write(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _unsupported(message: str) -> BundleError:
    return BundleError(Reason.NOT_SUPPORTED, message)
