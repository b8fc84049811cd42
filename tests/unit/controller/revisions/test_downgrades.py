from __future__ import annotations

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.types import SourcePin
from rukpak.controller.revisions.approval import refuse_downgrade
from tests.support.deployments import RESOLVED_AT


def pin(resolved: str, version: str = "", **fields: str) -> SourcePin:
    found = {"kind": "image", "digest": "sha256:a", "spec_digest": "v1:a", "origin": "v1:a", **fields}
    return SourcePin.model_validate({"resolved": resolved, "version": version, "resolved_at": RESOLVED_AT, **found})


def image(version: str, repository: str = "quay.io/foo", **fields: str) -> SourcePin:
    return pin(f"{repository}:{version}@sha256:a", version, **fields)


INSTALLED = image("1.10.0")
ALLOWED = {
    "a higher version": image("v1.11.0"),
    "the same": INSTALLED,
    "a lower version of something else": image("1.0.0", "quay.io/bar"),
    "a lower version elsewhere in the tree": image("1.0.0", destination="other"),
    "a tag that the spec names": pin("quay.io/foo@sha256:a"),
    "a lower version of another kind": image("1.0.0", kind="git"),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_what_is_no_downgrade(case: str) -> None:
    refuse_downgrade([ALLOWED[case]], [INSTALLED])


@pytest.mark.parametrize("version", ["1.9.0", "1.10.0-rc.1", "v0.9.0_build"])
def test_a_lower_version_is_refused(version: str) -> None:
    with pytest.raises(BundleError) as caught:
        refuse_downgrade([pin("x@y"), image(version)], [INSTALLED])
    problem = f'the range leads to "{version}", which is lower than "1.10.0", the installed version'
    remedy = "publish a higher version, or set spec.allowDowngrade: true"
    expect = (Reason.DOWNGRADE, f"spec.sources[1]: {problem}; {remedy}")
    assert (caught.value.reason, caught.value.message) == expect


def test_a_lower_tag_of_a_repository_is_refused() -> None:
    url = "ssh://git@example.com/shop.git"
    lower, higher = (pin(f"{url}@{tag}@{'a' * 40}", tag, kind="git") for tag in ("v1.0.0", "v1.1.0"))
    refuse_downgrade([higher], [lower])
    with pytest.raises(BundleError, match="the range leads to"):
        refuse_downgrade([lower], [higher])


def test_what_was_signed_is_compared_and_not_the_tag() -> None:
    """Who may push tags, and not sign, could pass an older image off as a newer one."""
    with pytest.raises(BundleError) as caught:
        refuse_downgrade([image("9.9.9", verified_version="1.0.0")], [INSTALLED])
    assert 'the range leads to "9.9.9", signed as "1.0.0", which is lower than "1.10.0"' in caught.value.message
    passed_off = image("9.9.9", verified_version="1.0.0")
    refuse_downgrade([image("1.10.0", verified_version="v1.10.0")], [passed_off])
