"""`rukpak version`, `plugins`, `check` and `crd`: RukPak on a cluster and on this machine, and what to do about it."""

from __future__ import annotations

import argparse
import base64
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.plugins import PLUGIN_API, Means, ProgramVersion
from rukpak.api.proxies import read_proxies
from rukpak.api.v1alpha2.schema import crd
from rukpak.controller.building.entry_points import check, find_installed, find_programs
from rukpak.controller.cli.command import FAILED, connect, explain
from rukpak.controller.content.limits import one_line, some
from rukpak.controller.formats.helm.format import make_finder
from rukpak.controller.kube.client import Client
from rukpak.controller.kube.configuration import find_context
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.errors import ApiError, ConfigurationError, attempt
from rukpak.controller.kube.resources import GroupVersionKind, Resource
from rukpak.controller.processes.programs import Mechanisms
from rukpak.controller.settings import Settings
from rukpak.controller.untrusted import mapping, mappings
from rukpak.controller.views.access import (
    Deployments,
    Holder,
    NoApiError,
    is_served,
    read_holder,
    read_if_exists,
    server_time,
)
from rukpak.controller.views.texts import dump_as, show, to_table

DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{names.DEFINITION}"
NOT_INSTALLED = "not installed"
UNKNOWN = "unknown"
OLDEST, NEWEST = 34, 36
"""Minor versions of Kubernetes 1 that are supported."""
SKEW_SECONDS = 30.0
"""Difference of clocks above which certificates and tokens begin to be refused."""
INSTALL_API = 'run "rukpak crd | kubectl apply --server-side -f -"'
INSTALL = "rukpak install-controller"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
WORKLOADS = Resource("apps", "v1", "Deployment", "deployments", namespaced=True)
POLICIES = Resource(
    "admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False
)
LABEL = "app.kubernetes.io/name=rukpak"
"""On every object of config/."""
GIT_SECONDS = 10.0


def compare_definitions(served: Mapping[str, Any]) -> str:
    """Return how the CustomResourceDefinition of a cluster differs from that of this program; empty: not at all."""
    theirs, ours = _schemas(served), _schemas(crd())
    there, here = set(_field_paths(theirs)), set(_field_paths(ours))
    parts = []
    if lacks := sorted(here - there):
        parts.append(f"lacks {some(lacks)}")
    if more := sorted(there - here):
        parts.append(f"has {some(more)}, which this release does not know")
    return "; ".join(parts) or ("" if theirs == ours else "validates some fields differently")


def find_loss(served: Mapping[str, Any]) -> str:
    """Return what the CustomResourceDefinition of a cluster has that ours lacks, so that values would lose it.

    Empty: nothing. Stored versions come first, then fields.
    """
    theirs, ours = _schemas(served), _schemas(crd())
    if stored := set((served.get("status") or {}).get("storedVersions") or ()) - ours.keys():
        return f"stored objects of {', '.join(sorted(stored))}"
    return some(sorted(set(_field_paths(theirs)) - set(_field_paths(ours))))


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


def show_version(options: argparse.Namespace) -> int:
    """Print the versions, or why they are not known; return the exit status: 1 if only some parts could be read."""
    client = {
        "version": version("rukpak"),
        "python": platform.python_version(),
        "programs": list_programs(options.helm),
    }
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


def list_programs(helm: str) -> dict[str, str]:
    """Return by format the version of the program that `rukpak run` and `rukpak render` would start for it."""
    with tempfile.TemporaryDirectory(prefix="rukpak-") as scratch:
        settings = Settings(helm=helm, confinement="best-effort")
        found = find_programs(replace(settings.means(), scratch=Path(scratch)))
    return {name: program.version for name, program in found.items() if isinstance(program, ProgramVersion)}


def show_plugins(options: argparse.Namespace) -> int:
    """Print the plug-ins that are installed beside this program; return the exit status: 1 if one is refused."""
    found = [(each, "" if each.is_builtin else check(each)) for each in find_installed()]
    if options.output:
        items = [
            {
                **{name: getattr(each, name) for name in ("type", "name", "package", "version")},
                "pluginAPI": list(each.api),
                "builtin": each.is_builtin,
                "problem": problem,
            }
            for each, problem in found
        ]
        print(dump_as(options.output, {"pluginAPI": PLUGIN_API, "items": items}), end="")
    else:
        rows = [
            (each.type, each.name, f"{each.package} {each.version}", ",".join(each.api) or "-", problem or "ok")
            for each, problem in found
        ]
        print(to_table(("TYPE", "NAME", "PACKAGE", "API", "STATUS"), rows), end="")
    return FAILED if any(problem for _, problem in found) else 0


