from __future__ import annotations

from rukpak.controller.content.digests import digest_of, digest_of_json


def test_a_digest_says_its_algorithm() -> None:
    assert digest_of(b"") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_the_order_of_keys_makes_no_other_digest() -> None:
    assert digest_of_json({"b": [1, "é"], "a": None}) == digest_of(b'{"a":null,"b":[1,"\\u00e9"]}')
