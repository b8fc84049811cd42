"""Who is told what the watches saw. The watches decide nothing: they name the BundleDeployments to reconcile."""

from __future__ import annotations

from typing import Protocol


class Listener(Protocol):
    """Called on the threads of the watches: keep it short."""

    def deployment_changed(self, name: str) -> None:
        """A BundleDeployment has another spec, annotation, finalizer or end, or is gone."""

    def objects_changed(self, name: str, *, urgent: bool) -> None:
        """A managed object of it has changed, or can be watched now; urgent unless only its health has changed."""

    def cluster_changed(self) -> None:
        """A CustomResourceDefinition, APIService or Namespace has changed, or an owner has released an object."""
