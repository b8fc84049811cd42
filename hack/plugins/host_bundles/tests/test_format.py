"""The format: what is rendered of a bundle, and what is refused."""

from __future__ import annotations

import base64
import hashlib
import inspect
import io
import json
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest
import rukpak_hosts_agent
import rukpak_hosts_turns
from rukpak.plugins import BundleError, Capabilities, ContentTree, Reason, Rendering, RenderRequest
from rukpak_host_bundles import PART_BYTES, HostBundlesFormat
from rukpak_hosts_agent import digest_of_folder

IMAGE = f"quay.io/example/rukpak@sha256:{'0' * 64}"
BUNDLE: Mapping[str, Any] = {
    "apiVersion": "hosts.rukpak.io/v1",
    "kind": "HostBundle",
    "name": "tool",
    "version": "v1",
    "hosts": [{"id": "ubuntu", "versionIDs": ["24.04"]}],
    "architectures": ["amd64"],
}
Render: TypeAlias = Callable[..., Rendering]


@pytest.fixture
def render(tmp_path: Path) -> Render:
    """Return what renders a bundle: fields of `host-bundle.yaml`, files, and `spec.config`."""

    def _render(
        bundle: Mapping[str, Any] | None = None, files: Mapping[str, str] | None = None, **options: Any
    ) -> Rendering:
        root = tmp_path / "content"
        for path, text in {
            "host-bundle.yaml": json.dumps({**BUNDLE, **(bundle or {})}),
            **({"install.sh": "true\n", "uninstall.sh": "true\n"} if files is None else files),
        }.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        version, name = options.pop("version", "v1.36.0"), options.pop("name", "tool")
        verified = options.pop("verified", ())
        request = RenderRequest(
            name=name,
            install_namespace="hosts",
            tree=ContentTree(root=root, destinations=("",)),
            config={"image": IMAGE, "allowUnverified": True, **options},
            capabilities=Capabilities(kubernetes_version=version),
            verified=verified,
        )
        assert HostBundlesFormat().validate(request.config) == []
        return HostBundlesFormat().render(request)

    return _render


def only(made: Rendering, kind: str) -> dict[str, Any]:
    """Return the only object of a kind."""
    (found,) = [item for item in made.objects if item["kind"] == kind]
    return found


def config_maps(made: Rendering, purpose: str) -> list[dict[str, Any]]:
    return [item for item in made.objects if item["kind"] == "ConfigMap" and purpose in item["metadata"]["name"]]


def plan_of(made: Rendering) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads(config_maps(made, "agent")[0]["data"]["plan.json"])
    return plan


def pod_of(made: Rendering) -> dict[str, Any]:
    pod: dict[str, Any] = only(made, "DaemonSet")["spec"]["template"]["spec"]
    return pod


def refusal(render: Render, *bundle: Any, **options: Any) -> tuple[Reason, str]:
    """Return reason and message of a refusal."""
    with pytest.raises(BundleError) as caught:
        render(*bundle, **options)
    return caught.value.reason, caught.value.message


class Refused(NamedTuple):
    """A bundle that is refused, as a sentence."""

    name: str
    bundle: Mapping[str, Any]
    message: str
    files: Mapping[str, str] | None = None


