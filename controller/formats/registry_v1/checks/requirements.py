"""Requirements of a bundle. They are not resolved: those that are not met cause warnings, never failures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from api.plugins import Capabilities
from controller.formats.registry_v1.bundle.bundle import Bundle
from controller.formats.registry_v1.bundle.service_version import Api
from controller.untrusted import mapping

_APIS = frozenset({"olm.gvk", "olm.gvk.required"})
_REQUIRING_PROPERTIES = frozenset({"olm.gvk.required", "olm.package.required", "olm.constraint"})


def find_unmet(bundle: Bundle, capabilities: Capabilities) -> list[str]:
    """Return a warning for each required API that is not served, and one for requirements that are not checked."""
    needed = [
        *bundle.dependencies,
        *(item for item in bundle.properties if item["type"] in _REQUIRING_PROPERTIES),
    ]
    apis = [*bundle.service_version.required_apis, *_apis(needed)]
    unmet = [
        f"bundle requires {_write(api)}, which the cluster does not serve; install its API"
        for api in dict.fromkeys(apis)
        if not _is_served(api, capabilities)
    ]
    unchecked = sorted({item["type"] for item in needed if item["type"] not in _APIS})
    if unchecked:
        unmet.append(
            f"bundle has dependencies that are not checked: {', '.join(unchecked)}; make sure that they are met"
        )
    return unmet


def _apis(needed: list[Mapping[str, Any]]) -> Iterator[Api]:
    for item in needed:
        if item["type"] in _APIS:
            value = mapping(item, "value")
            yield Api(**{key: str(value.get(key) or "") for key in ("group", "version", "kind")})


def _is_served(api: Api, capabilities: Capabilities) -> bool:
    """Whether the kind is served, or may be as soon as its API server is up again; a CSV may omit the version."""
    if api.group in capabilities.unknown:
        return True
    if api.version:
        return (api.group, api.version, api.kind) in capabilities.kinds
    return capabilities.is_namespaced(api.group, api.kind) is not None


def _write(api: Api) -> str:
    return f"{'/'.join(part for part in (api.group, api.version) if part)} {api.kind}"