def _read_cluster(options: argparse.Namespace) -> dict[str, Any]:
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
        return f"{NOT_INSTALLED}; {INSTALL_API}"
    versions = ", ".join(api["versions"])
    if not api["difference"]:
        return f"{versions}, as in the client"
    return f"{versions}; differs from the client: {api['difference']}"


def check_installation(options: argparse.Namespace) -> int:
    """Print the result of each check of the cluster and of this machine; return 1 if one failed, else 0."""
    asked = [*_check_cluster(options)]
    found = {
        "cluster": [each for each in asked if each[0] not in OF_MACHINE],
        "machine": [*(each for each in asked if each[0] in OF_MACHINE), *check_machine(options.helm)],
    }
    if options.output:
        print(dump_as(options.output, {where: [*map(_as_value, checks)] for where, checks in found.items()}), end="")
    else:
        headings = {"cluster": _name_cluster(options), "machine": "This machine, for rukpak run and rukpak render"}
        width = max(len(subject) for checks in found.values() for subject, _ in checks)
        for where, checks in found.items():
            print(one_line(f"{headings[where]}:"))
            for subject, (level, text) in checks:
                print(one_line(f"  {level.value:8} {subject:{width}}  {text}"))
    return FAILED if any(each.level is Level.FAILED for checks in found.values() for _, each in checks) else 0


def _as_value(found: tuple[str, Finding]) -> dict[str, str]:
    subject, (level, text) = found
    return {"check": subject, "level": level.value, "message": text}


def _name_cluster(options: argparse.Namespace) -> str:
    try:
        context = find_context(options.kubeconfig or None, options.context or None)
    except ConfigurationError:  # a check says it
        context = ""
    return f'The cluster of context "{context}"' if context else "The cluster"


def describe_cluster(client: Client, options: argparse.Namespace) -> str:
    """Return the context and the address of the cluster that the options select.

    Raises: ConfigurationError.
    """
    context = find_context(options.kubeconfig or None, options.context or None)
    return f'{f"""context "{context}", """ if context else ""}cluster {client.host}'


def _check_cluster(options: argparse.Namespace) -> Iterator[tuple[str, Finding]]:
    try:
        client = connect(options)
        yield "Kubernetes", check_kubernetes(client)
    except (ApiError, ConfigurationError) as error:
        yield "API server", failed(explain(error))
        return
    yield from check_cluster(client, options.namespace)


def check_cluster(client: Client, namespace: str) -> Iterator[tuple[str, Finding]]:
    """Yield what is found about each part of RukPak on a cluster; `namespace` is that of the controller."""
    for subject, look in CHECKS.items():
        try:
            found = list(look(client, namespace))
        except NoApiError:  # "API" says it
            found = []
        except ApiError as error:  # a question that the user may not ask is no failure
            found = [Finding(Level.UNKNOWN, f"cannot be checked: {error.tell_user()}")]
        yield from ((subject, each) for each in found)


