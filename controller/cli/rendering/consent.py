"""Consent to use the Secrets that a file names: a stranger may have written it, and may run the servers it names.

The question is asked on the terminal, since stdin may be the file. Without a terminal, nothing is read unless the user
passes `--use-secrets`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from api.v1alpha2.sources import ChartSource
from api.v1alpha2.types import BundleDeployment, Source
from controller.cli.command import tell
from controller.cli.output import to_table
from controller.cli.question import ask
from controller.sources.chart.registry import chart_reference
from controller.sources.git.connection import parse_repository
from controller.sources.http.address import parse_address
from controller.sources.image.reference import find_endpoint, parse_reference


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretUse:
    """A Secret that one source uses, and the server that receives it, as shown to the user."""

    secret: str
    server: str


def find_secret_uses(deployment: BundleDeployment, mirrors: Mapping[str, str]) -> list[SecretUse]:
    """Return which Secrets the sources of a validated BundleDeployment use, in spec order; mirrors are by host."""
    sent = (SecretUse(secret=secret, server=_server(source, mirrors)) for source, secret in _secrets(deployment))
    namespace = deployment.spec.install_namespace
    printed = (
        SecretUse(secret=f'Secret "{namespace}/{each.name}"', server="none: its values are in the output")
        for each in deployment.spec.config_from
        if each.kind == "Secret"
    )
    return list(dict.fromkeys([*sent, *printed]))


def _secrets(deployment: BundleDeployment) -> Iterator[tuple[Source, str]]:
    spec = deployment.spec
    for source in spec.sources:
        if source.secret:
            namespace = source.secret.namespace or spec.install_namespace or ""
            yield source, f'Secret "{namespace}/{source.secret.name}"'
        elif source.is_in_registry and spec.service_account_name:
            yield source, f'pull Secrets of ServiceAccount "{spec.install_namespace}/{spec.service_account_name}"'


def _server(source: Source, mirrors: Mapping[str, str]) -> str:
    if source.image:
        return _shown(find_endpoint(parse_reference(source.image.ref), mirrors).host)
    if source.git:
        return _shown(parse_repository(source.git.repository).authority)
    if source.http:
        return _shown(parse_address(source.http.url).authority)
    if source.chart:
        return _shown(_chart_server(source.chart, mirrors))
    return f'chosen by plug-in "{source.kind}"'


def _chart_server(chart: ChartSource, mirrors: Mapping[str, str]) -> str:
    if chart.is_in_registry:
        return find_endpoint(chart_reference(chart.repository, chart.name), mirrors).host
    return parse_address(chart.repository).authority


def _shown(host: str) -> str:
    # Look-alike letters would disguise the server.
    return host.encode("ascii", "backslashreplace").decode()


def is_given(uses: Sequence[SecretUse], file: str) -> bool:
    """Ask on the terminal whether Secrets may be used, unless there are none; return whether they may.

    Raises: MisuseError if there is no terminal.
    """
    if not uses:
        return True
    tell(f'"{file}" uses your permissions to read these Secrets and send them to these servers, or print them:')
    for line in to_table(("SECRET", "SERVER"), [(use.secret, use.server) for use in uses]).splitlines():
        tell(f"  {line}")
    return ask(f'"{file}": no terminal to ask for consent; pass --use-secrets to use its Secrets')
