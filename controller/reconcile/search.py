"""What a pass does before it compares anything: finalizer, account, polls, and the wanted revision."""

from __future__ import annotations

from dataclasses import replace

from api.errors import BundleError
from controller.reconcile.context import Context
from controller.reconcile.registration import Registrar
from controller.retries import Retries
from controller.revisions.finder import Finder, Wanted
from controller.revisions.polling import is_polled
from controller.status.writer import StatusWriter


class Search:
    """Thread-safe; one pass at a time for each BundleDeployment."""

    def __init__(self, *, registrar: Registrar, finder: Finder, writer: StatusWriter, retries: Retries) -> None:
        self._registrar, self._finder = registrar, finder
        self._writer, self._retries = writer, retries

    def prepare(self, context: Context) -> Context:
        """Set the finalizer, and poll the sources that are due.

        Returns: the context with the new status.
        Raises: ApiError.
        """
        context = replace(context, deployment=self._writer.with_finalizer(context.deployment))
        if any(map(is_polled, context.spec.sources)):
            context, _ = self._record_account(context)
        return replace(context, deployment=self._finder.poll(context))

    def find(self, context: Context) -> tuple[Context, Wanted]:
        """Return what the spec asks for, and the context with the recorded account.

        Raises: ApiError.
        """
        context, refusal = self._record_account(context)
        return context, self._finder.find(context, refusal)

    def _record_account(self, context: Context) -> tuple[Context, BundleError | None]:
        """Record the account before it is used; returns also why it may not be used."""
        before = context.status.account
        context, refusal = self._registrar.register(context)
        if before and context.status.account != before:
            self._retries.forget(context.name)  # another account may not fail
        return context, refusal

    def retry_sources(self, name: str) -> None:
        """Retry the failed sources of a BundleDeployment in its next pass."""
        self._finder.retry(name)

    def forget(self, name: str) -> None:
        """Cancel all work for a BundleDeployment that needs no content any more."""
        self._finder.forget(name)
