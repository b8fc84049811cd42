"""The edge: reads the CustomResourceDefinition on the cluster, and existing objects if necessary.

One GET for a definition that changes; a LIST in small pages only if a schema is narrower. The other modules decide.
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

_TITLE = "validating upgrade for CRD"
PAGE_ITEMS = 50
"""Each object may have 1.5 MiB, and one page at a time is in memory."""
WARNING_CHARACTERS = 3000
REFUSAL_CHARACTERS = 930
"""So that it fits into a condition with its remedy and the text about the installed revision."""
LEAST_CHARACTERS = 300


class Inspector:
    """Checks whether a CustomResourceDefinition may be applied."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def inspect(self, path: str, manifest: Mapping[str, Any], safety: CrdUpgradeSafety) -> tuple[str, ...]:
        """Compare a definition with the one on the cluster; a new one may be applied.

        Args:
            path: of the definition.
            manifest: as it will be applied.
            safety: spec.crdUpgradeSafety.

        Returns: warnings.
        Raises: BundleError (UnsafeCRDUpgrade); ApiError if the cluster cannot be read.
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
            return (f"{_title(new.name)}not checked, since it has the annotation {annotation}",)
        findings = compare(old, new)
        existing, failure = self._survey(old, new, findings, safety)
        return _judge(new.name, [*findings, *existing], failure, safety)

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
        """Return the findings of existing objects, and why not all of them could be checked."""
        trials = {} if is_off(new.name, safety, "existingResources") else plan_trials(old, new, findings)
        survey = Survey(new.name, safety)
        found = _unevaluated(findings, trials)
        for version, tried in trials.items():
            try:
                self._validate_all(old.resource(version).path(), tried, survey)
            except ApiError as error:
                text = f"existing custom objects of version {version} could not be listed: {error}"
                unlisted = CheckFinding(check="existingResources", text=text, version=version)
                return [*found, *survey.findings(), unlisted], error
        return [*found, *survey.findings()], None

    def _validate_all(self, path: str, trials: Sequence[Trial], survey: Survey) -> None:
        for page in self._client.pages(path, limit=PAGE_ITEMS):
            for item in page.items:
                if survey.has_enough:
                    return
                survey.add(item, trials)


def _unevaluated(findings: Sequence[CheckFinding], versions: Mapping[str, object]) -> list[CheckFinding]:
    """Return warnings about rules that were not evaluated for existing objects."""
    added = {f.version for f in findings if (f.check, f.level) == ("xvalidations", "Error") and f.version in versions}
    text = "rules added to x-kubernetes-validations of version {} were not evaluated for existing objects"
    return [
        CheckFinding(check="existingResources", text=text.format(version), version=version, level="Warn")
        for version in sorted(added)
    ]


def _judge(
    crd: str, findings: Sequence[CheckFinding], failure: ApiError | None, safety: CrdUpgradeSafety
) -> tuple[str, ...]:
    """Return warnings, or raise.

    Raises: BundleError (UnsafeCRDUpgrade); ApiError if the only error is a transient failure.
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
    return f'{_TITLE} "{crd}": '


def is_about_upgrade(warning: str) -> bool:
    """Whether a warning is about a change of a definition, which is over once it is made, and not about what is."""
    return warning.startswith(_TITLE)


def _remedy(crd: str, errors: Sequence[CheckFinding]) -> str:
    checks = ", ".join(sorted({finding.check for finding in errors}))
    rule = f"{{crd: {crd}, checks: [{checks}], enforcement: Warn}}"
    return f"make the change compatible, or allow it in spec.crdUpgradeSafety: {{rules: [{rule}]}}"
