"""Which certificates are trusted, and what is sent to authenticate."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import trustme

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Credentials
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.sources.hosts import parse_address
from rukpak.controller.sources.trust import certificates_of, check_secure, credential_headers, is_certificate_data

SERVER = parse_address("https://example.com")


def access(**given: Any) -> Access:
    return Access(
        path="spec.git", deadline=0, cancelled=threading.Event(), scratch=Path(), credentials=Credentials(**given)
    )


@pytest.mark.parametrize(
    ("pem", "expect"),
    [("", True), ("nonsense", False), ("ü", False), ("\ud800", False), ("-----BEGIN CERTIFICATE-----\nx\n", False)],
)
def test_what_is_certificate_data(pem: str, expect: bool) -> None:
    assert is_certificate_data(pem) is expect


def test_a_real_certificate_is_certificate_data() -> None:
    assert is_certificate_data(trustme.CA().cert_pem.bytes().decode())


def test_certificates_of_the_spec_come_before_those_of_the_secret() -> None:
    pem = trustme.CA().cert_pem.bytes().decode()
    assert certificates_of({"certificateData": "mine"}, access(certificate_authority=pem)) == "mine"
    assert certificates_of({}, access(certificate_authority=pem)) == pem
    assert certificates_of({}, access()) == ""


def test_certificates_of_a_secret_are_checked() -> None:
    with pytest.raises(BundleError, match=r'spec\.git\.auth: key "ca\.crt" of the Secret is not a bundle') as caught:
        certificates_of({}, access(certificate_authority="nonsense"))
    assert caught.value.reason is Reason.SECRET_INVALID


@pytest.mark.parametrize(
    ("given", "expect"),
    [
        ({}, ""),
        ({"bearer_token": "abc\n"}, "Bearer abc"),
        ({"username": "me", "password": "pw"}, "Basic bWU6cHc="),
        ({"password": "pw"}, "Basic YW5uOnB3"),
    ],
)
def test_what_is_sent(given: dict[str, str], expect: str) -> None:
    headers = {"Authorization": expect} if expect else {}
    assert credential_headers({}, access(**given), SERVER, "ann") == headers


@pytest.mark.parametrize("token", ["a b", "ü", "a\nb"])
def test_a_token_that_is_none_is_not_sent(token: str) -> None:
    with pytest.raises(BundleError, match='key "bearerToken" of the Secret is not a valid token') as caught:
        credential_headers({}, access(bearer_token=token), SERVER)
    assert caught.value.reason is Reason.SECRET_INVALID


@pytest.mark.parametrize(("plain", "verify"), [(True, True), (True, False), (False, False)])
def test_credentials_need_verified_https(plain: bool, verify: bool) -> None:
    with pytest.raises(BundleError, match="credentials are not sent") as caught:
        check_secure("spec.git", plain=plain, verify=verify)
    assert caught.value.reason is Reason.INSECURE_REFUSED
    check_secure("spec.git", plain=False, verify=True)
