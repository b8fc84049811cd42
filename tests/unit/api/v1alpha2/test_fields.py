"""Durations, and names on the wire."""

from __future__ import annotations

import pytest

from rukpak.api.v1alpha2.fields import parse_duration, wire_name

SECONDS = {"30s": 30, "10m": 600, "1h30m": 5400, "500ms": 0.5, "1.5h": 5400, "1h0m0.25s": 3600.25, "0s": 0}


@pytest.mark.parametrize(("text", "seconds"), SECONDS.items())
def test_a_duration_is_read_as_go_does(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "10", "s", "1d", "-1s", "1 s", "1s ", "1s\n", ".5s", "1e3s", "1234567s"])
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration; write it like 30s"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("field", "wire"),
    [
        ("install_namespace", "installNamespace"),
        ("insecure_skip_tls_verify", "insecureSkipTLSVerify"),
        ("sha256", "sha256"),
        ("any_of", "in"),
    ],
)
def test_fields_have_kubernetes_names_on_the_wire(field: str, wire: str) -> None:
    assert wire_name(field) == wire
