"""Which sources the administrator's demands for signatures are about: nobody gets around one by another spelling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from rukpak.api.v1alpha2.types import BundleDeployment, Source
from rukpak.controller.sources.demands import Demand, SignaturePolicy, can_be_signed, parse_demands
from tests.support.deployments import manifest

DIGEST = "sha256:" + "a" * 64
DATA = Path(__file__).parents[3] / "data"
TABLE, MORE = (
    yaml.load((DATA / name).read_text(encoding="utf-8"), yaml.CSafeLoader)  # noqa: TID251 - files of ours
    for name in ("places.yaml", "spellings.yaml")
)
OTHERS = [
    (group["demand"], group["kind"], at, expect)
    for group in MORE
    for expect in ("demanded", "guarded", "refused", "free")
    for at in group.get(expect, ())
]
SPELLINGS: dict[str, dict[str, str]] = {row["case"]: row for row in TABLE["spellings"]}
POLICY = SignaturePolicy(demands=parse_demands(",".join(TABLE["demands"]), "rukpak-system"), mirrors=TABLE["mirrors"])
UNSIGNABLE: list[dict[str, Any]] = [
    {"kind": "configMap", "configMap": {"name": "a"}},
    {"kind": "example.com/s3", "parameters": {"bucket": "a"}},
]


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


def spelled(kind: str, at: str) -> dict[str, Any]:
    return {"image": image, "git": git, "http": http, "chart": chart}[kind](at)


SOURCES = [spelled(row["kind"], row["at"]) for row in SPELLINGS.values()]


@pytest.mark.parametrize("case", SPELLINGS)
def test_nobody_gets_around_a_demand_by_another_spelling(case: str) -> None:
    row = SPELLINGS[case]
    demanded = completed(POLICY, spelled(row["kind"], row["at"])).demanded
    found = "free" if demanded is None else "refused" if demanded.problem else demanded.keys
    assert found == row["expect"] or (row["expect"] == "guarded" and found != "free")


@pytest.mark.parametrize(("pattern", "kind", "at", "expect"), OTHERS)
def test_nobody_gets_around_a_demand_by_a_spelling_of_somebody_else(
    pattern: str, kind: str, at: str, expect: str
) -> None:
    try:
        demanded = completed(policy(f"{pattern}=/keys"), spelled(kind, at)).demanded
    except ValidationError:  # by the API, with demands and without
        found = "refused"
    else:
        found = "free" if demanded is None else "refused" if demanded.problem else "demanded"
    assert found == expect or (expect == "guarded" and found != "free")


@pytest.mark.parametrize("source", UNSIGNABLE, ids=str)
def test_no_signature_is_demanded_of_what_has_no_place(source: dict[str, Any]) -> None:
    assert keys_of(source) == ""


def test_what_the_refusal_says_names_what_to_write_otherwise() -> None:
    demanded = completed(POLICY, http("https://elsewhere.example/z/..;/acme/x.tar")).demanded
    assert demanded
    assert demanded.problem == (
        '"..;" is a part of the path that servers may read in several ways, and the administrator demands signatures '
        "by place (--require-verified); spell it plainly"
    )


REQUESTED = {
    "git@rooted.example.com:acme/x": "ssh://git@rooted.example.com/acme/x",
    "rooted.example.com:Acme/x.git": "ssh://rooted.example.com/Acme/x.git",
    "git@rooted.example.com:/srv/git/acme/x": "ssh://git@rooted.example.com/srv/git/acme/x",
    "git@elsewhere.example.com:acme/x": "git@elsewhere.example.com:acme/x",
    "https://rooted.example.com/acme/x": "https://rooted.example.com/acme/x",
}


@pytest.mark.parametrize("repository", REQUESTED)
def test_a_path_below_a_home_is_requested_from_the_root_where_something_is_demanded(repository: str) -> None:
    """Where the home is is known to the server alone: `acme/x` may be `/srv/git/acme/x`, of which more is demanded."""
    source = completed(POLICY, git(repository))
    assert source.request_json["repository"] == REQUESTED[repository]
    assert source.parameters_json["repository"] == repository, "what identifies it stays"


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
    for source in (*UNSIGNABLE, *SOURCES):
        demanded = completed(everywhere, source).demanded
        assert demanded
        assert ("sources of this kind have none" in demanded.problem) == (
            source["kind"] in ("configMap", "example.com/s3")
        )


@pytest.mark.parametrize("source", [*UNSIGNABLE, *SOURCES], ids=str)
def test_content_of_the_cluster_and_of_plug_ins_cannot_be_signed(source: dict[str, Any]) -> None:
    assert can_be_signed(completed(POLICY, source)) == (source["kind"] not in ("configMap", "example.com/s3"))


def test_the_longest_pattern_counts() -> None:
    two = policy("ghcr.io/*=/a,ghcr.io/acme/*=/b,*=/c")
    refs = ("ghcr.io/acme/shop", "ghcr.io/other", "quay.io/acme")
    assert [keys_of(image(ref), two) for ref in refs] == ["/b", "/a", "/c"]


def test_names_that_lead_to_other_demands_are_refused() -> None:
    """Over ssh, a path may begin at any folder of the server: none of the two demands is chosen."""
    two = policy("git.example.com/acme/*=/strict,git.example.com/public/*=/loose")
    demanded = completed(two, git("git@git.example.com:public/acme/shop")).demanded
    assert demanded
    assert "other signatures for other names" in demanded.problem


def test_without_demands_nothing_is_changed() -> None:
    value = BundleDeployment.model_validate(manifest())
    assert SignaturePolicy().complete(value) is value


@pytest.mark.parametrize(
    "text",
    ["ghcr.io/acme/*", "=/keys", "ghcr.io/acme/*=", "nginx=/keys", "https://ghcr.io/acme/*=/keys", "*/acme=/keys",
     "ghcr.io/*/shop=/keys", "ghcr.io=/keys", "ghcr.io/a/../b/*=/keys", "ghcr.io/a//b=/keys", "10.1:5000/*=/keys",
     "ghcr.io/acme/*=secret:"],
)  # fmt: skip
def test_what_is_no_demand_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="--require-verified"):
        parse_demands(text, "rukpak-system")


def test_demands_are_read() -> None:
    assert parse_demands(" GHCR.io:443/Acme/*=/a , index.docker.io/acme/b=secret:keys,", "here") == (
        Demand(pattern="ghcr.io/acme/*", keys="/a"),
        Demand(pattern="docker.io/acme/b", keys="secret:here/keys"),
    )