REFUSED = [
    Refused("an unknown field", {"hooks": []}, "host-bundle.yaml: hooks: unknown key; it can be"),
    Refused("a name that is no label", {"name": "K3S"}, 'host-bundle.yaml: name: "K3S" is not lower-case letters'),
    Refused("a version that is no string", {"version": 1.3}, "host-bundle.yaml: version: must be a string"),
    Refused("no hosts", {"hosts": []}, "host-bundle.yaml: hosts: must be a list of hosts that is not empty"),
    Refused("a host without an ID", {"hosts": [{}]}, "host-bundle.yaml: hosts[0].id: missing"),
    Refused(
        "a variable that the shell reads",
        {"env": {"LD_PRELOAD": {"type": "string", "default": ""}}},
        "host-bundle.yaml: env.LD_PRELOAD: reserved",
    ),
    Refused(
        "a default of another type",
        {"env": {"A": {"type": "integer", "default": "1"}}},
        "host-bundle.yaml: env.A.default: must be of the type integer",
    ),
    Refused("a variable without a type", {"env": {"A": {}}}, "host-bundle.yaml: env.A.type: missing"),
    Refused("an endless script", {"timeoutSeconds": 86400}, "host-bundle.yaml: timeoutSeconds: must be a number from"),
    Refused("two problems", {"version": 1, "name": 1}, "host-bundle.yaml: name: must be a string"),
    Refused("no script", {}, "install.sh: missing", files={}),
    Refused(
        "an extension with a script",
        {"type": "Sysext"},
        "install.sh, uninstall.sh: the type Sysext has no such script",
    ),
    Refused(
        "an extension that systemd-sysext would ignore",
        {"type": "Sysext"},
        "sysext/usr/lib/extension-release.d/extension-release.tool: missing",
        files={"sysext/usr/bin/tool": ""},
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_a_bundle_is_refused_with_file_and_field(case: Refused, render: Render) -> None:
    reason, message = refusal(render, case.bundle, case.files)
    assert reason is Reason.INVALID_BUNDLE
    assert message.startswith(case.message)


def test_all_missing_fields_are_counted(render: Render) -> None:
    _, message = refusal(render, None, {"host-bundle.yaml": "{}"})
    assert message == "host-bundle.yaml: apiVersion: missing; add it (and 5 more)"


def test_content_is_refused_until_its_digest_is_given(render: Render, tmp_path: Path) -> None:
    _, message = refusal(render, allowUnverified=False)
    digest = digest_of_folder(tmp_path / "content")
    assert message.startswith(f"spec.config.digest: missing; the content has {digest}:")
    assert plan_of(render(allowUnverified=False, digest=digest))["install"]["digest"] == digest


def test_content_needs_no_digest_if_each_source_is_verified(render: Render) -> None:
    assert plan_of(render(allowUnverified=False, verified=(True, True)))["install"]["digest"]
    _, message = refusal(render, allowUnverified=False, verified=(True, False))
    assert message.startswith("spec.config.digest: missing; ")


@pytest.mark.parametrize("verified", [(), (True,)])
def test_content_with_another_digest_is_refused_also_if_any_is_allowed(verified: Any, render: Render) -> None:
    reason, message = refusal(render, digest=f"sha256:{'0' * 64}", verified=verified)
    assert reason is Reason.INVALID_CONFIG
    assert message.startswith("spec.config.digest: the content has sha256:")


def test_a_link_in_the_content_is_refused(render: Render, tmp_path: Path) -> None:
    (tmp_path / "content").mkdir()
    (tmp_path / "content" / "escape").symlink_to("/etc")
    assert refusal(render)[1].startswith('content "escape": neither a file nor a folder')


def test_the_content_is_mounted_in_parts_that_make_an_archive(render: Render) -> None:
    # The same bytes twice, so that there are equal parts, too.
    made = render(None, {"install.sh": "true\n", "bin/tool": "x" * (2 * PART_BYTES)})
    sources = next(each for each in pod_of(made)["volumes"] if each["name"] == "content")["projected"]["sources"]
    parts = {item["metadata"]["name"]: item for item in config_maps(made, "content")}
    assert [each["configMap"]["items"][0]["path"] for each in sources] == ["0000", "0001", "0002"]
    archive = b"".join(base64.b64decode(parts[each["configMap"]["name"]]["binaryData"]["part"]) for each in sources)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert tar.getnames() == ["bin/tool", "host-bundle.yaml", "install.sh"]
    assert all(item["immutable"] and len(json.dumps(item)) < 1 << 20 for item in parts.values())


def test_other_content_has_other_names_and_the_same_lease(render: Render) -> None:
    first, second = render(), render({"version": "v2"})
    names = [{item["metadata"]["name"] for item in config_maps(made, "tool-")} for made in (first, second)]
    assert not names[0] & names[1]
    assert only(first, "Lease") == only(second, "Lease")


def test_an_image_is_mounted_in_place_of_config_maps(render: Render) -> None:
    made = render(imageVolume=IMAGE)
    volume = next(each for each in pod_of(made)["volumes"] if each["name"] == "content")
    assert volume["image"]["reference"] == IMAGE
    assert config_maps(made, "content") == []
    mounts = {each["name"]: each["mountPath"] for each in pod_of(made)["containers"][0]["volumeMounts"]}
    assert mounts["content"] == "/content/image"


def test_an_old_cluster_mounts_no_image(render: Render) -> None:
    reason, message = refusal(render, imageVolume=IMAGE, version="v1.34.2")
    assert reason is Reason.NOT_SUPPORTED
    assert message.startswith("spec.config.imageVolume: needs Kubernetes 1.35")


VARIABLES = {"URL": {"type": "string"}, "PODS": {"type": "integer", "default": 110}, "DEBUG": {"type": "boolean"}}


def test_variables_are_texts_with_their_defaults(render: Render) -> None:
    made = render({"env": VARIABLES}, env={"URL": "https://$(HOME)", "DEBUG": False})
    assert plan_of(made)["install"]["env"] == {"URL": "https://$(HOME)", "PODS": "110", "DEBUG": "false"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"URL": "a"}, "spec.config.env.DEBUG: missing; the bundle has no default for it"),
        ({"URL": "a", "DEBUG": 1}, "spec.config.env.DEBUG: must be of the type boolean"),
        ({"UR": "a"}, "spec.config.env.UR: the bundle has no such variable; it has DEBUG, PODS, URL"),
    ],
)
def test_a_variable_that_does_not_fit_is_refused(given: Mapping[str, Any], message: str, render: Render) -> None:
    assert refusal(render, {"env": VARIABLES}, env=given) == (Reason.INVALID_CONFIG, message)


