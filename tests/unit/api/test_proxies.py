"""Which proxy is used for a server: the variables as curl and Go read them, and what is wrong with them."""

from __future__ import annotations

import pytest

from rukpak.api.proxies import Proxy, is_literal, read_proxies

PROXY = "http://proxy.example:3128"


def find(url: str, environment: dict[str, str]) -> str:
    scheme, _, rest = url.partition("://")
    host, _, port = rest.rpartition(":")
    found = read_proxies(environment).find(scheme, host, int(port))
    return found.authority if found else ""


VARIABLES = {
    "none": ({}, ""),
    "upper case": ({"HTTPS_PROXY": PROXY}, "proxy.example:3128"),
    "lower case": ({"https_proxy": PROXY}, "proxy.example:3128"),
    "both: lower case, as curl": (
        {"https_proxy": PROXY, "HTTPS_PROXY": "http://other.example:1"},
        "proxy.example:3128",
    ),
    "an empty one in lower case": ({"https_proxy": "", "HTTPS_PROXY": PROXY}, "proxy.example:3128"),
    "that of another scheme": ({"HTTP_PROXY": PROXY}, ""),
    "not of all schemes": ({"ALL_PROXY": PROXY}, ""),
    "without a scheme": ({"HTTPS_PROXY": "proxy.example:3128"}, "proxy.example:3128"),
    "without a port": ({"HTTPS_PROXY": "http://proxy.example"}, "proxy.example:80"),
    "with a slash and blanks": ({"HTTPS_PROXY": f" {PROXY}/ \n"}, "proxy.example:3128"),
    "in capitals": ({"HTTPS_PROXY": "HTTP://PROXY.example:3128"}, "proxy.example:3128"),
    "an address": ({"HTTPS_PROXY": "http://10.0.0.1:3128"}, "10.0.0.1:3128"),
    "an address of IPv6": ({"HTTPS_PROXY": "http://[fd00::1]:3128"}, "[fd00::1]:3128"),
    "with credentials": ({"HTTPS_PROXY": "http://robot:canary@proxy.example:3128"}, "proxy.example:3128"),
}


@pytest.mark.parametrize("case", VARIABLES)
def test_the_proxy_of_a_variable(case: str) -> None:
    environment, expected = VARIABLES[case]
    assert find("https://example.com:443", environment) == expected


# Entries of NO_PROXY; then a host and its port, and whether it is reached directly.
DIRECT = [
    ("", "example.com:443", False),
    ("*", "example.com:443", True),
    ("other.example, * ", "example.com:443", True),
    ("example.com", "example.com:443", True),
    ("example.com", "EXAMPLE.com.:443", True),
    ("Example.COM.", "example.com:443", True),
    ("example.com", "git.example.com:443", True),
    ("example.com", "notexample.com:443", False),
    ("example.com", "example.com.evil.example:443", False),
    (".example.com", "git.example.com:443", True),
    (".example.com", "example.com:443", False),
    ("*.example.com", "git.example.com:443", True),
    ("*.example.com", "example.com:443", False),
    (".svc", "git.forge.svc:443", True),
    (".svc,.cluster.local", "git.forge.svc.cluster.local:443", True),
    ("other.example,example.com", "example.com:443", True),
    ("other.example example.com", "example.com:443", True),
    ("other.example\n\texample.com,", "example.com:443", True),
    ("example.com:8443", "example.com:8443", True),
    ("example.com:8443", "git.example.com:8443", True),
    ("example.com:8443", "example.com:443", False),
    ("10.0.0.0/8", "10.1.2.3:443", True),
    ("10.0.0.5/8", "10.1.2.3:443", True),
    ("10.0.0.0/8", "11.1.2.3:443", False),
    ("10.0.0.0/8", "ten.example:443", False),
    ("10.0.0.0/8", "[::ffff:10.1.2.3]:443", True),
    ("10.1.2.3", "10.1.2.3:443", True),
    ("10.1.2.3:8443", "10.1.2.3:443", False),
    ("10.1.2.3:8443", "10.1.2.3:8443", True),
    ("fd00::/8", "[fd00::5]:443", True),
    ("[fd00::]/8", "fd00::5:443", False),
    ("fd00::5", "[fd00::5]:443", True),
    ("fd00:0:0::5", "[fd00::5]:443", True),
    ("[fd00::5]", "[fd00::5]:443", True),
    ("[fd00::5]:8443", "[fd00::5]:8443", True),
    ("[fd00::5]:8443", "[fd00::5]:443", False),
    ("bücher.example", "xn--bcher-kva.example:443", True),
    ("10.0.0.0/99, ., *., :, [, /, example.com:99999", "example.com:443", False),
]


