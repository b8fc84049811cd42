"""Revision stores of tests, whose Secrets are not watched unless a test does it."""

from __future__ import annotations

from controller.kube.client import Client
from controller.revisions.store import TENANT_BYTES, RevisionSecrets, RevisionStore


def make_secrets(client: Client, namespace: str) -> RevisionSecrets:
    """Return a watch that is not started."""
    return RevisionSecrets(client, namespace, lambda _name: None, lambda: None)


def make_store(client: Client, namespace: str, tenant_bytes: int = TENANT_BYTES) -> RevisionStore:
    """Return a store that reads everything from the cluster."""
    return RevisionStore(client, make_secrets(client, namespace), tenant_bytes)
