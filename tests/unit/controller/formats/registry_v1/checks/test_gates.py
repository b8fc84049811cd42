"""Gates: bundles that are not supported are refused first, with one reason."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from api.v1alpha2.conditions import Reason
from tests.support.operator_bundles import (
    CERT_MANAGER,
    OPENSHIFT,
    deployment,
    refusal,
    render,
    service_version,
    webhook,
    write_bundle,
)

API_SERVICES = {"owned": [{"group": "g", "version": "v1", "kind": "K"}]}
HOOKED: dict[str, Any] = {"webhooks": [webhook()], "deployments": [deployment()]}
NO_PROVIDER = (
    "spec.config.certificateProvider: the webhooks of this bundle need certificates, which the cluster does not"
)
NO_MODE = (
    "unsupported bundle: bundle must support at least one of [AllNamespaces SingleNamespace OwnNamespace] install modes"
)


class Gate(NamedTuple):
    name: str
    csv: dict[str, Any]
    expect: str
    kinds: Mapping[tuple[str, str, str], bool] = CERT_MANAGER
    config: Any = None
    version: str = "v1.27.4-eks-1"


# fmt: off
GATES = [
    Gate("owned API services", {"apiservicedefinitions": API_SERVICES},
         "unsupported bundle: apiServiceDefintions are not supported"),
    Gate("webhooks without a provider", HOOKED, NO_PROVIDER, kinds={}),
    Gate("cert-manager of another version is none", HOOKED, NO_PROVIDER,
         kinds={("cert-manager.io", "v1beta1", "Issuer"): True}),
    Gate("operators' own groups below openshift.io are no OpenShift", HOOKED, NO_PROVIDER,
         kinds={("hive.openshift.io", "v1", "X"): True}),
    Gate("no install mode", {"modes": ()}, NO_MODE),
    Gate("API services come before webhooks", {"apiservicedefinitions": API_SERVICES, **HOOKED},
         "unsupported bundle: apiServiceDefintions are not supported", kinds={}),
    Gate("webhooks come before install modes", {"modes": (), **HOOKED}, NO_PROVIDER, kinds={}),
    Gate("install modes come before config", {"modes": ()}, NO_MODE, config={"foo": 1}),
    Gate("a cluster that is too old", {"minKubeVersion": "1.28.0"},
         "bundle requires Kubernetes 1.28.0 or later (minKubeVersion), but the cluster runs 1.27.4;"
         " upgrade the cluster"),
    Gate("v and no patch are accepted", {"minKubeVersion": "v1.28"},
         "bundle requires Kubernetes 1.28.0 or later (minKubeVersion), but the cluster runs 1.27.4;"
         " upgrade the cluster"),
    Gate("more digits than Python reads", {"minKubeVersion": "1." + "9" * 5000},
         "bundle requires Kubernetes 1.1000000000.0 or later (minKubeVersion), but the cluster runs 1.27.4;"
         " upgrade the cluster"),
]
# fmt: on


@pytest.mark.parametrize("case", GATES, ids=attrgetter("name"))
def test_not_supported(case: Gate, tmp_path: Path) -> None:
    root = write_bundle(tmp_path, service_version(**case.csv))
    reason, message = refusal(root, case.config, kinds=case.kinds, version=case.version)
    assert reason is Reason.NOT_SUPPORTED
    assert message.startswith(case.expect)


def test_the_message_says_what_to_do_without_a_provider(tmp_path: Path) -> None:
    _, message = refusal(write_bundle(tmp_path, service_version(**HOOKED)), kinds={})
    assert message == (
        f'{NO_PROVIDER} issue; install cert-manager, or set it to "none" and bring your own'
        " (controller/formats/registry_v1/README.md)"
    )


PASSES = [
    Gate("cert-manager", HOOKED, ""),
    Gate("OpenShift", HOOKED, "", kinds=OPENSHIFT),
    Gate("certificates that the user brings", HOOKED, "", kinds={}, config={"certificateProvider": "none"}),
    Gate("a provider that will come", HOOKED, "", kinds={}, config={"certificateProvider": "cert-manager"}),
    Gate("required API services", {"apiservicedefinitions": {"required": API_SERVICES["owned"]}}, ""),
    Gate("the version that is demanded", {"minKubeVersion": "1.27.4"}, ""),
    Gate("MultiNamespace alone", {"modes": ["MultiNamespace"]}, "", config={"watchNamespaces": ["a", "b"]}),
]


@pytest.mark.parametrize("case", PASSES, ids=attrgetter("name"))
def test_supported(case: Gate, tmp_path: Path) -> None:
    root = write_bundle(tmp_path, service_version(**case.csv))
    rendering = render(root, case.config, kinds=case.kinds, version=case.version)
    assert not [text for text in rendering.warnings if "minKubeVersion" in text]


def test_an_invalid_version_causes_a_warning(tmp_path: Path) -> None:
    root = write_bundle(tmp_path, service_version(minKubeVersion="latest"))
    assert render(root).warnings == ('spec.minKubeVersion: ignored because "latest" is not a version',)
