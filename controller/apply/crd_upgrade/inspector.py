"""The edge: reads the CustomResourceDefinition that is on the cluster, and existing objects where they have to be seen.

One GET for a definition that changes; a LIST in small pages only where a schema has become narrower. What is decided
from that is decided in the pure modules beside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from api import names
from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from api.v1alpha2.policies import CrdUpgradeSafety
from controller.apply.crd_upgrade.comparison import compare
from controller.apply.crd_upgrade.definition import CustomResourceDefinition, read_definition
from controller.apply.crd_upgrade.finding import CheckFinding, tell
from controller.apply.crd_upgrade.level import is_off, level_of
from controller.apply.crd_upgrade.survey import Survey, Trial, plan_trials
from controller.kube.client import ApiError, Client

PAGE_ITEMS = 50
"""Objects may be of 1.5 MiB each, and a page of them is in memory at a time."""
WARNING_CHARACTERS = 3000
REFUSAL_CHARACTERS = 930
"""So that a condition holds it with its remedy, behind the words about what is installed."""
LEAST_CHARACTERS = 300


class Inspector:
    """Says whether a CustomResourceDefinition may be applied."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def inspect(self, path: str, manifest: Mapping[str, Any], safety: CrdUpgradeSafety) -> tuple[str, ...]:
        """Compare a definition with the one on the cluster; one that is not there may be applied.

        Args:
            path: of the definition.
            manifest: as it is going to be applied.
            safety: spec.crdUpgradeSafety.

        Returns: warnings.
        Raises: BundleError (UnsafeCRDUpgrade); ApiError if the cluster cannot be asked.
        """
        new = read_definition(manifest)
        if is_off(new.name, safety):
            return ()
        live = self._read(path)
        if live is None:
            return ()
        old = read_definition(live)
        if old.exempt or new.exempt:
            annotation = f'{names.SAFE_CRD_UPGRADE_VALIDATION}: "false"'
            return (
                f'CRD "{new.name}": whether its upgrade is safe was not checked, as the annotation {annotation} asks',
            )
        findings = compare(old, new)
        looked_at, failure = self._survey(old, new, findings, safety)
        return _judge(new.name, [*findings, *looked_at], failure, safety)

    def _read(self, path: str) -> Mapping[str, Any] | None:
        try:
            value: Mapping[str, Any] = self._client.get(path).value
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None
        return value

    # existing objects

    def _survey(
        self,
        old: CustomResourceDefinition,
        new: CustomResourceDefinition,
        findings: Sequence[CheckFinding],
        safety: CrdUpgradeSafety,
    ) -> tuple[list[CheckFinding], ApiError | None]:
        """Return what existing objects say to the new schemas, and why not all of them could be asked."""
        trials = {} if is_off(new.name, safety, "existingResources") else plan_trials(old, new, findings)
        survey = Survey(new.name, safety)
        found = _unevaluated(findings, trials)
        for version, tried in trials.items():
            try:
                self._look_at_all(old.resource(version).path(), tried, survey)
            except ApiError as error:
                text = f"existing custom objects of version {version} could not be listed: {error}"
                unlisted = CheckFinding(check="existingResources", text=text, version=version)
                return [*found, *survey.findings(), unlisted], error
        return [*found, *survey.findings()], None

    def _look_at_all(self, path: str, trials: Sequence[Trial], survey: Survey) -> None:
        for page in self._client.pages(path, limit=PAGE_ITEMS):
            for item in page.items:
                if survey.has_enough:
                    return
                survey.look_at(item, trials)


def _unevaluated(findings: Sequence[CheckFinding], versions: Mapping[str, object]) -> list[CheckFinding]:
    """Say which rules nobody has tried on existing objects."""
    added = {f.version for f in findings if (f.check, f.level) == ("xvalidations", "Error") and f.version in versions}
    text = "the rules that were added to x-kubernetes-validations of version {} were not tried on existing objects"
    return [
        CheckFinding(check="existingResources", text=text.format(version), version=version, level="Warn")
        for version in sorted(added)
    ]


def _judge(
    crd: str, findings: Sequence[CheckFinding], failure: ApiError | None, safety: CrdUpgradeSafety
) -> tuple[str, ...]:
    """Return warnings, or raise.

    Raises: BundleError (UnsafeCRDUpgrade); ApiError if nothing speaks against it but a failure that may end by itself.
    """
    levels = [(level_of(finding, crd, safety), finding) for finding in findings]
    errors = [finding for level, finding in levels if level == "Error"]
    if failure and failure.transient and len(errors) == 1 and errors[0] is findings[-1]:
        raise failure
    if errors:
        raise BundleError(Reason.UNSAFE_CRD_UPGRADE, _refusal(crd, errors))
    warned = tell([finding for level, finding in levels if level == "Warn"], WARNING_CHARACTERS)
    return tuple(f"{_title(crd)}{line}" for line in warned)


def _refusal(crd: str, errors: Sequence[CheckFinding]) -> str:
    title, remedy = _title(crd), _remedy(crd, errors)
    room = max(REFUSAL_CHARACTERS - len(title) - len(remedy), LEAST_CHARACTERS)
    return f"{title}{'; '.join(tell(errors, room))}; {remedy}"


def _title(crd: str) -> str:
    return f'validating upgrade for CRD "{crd}": '


def _remedy(crd: str, errors: Sequence[CheckFinding]) -> str:
    checks = ", ".join(sorted({finding.check for finding in errors}))
    rule = f"{{crd: {crd}, checks: [{checks}], enforcement: Warn}}"
    return f"make the change compatible, or allow it in spec.crdUpgradeSafety.rules: {rule}"
