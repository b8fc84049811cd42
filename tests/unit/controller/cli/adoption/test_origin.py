"""What `--from` names."""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

import pytest

from controller.cli.adoption.origin import Origin, Tool, hint_at_tool, is_tool, read_origin
from controller.cli.command import MisuseError


class Case(NamedTuple):
    name: str
    text: str
    origin: Origin


CASES = [
    Case("a release in the install namespace", "helm/shop", Origin(tool=Tool.HELM, name="shop", namespace="installed")),
    Case("a release elsewhere", "helm/shop.team", Origin(tool=Tool.HELM, name="shop", namespace="team")),
    Case("a release with a dot in its name", "helm/a.b.team", Origin(tool=Tool.HELM, name="a.b", namespace="team")),
    Case("a Kustomization", "flux/apps", Origin(tool=Tool.FLUX, name="apps", namespace="flux-system")),
    Case("a Kustomization elsewhere", "flux/apps.team", Origin(tool=Tool.FLUX, name="apps", namespace="team")),
    Case("kubectl", "kubectl", Origin(tool=Tool.KUBECTL)),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_a_tool_is_read(case: Case) -> None:
    assert is_tool(case.text)
    assert read_origin(case.text, "installed", ()) == case.origin


@pytest.mark.parametrize("text", ["helm/", "argo/shop", "helm/.team", "flux"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(MisuseError, match="must be helm/RELEASE"):
        read_origin(text, "installed", ())


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("helm", "name what it has installed: --from helm/RELEASE"),
        ("flux", "name what it has installed: --from flux/KUSTOMIZATION"),
        ("shop", ""),
    ],
)
def test_a_tool_without_a_name_gets_a_hint(text: str, hint: str) -> None:
    assert hint_at_tool(text) == hint


MANAGERS = [
    ("helm/a", "helm", True),
    ("helm/a", "terraform-provider-helm_v2.17.0_x5", True),
    ("helm/a", "kubectl-edit", True),
    ("helm/a", "kustomize-controller", False),
    ("flux/a", "kustomize-controller", True),
    ("flux/a", "kube-controller-manager", False),
    ("kubectl", "kubectl-client-side-apply", True),
    ("kubectl", "kubectl", True),
    ("kubectl", "helm", False),
    ("kubectl", "ci", True),
]


@pytest.mark.parametrize(("text", "manager", "is_theirs"), MANAGERS)
def test_its_field_managers_are_known(text: str, manager: str, is_theirs: bool) -> None:
    assert read_origin(text, "a", ("ci",)).is_manager(manager) is is_theirs


def test_its_marks_include_the_namespace() -> None:
    release = read_origin("helm/shop.team", "", ())
    marks = {"meta.helm.sh/release-name": "shop", "meta.helm.sh/release-namespace": "team"}
    assert release.has_marked({"annotations": marks})
    assert not release.has_marked({"annotations": {**marks, "meta.helm.sh/release-namespace": "other"}})
    assert not read_origin("kubectl", "", ()).has_marked({"annotations": marks})