def test_a_bundle_that_reboots_needs_leave_for_that(render: Render) -> None:
    assert refusal(render, {"reboot": "Always"})[1].startswith("spec.config.allowReboot: the bundle reboots each node")
    assert plan_of(render({"reboot": "Always"}, allowReboot=True))["allowReboot"] is True


def test_agents_may_only_use_their_lease_and_list_pods(render: Render) -> None:
    made = render()
    rules = [(rule["resources"], rule.get("resourceNames"), rule["verbs"]) for rule in only(made, "Role")["rules"]]
    assert rules == [
        (["leases"], ["tool"], ["get", "update"]),
        (["pods"], None, ["list"]),
        (["daemonsets"], ["tool"], ["get"]),
    ]
    assert {item["kind"] for item in made.objects}.isdisjoint({"ClusterRole", "ClusterRoleBinding"})
    assert only(made, "RoleBinding")["subjects"][0]["namespace"] == "hosts"


def test_only_a_drain_needs_rights_in_the_whole_cluster(render: Render) -> None:
    made = render(drain={"force": True})
    assert plan_of(made)["turns"]["drain"] == {"timeoutSeconds": 600, "force": True}
    rules = [(rule["resources"], rule["verbs"]) for rule in only(made, "ClusterRole")["rules"]]
    assert rules == [(["nodes"], ["get", "patch"]), (["pods"], ["list"]), (["pods/eviction"], ["create"])]
    names = {only(made, kind)["metadata"]["name"] for kind in ("ClusterRole", "ClusterRoleBinding")}
    assert names == {only(made, "ClusterRoleBinding")["roleRef"]["name"]} == {"hosts.rukpak.io:hosts:tool"}


def test_all_agents_start_at_once_since_they_order_themselves(render: Render) -> None:
    strategy = only(render(maxUnavailable=2), "DaemonSet")["spec"]["updateStrategy"]
    assert strategy["rollingUpdate"] == {"maxUnavailable": "100%"}
    turns = plan_of(render(maxUnavailable=2))["turns"]
    assert turns == {"lease": "tool", "maxUnavailable": 2, "maxFailures": 1}


def test_a_pod_may_finish_a_script_before_it_ends(render: Render) -> None:
    assert pod_of(render({"timeoutSeconds": 1800}))["terminationGracePeriodSeconds"] > 1800


def test_a_pod_can_enter_the_host_and_has_nothing_else_of_it(render: Render) -> None:
    pod = pod_of(render())
    assert pod["hostPID"] is pod["containers"][0]["securityContext"]["privileged"] is True
    assert {next(iter(volume.keys() - {"name"})) for volume in pod["volumes"]} == {"configMap", "emptyDir", "projected"}


def test_selected_nodes_get_it(render: Render) -> None:
    toleration = {"key": "example.com/gpu", "operator": "Exists"}
    pod = pod_of(render(nodeSelector={"example.com/gpu": "a100"}, tolerations=[toleration]))
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux", "example.com/gpu": "a100"}
    assert pod["tolerations"] == [toleration]


def test_deletion_waits_for_a_job_that_is_not_privileged(render: Render) -> None:
    (hook,) = render().hooks
    pod = hook.manifest["spec"]["template"]["spec"]
    assert (hook.events, hook.manifest["kind"]) == (("pre-delete",), "Job")
    assert pod["containers"][0]["securityContext"]["runAsNonRoot"] is True
    assert "hostPID" not in pod
    selector = only(render(), "DaemonSet")["spec"]["selector"]["matchLabels"]
    assert not selector.items() <= hook.manifest["spec"]["template"]["metadata"]["labels"].items()


def test_without_a_script_nothing_is_undone_which_is_a_warning(render: Render) -> None:
    made = render(None, {"install.sh": "true\n"})
    assert made.hooks == []
    assert made.warnings == ["without uninstall.sh, deleting it leaves on hosts what it has installed"]


def test_long_names_leave_room_for_suffixes_and_remain_distinct(render: Render) -> None:
    names = [only(render(name=name), "DaemonSet")["metadata"]["name"] for name in ("a" * 80 + "b", "a" * 80 + "c")]
    assert len(set(names)) == 2
    assert all(len(name) <= 40 for name in names)


def test_the_commands_carry_the_digest_of_all_that_they_run(render: Render) -> None:
    made = render()
    data = config_maps(made, "agent")[0]["data"]
    removal = made.hooks[0].manifest["spec"]["template"]["spec"]
    for role, pod in (("node", pod_of(made)), ("remove", removal)):
        *_, start, said_role, agent, turns, plan = pod["containers"][0]["command"]
        assert (said_role, "exec(" in start) == (role, True)
        digests = dict(each.split("=") for each in (agent, turns, plan))
        assert digests == {name: hashlib.sha256(text.encode()).hexdigest() for name, text in data.items()}


def test_the_agent_is_rendered_as_it_is(render: Render) -> None:
    data = config_maps(render(), "agent")[0]["data"]
    for module in (rukpak_hosts_agent, rukpak_hosts_turns):
        assert data[f"{module.__name__}.py"] == inspect.getsource(module)
