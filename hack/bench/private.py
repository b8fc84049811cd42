"""What private sources cost: with other certificates, with passwords, with both, with signatures, and through a proxy.

`hack/bench/run` measures it with everything else; `python -m hack.bench.private` measures only this.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hack.bench import figures, raw
from hack.bench.api import Api
from hack.bench.figures import FIGURES, Figure, Measured, Sample, describe_machine, medians
from hack.bench.scenarios import MANY, ONE, Scenario, delete, install
from hack.bench.testbed import Testbed, make_testbed
from hack.bench.workloads import Manifest
from hack.control_plane.builds import BUILDS
from rukpak.controller.playground.binaries import Binaries, MissingError
from rukpak.controller.playground.cluster import Registry
from rukpak.controller.playground.programs import read_settings
from tests.support import proxies
from tests.support.cosigned import SIMPLE_SIGNING, FileSigner, encode, make_payload, sign
from tests.support.private_sources import PASSWORD, USER, Authority, GuardedRegistry, password_auth
from tests.support.registry import CONFIG, MANIFEST, RegistryClient

HERE = Path(__file__).parent
BARE = "bare client, without images"
"""Title of the row for the bare client, which fetches no images."""
RUNS = 2
MEASURED = (ONE, MANY)
COLUMNS = ("install_seconds", "install_requests", "install_cpu", "peak")
PROXIED = proxies.NAMES[2]
LOGIN = {"username": USER, "password": PASSWORD}


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """The registries, which all have the same content, and the authority of their certificates."""

    plain: str
    """Host of the one without TLS, which anyone may read."""
    secure: str
    """With TLS, which anyone may read."""
    guarded: str
    """With TLS and a password."""
    authority: Authority
    signer: FileSigner
    """Signs all images."""
    proxy: str
    """URL of a proxy that knows `secure` by another name, `proxied`; empty if there is none on this machine."""

    @property
    def proxied(self) -> str:
        return f"{PROXIED}:{self.secure.rpartition(':')[2]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """How a source trusts its registry, and authenticates."""

    title: str
    host: Callable[[Servers], str]
    block: Callable[[Servers], Manifest] = lambda _: {}
    """Fields of `spec.sources[].image`."""
    secret: Callable[[Servers], Mapping[str, str]] = lambda _: {}
    """Values of the Secret that `auth` names; empty for none."""
    environment: Callable[[Servers], Mapping[str, str]] = lambda _: {}
    """Variables of the controller."""
    is_proxied: bool = False


def _authority(servers: Servers) -> Mapping[str, str]:
    return {"ca.crt": servers.authority.pem}


_UNVERIFIED = {"insecureSkipTLSVerify": True}
TRUSTS = (
    Trust(title="public, plain http", host=lambda each: each.plain),
    Trust(title="`insecureSkipTLSVerify`, plain http", host=lambda each: each.plain, block=lambda _: _UNVERIFIED),
    Trust(title="`insecureSkipTLSVerify`, https", host=lambda each: each.secure, block=lambda _: _UNVERIFIED),
    Trust(
        title="`certificateData`",
        host=lambda each: each.secure,
        block=lambda each: {"certificateData": each.authority.pem},
    ),
    Trust(title="Secret with a CA", host=lambda each: each.secure, secret=_authority),
    Trust(
        title="Secret with a password, CA of the system",
        host=lambda each: each.guarded,
        secret=lambda _: LOGIN,
        environment=lambda each: {"SSL_CERT_FILE": str(each.authority.folder / "ca.crt")},
    ),
    Trust(
        title="Secret with a password and a CA",
        host=lambda each: each.guarded,
        secret=lambda each: {**LOGIN, **_authority(each)},
    ),
    Trust(
        title="public, plain http, signed with a key of cosign",
        host=lambda each: each.plain,
        block=lambda each: {"verify": each.signer.verify},
    ),
    Trust(
        title="`insecureSkipTLSVerify`, https, through a proxy",
        host=lambda each: each.proxied,
        block=lambda _: _UNVERIFIED,
        environment=lambda each: {"HTTPS_PROXY": each.proxy},
        is_proxied=True,
    ),
)
Samples = Mapping[str, Mapping[str, Sequence[Sample]]]
"""The runs of each scenario, by its name and the title of the trust."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, write the JSON, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m hack.bench.private", description="Measure private sources.")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each row, for a median [%(default)s]")
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="write the JSON to this folder, and not beside this program"
    )
    options = parser.parse_args(arguments)
    try:
        with make_testbed() as testbed:
            publish(measure(testbed, options.runs), options.output)
    except (MissingError, TimeoutError, RuntimeError) as error:
        print(f"hack/bench/private: {error}", file=sys.stderr)
        return 1
    return 0


