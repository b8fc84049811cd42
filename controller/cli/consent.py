"""Asking before Secrets are read that a file names: file and servers may be a stranger's, the rights are the user's.

The question goes to the terminal, not to stdin, where the file may come from. Without one nothing is read unless the
user has said so by an option.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from api.v1alpha2.types import BundleDeployment, Source
from controller.cli.command import MisuseError, tell
from controller.cli.output import to_table
from controller.sources.git.reference import parse_repository
from controller.sources.http.address import parse_address
from controller.sources.image.endpoint import find_endpoint
from controller.sources.image.reference import parse_reference

TERMINAL = Path("/dev/tty")


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What is read with the rights of the user for one source, and where it would go."""

    secret: str
    server: str


def uses_of(deployment: BundleDeployment, mirrors: Mapping[str, str]) -> list[Use]:
    """Return which Secrets the sources of a checked BundleDeployment would have read and sent, in spec order.

    Args:
        deployment: its references, repositories and URLs can be parsed.
        mirrors: registries that are asked instead, by host.
    """
    uses = (Use(secret=secret, server=_server(source, mirrors)) for source, secret in _secrets(deployment))
    return list(dict.fromkeys(uses))


def _secrets(deployment: BundleDeployment) -> Iterator[tuple[Source, str]]:
    spec = deployment.spec
    for source in spec.sources:
        if source.secret:
            namespace = source.secret.namespace or spec.install_namespace or ""
            yield source, f'Secret "{namespace}/{source.secret.name}"'
        elif source.kind == "image" and spec.service_account_name:
            yield source, f'pull Secrets of ServiceAccount "{spec.install_namespace}/{spec.service_account_name}"'


def _server(source: Source, mirrors: Mapping[str, str]) -> str:
    if source.image:
        return _shown(find_endpoint(parse_reference(source.image.ref), mirrors).host)
    if source.git:
        return _shown(parse_repository(source.git.repository).authority)
    if source.http:
        return _shown(parse_address(source.http.url).authority)
    return f"wherever sources of kind {source.kind} are"


def _shown(host: str) -> str:
    # Letters that look like others would hide whose server it is.
    return host.encode("ascii", "backslashreplace").decode()


def is_given(uses: Sequence[Use], file: str) -> bool:
    """Ask on the terminal whether Secrets may be used so; returns whether they may.

    Raises: MisuseError if there is no terminal.
    """
    if not uses:
        return True
    tell(f'"{file}" has Secrets read with your rights, and sent to servers that it names:')
    for line in to_table(("SECRET", "SERVER"), [(use.secret, use.server) for use in uses]).splitlines():
        tell(f"  {line}")
    try:
        with TERMINAL.open("w", encoding="utf-8") as screen, TERMINAL.open(encoding="utf-8") as keys:
            screen.write("Do you want to continue? (y/N): ")
            screen.flush()
            return keys.readline().strip().lower() in ("y", "yes")
    except OSError:
        message = (
            f'"{file}": there is no terminal to ask on whether Secrets may be used; if they may, say --use-secrets'
        )
        raise MisuseError(message) from None
