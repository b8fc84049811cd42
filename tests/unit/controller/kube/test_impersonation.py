from __future__ import annotations

import pytest

from controller.kube.configuration import User


@pytest.mark.parametrize("name", ["", " ", "\t", "a\nImpersonate-Group: system:masters", "a\r", "\x00", "ä"], ids=repr)
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="impersonation"):
        User(name)


def test_an_empty_group_or_extra_is_refused() -> None:
    with pytest.raises(ValueError, match="impersonation"):
        User("a", groups=("",))
    with pytest.raises(ValueError, match="impersonation"):
        User("a", extra={"scopes": ("",)})


def test_groups_are_repeated_headers_and_keys_of_extra_are_quoted() -> None:
    user = User("a", groups=("g", "h"), extra={"example.org/x": ("1", "2")})
    assert list(user.headers()) == [
        ("Impersonate-User", "a"),
        ("Impersonate-Group", "g"),
        ("Impersonate-Group", "h"),
        ("Impersonate-Extra-example.org%2Fx", "1"),
        ("Impersonate-Extra-example.org%2Fx", "2"),
    ]


def test_a_service_account_is_a_user() -> None:
    assert User.service_account("ns", "sa") == User("system:serviceaccount:ns:sa")


@pytest.mark.parametrize(("namespace", "name"), [("", "sa"), ("ns", ""), ("ns", "a:b"), ("a:b", "c")])
def test_a_service_account_that_is_none_is_refused(namespace: str, name: str) -> None:
    with pytest.raises(ValueError, match="cannot be a ServiceAccount"):
        User.service_account(namespace, name)
