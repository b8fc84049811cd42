"""Names and hashes of generated objects: those of OLM v1, character for character."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.formats.registry_v1 import generators as names
from controller.formats.registry_v1.bundle import typed as go_json

LONG = "my.object.thing.has.a.really.really.really.really.really.long.name"
HASHES: list[tuple[Any, str]] = [
    ("a", "1lu1qv1451mq7gv9upu1cx8ffffi07rel5xvbvvc44dh"),
    (None, "2im0kl1kwvzn46sr4cdtkvmdzrlurvj51xdzhwdht8l0"),
    (
        {"Str": "foobar", "Num": 22, "Obj": {"Foo": "bar"}, "Arr": [0, 1], "B": True, "N": None},
        "gta1bt5sybll5qjqxdiekmjm7py93glrinmnrfb31fj",
    ),
    ({"serviceAccountName": "", "rules": None}, "13nr4ju4s7dcvb397jw50p5sf63zsmvshg28rk87pxom"),
    ({"serviceAccountName": "", "rules": []}, "zyt4cis79f30vvme3ag97low4k97tlgem68ayw1vzeg"),
    ({"serviceAccountName": "x", "rules": [{"verbs": None}]}, "33ys5grtw9l1okvqpc0si4ox1cgnldxzby755t2p1ho4"),
    (
        {
            "serviceAccountName": "x",
            "rules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics", "/a?b=<c>&d"]}],
        },
        "1a495oam33tnt2yzg47xubxpsnp1aa0e5rf55mi4jtgs",
    ),
]


@pytest.mark.parametrize(("value", "expect"), HASHES, ids=[json.dumps(value) for value, _ in HASHES])
def test_hash(value: Any, expect: str) -> None:
    assert names.hash_of(value) == expect


class Named(NamedTuple):
    name: str
    value: str
    expect: str


# fmt: off
NAMES = [
    Named("dots of a deployment become dashes", names.service_name("my.deployment.thing"),
         "my-deployment-thing-service"),
    Named("a certificate is named after the Service", names.certificate_name("my.deployment.thing"),
         "my-deployment-thing-service-cert"),
    Named("a long Service name is cut", names.service_name(LONG),
         "my-object-thing-has-a-really-really-really-really-reall-service"),
    Named("the certificate's is cut again", names.certificate_name(LONG),
         "my-object-thing-has-a-really-really-really-really-reall-se-cert"),
    Named("and the issuer's once more", names.issuer_name(LONG),
         "my-object-thing-has-a-really-really-really-re-selfsigned-issuer"),
    Named("any base", names.join_name(LONG, "suffix"),
         "my.object.thing.has.a.really.really.really.really.really-suffix"),
    Named("what fits stays", names.join_name("a", "b"), "a-b"),
    Named("names of 63 bytes together are one too long, as upstream's", names.join_name("a" * 57, "suffix"),
         "a" * 57 + "-suffix"),
    Named("but a Service cannot have such a one", names.service_name("a" * 56), "a" * 55 + "-service"),
    Named("its certificate keeps upstream's name", names.certificate_name("a" * 56), "a" * 56 + "-s-cert"),
]
# fmt: on


@pytest.mark.parametrize("case", NAMES, ids=[case.name for case in NAMES])
def test_name(case: Named) -> None:
    assert case.value == case.expect


@pytest.mark.parametrize(("length", "expect"), [(54, 62), (55, 63), (56, 63), (57, 63), (70, 63)])
def test_a_service_name_fits(length: int, expect: int) -> None:
    assert len(names.service_name("a" * length)) == expect


def test_characters_that_go_escapes() -> None:
    assert go_json.write("<>&\u2028\u2029é\n") == '"\\u003c\\u003e\\u0026\\u2028\\u2029é\\n"'


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.text(), JSON, max_size=3), max_size=3), st.sampled_from([None, 1]))
def test_a_list_is_split_into_unparsed_members(items: list[dict[str, Any]], indent: int | None) -> None:
    found = go_json.split_list(json.dumps(items, indent=indent))
    assert [{key: json.loads(value) for key, value in item.items()} for item in found] == items


@pytest.mark.parametrize("text", ["", "{}", "[1]", "null", "[NaN]", "[{]", '[{"a":Infinity}]'])
def test_text_that_is_not_a_list_of_objects(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - nothing else tells them apart
        go_json.split_list(text)
