"""`rukpak check`: what RukPak needs, one line for each part, with a remedy for what is missing."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from functools import partial

from controller.cli.command import FAILED, connect, explain
from controller.cli.installation import cluster_checks, machine_checks
from controller.cli.installation.findings import Finding, failed, unknown
from controller.cli.output import one_line
from controller.kube.errors import ApiError, ConfigurationError


def main(options: argparse.Namespace) -> int:
    """Print the result of each check; return 1 if one failed, else 0."""
    findings = [*_check_cluster(options), *machine_checks.run(options.helm)]
    width = max(len(finding.subject) for finding in findings)
    for finding in findings:
        print(one_line(f"{finding.level.value:8} {finding.subject:{width}}  {finding.text}"))
    return FAILED if any(finding.is_failure for finding in findings) else 0


def _check_cluster(options: argparse.Namespace) -> list[Finding]:
    try:
        client = connect(options)
        found = [cluster_checks.check_kubernetes(client)]
    except (ApiError, ConfigurationError) as error:
        return [failed("API server", explain(error))]
    for check in cluster_checks.CHECKS:
        found += _guard(check.subject, partial(check.run, client, options.namespace))
    return found


def _guard(subject: str, run: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """Return the findings of a check; a question that the user may not ask is no failure."""
    try:
        return list(run())
    except ApiError as error:
        return [unknown(subject, f"cannot be checked: {error}")]
