"""Gates: what is refused before a bundle's config and its details are looked at (upstream's `provider.go`)."""

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
    """Refuse what cannot be installed, for the first reason there is.

    Raises: BundleError (NotSupported).
    """
    if version.owns_api_services:
        raise _unsupported("unsupported bundle: apiServiceDefintions are not supported")
    if version.webhooks and not has_provider:
        raise _unsupported(
            "unsupported bundle: webhookDefinitions are not supported: certificate provider is nil;"
            ' install cert-manager, or set spec.config.certificateProvider to "none" and bring certificates'
        )
    if version.install_modes.isdisjoint((ALL, MULTI, OWN, SINGLE)):
        # Upstream's words, though MultiNamespace will do here.
        raise _unsupported(
            f"unsupported bundle: bundle must support at least one of [{ALL} {SINGLE} {OWN}] install modes"
        )
    needed, served = _parse(version.minimum_kubernetes), _parse(capabilities.kubernetes_version)
    if needed and served and needed > served:
        raise _unsupported(
            f"bundle requires Kubernetes {_write(needed)} or newer (minKubeVersion), the cluster runs {_write(served)}"
        )


def find_version_warnings(version: ServiceVersion) -> list[str]:
    """Return a warning if `minKubeVersion` means nothing."""
    text = version.minimum_kubernetes
    return [f'spec.minKubeVersion: "{text}" is not a version, and is not checked'] if text and not _parse(text) else []


def _parse(text: str) -> tuple[int, ...]:
    """Return major, minor and patch; nothing if the text is no version."""
    match = _VERSION(text.strip())
    return tuple(read_count(part or "0", _LARGEST) or 0 for part in match.groups()) if match else ()


def _write(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _unsupported(message: str) -> BundleError:
    return BundleError(Reason.NOT_SUPPORTED, message)
