"""Values of Secrets in names of objects: where they are found, what is nobody's secret, and what is told."""

from __future__ import annotations

import base64
import io
import tarfile
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from api.errors import BundleError
from api.plugins import Capabilities, ContentTree, Hook, Rendering, RenderRequest
from api.v1alpha2.conditions import Reason
from controller.build.confidential import Confidential
from controller.build.rendering import refuse_secret_names, without_secrets
from tests.support.charts import pack

PASSWORD = "Hunter2-is-long"
ENCODED = base64.b64encode(PASSWORD.encode()).decode()
LOGIN = Confidential(
    secrets=(PASSWORD, "admin", "q"), public='shop\n{"format": "helm", "config": {"stage": "testing"}}'
)
RBAC = "rbac.authorization.k8s.io/v1"


def item(kind: str = "ConfigMap", name: str = "web", version: str = "v1", **more: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **more.pop("metadata", {})}, **more}


def refuse(rendering: Rendering, root: Path, files: Mapping[str, bytes], confidential: Confidential = LOGIN) -> None:
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    request = RenderRequest(
        name="shop",
        install_namespace="shop-system",
        tree=ContentTree(root=root, destinations=("",)),
        config={},
        capabilities=Capabilities(kubernetes_version="v1.36.3", kinds={("apps", "v1", "Deployment"): True}),
    )
    refuse_secret_names(rendering, confidential, request)


class Refused(NamedTuple):
    name: str
    item: dict[str, Any]
    place: str


def pod(**spec: Any) -> dict[str, Any]:
    return item("Deployment", version="apps/v1", spec={"template": {"spec": spec}})


# fmt: off
REFUSED = [
    Refused("the name", item(name="hunter2-is-long"), "metadata.name"),
    Refused("a part of the name", item(name="web-hunter2-is-long-0"), "metadata.name"),
    Refused("in other case", item(name="HUNTER2-IS-LONG"), "metadata.name"),
    Refused("without what no name may have", item(name="web-hunter2islong"), "metadata.name"),
    Refused("a word of it", item(name="hunter2"), "metadata.name"),
    Refused("what is left of it in a name that was cut", item(name="a" * 50 + "hunter2islo"), "metadata.name"),
    Refused("in base64", item(name=ENCODED.lower().rstrip("=")), "metadata.name"),
    Refused("in base64 that was cut", item(name=ENCODED.lower()[:9]), "metadata.name"),
    Refused("in hexadecimal digits", item(name=PASSWORD.encode().hex()), "metadata.name"),
    Refused("the namespace", item(metadata={"namespace": "hunter2-is-long"}), "metadata.namespace"),
    Refused("the kind", item(kind="Hunter2"), "kind"),
    Refused("the group", item(version="hunter2.example.com/v1"), "apiVersion"),
    Refused("the version", item(version="example.com/hunter2"), "apiVersion"),
    Refused("another value", item(name="web-admin"), "metadata.name"),
    Refused("the rules of a role", item("Role", version=RBAC, rules=[{"resourceNames": ["hunter2"]}]), "rules"),
    Refused("the role of a binding", item("RoleBinding", version=RBAC, roleRef={"name": "hunter2"}), "roleRef"),
    Refused("the names of a definition",
            item("CustomResourceDefinition", version="apiextensions.k8s.io/v1", spec={"names": {"plural": "hunter2s"}}),
            "spec.names"),
    Refused("a container", pod(containers=[{"name": "web"}, {"name": "hunter2"}]),
            "spec.template.spec.containers[1].name"),
    Refused("the account of pods", pod(serviceAccountName="hunter2"), "spec.template.spec.serviceAccountName"),
    Refused("an annotation that is read", item(metadata={"annotations": {"core.rukpak.io/ignore-fields": "hunter2"}}),
            "metadata.annotations"),
]
# fmt: on


