"""Which sources the administrator's demands for signatures are about: nobody gets around one by another spelling."""

from __future__ import annotations

from typing import Any

import pytest

from api.v1alpha2.types import BundleDeployment, Source
from controller.sources.demands import Demand, SignaturePolicy, can_be_signed, parse_demands
from tests.support.deployments import manifest

DIGEST = "sha256:" + "a" * 64
POLICY = SignaturePolicy(
    demands=parse_demands(
        "gitlab.com/acme/*=/keys/gitlab,bitbucket.org/acme/*=/keys/bitbucket,"
        "ghcr.io/acme/*=/keys/acme, docker.io/library/*=/keys/hub,github.com/acme/*=secret:git,"
        "files.example.com/acme/*=/keys/files,10.0.0.1:5000/*=/keys/address,[fd00:0:0::1]/*=/keys/ipv6,charts.example.com/*=/keys/charts,ghcr.io/one/shop=/keys/one",
        "rukpak-system",
    ),
    mirrors={"ghcr.io": "mirror.example.com/ghcr", "index.docker.io": "hub.example.com"},
)


def image(ref: str) -> dict[str, Any]:
    return {"kind": "image", "image": {"ref": ref}}


def git(repository: str) -> dict[str, Any]:
    return {"kind": "git", "git": {"repository": repository}}


def http(url: str) -> dict[str, Any]:
    return {"kind": "http", "http": {"url": url}}


def chart(repository: str, name: str = "shop") -> dict[str, Any]:
    return {"kind": "chart", "chart": {"repository": repository, "name": name, "version": "1.0.0"}}


def completed(policy: SignaturePolicy, source: dict[str, Any]) -> Source:
    value = manifest(spec={"sources": [source]})
    return policy.complete(BundleDeployment.model_validate(value)).spec.sources[0]


def keys_of(source: dict[str, Any], policy: SignaturePolicy = POLICY) -> str:
    """Return where the keys are with which a source must be signed; empty if it need not be."""
    demanded = completed(policy, source).demanded
    return demanded.keys if demanded else ""