class Level(Enum):
    """How a part is."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    """RukPak does not work without its remedy."""
    UNKNOWN = "unknown"
    """The user may not ask."""


class Finding(NamedTuple):
    """What a check found about a part, and what to do if it is not in order."""

    level: Level
    text: str


ok, warning, failed = (partial(Finding, level) for level in (Level.OK, Level.WARNING, Level.FAILED))
Check = Callable[[Client, str], Iterator[Finding]]
"""Checks a part of a cluster; it gets the client and the namespace of the controller, and may raise ApiError."""


@dataclass(frozen=True, slots=True)
class Right:
    """A permission that the controller needs."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    """Empty: in all namespaces. `.`: in that of the controller."""

    def __str__(self) -> str:
        """Return `patch bundledeployments.core.rukpak.io`."""
        group = f".{self.group}" if self.group else ""
        return f"{self.verb} {self.resource}{group}{f'/{self.subresource}' if self.subresource else ''}"


RIGHTS = (
    *(Right(verb, names.GROUP, names.PLURAL) for verb in ("list", "watch", "patch")),
    Right("patch", names.GROUP, names.PLURAL, "status"),
    *(Right(verb, "", "secrets", namespace=".") for verb in ("get", "list", "create", "patch", "delete")),
    *(Right(verb, "coordination.k8s.io", "leases", namespace=".") for verb in ("get", "create", "update")),
    *(Right(verb, "events.k8s.io", "events", namespace="default") for verb in ("create", "patch")),
    *(Right(verb, "apiextensions.k8s.io", "customresourcedefinitions") for verb in ("list", "watch")),
    *(Right(verb, "", "namespaces") for verb in ("get", "list", "watch")),
)
"""What the controller needs, whatever it installs (config/rbac, config/restricted)."""


def check_kubernetes(client: Client) -> Finding:
    """Return whether the version of Kubernetes is supported.

    Raises: ApiError.
    """
    found = Discovery(client).version()
    major, _, rest = found.removeprefix("v").partition(".")
    minor = rest.partition(".")[0]
    is_tested = major == "1" and minor.isdecimal() and OLDEST <= int(minor) <= NEWEST
    text = f"{found} at {client.host}"
    return ok(text) if is_tested else warning(f"{text}; supported are 1.{OLDEST} to 1.{NEWEST}")


def _check_api(client: Client, _namespace: str) -> Iterator[Finding]:
    reply = read_if_exists(client, DEFINITION)
    if reply is None:
        yield failed(f"CustomResourceDefinition not installed; {INSTALL_API}")
        return
    difference = compare_definitions(reply.value)
    conditions = {each["type"]: each["status"] for each in (reply.value.get("status") or {}).get("conditions") or []}
    if conditions.get("Established") != "True":
        yield failed("CustomResourceDefinition not established; see its conditions")
    elif difference:
        yield warning(f"CustomResourceDefinition of another release: {difference}; {INSTALL_API}")
    else:
        yield ok(f"CustomResourceDefinition of release {version('rukpak')}")


def _check_controller(client: Client, namespace: str) -> Iterator[Finding]:
    holder = read_holder(client, namespace)
    where = f'Lease "{namespace}/{names.LEASE}"'
    if holder is None:
        yield failed(f'{where}: no controller holds it; run "rukpak run" or "{INSTALL}"')
    elif not holder.is_running:
        yield failed(f'{where}: "{holder.host}" stopped renewing it; see its log, or start another one')
    else:
        yield ok(f'release {holder.version or "unknown"} on "{holder.host}"')
        if holder.version not in ("", version("rukpak")):
            yield warning(f"release {holder.version}, but this program is {version('rukpak')}; use the same")


def _check_clock(client: Client, _namespace: str) -> Iterator[Finding]:
    seconds = (datetime.now(UTC) - server_time(client.get("/version"))).total_seconds()
    if abs(seconds) > SKEW_SECONDS:
        word = "ahead of" if seconds > 0 else "behind"
        yield warning(f"this machine is more than {SKEW_SECONDS:.0f} s {word} the API server; synchronize both")
    else:
        yield ok("same time here and on the API server")


def _check_rights(client: Client, namespace: str) -> Iterator[Finding]:
    account = _account(client, namespace)
    if not account:
        yield ok(f'no Deployment of the controller in namespace "{namespace}": it has those of its user')
        return
    lacking = [str(right) for right in RIGHTS if not _is_allowed(client, account, right, namespace)]
    if lacking:
        remedy = f'run "{INSTALL}" again, or apply config/rbac'
        yield failed(f"ServiceAccount {account} lacks: {', '.join(lacking)}; {remedy}")
    else:
        yield ok(f"ServiceAccount {account} has those that the controller needs")


def _account(client: Client, namespace: str) -> str:
    found = next(client.list(WORKLOADS.path(namespace), label_selector=LABEL), None)
    return f"{namespace}/{found['spec']['template']['spec'].get('serviceAccountName') or 'default'}" if found else ""


def _is_allowed(client: Client, account: str, right: Right, namespace: str) -> bool:
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "resource": right.resource,
        "subresource": right.subresource,
        "namespace": namespace if right.namespace == "." else right.namespace,
        "name": names.LEASE if right.resource == "leases" and right.verb != "create" else "",
    }
    user = f"system:serviceaccount:{account.replace('/', ':')}"
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{account.partition('/')[0]}", "system:authenticated"]
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": groups, "resourceAttributes": attributes},
    }
    return bool(mapping(client.create(REVIEWS, body).value, "status").get("allowed"))


def _check_watched(client: Client, namespace: str) -> Iterator[Finding]:
    values = Deployments(client).all()
    kinds = sorted({kind for value in values for kind in (value.get("status") or {}).get("managedKinds") or []})
    yield ok(f"{len(kinds)} kinds for {len(values)} BundleDeployments")
    account, discovery = _account(client, namespace), Discovery(client)
    resources = [(kind, discovery.resource(GroupVersionKind.parse(kind))) for kind in kinds]
    if missing := [kind for kind, resource in resources if resource is None]:
        yield warning(f"not served by the cluster: {', '.join(missing)}; install their API, or wait for it")
    denied = [kind for kind, found in resources if found and account and not _may_watch(client, account, found)]
    if denied:
        remedy = "grant list and watch to have it detected (config/README.md, Tenants)"
        yield warning(f"drift is not detected of {', '.join(denied)}; {remedy}")


def _may_watch(client: Client, account: str, resource: Resource) -> bool:
    rights = (Right(verb, resource.group, resource.plural) for verb in ("list", "watch"))
    return all(_is_allowed(client, account, right, "") for right in rights)


def _check_states(client: Client, _namespace: str) -> Iterator[Finding]:
    stalled = [value["metadata"]["name"] for value in Deployments(client).all() if _is_stalled(value)]
    if stalled:
        yield warning(f'stalled: {some(stalled)}; "rukpak status {stalled[0]}" says why')


def _check_shards(client: Client, namespace: str) -> Iterator[Finding]:
    by_shard: dict[str, list[str]] = {}
    for value in Deployments(client).all(names.SHARD):
        by_shard.setdefault(value["metadata"]["labels"][names.SHARD], []).append(value["metadata"]["name"])
    for shard, deployments in sorted(by_shard.items()):
        count = f"{len(deployments)} BundleDeployments"
        if is_served(client, namespace, shard):
            yield ok(f'a controller serves the shard "{shard}" with {count}')
        else:
            remedy = f"start one with --shard, or change the label {names.SHARD}"
            shown = some(deployments)
            yield failed(f'no controller serves the shard "{shard}" of {count} ({shown}); {remedy}')


def _is_stalled(value: Mapping[str, Any]) -> bool:
    conditions = mappings(value, "status", "conditions")
    return any(each.get("type") == "Stalled" and each.get("status") == "True" for each in conditions)


def _check_policies(client: Client, _namespace: str) -> Iterator[Finding]:
    found = [item["metadata"]["name"] for item in client.list(POLICIES.path(), metadata=True, label_selector=LABEL)]
    if found:
        yield ok(", ".join(sorted(found)))
    else:
        remedy = "grant rukpak-editor to administrators only, or apply config/policy"
        yield warning(f"none: whoever can write BundleDeployments can install anything; {remedy}")


def _check_proxy(client: Client, namespace: str) -> Iterator[Finding]:
    path = f"/api/v1/namespaces/{namespace}/secrets/{names.PROXY}"
    found = attempt(partial(read_if_exists, client, path), HTTPStatus.FORBIDDEN)
    if found is None:
        return
    data = {key: base64.b64decode(value).decode() for key, value in (found.value.get("data") or {}).items()}
    remedy = f'correct it with "{INSTALL} --https-proxy"'
    yield from describe_proxies(data, f'Secret "{namespace}/{names.PROXY}": ', failed, remedy)


def describe_proxies(
    environment: Mapping[str, str], where: str, level: Callable[[str], Finding], remedy: str
) -> Iterator[Finding]:
    """Yield which proxies an environment names, without their credentials; or what is wrong, at this level."""
    try:
        proxies = read_proxies(environment)
    except ValueError as error:
        yield level(f"{where}{error}; {remedy}")
        return
    for scheme, proxy in (("https", proxies.https), ("http", proxies.http)):
        if proxy:
            yield ok(f"{where}sources over {scheme} are read through {proxy.authority}")


CHECKS: Mapping[str, Check] = {
    "API": _check_api,
    "controller": _check_controller,
    "shards": _check_shards,
    "clock": _check_clock,
    "permissions": _check_rights,
    "policies": _check_policies,
    "proxy": _check_proxy,
    "watched": _check_watched,
    "BundleDeployments": _check_states,
}


OF_MACHINE = frozenset({"clock"})
"""Checks of a cluster that say something about this machine."""


def check_machine(helm: str) -> Iterator[tuple[str, Finding]]:
    """Yield what was found about the programs of this machine; `helm` is the option --helm."""
    yield "helm", _check_helm(helm)
    yield "git", _check_git()
    yield from (("proxy", found) for found in describe_proxies(os.environ, "", warning, "correct it"))
    found = Mechanisms.found()
    if lack := found.lack():
        yield "confinement", warning(f"{lack}; use another kernel, or --confinement=best-effort")
    else:
        yield "confinement", ok(", ".join(found.described().values()))


def _check_helm(named: str) -> Finding:
    with tempfile.TemporaryDirectory(prefix="rukpak-") as scratch:
        programs = {"helm": named} if named else {}
        means = Means(programs=programs, confinement_required=False, scratch=Path(scratch))
        try:
            program = make_finder().find(means, "spec.format")
        except BundleError as error:
            return warning(error.problem)
    return ok(f"{program.version} ({program.path})")


def _check_git() -> Finding:
    path = shutil.which("git")
    if path is None:
        return warning("no git on PATH; install it")
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=GIT_SECONDS, check=False)
        said = done.stdout.partition("\n")[0].removeprefix("git version ")
    except (OSError, subprocess.TimeoutExpired):
        said = ""
    return ok(f"{said or 'unknown version'} ({path})")


def show_definition(options: argparse.Namespace) -> int:
    """Print the CustomResourceDefinition; return the exit status."""
    print(show([crd()], options.output), end="")
    return 0