@pytest.mark.parametrize("case", REFUSED, ids=attrgetter("name"))
def test_a_value_of_a_secret_is_refused_as(case: Refused, tmp_path: Path) -> None:
    for rendering, place in (
        (Rendering(objects=[item(), case.item]), "objects[1]"),
        (Rendering(objects=[], hooks=[Hook(manifest=case.item, events=("pre-install",))]), "hooks[0]"),
    ):
        with pytest.raises(BundleError) as caught:
            refuse(rendering, tmp_path, {"values.yaml": b"login: {password: none}"})
        assert caught.value.reason is Reason.INVALID_CONFIG
        assert caught.value.message == (
            f"spec.configFrom: {place}.{case.place} contains a value of a Secret, and everybody who can read "
            "BundleDeployments can see it there; take it from a ConfigMap or spec.config if it is not secret, or "
            "change the bundle"
        )


NAMED = Rendering(objects=[item(name="web-admin")])
DEPENDENCY = pack({"db/templates/a.yaml": b"name: {{ .Release.Name }}-admin\n"})


def test_a_value_that_is_used_as_a_value_is_not_refused(tmp_path: Path) -> None:
    refuse(Rendering(objects=[item(data={"a": PASSWORD}, metadata={"labels": {"a": "admin"}})]), tmp_path, {})


IN_CONTENT = {
    "a template": {"templates/a.yaml": b'name: "{{ .Release.Name }}-admin"'},
    "in other case": {"README.md": b"The ADMIN of the shop"},
    "the name of a file": {"templates/admin.yaml": b""},
    "a packed chart": {"web-1.0.0.tgz": pack({"web/values.yaml": b"user: admin\n"})},
    "a dependency that is packed in a packed chart": {"web.tgz": pack({"web/charts/db-1.0.0.tgz": DEPENDENCY})},
}


@pytest.mark.parametrize("where", IN_CONTENT)
def test_what_is_in_the_content_is_no_secret(where: str, tmp_path: Path) -> None:
    refuse(NAMED, tmp_path, IN_CONTENT[where])


def test_a_longer_secret_is_one_although_the_content_has_its_beginning(tmp_path: Path) -> None:
    secret = Confidential(secrets=("postgres4711",), public="")
    content = {"values.yaml": b"image: postgresql"}
    refuse(Rendering(objects=[item(name="db-postgresql")]), tmp_path, content, secret)
    with pytest.raises(BundleError, match="contains a value of a Secret"):
        refuse(Rendering(objects=[item(name="db-postgres4711")]), tmp_path, content, secret)


PUBLIC = {
    "a short value": item(name="q"),
    "the name of the BundleDeployment": item(name="shop-web"),
    "a value of the spec": item(name="web-testing"),
    "the namespace of the installation": item(metadata={"namespace": "shop-system"}),
    "a kind that is served": item("Deployment", version="apps/v1"),
}


@pytest.mark.parametrize("what", PUBLIC)
def test_what_everybody_may_read_is_no_secret(what: str, tmp_path: Path) -> None:
    secrets = ("q", "shop", "testing", "shop-system", "system", "deployment", "apps/v1")
    refuse(Rendering(objects=[PUBLIC[what]]), tmp_path, {}, Confidential(secrets=secrets, public=LOGIN.public))


def test_an_archive_that_cannot_be_read_has_no_names(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="contains a value of a Secret"):
        refuse(NAMED, tmp_path, {"web.tgz": DEPENDENCY[:60]})


def test_archives_in_each_other_end(tmp_path: Path) -> None:
    data = b"admin"
    for _ in range(10):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            about = tarfile.TarInfo("a.tgz")
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))
        data = packed.getvalue()
    with pytest.raises(BundleError, match="contains a value of a Secret"):
        refuse(NAMED, tmp_path, {"a.tgz": data})


def test_many_values_and_names_take_no_quadratic_time(tmp_path: Path) -> None:
    secrets = Confidential(secrets=tuple(f"password{number:06}" for number in range(50_000)), public="")
    objects = [item(name=f"web-{number}-passwor") for number in range(5000)]
    refuse(Rendering(objects=objects), tmp_path, {}, secrets)


def test_a_warning_with_a_value_of_a_secret_is_not_shown() -> None:
    assert without_secrets("ConfigMap shop/web: has a hook", LOGIN) == "ConfigMap shop/web: has a hook"
    shown = without_secrets("ConfigMap shop/hunter2: has a hook", LOGIN)
    assert shown == "a warning about the bundle is not shown, because it contains a value of a Secret"
