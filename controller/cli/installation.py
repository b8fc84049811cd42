"""RukPak itself on a cluster: the API, and the controllers that act; and `rukpak version`."""

from __future__ import annotations

import argparse
import platform
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import Any

from api import names
from api.plugins import ProgramVersion
from api.v1alpha2.schema import crd
from controller.build.plugins import find_programs
from controller.cli.command import FAILED, attempt, connect, explain, tell
from controller.cli.deployments import Manifest
from controller.cli.output import dump_as, one_line
from controller.kube.client import Client, Response
from controller.kube.discovery import Discovery
from controller.kube.errors import ApiError, ConfigurationError
from controller.kube.lease import LEASES
from controller.kube.shard import DEFAULT_SHARD, Shard, is_shard_name
from controller.settings import Settings

DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{names.DEFINITION}"
MOST_FIELDS = 5
"""Fields that a message names."""
SHOWN_NAMES = 5
NOT_INSTALLED = "not installed"
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The controller that holds the Lease."""

    identity: str
    version: str
    """Empty: unknown, since an older release does not record it."""
    seconds: float
    """Since it renewed the Lease, by the clocks of the cluster and of the controller."""
    duration: float
    """Seconds after which a silent controller has lost the Lease."""

    @property
    def host(self) -> str:
        """The pod or machine that it runs on."""
        return self.identity.rpartition("_")[0] or self.identity

    @property
    def is_running(self) -> bool:
        """Whether it has renewed the Lease in time."""
        return self.seconds <= self.duration


def read_if_exists(client: Client, path: str) -> Response | None:
    """Return the reply with an object; None if it does not exist.

    Raises: ApiError.
    """
    return attempt(lambda: client.get(path), HTTPStatus.NOT_FOUND)


def read_holder(client: Client, namespace: str, shard: Shard = DEFAULT_SHARD) -> Holder | None:
    """Return the controller that holds the Lease of a shard in a namespace; None: nobody does.

    Raises: ApiError.
    """
    reply = read_if_exists(client, LEASES.path(namespace, shard.lease))
    spec: Mapping[str, Any] = (reply.value.get("spec") or {}) if reply else {}
    if reply is None or not spec.get("holderIdentity"):
        return None
    renewed = datetime.fromisoformat(str(spec.get("renewTime") or "1970-01-01T00:00:00Z"))
    return Holder(
        identity=str(spec["holderIdentity"]),
        version=str((reply.value["metadata"].get("annotations") or {}).get(names.VERSION) or ""),
        seconds=(server_time(reply) - renewed).total_seconds(),
        duration=float(spec.get("leaseDurationSeconds") or 0),
    )


def server_time(reply: Response) -> datetime:
    """Return when the API server sent a reply, to the second; the time of this machine if it does not say."""
    try:
        return parsedate_to_datetime(reply.headers.get("Date", ""))
    except ValueError:
        return datetime.now(UTC)


def compare_definitions(served: Mapping[str, Any]) -> str:
    """Return how the CustomResourceDefinition of a cluster differs from that of this program; empty: not at all."""
    theirs, ours = _schemas(served), _schemas(crd())
    there, here = set(_field_paths(theirs)), set(_field_paths(ours))
    parts = []
    if lacks := sorted(here - there):
        parts.append(f"lacks {_list_fields(lacks)}")
    if more := sorted(there - here):
        parts.append(f"has {_list_fields(more)}, which this release does not know")
    return "; ".join(parts) or ("" if theirs == ours else "validates some fields differently")


def _schemas(definition: Mapping[str, Any]) -> dict[str, Any]:
    versions = definition["spec"]["versions"]
    return {str(each["name"]): (each.get("schema") or {}).get("openAPIV3Schema") or {} for each in versions}


def _field_paths(schemas: Mapping[str, Any]) -> Iterator[str]:
    for schema in schemas.values():
        yield from _properties(schema, "")


def _properties(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    for key, member in (schema.get("properties") or {}).items():
        yield f"{path}{key}"
        yield from _properties(member, f"{path}{key}.")
    if isinstance(schema.get("items"), Mapping):
        yield from _properties(schema["items"], path.rstrip(".") + "[].")


def _list_fields(fields: list[str]) -> str:
    more = f" and {len(fields) - MOST_FIELDS} more" if len(fields) > MOST_FIELDS else ""
    return ", ".join(fields[:MOST_FIELDS]) + more


def tell_unserved(verb: str, client: Client, namespace: str, values: Iterable[Manifest]) -> None:
    """Print on stderr on which BundleDeployments no controller acts, and what to do.

    Nothing is printed about those of the default shard that were observed, so that no Lease is read for them, or if
    the user may not read Leases.

    Args:
        verb: of the command line.
        client: of the cluster.
        namespace: of the controller.
        values: the BundleDeployments.

    Raises: ApiError.
    """
    found: dict[tuple[str, bool], list[str]] = {}
    for value in values:
        metadata, status = value["metadata"], value.get("status") or {}
        shard = (metadata.get("labels") or {}).get(names.SHARD)
        if shard is not None or status.get("observedGeneration") != metadata.get("generation"):
            is_stood_in = bool(shard and status.get("conditions") and not status.get("shard"))
            found.setdefault((shard or "", is_stood_in), []).append(metadata["name"])
    for (shard, is_stood_in), deployments in sorted(found.items()):
        if not is_served(client, namespace, shard):
            meanwhile = "; meanwhile the default shard acts" if is_stood_in else ""
            tell(f"rukpak {verb}: {list_first(deployments)}: {_explain_unserved(shard)}{meanwhile}")


def list_first(deployments: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(deployments) - SHOWN_NAMES} more" if len(deployments) > SHOWN_NAMES else ""
    return f"{', '.join(deployments[:SHOWN_NAMES])}{more}"


def _explain_unserved(shard: str) -> str:
    if not shard:
        return 'no controller acts; "rukpak check" says what is missing'
    remedy = f'start one with "--shard {shard}"' if is_shard_name(shard) else "that cannot be the name of one"
    return f'no controller serves the shard "{shard}"; {remedy}, or change the label {names.SHARD}'


def is_served(client: Client, namespace: str, shard: str) -> bool:
    """Return whether a controller serves a shard, empty: the default one; true if the user may not know.

    Raises: ApiError.
    """
    if shard and not is_shard_name(shard):
        return False
    try:
        holder = read_holder(client, namespace, Shard(shard))
    except ApiError as error:
        if error.status == HTTPStatus.FORBIDDEN:
            return True
        raise
    return holder is not None and holder.is_running


def show_version(options: argparse.Namespace) -> int:
    """Print the versions, or why they are not known; return the exit status: 1 if only some parts could be read."""
    client = {"version": version("rukpak"), "python": platform.python_version(), "programs": _programs(options.helm)}
    found: dict[str, Any] = {"client": client}
    if not options.client:
        found |= _read_cluster(options)
    if options.output:
        print(dump_as(options.output, found), end="")
    else:
        for line in _lines(found):
            print(one_line(line))
    errors = ["error" in part for name, part in found.items() if name != "client"]
    return FAILED if any(errors) and not all(errors) else 0


def _programs(helm: str) -> dict[str, str]:
    """Return by format the version of the program that `rukpak run` and `rukpak render` would start for it."""
    with tempfile.TemporaryDirectory(prefix="rukpak-") as scratch:
        settings = Settings(helm=helm, confinement="best-effort")
        found = find_programs(replace(settings.means(), scratch=Path(scratch)))
    return {name: program.version for name, program in found.items() if isinstance(program, ProgramVersion)}


def _read_cluster(options: argparse.Namespace) -> dict[str, Any]:
    """Return what is found in the cluster; parts that cannot be read have only an `error`."""
    try:
        client = connect(options)
    except ConfigurationError as error:
        return {part: {"error": explain(error)} for part in ("controller", "api", "kubernetes")}
    return {
        "controller": _guard(lambda: _describe(read_holder(client, options.namespace))),
        "api": _guard(lambda: _read_api(client)),
        "kubernetes": _guard(lambda: {"version": Discovery(client).version()}),
    }


def _guard(read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return read()
    except ApiError as error:
        return {"error": explain(error)}


def _read_api(client: Client) -> dict[str, Any]:
    definition = read_if_exists(client, DEFINITION)
    if definition is None:
        return {"installed": False, "versions": [], "difference": ""}
    versions = [each["name"] for each in definition.value["spec"]["versions"] if each.get("served")]
    return {"installed": True, "versions": versions, "difference": compare_definitions(definition.value)}


def _describe(holder: Holder | None) -> dict[str, Any]:
    if holder is None:
        return {"running": False, "version": "", "host": ""}
    return {"running": holder.is_running, "version": holder.version or UNKNOWN, "host": holder.host}


def _lines(found: dict[str, Any]) -> Iterator[str]:
    client = found["client"]
    programs = "".join(f", {name} {found}" for name, found in client["programs"].items())
    yield f"Client:      {client['version']} (Python {client['python']}{programs})"
    if "controller" in found:
        yield f"Controller:  {_show(found['controller'], lambda part: _controller(part, client['version']))}"
        yield f"API:         {_show(found['api'], _api)}"
        yield f"Kubernetes:  {_show(found['kubernetes'], lambda part: str(part['version']))}"


def _show(part: dict[str, Any], show: Callable[[dict[str, Any]], str]) -> str:
    return f"unknown: {part['error']}" if "error" in part else show(part)


def _controller(controller: dict[str, Any], own: str) -> str:
    if not controller["running"]:
        return 'not running; "rukpak check" says what to do'
    differs = "" if controller["version"] in (own, UNKNOWN) else f", which is not that of the client ({own})"
    return f'{controller["version"]} on "{controller["host"]}"{differs}'


def _api(api: dict[str, Any]) -> str:
    if not api["installed"]:
        return f'{NOT_INSTALLED}; run "rukpak crd | kubectl apply --server-side -f -"'
    versions = ", ".join(api["versions"])
    if not api["difference"]:
        return f"{versions}, as in the client"
    return f"{versions}; differs from the client: {api['difference']}"
