from __future__ import annotations

from typing import Any

import pytest

from controller.processors.images.processor import replace_image

QUAY = {"from": "quay.io/", "to": "mirror.example.com:5000/quay/"}
HUB = {"from": "docker.io/", "to": "mirror.example.com/hub/"}
FOO = {"from": "quay.io/foo", "to": "x"}
CASES: dict[str, tuple[str, list[dict[str, Any]], str]] = {
    "another registry": ("quay.io/foo/bar:v1", [QUAY], "mirror.example.com:5000/quay/foo/bar:v1"),
    "with a digest": ("quay.io/foo@sha256:ab", [QUAY], "mirror.example.com:5000/quay/foo@sha256:ab"),
    "with both": ("quay.io/foo:v1@sha256:ab", [QUAY], "mirror.example.com:5000/quay/foo:v1@sha256:ab"),
    "another registry is not touched": ("ghcr.io/foo:v1", [QUAY], "ghcr.io/foo:v1"),
    "a registry with a port": ("quay.io:443/foo", [QUAY], "quay.io:443/foo"),
    "Docker Hub, in short": ("nginx:1", [HUB], "mirror.example.com/hub/library/nginx:1"),
    "Docker Hub, with a user": ("grafana/grafana", [HUB], "mirror.example.com/hub/grafana/grafana"),
    "Docker Hub, in full": ("docker.io/grafana/grafana", [HUB], "mirror.example.com/hub/grafana/grafana"),
    "localhost is a registry": ("localhost/foo", [HUB], "localhost/foo"),
    "a name as it is written": ("nginx", [{"from": "nginx", "to": "example.com/web"}], "example.com/web"),
    "a name in full": ("nginx:1", [{"from": "docker.io/library/nginx", "tag": "2"}], "docker.io/library/nginx:2"),
    "one repository, not others that begin like it": ("quay.io/foobar", [FOO], "quay.io/foobar"),
    "one repository, not those below": ("quay.io/foo/bar", [FOO], "quay.io/foo/bar"),
    "the longest": ("quay.io/foo/bar", [QUAY, {"from": "quay.io/foo/", "to": "x/"}], "x/bar"),
    "the longest, whatever the order": ("quay.io/foo/bar", [{"from": "quay.io/foo/", "to": "x/"}, QUAY], "x/bar"),
    "only one rule": ("quay.io/a", [{"from": "quay.io/", "to": "x.io/"}, {"from": "x.io/", "to": "y/"}], "x.io/a"),
    "a tag": ("quay.io/a:v1@sha256:ab", [{"from": "quay.io/a", "tag": "v2"}], "quay.io/a:v2"),
    "a digest": ("quay.io/a:v1", [{"from": "quay.io/a", "digest": "sha256:cd"}], "quay.io/a@sha256:cd"),
    "a tag below a path": ("quay.io/a/b:v1", [{"from": "quay.io/", "tag": "v2"}], "quay.io/a/b:v2"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_becomes_of_an_image(case: str) -> None:
    image, rules, expect = CASES[case]
    assert replace_image(image, rules) == expect
