"""A BundleDeployment in a file: validated without an API server, and which Secrets it names, for whom.

Not here: the question whether they may be used (render.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.reading import describe, problems_of
from rukpak.api.v1alpha2.schema import open_api_schema
from rukpak.api.v1alpha2.types import BundleDeployment, Source
from rukpak.controller.building.config_values import find_secrets
from rukpak.controller.formats.manifests import read_documents
from rukpak.controller.sources.git.connection import parse_repository
from rukpak.controller.sources.hosts import parse_address
from rukpak.controller.sources.image.reference import chart_reference, find_endpoint, parse_reference

_API_VERSION = f"{names.GROUP}/v1alpha2"


def read(value: Mapping[str, Any], origin: str) -> BundleDeployment:
    """Return a BundleDeployment, validated as the API server would.

    Args:
        value: as it is written.
        origin: of it, which starts messages.

    Raises: BundleError (InvalidConfig).
    """
    problems = [*_unknown(open_api_schema()["properties"]["spec"], value["spec"], "spec")]
    try:
        deployment = BundleDeployment.model_validate(value)
    except ValidationError as error:
        problems += map(describe, problems_of(error))
    if problems:
        raise BundleError(Reason.INVALID_CONFIG, "\n".join(f"{origin}: {problem}" for problem in problems))
    return deployment


def find(data: bytes, file: str) -> dict[str, Any]:
    """Return the BundleDeployment of a file as it is written there, unchecked.

    Raises: BundleError (InvalidBundle: not YAML; InvalidConfig: not exactly one).
    """
    values = [each.value for each in read_documents(data, file) if isinstance(each.value, dict)]
    found = [each for each in values if (each.get("apiVersion"), each.get("kind")) == (_API_VERSION, names.KIND)]
    if len(found) != 1:
        text = f"{file}: contains {len(found)} objects of kind {_API_VERSION} {names.KIND}; must contain one"
        raise BundleError(Reason.INVALID_CONFIG, text)
    return found[0]


def _unknown(schema: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown(schema.get("items") or {}, item, f"{path}[{index}]")
    properties = schema.get("properties")
    if not isinstance(value, dict) or properties is None:
        return
    for key, member in value.items():
        if key in properties:
            yield from _unknown(properties[key], member, f"{path}.{key}")
        elif not schema.get("x-kubernetes-preserve-unknown-fields"):
            yield f'{path}.{key}: unknown field; see "kubectl explain bd.spec"'


SecretUse = tuple[str, str]
"""A Secret that one source uses, and the server that receives it, as shown to the user."""


def find_secret_uses(deployment: BundleDeployment, mirrors: Mapping[str, str]) -> list[SecretUse]:
    """Return which Secrets the sources of a validated BundleDeployment use, in spec order; mirrors are by host."""
    sent = [(secret, _server_of(source, mirrors)) for source, secret in _secrets(deployment)]
    own = f'Secret "{deployment.spec.install_namespace}/'
    config = [each.name for each in deployment.spec.config_from if each.kind == "Secret"]
    printed = [(f'{own}{name}"', "none: its values are in the output") for name in config]
    used = [(f'{own}{name}"', "none: a processor uses it") for _, name in find_secrets(deployment.spec)]
    return list(dict.fromkeys([*sent, *printed, *used]))


def _secrets(deployment: BundleDeployment) -> Iterator[tuple[Source, str]]:
    spec = deployment.spec
    for source in spec.sources:
        if source.secret:
            namespace = source.secret.namespace or spec.install_namespace or ""
            yield source, f'Secret "{namespace}/{source.secret.name}"'
        elif source.is_in_registry and spec.service_account_name:
            yield source, f'pull Secrets of ServiceAccount "{spec.install_namespace}/{spec.service_account_name}"'


def _server_of(source: Source, mirrors: Mapping[str, str]) -> str:
    if source.image:
        host = find_endpoint(parse_reference(source.image.ref), mirrors).host
    elif source.git:
        host = parse_repository(source.git.repository).authority
    elif source.http:
        host = parse_address(source.http.url).authority
    elif source.chart and source.chart.is_in_registry:
        host = find_endpoint(chart_reference(source.chart.repository, source.chart.name), mirrors).host
    elif source.chart:
        host = parse_address(source.chart.repository).authority
    else:
        return f'chosen by plug-in "{source.kind}"'
    # Look-alike letters would disguise the server.
    return host.encode("ascii", "backslashreplace").decode()