@pytest.mark.parametrize(("entries", "server", "expect"), DIRECT)
def test_what_is_reached_directly(entries: str, server: str, expect: bool) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        found = find(f"https://{server}", {"HTTPS_PROXY": PROXY, name: entries})
        assert found == ("" if expect else "proxy.example:3128")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "localhost.", "127.0.0.1", "127.9.9.9", "[::1]", "::1"])
def test_this_machine_is_reached_directly(host: str) -> None:
    assert find(f"https://{host}:443", {"HTTPS_PROXY": PROXY}) == ""


def test_ssh_uses_no_proxy() -> None:
    assert find("ssh://example.com:22", {"HTTPS_PROXY": PROXY, "HTTP_PROXY": PROXY}) == ""


INVALID = {
    "a name that the proxy resolves": ("socks5h://robot:canary@proxy.example:1080", 'a proxy of type "socks5h"'),
    "socks": ("socks5://proxy.example:1080", 'a proxy of type "socks5" is not supported'),
    "socks in capitals": ("SOCKS5H://proxy.example:1080", 'a proxy of type "socks5h" is not supported'),
    "over TLS": ("https://robot:canary@proxy.example:3129", 'a proxy of type "https" is not supported'),
    "no host": ("http://:3128", "is not the URL of a proxy"),
    "no port": ("http://proxy.example:canary", "is not the URL of a proxy"),
    "port 0": ("http://proxy.example:0", "is not the URL of a proxy"),
    "a port that is too large": ("http://proxy.example:99999", "is not the URL of a proxy"),
    "a path": ("http://proxy.example:3128/canary", "is not the URL of a proxy"),
    "a password with a hash": ("http://robot:12#canary@proxy.example:3128", "encode special characters"),
    "a password with a slash": ("http://robot:12/canary@proxy.example:3128", "encode special characters"),
    "a password with a question mark": ("http://robot:12?canary@proxy.example:3128", "encode special characters"),
    "a line break": ("http://proxy.example:3128\r\nX: canary", "is not the URL of a proxy"),
    "a blank": ("http://proxy example:3128", "is not the URL of a proxy"),
    "a colon in the user": ("http://a%3Ab:canary@proxy.example:3128", "is not the URL of a proxy"),
    "brackets around no address": ("http://[canary]:3128", "is not the URL of a proxy"),
}


@pytest.mark.parametrize("case", INVALID)
def test_a_variable_that_cannot_be_used(case: str) -> None:
    text, problem = INVALID[case]
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY"):
        with pytest.raises(ValueError, match=f"^{name.upper()}: .*{problem}") as caught:
            read_proxies({name: text})
        assert "canary" not in str(caught.value)
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


CREDENTIALS = {
    "robot:canary": ("robot", "canary"),
    "robot": ("robot", ""),
    ":canary": ("", "canary"),
    "robot:c%40n%3Ary%2F": ("robot", "c@n:ry/"),
    "robot:c@nary": ("robot", "c@nary"),
    "robot:ca:nary": ("robot", "ca:nary"),
    "r%C3%B6bot:c": ("röbot", "c"),
}


@pytest.mark.parametrize("text", CREDENTIALS)
def test_credentials_of_a_proxy(text: str) -> None:
    found = read_proxies({"HTTPS_PROXY": f"http://{text}@proxy.example:3128"}).https
    assert found
    assert (found.username, found.password) == CREDENTIALS[text]
    assert read_proxies({"HTTPS_PROXY": found.url}).https == found


def test_credentials_are_in_no_repr() -> None:
    found = read_proxies({"HTTPS_PROXY": "http://robot:canary@proxy.example:3128"})
    assert repr(found.https) == "Proxy(host='proxy.example', port=3128)"
    assert "canary" not in repr(found)


def test_the_header_for_a_proxy() -> None:
    assert Proxy(host="a", port=1).authorization == ""
    assert Proxy(host="a", port=1, username="robot", password="ö").authorization == "Basic cm9ib3Q6w7Y="


LITERALS = {
    "10.0.0.1": True,
    "::1": True,
    "fe80::1%eth0": True,
    "2130706433": True,
    "0x7f000001": True,
    "0x7f.1": True,
    "127.1": True,
    "0177.0.0.1": True,
    "example.com": False,
    "10.0.0.1.example": False,
    "v1.example": False,
    "a1": False,
    "0x.example": False,
    "example.0xg": False,
}


@pytest.mark.parametrize("name", LITERALS)
def test_what_is_an_address_in_any_form(name: str) -> None:
    assert is_literal(name) is LITERALS[name]
