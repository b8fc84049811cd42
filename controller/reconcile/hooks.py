"""When the hooks of a revision are run: before and after it is applied, and around a teardown.

They run while the wanted revision is not installed, and never for drift. Before an upgrade they hold up the whole
revision, so that what is installed stays and is repaired meanwhile; before a first install only what comes after
Namespaces and CustomResourceDefinitions, which hooks may need. How one hook is run is apply/hooks/runner.py's matter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from api.errors import BundleError
from api.v1alpha2.types import BundleDeployment
from controller.apply.hooks.hook import HookEvent, kinds_of
from controller.apply.hooks.runner import HookOptions, HookRunner
from controller.apply.order import Stage, position_of
from controller.apply.targets import TargetSet, make_install_namespace
from controller.build.revision import Revision
from controller.observe.watches import Watches
from controller.reconcile.context import is_same_wish, own_records
from controller.reconcile.state import Memory
from controller.revisions.account import account_of
from controller.revisions.finder import Finder, Wanted, requested_at
from controller.revisions.service_accounts import Accounts

Gate = Callable[[], BundleError | None]
"""Asked once, before what it guards; returns why that has to wait."""


class Hooks:
    """Runs the hooks of BundleDeployments when it is time."""

    def __init__(self, runner: HookRunner, watches: Watches, finder: Finder, accounts: Accounts) -> None:
        self._runner, self._watches, self._finder, self._accounts = runner, watches, finder, accounts

    def before_upgrade(self, deployment: BundleDeployment, wanted: Wanted, memory: Memory) -> Wanted:
        """Return the wanted revision if its hooks are done, else what was applied last, and what is waited for.

        Raises: ApiError.
        """
        status, revision = deployment.status, wanted.revision
        if not wanted.current or revision is None or deployment.spec.paused:
            return wanted
        has_begun = status.revision == revision.digest and not status.managed_state
        if status.installed_revision in ("", revision.digest) or has_begun:
            return wanted
        error = self._run(revision, HookEvent.PRE_UPGRADE, deployment, memory)
        if error is None:
            return wanted
        last = self._finder.last_good(deployment, memory)
        return replace(wanted, revision=last, current=False, failure=error, pending=revision.digest)

    def before_install(
        self, deployment: BundleDeployment, revision: Revision, targets: TargetSet, memory: Memory
    ) -> Gate:
        """Return the gate before the workloads of a first install; open for everything else."""
        if not revision.hooks or deployment.status.installed_revision:
            return _open
        own = {record.key for record in own_records(self._watches.managed(deployment.metadata.name), deployment)}
        has_begun = any(key in own for key in targets.by_key if position_of(key).stage is not Stage.DEFINITIONS)
        return _open if has_begun else lambda: self._run(revision, HookEvent.PRE_INSTALL, deployment, memory)

    def after_apply(self, deployment: BundleDeployment, wanted: Wanted, memory: Memory) -> BundleError | None:
        """Run what comes after a revision was applied in full; returns why that is not done.

        Raises: ApiError.
        """
        revision = wanted.revision
        if not wanted.current or revision is None or deployment.status.installed_revision == revision.digest:
            return None
        return self._run(revision, _event_after(deployment), deployment, memory)

    def are_left(self, deployment: BundleDeployment, wanted: Wanted, memory: Memory) -> bool:
        """Whether what was applied in full awaits hooks: then it is not installed, whatever is wanted by now."""
        revision = wanted.revision
        if revision is None or deployment.status.installed_revision == revision.digest:
            return False
        return not self._runner.has_run(revision, _event_after(deployment), memory.hooks)

    def around_teardown(self, deployment: BundleDeployment, event: HookEvent, memory: Memory) -> BundleError | None:
        """Run the hooks before or after a teardown; returns why they are not done.

        Raises: ApiError.
        """
        revision = self._finder.last_good(deployment, memory)
        return self._run(revision, event, deployment, memory) if revision else None

    def _run(
        self, revision: Revision, event: HookEvent, deployment: BundleDeployment, memory: Memory
    ) -> BundleError | None:
        if not revision.hooks:
            return None
        name, account = deployment.metadata.name, account_of(revision.terms)
        if hindrance := self._accounts.hindrance(deployment, account, [revision.terms]):
            return hindrance
        self._watches.need(name, kinds_of(revision))  # they tell when a hook has finished
        occasion = HookOptions(
            owner=name,
            user=account.user if account else None,
            wish=f"{deployment.metadata.generation} {requested_at(deployment)}",
            collision_protection=deployment.spec.collision_protection,
            install_namespace=make_install_namespace(revision),
            proceed=lambda: event.is_of_teardown or is_same_wish(deployment, self._watches.deployment(name)),
            memory=memory.hooks,
        )
        return self._runner.run(revision, event, occasion)


def _event_after(deployment: BundleDeployment) -> HookEvent:
    return HookEvent.POST_UPGRADE if deployment.status.installed_revision else HookEvent.POST_INSTALL


def _open() -> BundleError | None:
    return None
