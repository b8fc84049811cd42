from __future__ import annotations

from rukpak.controller.observe.kinds import RequiredKinds

MAP, WIDGET, GADGET = ("", "ConfigMap"), ("example.com", "Widget"), ("example.com", "Gadget")


def test_kinds_are_added_replaced_and_dropped() -> None:
    required = RequiredKinds()
    required.add("shop", [MAP])
    required.add("shop", [WIDGET])
    assert required.of("shop") == {MAP, WIDGET}
    required.replace("shop", [GADGET])
    assert (required.of("shop"), required.is_decided("shop")) == (frozenset({GADGET}), True)
    required.drop("shop")
    assert (required.of("shop"), required.is_decided("shop")) == (frozenset(), False)


def test_status_names_the_kinds_until_a_pass_decides() -> None:
    required = RequiredKinds()
    required.prepare("shop", [MAP])
    required.prepare("shop", [WIDGET])
    assert (required.of("shop"), required.is_decided("shop")) == (frozenset({WIDGET}), False)
    required.add("shop", [GADGET])
    assert (required.of("shop"), required.is_decided("shop")) == (frozenset({WIDGET, GADGET}), True)


def test_a_kind_is_required_as_long_as_one_requires_it() -> None:
    required = RequiredKinds()
    required.add("shop", [MAP, WIDGET])
    required.add("other", [MAP])
    required.drop("shop")
    assert required.find_unrequired([MAP, WIDGET]) == [WIDGET]
    required.drop("other")
    assert required.find_unrequired([MAP, WIDGET]) == [MAP, WIDGET]


def test_who_requires_a_kind_that_is_not_watched_is_blind_until_it_is() -> None:
    required = RequiredKinds()
    required.add("shop", [WIDGET])
    required.add("other", [MAP])
    required.note_unwatched([WIDGET])
    assert [required.has_unwatched(name) for name in ("shop", "other", "none")] == [True, False, False]
    assert (required.find_unwatched("example.com"), required.find_unwatched("")) == (["shop"], [])
    required.note_watched([WIDGET])
    assert (required.has_unwatched("shop"), required.find_unwatched("example.com")) == (False, [])


def test_a_kind_that_is_not_required_is_not_unwatched_when_it_is_required_again() -> None:
    required = RequiredKinds()
    required.add("shop", [WIDGET])
    required.note_unwatched([WIDGET])
    required.replace("shop", [MAP])
    required.find_unrequired([])
    required.add("shop", [WIDGET])
    assert not required.has_unwatched("shop")


def test_a_set_of_kinds_is_required_until_the_last_that_requires_it_changes() -> None:
    required = RequiredKinds()
    for name in ("shop", "other"):
        required.prepare(name, [MAP])
        required.prepare(name, [MAP])
    required.replace("shop", [WIDGET])
    assert required.find_unrequired([MAP, WIDGET]) == []
    required.replace("other", [WIDGET])
    assert required.find_unrequired([MAP, WIDGET]) == [MAP]
