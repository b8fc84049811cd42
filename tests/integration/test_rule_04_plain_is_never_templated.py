"""Rule 4: content is never interpreted before its format says so; plain manifests are applied as they stand."""

from __future__ import annotations

import pytest

from tests.support.bundles import World, config_map

TEMPLATES = {
    "Go": "{{ .Values.color }}{{- range $i, $e := until 3 }}{{ end }}",
    "shell": "${COLOR} $(COLOR) $COLOR `id` ~ * \\",
    "Jinja": "{% for x in y %}{{ x | upper }}{% endfor %}{# no #}",
    "Python": "%(color)s %s {0} {color!r}",
    "OpenShift": "${{COLOR}} ${COLOR}",
    "kustomize": "$(SERVICE_HOST)",
}


def test_what_looks_like_a_template_is_applied_as_it_stands(world: World) -> None:
    deployed = world.deploy(config_map("templates", **TEMPLATES))

    deployed.wait_ready()

    assert deployed.data("templates") == TEMPLATES


@pytest.mark.parametrize("comment", ["# {{- if .Values.enabled }}\n", "# ${a: b\n"], ids=["Go", "shell"])
def test_a_template_in_a_comment_is_a_comment(world: World, comment: str) -> None:
    text = f"{comment}apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: plain}}\ndata: {{color: blue}}\n"
    deployed = world.deploy({"manifests/plain.yaml": text.encode()})

    deployed.wait_ready()

    assert deployed.data("plain") == {"color": "blue"}


def test_a_template_that_is_no_yaml_is_refused_with_its_line(world: World) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\n"
    deployed = world.deploy({"manifests/chart.yaml": text.encode()})

    deployed.wait_for("Installed", "False", "InvalidBundle", saying="manifests/chart.yaml:4: ")
