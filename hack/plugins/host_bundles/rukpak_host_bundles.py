"""The format hosts.rukpak.io/v1: a bundle that is installed on hosts, by scripts that run as root or by systemd-sysext.

The bundle is checked here, so that nothing of a wrong one reaches a host: `host-bundle.yaml`, the variables, the digest
of the content. Rendered are the content in immutable ConfigMaps, and a DaemonSet whose agents install it. They order
themselves by a Lease, since a DaemonSet orders no first installation, and stops at nodes that are gone.

Not here: what is done on a host (rukpak_hosts_agent.py), and whose turn it is (rukpak_hosts_turns.py). Both are
rendered into a ConfigMap as they are, so that they fit whatever rendered them.
"""

from __future__ import annotations

import base64
import io
import json
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rukpak.plugins import (
    KIBIBYTE,
    MEBIBYTE,
    BundleError,
    Capabilities,
    ContentTree,
    Hook,
    Means,
    Reason,
    Rendering,
    RenderRequest,
    TextBudget,
    digest_of,
    name_key,
    quote,
    read_documents,
)
from rukpak_hosts_agent import HostError, digest_of_folder

API_VERSION, KIND = "hosts.rukpak.io/v1", "HostBundle"
MANIFEST, INSTALL, UNINSTALL, SYSEXT = "host-bundle.yaml", "install.sh", "uninstall.sh", "sysext"
SCRIPTS, EXTENSION = "Scripts", "Sysext"
PART_BYTES = 512 * KIBIBYTE
"""Of the archive, in one ConfigMap: base64 and metadata remain well below the 1 MiB of Kubernetes."""
CONTENT_BYTES = 4 * MEBIBYTE
"""Of the archive, in ConfigMaps: each revision is stored, too."""
_MODULES = ("rukpak_hosts_agent.py", "rukpak_hosts_turns.py")
_MANIFEST_BYTES = 64 * KIBIBYTE  # it is read in each pass, for the namespace
_SECONDS = 600
_MOST_SECONDS, _MOST_NODES = 3600, 100
_DRAIN_SECONDS, _MOST_DRAIN_SECONDS = 600, 24 * 3600
_GRACE_SECONDS = 60  # beside the time limit of a script that is running when a pod is to end
_IMAGE_VOLUMES_SINCE = 35  # minor version of Kubernetes that has them without a feature gate

