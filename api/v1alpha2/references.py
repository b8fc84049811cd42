"""What a spec names on the cluster besides its sources: other BundleDeployments."""

from __future__ import annotations

from api.v1alpha2.fields import Api, ObjectName


class DeploymentReference(Api):
    """Another BundleDeployment."""

    name: ObjectName
    """Name of the BundleDeployment."""
