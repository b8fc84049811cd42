"""What is no role, webhook or pod adds no permission, and breaks nothing."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from api.errors import BundleError
from controller.formats.applicable import make_applicable
from controller.permissions.permissions import added, digest_of, find_permissions, summarize
from tests.support.nonsense import OBJECTS, objects_like


@given(st.lists(objects_like(*OBJECTS), max_size=4), st.lists(objects_like(*OBJECTS), max_size=2))
def test_permissions_of_any_objects_are_found(items: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
    try:
        new, old = (
            find_permissions(make_applicable(each, install_namespace="shop", is_namespaced=lambda *_: None), "shop")
            for each in (items, others)
        )
    except BundleError:
        return
    digest_of(new)
    assert summarize(added(new, old), most=5).lines is not None