def measure(testbed: Testbed, runs: int) -> Samples:
    """Install the bundles of each scenario with each trust, and delete them."""
    with tempfile.TemporaryDirectory() as folder, serve_privately(testbed.registry, Path(folder)) as servers:
        return {
            scenario.name: {
                **{
                    trust.title: [_run(testbed, servers, scenario, trust, number) for number in range(runs)]
                    for trust in TRUSTS
                    if servers.proxy or not trust.is_proxied
                },
                BARE: [_run_bare(testbed, scenario, number) for number in range(runs)],
            }
            for scenario in MEASURED
        }


@contextmanager
def serve_privately(public: Registry, folder: Path) -> Iterator[Servers]:
    """Run registries with TLS that serve the content of another one; `folder` is for their files."""
    program = Binaries(read_settings(), builds=BUILDS).obtain(["registry"])["registry"]
    for name in ("authority", "secure", "guarded"):
        (folder / name).mkdir()
    authority, auth = Authority.make(folder / "authority"), password_auth(folder / "guarded")
    with (
        GuardedRegistry(folder / "secure", program, public.content, authority, {}) as secure,
        GuardedRegistry(folder / "guarded", program, public.content, authority, auth) as guarded,
        _find_proxy() as proxy,
    ):
        yield Servers(
            plain=public.host,
            secure=secure.host,
            guarded=guarded.host,
            authority=authority,
            signer=FileSigner(),
            proxy=proxy,
        )


@contextmanager
def _find_proxy() -> Iterator[str]:
    with ExitStack() as stack:
        try:
            url = stack.enter_context(proxies.running_squid()).url
        except pytest.skip.Exception:
            print(f"without a proxy: {proxies.MISSING}", file=sys.stderr)
            url = ""
        yield url


def _run(testbed: Testbed, servers: Servers, scenario: Scenario, trust: Trust, number: int) -> Sample:
    print(f"{scenario.title}, {trust.title}: run {number + 1}", file=sys.stderr, flush=True)
    bundles = scenario.make(f"{scenario.name}-{TRUSTS.index(trust)}-{number}")
    pushed = testbed.push(bundles)
    for body in pushed:
        _sign(RegistryClient(servers.plain), body["spec"]["sources"][0]["image"]["ref"], servers.signer)
    deployments = [_privately(body, servers, trust) for body in pushed]
    secret = trust.secret(servers)
    for bundle in bundles:
        _make_namespace(testbed.api, bundle.name, secret)
    with testbed.running_controller(trust.environment(servers)):
        sample = {**install(testbed, deployments), "peak": Measured(ours=testbed.peak())}
        delete(testbed, deployments)  # the namespaces stay: that a hundred are gone takes longer than all else
    return sample


def _run_bare(testbed: Testbed, scenario: Scenario, number: int) -> Sample:
    bundles = scenario.make(f"{scenario.name}-bare-{number}")
    effort = raw.install(testbed.api, bundles)
    raw.remove(testbed.api, bundles)
    requests = sum(len(bundle.objects) for bundle in bundles)
    return {
        "install_seconds": Measured(ours=effort.seconds),
        "install_requests": Measured(ours=requests),
        "install_cpu": Measured(ours=effort.cpu),
    }


