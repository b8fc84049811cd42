"""`rukpak install`: what is shown is what is created, and nothing is before the question."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from rukpak.api.names import CONTENT_LABEL
from tests.support.bundles import DEPLOYMENTS, Deployed, World, config_map, exists, new_name
from tests.support.charts import packed_chart
from tests.support.controller import Rukpak, command
from tests.support.objects import labelled, namespace

ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": "reader"},
    "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}],
}
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "reader"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
    "subjects": [{"kind": "ServiceAccount", "name": "app"}],
}


@pytest.fixture
def rukpak(world: World) -> Rukpak:
    return command(world.cluster.kubeconfig)


def deployed(world: World, name: str, reference: str) -> Deployed:
    return Deployed(client=world.client, name=name, ref=reference, wait=world.wait)


def test_it_shows_what_it_installs(world: World, rukpak: Rukpak) -> None:
    name = new_name()
    reference = world.push(name, config_map("a", color="blue"), ROLE, BINDING)
    done = rukpak("install", name, "--image", reference, "-n", name, "--yes", "--wait")
    assert done.stdout == f"bundledeployment.core.rukpak.io/{name} created\n"
    said = " ".join(done.stderr.split())
    revision = said.partition("revision ")[2].partition(" ")[0]
    assert "compared with the cluster: 4 to create" in said
    assert f"{name}/app: list secrets" in said
    assert deployed(world, name, reference).status()["installedRevision"] == revision

    again = rukpak("install", name, "--image", reference, "--yes")
    assert again.stdout == f"bundledeployment.core.rukpak.io/{name} unchanged\n"


def test_nothing_is_created_without_an_answer_or_by_a_dry_run(world: World, rukpak: Rukpak) -> None:
    name = new_name()
    words = ["install", name, "--image", world.push(name, config_map("a")), "-n", name]
    assert "pass --yes" in rukpak(*words, status=2).stderr
    printed = yaml.safe_load(rukpak(*words, "--dry-run", "-o", "yaml", "--format", "plain").stdout)  # noqa: TID251
    assert printed["metadata"] == {"name": name}
    assert printed["spec"] == {
        "format": "plain",
        "installNamespace": name,
        "sources": [{"kind": "image", "image": {"ref": words[3]}}],
    }
    assert not exists(world.client, f"{DEPLOYMENTS}/{name}")
    world.cluster.kubectl("apply", "--dry-run=server", "-f", "-", input=json.dumps(printed))


def test_with_approvals_exactly_what_was_shown_is_approved(world: World, rukpak: Rukpak) -> None:
    name = new_name()
    reference = world.push(name, config_map("a", color="blue"), tag="latest")
    rukpak("install", name, "--image", reference, "-n", name, "--approval=Manual", "--yes", "--wait")
    found = deployed(world, name, reference)
    assert found.read()["spec"]["approvedRevision"] == found.status()["installedRevision"]
    world.push(name, config_map("a", color="red"), tag="latest")
    found.request_reconcile("now")
    found.wait_for("Installed", "False", "AwaitingApproval")
    assert found.data("a") == {"color": "blue"}


def test_what_cannot_be_rendered_is_not_created(world: World, rukpak: Rukpak) -> None:
    name = new_name()
    missing = world.push(name, config_map("a")).replace(name, f"{name}-missing")
    assert "spec.sources[0]" in rukpak("install", name, "--image", missing, "-n", name, "--yes", status=1).stderr
    assert not exists(world.client, f"{DEPLOYMENTS}/{name}")


# content of this machine


def write(folder: Path, **objects: dict[str, Any]) -> str:
    """Write one file for each object; return the folder."""
    folder.mkdir(exist_ok=True)
    for name, value in objects.items():
        (folder / f"{name}.yaml").write_text(json.dumps(value))
    return str(folder)


def maps(world: World, name: str) -> list[str]:
    found = world.client.list(f"/api/v1/namespaces/{name}/configmaps", label_selector=f"{CONTENT_LABEL}={name}")
    return [each["metadata"]["name"] for each in found]


def test_a_folder_is_installed_and_installed_again_also_after_a_rollback(
    world: World, rukpak: Rukpak, tmp_path: Path
) -> None:
    name = new_name()
    folder = write(tmp_path / "shop", a=config_map("a", color="blue"), b=config_map("b"))
    first = rukpak("install", name, folder, "-n", name, "--yes", "--wait")
    assert first.stdout == f"bundledeployment.core.rukpak.io/{name} created\n"
    found = deployed(world, name, "")
    spec, (only,) = found.read()["spec"], maps(world, name)
    assert spec["format"] == "plain"
    assert spec["sources"] == [{"kind": "configMap", "configMap": {"names": [only]}}]
    owner = world.client.get(f"/api/v1/namespaces/{name}/configmaps/{only}").value["metadata"]["ownerReferences"]
    assert [each["uid"] for each in owner] == [found.read()["metadata"]["uid"]]

    (tmp_path / "shop/b.yaml").unlink()
    write(tmp_path / "shop", a=config_map("a", color="red"))
    asked = rukpak("install", name, folder, "--diff", status=2)
    assert "pass --yes" in asked.stderr
    assert "-  color: blue" in asked.stderr
    assert maps(world, name) == [only]
    second = rukpak("install", name, folder, "--yes", "--wait")
    assert (
        f"Changed: ConfigMap {name}/a\n    -  color: blue\n    +  color: red\n  Deleted: ConfigMap {name}/b"
        in second.stderr
    )
    assert second.stdout == f"bundledeployment.core.rukpak.io/{name} configured\n"
    assert found.data("a") == {"color": "red"}
    (other,) = maps(world, name)
    assert other != only
    third = rukpak("install", name, folder, "--yes", "--wait")
    assert third.stdout == f"bundledeployment.core.rukpak.io/{name} unchanged\n"

    rukpak("rollback", name, "--wait")
    assert found.data("a") == {"color": "blue"}
    write(tmp_path / "shop", a=config_map("a", color="green"))
    done = rukpak("install", name, folder, "--yes", "--wait")
    assert "Rollback: to " in done.stderr
    assert found.data("a") == {"color": "green"}
    assert "pinnedRevision" not in found.read()["spec"]


def test_a_packed_chart_gets_its_values(world: World, rukpak: Rukpak, tmp_path: Path) -> None:
    name = new_name()
    template = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n"
        "data: {color: {{ .Values.color | quote }}, size: {{ .Values.size | quote }}}\n"
    )
    (tmp_path / "web-1.0.0.tgz").write_bytes(packed_chart("web", "1.0.0", template=template))
    (tmp_path / "values.yaml").write_text("{color: blue, size: 1}")
    words = ["install", name, str(tmp_path / "web-1.0.0.tgz"), "-n", name, "--yes", "--wait"]
    rukpak(*words, "--values", str(tmp_path / "values.yaml"), "--set", "size=2")
    found = deployed(world, name, "")
    assert found.read()["spec"]["format"] == "helm"
    assert found.data("web") == {"color": "blue", "size": "2"}
    rukpak("install", name, "--set", "color=red", "--yes", "--wait")  # the others stay
    assert found.data("web") == {"color": "red", "size": "2"}
    rukpak(*words, "--values", str(tmp_path / "values.yaml"))
    assert found.data("web") == {"color": "blue", "size": "1"}


def test_other_values_of_the_same_chart_are_no_change_of_its_source(
    world: World, rukpak: Rukpak, tmp_path: Path
) -> None:
    name, path = new_name(), tmp_path / "web-1.0.0.tgz"
    template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {a: {{ randAlphaNum 9 }}x}\n"
    path.write_bytes(packed_chart("web", "1.0.0", template=template))
    said = " ".join(rukpak("install", name, str(path), "-n", name, "--yes", "--wait").stderr.split())
    assert "the source is the same, but the bundle generates other values each time, such as passwords" in said


def test_a_folder_goes_into_a_registry(world: World, rukpak: Rukpak, tmp_path: Path) -> None:
    name = new_name()
    folder = write(tmp_path / "shop", a=config_map("a", color="blue"))
    reference = f"{world.registry.host}/{name}:v1"
    words = ["--registry", reference, "--insecure-skip-tls-verify"]
    rukpak("install", name, folder, "-n", name, "--yes", "--wait", *words)
    source = deployed(world, name, "").read()["spec"]["sources"][0]
    assert source["image"]["ref"].startswith(f"{reference}@sha256:")
    assert maps(world, name) == []


def test_a_file_is_applied_and_applied_again(world: World, rukpak: Rukpak, tmp_path: Path) -> None:
    name, path = new_name(), tmp_path / "shop.json"
    value = {
        "apiVersion": "core.rukpak.io/v1alpha2",
        "kind": "BundleDeployment",
        "metadata": {"name": name, "labels": {"team": "shop"}},
        "spec": {
            "format": "plain",
            "installNamespace": name,
            "sources": [{"kind": "image", "image": {"ref": world.push(name, config_map("a", color="blue"))}}],
        },
    }
    path.write_text(json.dumps(value))
    assert "created" in rukpak("install", "-f", str(path), "--yes", "--wait").stdout
    assert "unchanged" in rukpak("install", name, "-f", str(path), "--yes", "--wait").stdout
    value["spec"]["prune"] = "Never"  # type: ignore[index]
    path.write_text(json.dumps(value))
    assert "configured" in rukpak("install", "-f", str(path), "--yes", "--wait").stdout
    found = deployed(world, name, "").read()
    assert (found["spec"]["prune"], found["metadata"]["labels"]) == ("Never", {"team": "shop"})


def test_what_would_be_refused_is_not_installed(world: World, rukpak: Rukpak, tmp_path: Path) -> None:
    name = new_name()
    folder = write(tmp_path / "shop", a=config_map("a", color="blue"))
    world.cluster.kubectl("create", "namespace", name)
    world.cluster.kubectl("create", "configmap", "a", "-n", name, "--from-literal=color=red")
    words = ["install", name, folder, "-n", name, "--yes"]
    refused = rukpak(*words, status=1)
    assert f'"rukpak adopt {name} {folder} --install-namespace {name} --from kubectl" takes over' in refused.stderr
    assert not exists(world.client, f"{DEPLOYMENTS}/{name}")
    assert maps(world, name) == []
    rukpak(*words, "--force")
    deployed(world, name, "").wait_for("Installed", "False")


INVALID = {**config_map("b"), "data": {"color": 1}}
CASES: dict[str, tuple[dict[str, str], list[dict[str, Any]], str]] = {
    "an object of a release that does not exist": (
        {"meta.helm.sh/release-name": "gone", "meta.helm.sh/release-namespace": "default"},
        [],
        "cannot be taken over from helm/gone.default: ",
    ),
    "an object of Argo CD": ({"argocd.argoproj.io/tracking-id": "x"}, [], "--force writes it all the same"),
    "an object that is invalid": ({}, [INVALID], ""),
}


@pytest.mark.parametrize("case", CASES)
def test_an_adoption_that_cannot_be_is_not_proposed(world: World, rukpak: Rukpak, tmp_path: Path, case: str) -> None:
    name, (annotations, others, said) = new_name(), CASES[case]
    world.client.create("/api/v1/namespaces", namespace(name))
    existing = labelled(config_map("a"), annotations=annotations)
    world.client.create(f"/api/v1/namespaces/{name}/configmaps", existing, manager="kubectl-create")
    folder = write(tmp_path / "shop", a=config_map("a"), **{each["metadata"]["name"]: each for each in others})
    refused = rukpak("install", name, folder, "-n", name, "--yes", status=1).stderr
    assert "rukpak adopt" not in refused
    assert said in " ".join(refused.split())
    assert ("--force writes it all the same" in refused) is (not others)


def test_the_adoption_from_another_one_that_is_proposed_works(world: World, rukpak: Rukpak, tmp_path: Path) -> None:
    first, second = new_name(), new_name()
    folder = write(tmp_path / "shop", a=config_map("a"))
    rukpak("install", first, folder, "-n", first, "--yes", "--wait")
    refused = rukpak("install", second, folder, "-n", first, "--yes", status=1).stderr
    proposed = shlex.split(refused.partition('"rukpak ')[2].partition('" takes over')[0])
    assert proposed == ["adopt", second, folder, "--install-namespace", first, "--from", first]
    assert "took over 1 object" in rukpak(*proposed, "--yes").stdout


def test_a_folder_is_pushed_before_anything_else_exists(world: World, rukpak: Rukpak, tmp_path: Path) -> None:
    name = new_name()
    folder = write(tmp_path / "shop", a=config_map("a", color="blue"))
    missing = rukpak("push", folder, name, status=1)
    assert f'"rukpak install {name} {folder}" creates it' in missing.stderr
    value = {
        "apiVersion": "core.rukpak.io/v1alpha2",
        "kind": "BundleDeployment",
        "metadata": {"name": name},
        "spec": {"format": "plain", "sources": [{"kind": "image", "image": {"ref": "q.io/missing:1"}}]},
    }
    world.client.create(DEPLOYMENTS, value)
    assert "pass -n NAMESPACE" in rukpak("push", folder, name, "--source=0", status=2).stderr
    rukpak("push", folder, name, "-n", name, "--source=0", "--wait")
    assert deployed(world, name, "").data("a") == {"color": "blue"}


def test_a_folder_with_subfolders_is_read_whole_and_says_so(world: World, rukpak: Rukpak, tmp_path: Path) -> None:
    name = new_name()
    folder = write(tmp_path / "shop", a=config_map("a", color="blue"))
    write(tmp_path / "shop/deep", b=config_map("b", color="red"))
    done = rukpak("install", name, folder, "-n", name, "--yes", "--wait")
    assert "Format: plain, with manifests in subdirectories (spec.config.recursive)" in " ".join(done.stderr.split())
    found = deployed(world, name, "")
    assert found.data("b") == {"color": "red"}
    assert found.read()["spec"]["config"] == {"recursive": True}


def test_what_was_written_before_a_failure_is_deleted_again(world: World, rukpak: Rukpak, tmp_path: Path) -> None:
    name = new_name()
    folder = write(tmp_path / "shop", a=config_map("a"))
    (tmp_path / "shop/data").write_bytes(os.urandom(1_000_000))  # more than one ConfigMap takes
    words = ["install", name, folder, "-n", name]
    planned = yaml.safe_load(rukpak(*words, "--dry-run", "-o", "yaml").stdout)  # noqa: TID251
    _, second = planned["spec"]["sources"][0]["configMap"]["names"]
    world.cluster.kubectl("create", "namespace", name)
    world.cluster.kubectl("create", "configmap", second, "-n", name)
    assert "exists with other content" in rukpak(*words, "--yes", status=2).stderr
    assert maps(world, name) == []
    assert not exists(world.client, f"{DEPLOYMENTS}/{name}")


def test_another_format_and_another_namespace_are_asked_for(world: World, rukpak: Rukpak, tmp_path: Path) -> None:
    name = new_name()
    (tmp_path / "web-1.0.0.tgz").write_bytes(packed_chart("web", "1.0.0"))
    rukpak("install", name, str(tmp_path / "web-1.0.0.tgz"), "-n", name, "--set", "a=1", "--yes", "--wait")
    folder = write(tmp_path / "shop", a=config_map("a", color="blue"))
    assert "pass --format plain" in rukpak("install", name, folder, "--yes", status=1).stderr
    assert "cannot be changed" in rukpak("install", name, folder, "-n", "other", "--yes", status=2).stderr
    rukpak("install", name, folder, "--format", "plain", "--yes", "--wait")
    assert deployed(world, name, "").data("a") == {"color": "blue"}
