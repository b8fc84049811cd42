"""`rukpak rights`: the Roles and ClusterRole that the ServiceAccount of a BundleDeployment needs, to be applied."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from api.plugins import Capabilities
from api.v1alpha2.types import BundleDeployment
from controller.apply.rights import RbacRight, find_rights, make_roles, merge
from controller.build import capabilities as capabilities_file
from controller.cli.command import FAILED, MisuseError, tell
from controller.cli.output import list_of, to_json, to_yaml
from controller.cli.review.resources import Resources
from controller.cli.review.revisions import Reviewed, find
from controller.kube.discovery import Discovery


def main(options: argparse.Namespace) -> int:
    """Show rights; return the exit status.

    Raises: as `revisions.find`; MisuseError without an account.
    """
    reviewed = find("rights", options)
    if reviewed is None:
        return FAILED
    account = options.service_account or reviewed.deployment.spec.service_account_name
    if not account:
        raise MisuseError(
            "spec.serviceAccountName is not set, so the controller installs the bundle with its own permissions; "
            "name an account with --service-account"
        )
    resources = _resources(reviewed)
    found = sorted({*find_rights(reviewed.revision, resources.find), *rights_to_read_secrets(reviewed.deployment)})
    for kind in sorted(resources.guessed):
        tell(f"warning: {kind}: not served and not defined in the bundle; check its resource in the rules")
    print(_show(options, reviewed, found, account), end="")
    return 0


def _resources(reviewed: Reviewed) -> Resources:
    if reviewed.client is None:
        return Resources(reviewed.revision, capabilities_file.shipped())
    discovery = Discovery(reviewed.client)
    served: Capabilities = discovery.capabilities()
    return Resources(reviewed.revision, served, discovery.resource)


def rights_to_read_secrets(deployment: BundleDeployment) -> Iterator[RbacRight]:
    """Yield the right to read each Secret that a source names, which is read as the account.

    Not here: imagePullSecrets of the account, which only the cluster knows.
    """
    for source in deployment.spec.sources:
        if source.secret:
            yield RbacRight(
                namespace=source.secret.namespace or deployment.spec.install_namespace or "",
                groups=("",),
                resources=("secrets",),
                resource_names=(source.secret.name,),
                verbs=("get",),
            )


def _show(options: argparse.Namespace, reviewed: Reviewed, rights: list[RbacRight], account: str) -> str:
    if not options.output:
        return "".join(f"{rule}\n" for rule in merge(rights))
    name, namespace = reviewed.deployment.metadata.name, reviewed.revision.terms.install_namespace
    roles = make_roles(rights, name=f"rukpak-{name}", account=(namespace, account))
    return to_json(list_of(roles)) if options.output == "json" else "---\n".join(map(to_yaml, roles))