DEMANDED: dict[str, tuple[dict[str, Any], str]] = {
    "an image by tag": (image("ghcr.io/acme/shop:v1"), "/keys/acme"),
    "by digest": (image(f"ghcr.io/acme/shop@{DIGEST}"), "/keys/acme"),
    "deeper": (image("ghcr.io/acme/team/shop:v1"), "/keys/acme"),
    "a registry in upper case": (image("GHCR.io/acme/shop:v1"), "/keys/acme"),
    "with the usual port": (image("ghcr.io:443/acme/shop:v1"), "/keys/acme"),
    "with another port": (image("ghcr.io:8443/acme/shop:v1"), "/keys/acme"),
    "by the mirror": (image("mirror.example.com/ghcr/acme/shop:v1"), "/keys/acme"),
    "by the mirror with its port": (image("Mirror.example.com:443/ghcr/acme/shop:v1"), "/keys/acme"),
    "a short name": (image("nginx"), "/keys/hub"),
    "a folder that Docker Hub adds": (image("library/nginx:1"), "/keys/hub"),
    "the whole name": (image("docker.io/library/nginx:1"), "/keys/hub"),
    "without the folder": (image("docker.io/nginx:1"), "/keys/hub"),
    "its older name": (image("index.docker.io/library/nginx"), "/keys/hub"),
    "its host": (image("registry-1.docker.io/library/nginx"), "/keys/hub"),
    "another of its hosts": (image("registry.hub.docker.com/library/nginx"), "/keys/hub"),
    "its mirror": (image("hub.example.com/library/nginx"), "/keys/hub"),
    "an exact name": (image("ghcr.io/one/shop:v1"), "/keys/one"),
    "a repository": (git("https://github.com/acme/shop"), "secret:rukpak-system/git"),
    "with .git": (git("https://github.com/acme/shop.git"), "secret:rukpak-system/git"),
    "by ssh": (git("ssh://git@github.com/acme/shop"), "secret:rukpak-system/git"),
    "with the port of ssh": (git("ssh://git@github.com:22/acme/shop.git"), "secret:rukpak-system/git"),
    "like scp": (git("git@github.com:acme/shop.git"), "secret:rukpak-system/git"),
    "like scp without a user": (git("github.com:acme/shop"), "secret:rukpak-system/git"),
    "like scp from the root": (git("git@github.com:/acme/shop"), "secret:rukpak-system/git"),
    "by ssh to the port of https": (git("ssh://git@ssh.github.com:443/acme/shop"), "secret:rukpak-system/git"),
    "like scp to that host": (git("git@ssh.github.com:acme/shop.git"), "secret:rukpak-system/git"),
    "that host in other letters": (git("ssh://git@SSH.GitHub.com.:0443/acme/shop"), "secret:rukpak-system/git"),
    "by the host that redirects to it": (git("https://www.github.com/acme/shop"), "secret:rukpak-system/git"),
    "by ssh to the port of https of GitLab": (git("ssh://git@altssh.gitlab.com:443/acme/shop"), "/keys/gitlab"),
    "the same of Bitbucket": (git("ssh://git@altssh.bitbucket.org:443/acme/shop"), "/keys/bitbucket"),
    "with a user": (git("https://me@github.com/acme/shop"), "secret:rukpak-system/git"),
    "over http": (git("http://github.com/acme/shop"), "secret:rukpak-system/git"),
    "in upper case": (git("https://GitHub.com/ACME/Shop"), "secret:rukpak-system/git"),
    "with more slashes": (git("https://github.com//acme//shop/"), "secret:rukpak-system/git"),
    "with dots": (git("https://github.com/./other/../acme/shop"), "secret:rukpak-system/git"),
    "percent-encoded": (git("https://github.com/%61cme/shop"), "secret:rukpak-system/git"),
    "percent-encoded twice": (git("https://github.com/%2561cme/shop"), "secret:rukpak-system/git"),
    "a host with a dot at its end": (git("https://github.com./acme/shop"), "secret:rukpak-system/git"),
    "a file": (http("https://files.example.com/acme/shop.tar.gz?token=a"), "/keys/files"),
    "a file with dots that are encoded": (http("https://files.example.com/x/%2e%2e/acme/shop.tar"), "/keys/files"),
    "a chart": (chart("https://charts.example.com"), "/keys/charts"),
    "a chart with a query": (chart("https://charts.example.com/stable?x=a/b"), "/keys/charts"),
    "a chart in a registry": (chart("oci://ghcr.io/acme"), "/keys/acme"),
    "a chart in Docker Hub": (chart("oci://registry-1.docker.io/library"), "/keys/hub"),
    "an address": (image("10.0.0.1:5000/acme/shop"), "/keys/address"),
    "a shorter spelling of it": (image("10.1:5000/acme/shop"), "/keys/address"),
    "as one number": (http("http://167772161:5000/acme/shop"), "/keys/address"),
    "in hexadecimal": (http("http://0x0a.0.0.1:5000/acme/shop"), "/keys/address"),
    "in an IPv6 address": (http("http://[::ffff:10.0.0.1]:5000/acme/shop"), "/keys/address"),
    "an IPv6 address": (http("https://[fd00::0001]:8443/acme/shop"), "/keys/ipv6"),
    "a port with zeros before it": (image("10.0.0.1:05000/acme/shop"), "/keys/address"),
    "with more of them": (http(f"http://10.0.0.1:{'0' * 20}5000/acme/shop"), "/keys/address"),
    "in a URL": (http("http://10.0.0.1:05000/acme/shop"), "/keys/address"),
    "in a URL of a repository": (git("ssh://git@10.0.0.1:005000/acme/shop"), "/keys/address"),
    "in a URL of charts": (chart("http://10.0.0.1:05000/acme"), "/keys/address"),
    "in a registry of charts": (chart("oci://10.0.0.1:05000/acme"), "/keys/address"),
    "an image as files": (http("https://ghcr.io/v2/acme/shop/blobs/sha256:aaaa"), "/keys/acme"),
}
FREE: dict[str, dict[str, Any]] = {
    "another registry": image("quay.io/acme/shop:v1"),
    "another account": image("ghcr.io/acme2/shop:v1"),
    "an account of Docker Hub": image("acme/nginx"),
    "below an exact name": image("ghcr.io/one/shop/more:v1"),
    "a host that ends in the same way": image("notghcr.io/acme/shop:v1"),
    "the place in a path": http("https://example.com/ghcr.io/acme/shop"),
    "the place in a query": http("https://example.com/a.tar?x=files.example.com/acme/a"),
    "another repository": git("https://github.com/other/acme"),
    "content of the cluster": {"kind": "configMap", "configMap": {"name": "a"}},
    "a plug-in": {"kind": "example.com/s3", "parameters": {"bucket": "a"}},
}


@pytest.mark.parametrize("case", DEMANDED)
def test_a_signature_is_demanded_of(case: str) -> None:
    source, keys = DEMANDED[case]
    assert keys_of(source) == keys
    demanded = completed(POLICY, source).demanded
    assert demanded
    assert not demanded.problem


@pytest.mark.parametrize("case", FREE)
def test_no_signature_is_demanded_of(case: str) -> None:
    assert keys_of(FREE[case]) == ""


