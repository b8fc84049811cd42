"""The interface that the watches notify. They decide nothing: they name the BundleDeployments to reconcile."""

from __future__ import annotations

from typing import Protocol


class Listener(Protocol):
    """Called on the threads of the watches; must return quickly."""

    def deployment_changed(self, name: str) -> None:
        """Spec, annotations, finalizers or deletionTimestamp of a BundleDeployment have changed, or it is gone.

        Or another client has changed its status.
        """

    def objects_changed(self, name: str, *, urgent: bool) -> None:
        """A managed object of it has changed, or can now be watched; urgent unless only its health has changed."""

    def cluster_changed(self) -> None:
        """A CustomResourceDefinition, APIService or Namespace has changed, or an owner has released an object."""
