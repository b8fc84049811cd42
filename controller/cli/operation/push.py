"""`rukpak push`: a folder becomes the content of a source of kind `configMap`, in immutable ConfigMaps.

ConfigMaps are named by the digest of the folder, so pushing it again changes nothing. Those that the BundleDeployment
does not name any more are deleted: revisions need no content once they are stored.
"""

from __future__ import annotations

import argparse
import base64
from collections.abc import Collection, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from api import names
from controller.cli.command import MisuseError, connect
from controller.cli.deployments.access import MANAGER, Deployments, Manifest
from controller.cli.deployments.waiting import awaits_ready, conclude, wait_if_asked
from controller.cli.packing import pack
from controller.kube.client import ApiError, Client
from controller.kube.resources import CONFIG_MAPS, DEPLOYMENTS
from controller.sources.config_map.source import KEY, MOST_BYTES, Part, split

_DIGITS = 12
"""Of the digest in names."""
_KIND = "configMap"


def main(options: argparse.Namespace) -> int:
    """Push a folder; return the exit status.

    Raises: MisuseError, ApiError, ConfigurationError.
    """
    parts = split(pack(Path(options.folder), MOST_BYTES))
    client = connect(options)
    deployments = Deployments(client)
    value = deployments.get(options.name)
    if value is None:
        raise MisuseError(f'no BundleDeployment "{options.name}"; create it with a source of kind configMap first')
    namespace, index = _namespace_of(value), _index_of(value, options.source)
    pushed = [_create(client, value, namespace, part, data) for part, data in parts]
    before = _named(value)
    value = _point(client, value, index, pushed)
    values, failures = wait_if_asked(options, deployments, awaits_ready, [value])
    is_installed = options.wait and not failures
    _delete_others(client, options.name, namespace, {*pushed, *([] if is_installed else before)})
    return conclude("push", options, values, failures, done=f"pushed {parts[0][0].digest}")


def _namespace_of(value: Manifest) -> str:
    namespace: str = value["spec"].get("installNamespace") or ""
    if not namespace:
        raise MisuseError("spec.installNamespace: required, since ConfigMaps are read there; set it first")
    return namespace


def _index_of(value: Manifest, given: int | None) -> int:
    sources = value["spec"]["sources"]
    if given is not None:
        if not 0 <= given < len(sources):
            raise MisuseError(f"--source: there are only the sources 0 to {len(sources) - 1}")
        return given
    found = [index for index, source in enumerate(sources) if source["kind"] == _KIND]
    if len(found) == 1:
        return found[0]
    problem = "several sources are" if found else "no source is"
    raise MisuseError(f"spec.sources: {problem} of kind configMap; say with --source which one to replace")


def _create(client: Client, value: Manifest, namespace: str, part: Part, data: bytes) -> str:
    """Create the ConfigMap of a part, unless it exists; return its name."""
    metadata = value["metadata"]
    name = f"{metadata['name']}-{part.digest.rpartition(':')[2][:_DIGITS]}-{part.number}"
    about = {"name": metadata["name"], "uid": metadata["uid"]}
    owner = {"apiVersion": DEPLOYMENTS.api_version, "kind": names.KIND, **about}
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {names.CONTENT_LABEL: metadata["name"]},
            "annotations": {names.PART: str(part)},
            "ownerReferences": [owner],  # deleted with the BundleDeployment
        },
        "immutable": True,
        "binaryData": {KEY: base64.b64encode(data).decode()},
    }
    try:
        client.create(CONFIG_MAPS.path(namespace), body, manager=MANAGER)
    except ApiError as error:
        if error.status != HTTPStatus.CONFLICT:
            raise
        _check_existing(client, namespace, name, part)
    return name


def _check_existing(client: Client, namespace: str, name: str, part: Part) -> None:
    found = client.get(CONFIG_MAPS.path(namespace, name), metadata=True).value
    if (found["metadata"].get("annotations") or {}).get(names.PART) != str(part):
        raise MisuseError(f'ConfigMap "{namespace}/{name}" exists with other content; delete it')


def _named(value: Manifest) -> list[str]:
    """Return the ConfigMaps that the sources of a BundleDeployment name."""
    blocks = [source.get(_KIND) or {} for source in value["spec"]["sources"]]
    return [name for block in blocks for name in (block.get("names") or [block.get("name")]) if name]


def _point(client: Client, value: Manifest, index: int, pushed: Collection[str]) -> Manifest:
    """Have a source name these ConfigMaps, unless the source has changed since; return the BundleDeployment."""
    source = value["spec"]["sources"][index]
    kept = {key: source[key] for key in ("destination",) if key in source}
    replaced: Mapping[str, Any] = {"kind": _KIND, **kept, _KIND: {"names": list(pushed)}}
    if replaced == source:
        return value
    operations = [
        {"op": "test", "path": f"/spec/sources/{index}", "value": source},
        {"op": "replace", "path": f"/spec/sources/{index}", "value": replaced},
    ]
    found: Manifest = client.json_patch(
        DEPLOYMENTS.path(name=value["metadata"]["name"]), operations, manager=MANAGER
    ).value
    return found


def _delete_others(client: Client, name: str, namespace: str, kept: Collection[str]) -> None:
    found = client.list(CONFIG_MAPS.path(namespace), label_selector=f"{names.CONTENT_LABEL}={name}", metadata=True)
    for each in [value["metadata"]["name"] for value in found]:
        if each not in kept:
            client.delete(CONFIG_MAPS.path(namespace, each))