def _sign(registry: RegistryClient, reference: str, signer: FileSigner) -> None:
    """Push the signature of an image, as cosign 2 does."""
    repository, _, digest = reference.partition("/")[2].partition("@")
    payload = make_payload(digest)
    signature = {"dev.cosignproject.cosign/signature": encode(sign(signer.key, payload))}
    layer = {**registry.push_blob(repository, SIMPLE_SIGNING, payload).as_json(), "annotations": signature}
    config = registry.push_blob(repository, CONFIG, b"{}").as_json()
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]}
    registry.push_manifest(repository, f"{digest.replace(':', '-')}.sig", manifest)


def _privately(body: Manifest, servers: Servers, trust: Trust) -> Manifest:
    """Return a BundleDeployment that uses another registry with the same content."""
    [source] = body["spec"]["sources"]
    path = source["image"]["ref"].partition("/")[2]
    auth = {"auth": {"secret": {"name": "login"}}} if trust.secret(servers) else {}
    image = {"ref": f"{trust.host(servers)}/{path}", **trust.block(servers), **auth}
    return {**body, "spec": {**body["spec"], "sources": [{**source, "image": image}]}}


def _make_namespace(api: Api, name: str, secret: Mapping[str, str]) -> None:
    """Create an install namespace, if necessary with the Secret."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    api.request("POST", "/api/v1/namespaces", body)
    if secret:
        data = {key: base64.b64encode(value.encode()).decode() for key, value in secret.items()}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "data": data}
        api.request("POST", f"/api/v1/namespaces/{name}/secrets", body)


# the table


def publish(samples: Samples, output: Path | None) -> None:
    """Print the table, and write the JSON to a folder; by default this one, if there is more than one run."""
    is_whole = _runs(samples) > 1
    found = {f"{name}.{number}": runs for name, each in samples.items() for number, runs in enumerate(each.values())}
    figures.publish("private", as_markdown(samples), figures.values_of(found), output, is_whole=is_whole)
    if not (output or is_whole):
        return
    document = {"machine": describe_machine(), "scenarios": _plain(samples)}
    ((output or HERE) / "private.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def as_markdown(samples: Samples) -> str:
    """Return the table: a row for each trust, with columns for each scenario.

    In parentheses is the factor over the bare client, which has a row of its own.
    """
    shown = [figure for figure in FIGURES if figure.key in COLUMNS]
    titles = {scenario.name: scenario.title for scenario in MEASURED}
    heads = [f"{titles[name]}: {figure.title}" for name in samples for figure in shown]
    rows = [
        [
            title,
            *(
                _shown(medians(each[title]), {} if title == BARE else medians(each[BARE]), figure)
                for each in samples.values()
                for figure in shown
            ),
        ]
        for title in next(iter(samples.values()))
    ]
    lines = [["", *heads], ["---", *["---:"] * len(heads)], *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"Median of {_runs(samples)} runs; {', '.join(describe_machine().values())}.\n\n{table}\n"


def _shown(sample: Sample, bare: Sample, figure: Figure) -> str:
    """Return a figure, and its factor over that of the bare client."""
    measured, least = sample.get(figure.key), bare.get(figure.key)
    if measured is None:
        return ""
    factor = figures.factor_of(measured.ours, least.ours if least else None)
    return f"{measured.ours:,.{figure.digits}f}" + (f" ({factor})" if factor else "")


def _runs(samples: Samples) -> int:
    return min(len(runs) for by_trust in samples.values() for runs in by_trust.values())


def _plain(samples: Samples) -> dict[str, Any]:
    return {
        name: {title: [{key: each.ours for key, each in run.items()} for run in runs] for title, runs in found.items()}
        for name, found in samples.items()
    }


if __name__ == "__main__":
    sys.exit(main())