def test_what_a_spec_says_takes_nothing_back() -> None:
    """Its own `verify` is demanded as well."""
    own = {"cosign": {"keys": [{"pem": "-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----\n"}]}}
    source = image("ghcr.io/acme/shop:v1")
    source["image"] |= {"verify": own, "insecureSkipTLSVerify": True}
    made = completed(POLICY, source)
    assert made.demanded
    assert made.verification
    assert made.needs_signature


def test_a_port_in_a_pattern_or_a_mirror_is_a_number() -> None:
    """Of a demand for one port, other ports are free."""
    made = SignaturePolicy(
        demands=parse_demands("registry.acme:05000/team/*=/keys,ghcr.io:0443/acme/*=/usual", "rukpak-system"),
        mirrors={"registry.acme:005000": "mirror.acme:007000", "ghcr.io:443": "usual.acme:0443/ghcr"},
    )
    found = [
        keys_of(image(f"registry.acme{port}/team/app"), made) for port in (":5000", ":05000", ":50000", ":500", "")
    ]
    assert found == ["/keys", "/keys", "", "", ""]
    mirrored = [keys_of(image(f"mirror.acme{port}/team/app"), made) for port in (":7000", ":07000", ":70000", "")]
    assert mirrored == ["/keys", "/keys", "", ""]
    refs = ("ghcr.io/acme/app", "ghcr.io:0443/acme/app", "usual.acme/ghcr/acme/app", "usual.acme:443/ghcr/acme/app")
    assert {keys_of(image(ref), made) for ref in refs} == {"/usual"}


def test_a_pattern_without_a_port_is_for_all_ports_of_a_mirror_and_of_what_it_mirrors() -> None:
    made = SignaturePolicy(
        demands=parse_demands("mirror.acme/*=/mirror,registry.acme/*=/registry", "rukpak-system"),
        mirrors={"quay.io": "mirror.acme:7000", "registry.acme:5000": "other.acme"},
    )
    assert [keys_of(image(ref), made) for ref in ("quay.io/a", "other.acme/a")] == ["/mirror", "/registry"]


def test_an_alias_in_a_pattern_is_the_host() -> None:
    made = policy("ssh.github.com/acme/*=/keys")
    assert keys_of(git("https://github.com/acme/shop"), made) == "/keys"


def policy(text: str) -> SignaturePolicy:
    return SignaturePolicy(demands=parse_demands(text, "rukpak-system"))


def test_everywhere_is_also_where_nothing_can_be_signed() -> None:
    everywhere = policy("*=/keys")
    for source in (*FREE.values(), *(source for source, _ in DEMANDED.values())):
        demanded = completed(everywhere, source).demanded
        assert demanded
        assert ("sources of this kind have none" in demanded.problem) == (
            source["kind"] in ("configMap", "example.com/s3")
        )


@pytest.mark.parametrize("source", [*FREE.values(), *(source for source, _ in DEMANDED.values())], ids=str)
def test_content_of_the_cluster_and_of_plug_ins_cannot_be_signed(source: dict[str, Any]) -> None:
    assert can_be_signed(completed(POLICY, source)) == (source["kind"] not in ("configMap", "example.com/s3"))


def test_the_longest_pattern_counts() -> None:
    two = policy("ghcr.io/*=/a,ghcr.io/acme/*=/b,*=/c")
    refs = ("ghcr.io/acme/shop", "ghcr.io/other", "quay.io/acme")
    assert [keys_of(image(ref), two) for ref in refs] == ["/b", "/a", "/c"]


def test_a_spelling_that_leads_to_other_demands_is_refused() -> None:
    """Servers differ in what they make of dots: none of the two is chosen."""
    two = policy("github.com/acme/*=/strict,github.com/acme/public/*=/loose")
    demanded = completed(two, git("https://github.com/acme/public/../shop")).demanded
    assert demanded
    assert "other signatures for other spellings" in demanded.problem


def test_without_demands_nothing_is_changed() -> None:
    value = BundleDeployment.model_validate(manifest())
    assert SignaturePolicy().complete(value) is value


@pytest.mark.parametrize(
    "text",
    ["ghcr.io/acme/*", "=/keys", "ghcr.io/acme/*=", "nginx=/keys", "https://ghcr.io/acme/*=/keys", "*/acme=/keys",
     "ghcr.io/*/shop=/keys", "ghcr.io=/keys", "ghcr.io/acme/*=secret:"],
)  # fmt: skip
def test_what_is_no_demand_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="--require-verified"):
        parse_demands(text, "rukpak-system")


def test_demands_are_read() -> None:
    assert parse_demands(" GHCR.io:443/Acme/*=/a , index.docker.io/acme/b=secret:keys,", "here") == (
        Demand(pattern="ghcr.io/acme/*", keys="/a"),
        Demand(pattern="docker.io/acme/b", keys="secret:here/keys"),
    )
