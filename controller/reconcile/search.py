"""What a pass does before it compares anything: finalizer, account, polls, and the revision that is wanted."""

from __future__ import annotations

from dataclasses import replace

from api.errors import BundleError
from controller.reconcile.context import Context
from controller.reconcile.hooks import Hooks
from controller.reconcile.registration import Registrar
from controller.retries import Retries
from controller.revisions.finder import Finder, Wanted
from controller.status.writer import StatusWriter


class Search:
    """Finds what is wanted."""

    def __init__(
        self, *, registrar: Registrar, finder: Finder, hooks: Hooks, writer: StatusWriter, retries: Retries
    ) -> None:
        self._registrar, self._finder, self._hooks = registrar, finder, hooks
        self._writer, self._retries = writer, retries

    def prepare(self, context: Context) -> Context:
        """Set the finalizer, and ask floating refs where that is due.

        Returns: the context with what was written.
        Raises: ApiError.
        """
        context = replace(context, deployment=self._writer.with_finalizer(context.deployment))
        if any(source.poll_interval for source in context.spec.sources):
            context, _ = self._record_account(context)
        return replace(context, deployment=self._finder.poll(context))

    def find(self, context: Context) -> tuple[Context, Wanted]:
        """Return what the spec asks for, and the context with the account that is used.

        Raises: ApiError.
        """
        context, refusal = self._record_account(context)
        return context, self._hooks.before_upgrade(context, self._finder.find(context, refusal))

    def _record_account(self, context: Context) -> tuple[Context, BundleError | None]:
        """Record which account is used, before it is; returns why it may not be."""
        before = context.status.account
        context, refusal = self._registrar.register(context)
        if before and context.status.account != before:
            self._retries.forget(context.name)  # whatever failed may not, where all is another's
        return context, refusal

    def retry_sources(self, name: str) -> None:
        """Let the sources of a BundleDeployment be tried at once."""
        self._finder.retry(name)

    def forget(self, name: str) -> None:
        """Stop what goes on for a BundleDeployment that needs no content any more."""
        self._finder.forget(name)