_CONFIG = "spec.config"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
_VERSION = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9._+~]{0,61}[A-Za-z0-9])?")
_ARCHITECTURE = re.compile(r"[a-z0-9]{1,16}")
_RELEASE_ID = re.compile(r"[a-z0-9._-]{1,64}")  # ID and VERSION_ID of os-release(5)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_RESERVED = re.compile(r"HOST_BUNDLE_.*|PATH|LD_.*|BASH_ENV|ENV|IFS|SHELLOPTS|BASHOPTS|PS4")
"""Variables that the agent sets, or that change which programs a script runs."""
_IMAGE = re.compile(r"[a-z0-9]+(?:[._/:-]+[a-z0-9]+)*(?::[\w][\w.-]{0,127})?(?:@sha256:[0-9a-f]{64})?", re.ASCII)
_LABEL_KEY = re.compile(r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class HostBundlesFormat:
    """Renders a bundle for hosts. Thread-safe."""

    def validate(self, config: Mapping[str, Any]) -> list[str]:
        """Return the problems of `spec.config`."""
        problems = list(_check_fields(config, _CONFIG_FIELDS, _CONFIG))
        if "image" not in config:
            problems.append(f"{_CONFIG}.image: missing; name an image with Python by digest, such as the one of RukPak")
        elif not problems and config.get("allowUnverified") is not True and "@" not in config["image"]:
            problems.append(f'{_CONFIG}.image: must have a digest: add "@sha256:…", or set allowUnverified')
        return problems

    def suggest_namespace(self, tree: ContentTree, config: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Return the name of the bundle, or "default" for one that rendering refuses."""
        try:
            return read_bundle(tree, TextBudget.of(Means())).name
        except BundleError:
            return "default"

    def render(self, request: RenderRequest) -> Rendering:
        """Return the content, the agents, and the hook that removes the bundle from hosts.

        Raises: BundleError (NoContent without `host-bundle.yaml`; InvalidBundle; InvalidConfig for variables, and for
            a digest that is another; NotSupported; RenderLimitExceeded), LargeTextError.
        """
        tree, config = request.tree, request.config
        bundle = read_bundle(tree, TextBudget.of(request.means))
        content = _check_trust(_digest_of(tree), request)
        plan = make_plan(bundle, config, content, owner=f"{request.install_namespace}/{request.name}")
        objects = _Objects(request, plan)
        if config.get("imageVolume"):
            _check_image_volumes(request.capabilities)
            parts = []
        else:
            parts = list(objects.parts(_pack(tree.root, TextBudget.of(request.means))))
        agent = objects.agent()
        is_undone = bundle.type == EXTENSION or (tree.root / UNINSTALL).is_file()
        return Rendering(
            objects=[*objects.access(), *parts, agent, objects.daemon_set(agent, parts)],
            hooks=[Hook(manifest=objects.removal(agent), events=("pre-delete",))] if is_undone else [],
            warnings=[] if is_undone else [f"without {UNINSTALL}, deleting it leaves on hosts what it has installed"],
            namespace={"labels": {"pod-security.kubernetes.io/enforce": "privileged"}},
        )


# the fields of spec.config and of host-bundle.yaml


Check = Callable[[Any, str], Iterator[str]]
"""Yields the problems of a value, each starting with the path."""


def _check_fields(value: Any, fields: Mapping[str, Check], path: str) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"{path}: must be a mapping with {_list(fields)}"
        return
    for key in sorted(value):
        place = name_key(path, key).removeprefix(".")
        if key in fields:
            yield from fields[key](value[key], place)
        else:
            yield f"{place}: unknown key; it can be {_list(fields)}"


def _list(names: Sequence[str] | Mapping[str, Any]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


def _text(pattern: re.Pattern[str], what: str) -> Check:
    def check(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, str):
            yield f"{path}: must be a string, {what}"
        elif not pattern.fullmatch(value):
            yield f"{path}: {quote(value)} is not {what}; correct it"

    return check


def _one_of(*choices: str) -> Check:
    def check(value: Any, path: str) -> Iterator[str]:
        if value not in choices:
            yield f"{path}: must be {_list(choices)}"

    return check


def _boolean(value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, bool):
        yield f"{path}: must be true or false"


def _number(least: int, most: int) -> Check:
    def check(value: Any, path: str) -> Iterator[str]:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            yield f"{path}: must be a number from {least} to {most}"

    return check


def _each(check_item: Check, what: str) -> Check:
    def check(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, list) or not value:
            yield f"{path}: must be a list of {what} that is not empty"
            return
        for index, item in enumerate(value):
            yield from check_item(item, f"{path}[{index}]")

    return check


def _entries(pattern: re.Pattern[str], check_value: Check, what: str) -> Check:
    def check(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, Mapping):
            yield f"{path}: must be a mapping of {what}"
            return
        for key in sorted(value):
            if not pattern.fullmatch(key):
                yield f"{name_key(path, key)}: not the name of one of {what}; correct it"
            else:
                yield from check_value(value[key], name_key(path, key))

    return check


def _scalar(value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, str | int):
        yield f"{path}: must be a string, a whole number, true or false"
    elif isinstance(value, str) and "\0" in value:
        yield f"{path}: contains a NUL character; remove it"


def _toleration(value: Any, path: str) -> Iterator[str]:
    yield from _check_fields(
        value,
        {
            "key": _text(_LABEL_KEY, "the key of a taint"),
            "operator": _one_of("Exists", "Equal"),
            "value": _text(_LABEL_VALUE, "the value of a taint"),
            "effect": _one_of("NoSchedule", "PreferNoSchedule", "NoExecute"),
        },
        path,
    )


def _image(value: Any, path: str) -> Iterator[str]:
    yield from _text(_IMAGE, "an image, such as quay.io/example/rukpak@sha256:…")(value, path)


def _image_volume(value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, str) or not _IMAGE.fullmatch(value) or "@" not in value:
        yield f"{path}: must be an image with a digest, quay.io/example/bundle@sha256:…"


def _drain(value: Any, path: str) -> Iterator[str]:
    yield from _check_fields(value, {"timeoutSeconds": _number(1, _MOST_DRAIN_SECONDS), "force": _boolean}, path)


_CONFIG_FIELDS: Mapping[str, Check] = {
    "image": _image,
    "digest": _text(_DIGEST, "a digest, sha256:…"),
    "allowUnverified": _boolean,
    "imageVolume": _image_volume,
    "nodeSelector": _entries(_LABEL_KEY, _text(_LABEL_VALUE, "the value of a label"), "labels of nodes"),
    "tolerations": _each(_toleration, "tolerations"),
    "maxUnavailable": _number(1, _MOST_NODES),
    "maxFailures": _number(1, _MOST_NODES),
    "drain": _drain,
    "env": _entries(_VARIABLE, _scalar, "variables"),
    "allowReboot": _boolean,
}


def _host(value: Any, path: str) -> Iterator[str]:
    release = _text(_RELEASE_ID, "as in os-release")
    yield from _check_fields(value, {"id": release, "versionIDs": _each(release, "strings")}, path)
    if isinstance(value, Mapping) and "id" not in value:
        yield f"{path}.id: missing; write the ID of os-release"


_TYPES = {"string": str, "integer": int, "boolean": bool}


def _variable(value: Any, path: str) -> Iterator[str]:
    yield from _check_fields(
        value, {"type": _one_of(*_TYPES), "default": _scalar, "description": _text(re.compile(r".*"), "one line")}, path
    )
    if isinstance(value, Mapping):
        kind = value.get("type")
        if "type" not in value:
            yield f"{path}.type: missing; it is {_list(_TYPES)}"
        elif isinstance(kind, str) and kind in _TYPES and "default" in value and not _has_type(value["default"], kind):
            yield f"{path}.default: must be of the type {kind}"


def _has_type(value: Any, kind: str) -> bool:
    return type(value) is _TYPES[kind]


def _variables(value: Any, path: str) -> Iterator[str]:
    yield from _entries(_VARIABLE, _variable, "variables")(value, path)
    for name in sorted(value) if isinstance(value, Mapping) else ():
        if _RESERVED.fullmatch(name):
            yield f"{name_key(path, name)}: reserved for the agent and the shell; use another name"


_BUNDLE_FIELDS: Mapping[str, Check] = {
    "apiVersion": _one_of(API_VERSION),
    "kind": _one_of(KIND),
    "name": _text(_NAME, 'lower-case letters, digits and "-", at most 40'),
    "version": _text(_VERSION, 'letters, digits and ".-_+~", at most 63'),
    "type": _one_of(SCRIPTS, EXTENSION),
    "hosts": _each(_host, "hosts"),
    "architectures": _each(_text(_ARCHITECTURE, "an architecture, such as amd64"), "architectures"),
    "env": _variables,
    "timeoutSeconds": _number(1, _MOST_SECONDS),
    "reboot": _one_of("Never", "OnRequest", "Always"),
}
_REQUIRED = ("apiVersion", "kind", "name", "version", "hosts", "architectures")


# the content


class Bundle(NamedTuple):
    """What `host-bundle.yaml` says, checked."""

    name: str
    version: str
    type: str
    hosts: list[dict[str, Any]]
    architectures: list[str]
    env: dict[str, dict[str, Any]]
    timeout_seconds: int
    reboot: str


def read_bundle(tree: ContentTree, budget: TextBudget) -> Bundle:
    """Return what the bundle is.

    Raises: BundleError (NoContent, InvalidBundle, RenderLimitExceeded), LargeTextError.
    """
    path = tree.root / MANIFEST
    if not path.is_file():
        problem = f"the content has no {MANIFEST} at its root; add it, or correct the destination of the source"
        raise BundleError(Reason.NO_CONTENT, f"{problem}{tree.describe_refused()}")
    if path.stat().st_size > _MANIFEST_BYTES:
        problem = f"larger than {_MANIFEST_BYTES // KIBIBYTE} KiB; make it smaller"
        raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{MANIFEST}: {problem}")
    documents = list(read_documents(budget.read(path, MANIFEST), MANIFEST, budget=budget))
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        raise BundleError(Reason.INVALID_BUNDLE, f"{MANIFEST}: must be one document, a mapping")
    value = documents[0].value
    missing = [f"{field}: missing; add it" for field in _REQUIRED if field not in value]
    _refuse([*missing, *_check_fields(value, _BUNDLE_FIELDS, "")])
    bundle = Bundle(
        name=value["name"],
        version=value["version"],
        type=value.get("type", SCRIPTS),
        hosts=value["hosts"],
        architectures=value["architectures"],
        env=value.get("env", {}),
        timeout_seconds=value.get("timeoutSeconds", _SECONDS),
        reboot=value.get("reboot", "Never"),
    )
    _check_layout(tree.root, bundle)
    return bundle


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise BundleError(Reason.INVALID_BUNDLE, f"{MANIFEST}: {problems[0]}{more}")


def _check_layout(root: Path, bundle: Bundle) -> None:
    if bundle.type == SCRIPTS and not (root / INSTALL).is_file():
        raise BundleError(Reason.INVALID_BUNDLE, f"{INSTALL}: missing; add it, or set the type {EXTENSION}")
    if bundle.type == EXTENSION:
        if (root / INSTALL).exists() or (root / UNINSTALL).exists():
            problem = f"the type {EXTENSION} has no such script; remove it, or set the type {SCRIPTS}"
            raise BundleError(Reason.INVALID_BUNDLE, f"{INSTALL}, {UNINSTALL}: {problem}")
        release = f"{SYSEXT}/usr/lib/extension-release.d/extension-release.{bundle.name}"
        if not (root / release).is_file():
            problem = "missing, so that systemd-sysext would ignore the extension; add it"
            raise BundleError(Reason.INVALID_BUNDLE, f"{release}: {problem}")


def _digest_of(tree: ContentTree) -> str:
    try:
        return digest_of_folder(tree.root)
    except HostError as error:
        raise BundleError(Reason.INVALID_BUNDLE, str(error)) from error


def _check_trust(found: str, request: RenderRequest) -> str:
    """Return the digest of the content. Raises: BundleError if nobody says that it may run as root."""
    path, wanted = f"{_CONFIG}.digest", request.config.get("digest")
    is_verified = bool(request.verified) and all(request.verified)
    if wanted is None and not is_verified and request.config.get("allowUnverified") is not True:
        remedy = "set it once the content is reviewed, or set verify in each source, or allowUnverified here"
        raise BundleError(Reason.INVALID_CONFIG, f"{path}: missing; the content has {found}: {remedy}")
    if wanted not in (None, found):
        problem = f"the content has {found} and not {wanted}; review it and correct the digest, or pin the source"
        raise BundleError(Reason.INVALID_CONFIG, f"{path}: {problem}")
    return found


def _pack(root: Path, budget: TextBudget) -> bytes:
    """Return the archive of the content: equal for equal content.

    Raises: BundleError (RenderLimitExceeded), LargeTextError.
    """
    files = sorted(path for path in root.rglob("*") if path.is_file())
    size = sum(path.stat().st_size for path in files)
    archive = io.BytesIO()
    if size <= CONTENT_BYTES:
        budget.charge_text(size * 4 // 3, "the content", is_manifest=False)  # as base64
        with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in files:
                header = tarfile.TarInfo(path.relative_to(root).as_posix())
                header.size, header.mode = path.stat().st_size, 0o755 if path.stat().st_mode & 0o100 else 0o644
                tar.addfile(header, io.BytesIO(path.read_bytes()))
    if max(size, archive.tell()) > CONTENT_BYTES:
        problem = f"the content is larger than {CONTENT_BYTES // MEBIBYTE} MiB, which is all that ConfigMaps may have"
        remedy = f"publish it as an image and set {_CONFIG}.imageVolume"
        raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{problem}; {remedy}")
    return archive.getvalue()


def _check_image_volumes(capabilities: Capabilities) -> None:
    found = re.match(r"v1\.(\d+)", capabilities.kubernetes_version)
    if found and int(found[1]) < _IMAGE_VOLUMES_SINCE:
        problem = f"needs Kubernetes 1.{_IMAGE_VOLUMES_SINCE} or later, this is {capabilities.kubernetes_version}"
        raise BundleError(Reason.NOT_SUPPORTED, f"{_CONFIG}.imageVolume: {problem}; remove it or upgrade")


# the plan


def make_plan(bundle: Bundle, config: Mapping[str, Any], digest: str, *, owner: str) -> dict[str, Any]:
    """Return what agents do, as JSON.

    Args:
        bundle: what to install.
        config: `spec.config`, valid.
        digest: of the content.
        owner: namespace and name of who installs it: no other may do so on the same host.

    Raises: BundleError (InvalidConfig) for variables that do not fit, and reboots that are not allowed.
    """
    if bundle.reboot == "Always" and not config.get("allowReboot"):
        problem = "the bundle reboots each node that it is installed on; set it to true if that is wanted"
        raise BundleError(Reason.INVALID_CONFIG, f"{_CONFIG}.allowReboot: {problem}")
    turns = {"maxUnavailable": config.get("maxUnavailable", 1), "maxFailures": config.get("maxFailures", 1)}
    if "drain" in config:
        turns["drain"] = {"timeoutSeconds": _DRAIN_SECONDS, "force": False, **config["drain"]}
    return {
        "install": {
            "owner": owner,
            "name": bundle.name,
            "version": bundle.version,
            "type": bundle.type,
            "digest": digest,
            "env": _choose_values(bundle, config.get("env", {})),
        },
        "hosts": bundle.hosts,
        "architectures": bundle.architectures,
        "timeoutSeconds": bundle.timeout_seconds,
        "reboot": bundle.reboot,
        "allowReboot": config.get("allowReboot", False),
        "turns": turns,
    }


def _choose_values(bundle: Bundle, given: Mapping[str, Any]) -> dict[str, str]:
    path, known = f"{_CONFIG}.env", f"it has {', '.join(sorted(bundle.env)) or 'none'}"
    for name in sorted(given):
        if name not in bundle.env:
            raise BundleError(Reason.INVALID_CONFIG, f"{path}.{name}: the bundle has no such variable; {known}")
        if not _has_type(given[name], bundle.env[name]["type"]):
            problem = f"must be of the type {bundle.env[name]['type']}"
            raise BundleError(Reason.INVALID_CONFIG, f"{path}.{name}: {problem}")
    chosen = {}
    for name in sorted(bundle.env):
        value = given.get(name, bundle.env[name].get("default"))
        if value is None:
            raise BundleError(Reason.INVALID_CONFIG, f"{path}.{name}: missing; the bundle has no default for it")
        chosen[name] = json.dumps(value) if isinstance(value, bool) else str(value)
    return chosen


# the objects


_LABEL = "hosts.rukpak.io/deployment"
_START = """
import hashlib, os, pathlib, sys, types
role, *wanted = sys.argv[1:]
files = {}
for name, digest in (each.split("=") for each in wanted):
    path = pathlib.Path("/agent", name)
    files[name] = path.read_bytes() if path.exists() else b""
    found = hashlib.sha256(files[name]).hexdigest()
    if found != digest:
        problem = f"/agent/{name} has the SHA-256 {found}, and {digest} was expected; nothing was run"
        remedy = "find out who has changed the ConfigMap, and delete it, so that it is made again"
        message = f"{os.environ['NODE_NAME']}: {problem}; {remedy}"
        pathlib.Path("/dev/termination-log").write_text(message)
        sys.exit(message)
for name in (each for each in files if each.endswith(".py")):
    module = sys.modules[name[:-3]] = types.ModuleType(name[:-3])
    exec(compile(files[name], f"/agent/{name}", "exec"), module.__dict__)
sys.exit(module.main(role, files["plan.json"]))
"""
"""What pods run: the agent and its plan as they were rendered, and nothing else.

Whoever may delete a ConfigMap may put another in its place, also an immutable one, and would be root on all hosts. So
each file is read once, compared with the digest in the arguments, and run as it was read: a volume may be updated at
any time. Python looks for other modules in its own library only (`-I`, `-S`)."""
_IS_READY = "import os; os.stat('/run/rukpak-hosts/ready')"
"""The image need not have a shell."""


class _Objects:
    """Makes the objects of one plan."""

    def __init__(self, request: RenderRequest, plan: Mapping[str, Any]) -> None:
        self._config, self._plan, self._namespace = request.config, plan, request.install_namespace
        self._name = _shorten(request.name)
        self._labels = {"app.kubernetes.io/managed-by": "rukpak-host-bundles", _LABEL: self._name}

    def access(self) -> Iterator[dict[str, Any]]:
        """Yield the Lease, and what lets agents use it."""
        yield self._object("coordination.k8s.io/v1", "Lease")
        yield self._object("v1", "ServiceAccount")
        lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": [self._name]}
        pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
        agents = {"apiGroups": ["apps"], "resources": ["daemonsets"], "resourceNames": [self._name], "verbs": ["get"]}
        yield from self._grant("", self._name, [{**lease, "verbs": ["get", "update"]}, pods, agents])
        if "drain" in self._config:
            nodes = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]}
            evictions = {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}
            name = f"hosts.rukpak.io:{self._namespace}:{self._name}"
            yield from self._grant("Cluster", name, [nodes, pods, evictions])

    def _grant(self, scope: str, name: str, rules: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield a role and its binding; `scope` is "" or "Cluster"."""
        group = "rbac.authorization.k8s.io"
        account = {"kind": "ServiceAccount", "name": self._name, "namespace": self._namespace}
        role = {"apiGroup": group, "kind": f"{scope}Role", "name": name}
        for item in (
            self._object(f"{group}/v1", f"{scope}Role", rules=rules),
            self._object(f"{group}/v1", f"{scope}RoleBinding", roleRef=role, subjects=[account]),
        ):
            item["metadata"]["name"] = name
            yield item

    def parts(self, archive: bytes) -> Iterator[dict[str, Any]]:
        """Yield the content in parts, in order."""
        for index in range(-(-len(archive) // PART_BYTES)):
            data = archive[index * PART_BYTES : (index + 1) * PART_BYTES]
            # With the number, since parts may be equal.
            yield self._config_map(f"content-{index}", data, binaryData={"part": base64.b64encode(data).decode()})

    def agent(self) -> dict[str, Any]:
        """Return the agent and its plan."""
        plan = {**self._plan, "turns": {**self._plan["turns"], "lease": self._name}}
        files = {name: Path(__file__).with_name(name).read_text(encoding="utf-8") for name in _MODULES}
        files["plan.json"] = json.dumps(plan, sort_keys=True, indent=1)
        return self._config_map("agent", json.dumps(files, sort_keys=True).encode(), data=files)

    def daemon_set(self, agent: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the agents of all nodes."""
        pod = self._pod(agent, "node", container="root-on-host")  # "rukpak permissions" names it
        container = pod["containers"][0]
        container["securityContext"] |= {"privileged": True, "runAsUser": 0, "runAsGroup": 0}
        container["readinessProbe"] = {
            "exec": {"command": ["python3", "-ISc", _IS_READY]},
            "periodSeconds": 10,
            "timeoutSeconds": 10,
        }
        path = "/content/parts" if parts else "/content/image"
        container["volumeMounts"].append({"name": "content", "mountPath": path, "readOnly": True})
        pod["volumes"].append(self._content(parts))
        pod |= {
            "hostPID": True,  # the agent enters the namespaces of process 1
            "hostNetwork": True,  # what is installed may be what other networks depend on
            "priorityClassName": "system-node-critical",
            "nodeSelector": {"kubernetes.io/os": "linux", **self._config.get("nodeSelector", {})},
            "tolerations": self._config.get("tolerations", []),
            # A script that is running may end: killed in the middle, it would have to run again.
            "terminationGracePeriodSeconds": self._plan["timeoutSeconds"] + _GRACE_SECONDS,
        }
        return self._object(
            "apps/v1",
            "DaemonSet",
            spec={
                "selector": {"matchLabels": {_LABEL: self._name, "hosts.rukpak.io/part": "agent"}},
                # Agents order the nodes themselves, and all must know of a new plan to do so.
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}},
                "template": {
                    "metadata": {"labels": {**self._labels, "hosts.rukpak.io/part": "agent"}},
                    "spec": pod,
                },
            },
        )

    def removal(self, agent: Mapping[str, Any]) -> dict[str, Any]:
        """Return the Job that has all agents remove the bundle from their hosts, and waits for them."""
        pod = self._pod(agent, "remove", container="remove")
        pod["containers"][0]["securityContext"] |= {
            "allowPrivilegeEscalation": False,
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "capabilities": {"drop": ["ALL"]},
        }
        spec = {
            "backoffLimit": 0,
            "template": {"metadata": {"labels": self._labels}, "spec": {**pod, "restartPolicy": "Never"}},
        }
        return self._object("batch/v1", "Job", suffix="remove", spec=spec)

    def _pod(self, agent: Mapping[str, Any], role: str, *, container: str) -> dict[str, Any]:
        """Return the spec of a pod that runs the agent in a container of this name."""
        fields = {"NODE_NAME": "spec.nodeName", "POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}
        program = {
            "name": container,
            "image": self._config["image"],
            "command": ["python3", "-ISuc", _START, role, *_digests_of(agent)],
            "env": [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()],
            "resources": {"requests": {"cpu": "10m", "memory": "48Mi"}},
            "securityContext": {"readOnlyRootFilesystem": True},
            "volumeMounts": [
                {"name": "agent", "mountPath": "/agent", "readOnly": True},
                {"name": "run", "mountPath": "/run/rukpak-hosts"},
            ],
        }
        return {
            "serviceAccountName": self._name,
            "containers": [program],
            "volumes": [
                {"name": "agent", "configMap": {"name": agent["metadata"]["name"]}},
                {"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            ],
        }

    def _content(self, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        if not parts:
            image = {"reference": self._config["imageVolume"], "pullPolicy": "IfNotPresent"}
            return {"name": "content", "image": image}
        sources = [
            {"configMap": {"name": part["metadata"]["name"], "items": [{"key": "part", "path": f"{index:04}"}]}}
            for index, part in enumerate(parts)
        ]
        return {"name": "content", "projected": {"sources": sources}}

    def _config_map(self, purpose: str, content: bytes, **fields: Any) -> dict[str, Any]:
        digest = digest_of(content).removeprefix("sha256:")
        return self._object("v1", "ConfigMap", suffix=f"{purpose}-{digest[:16]}", immutable=True, **fields)

    def _object(self, api_version: str, kind: str, suffix: str = "", **fields: Any) -> dict[str, Any]:
        name = f"{self._name}-{suffix}" if suffix else self._name
        metadata = {"name": name, "labels": dict(self._labels)}
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def _digests_of(agent: Mapping[str, Any]) -> Iterator[str]:
    """Yield the name and the SHA-256 of each file of the agent, in the order in which modules import each other."""
    for name in (*_MODULES, "plan.json"):
        digest = digest_of(agent["data"][name].encode()).removeprefix("sha256:")
        yield f"{name}={digest}"


def _shorten(name: str) -> str:
    """Return a name that is a label with room for suffixes, and that no other name becomes, too."""
    if len(name) <= 40 and "." not in name:  # noqa: PLR2004 - of 63, as Kubernetes allows
        return name
    return f"{name[:31].replace('.', '-').rstrip('-')}-{digest_of(name.encode())[7:15]}"
