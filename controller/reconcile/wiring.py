"""Makes a reconciler from its parts: the one place that knows how they depend on each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from controller.apply.execute import Applier
from controller.apply.hooks.runner import HookRunner
from controller.apply.prune import Remover
from controller.kube.discovery import Discovery
from controller.kube.takeovers import Takeovers
from controller.observe.explanations import Explainer
from controller.observe.following.contested import ContestedWatches
from controller.observe.following.named import NamedWatches
from controller.observe.watches import Watches
from controller.reconcile.contexts import Contexts
from controller.reconcile.deletion.deleter import Deleter
from controller.reconcile.deletion.mandate import Mandates
from controller.reconcile.deletion.removing import TeardownRemover
from controller.reconcile.deletion.reporting import DeletionReporter
from controller.reconcile.hooks import Hooks
from controller.reconcile.installation.execution import Executor
from controller.reconcile.installation.finish import Finisher
from controller.reconcile.installation.health import Assessor
from controller.reconcile.installation.installed_targets import InstalledTargetsCache
from controller.reconcile.installation.installer import Installer
from controller.reconcile.installation.pruning import Pruner
from controller.reconcile.installation.work import Planner
from controller.reconcile.installed.repair import Repairer
from controller.reconcile.installed.settled import Settled
from controller.reconcile.ownership.handovers import HandOvers
from controller.reconcile.ownership.holdings import Holdings
from controller.reconcile.reconciler import Reconciler, Steps
from controller.reconcile.registration import Registrar
from controller.reconcile.reporter import Reporter
from controller.reconcile.requeue import Scheduler
from controller.reconcile.search import Search
from controller.reconcile.shards.adoption import Adoption
from controller.reconcile.shards.custody import Custody
from controller.reconcile.waiting.approval import Approvals
from controller.reconcile.waiting.dependencies import Dependencies
from controller.retries import Retries
from controller.revisions.accounts.service_accounts import Accounts
from controller.revisions.finder import Finder
from controller.revisions.kept import KeptRevisions
from controller.revisions.large import LargeRevisions
from controller.revisions.storage.store import RevisionStore
from controller.status.writer import StatusWriter
from controller.telemetry import DEAF, Observer


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What passes use of the other packages."""

    watches: Watches
    discovery: Discovery
    finder: Finder
    kept: KeptRevisions
    revisions: RevisionStore
    large: LargeRevisions
    accounts: Accounts
    applier: Applier
    remover: Remover
    hook_runner: HookRunner
    contested: ContestedWatches
    explainer: Explainer
    elsewhere: NamedWatches
    """Of BundleDeployments of other shards that others depend on."""
    givers: NamedWatches
    """Of those that others take objects from."""
    writer: StatusWriter
    retries: Retries
    installed: InstalledTargetsCache = field(default_factory=InstalledTargetsCache)
    observer: Observer = DEAF
    """Gets durations of applying and pruning, and counts of drift."""
    takeovers: Takeovers | None = None
    """From shards that nobody serves; None without leader election."""
    abandoned: Callable[[], None]
    """Called when a BundleDeployment is gone without its teardown: its revisions are left."""
    now: Callable[[], datetime]
    """The time of day."""


def make_reconciler(parts: Parts) -> Reconciler:
    """Return a reconciler of these parts."""
    hooks = Hooks(
        runner=parts.hook_runner,
        watches=parts.watches,
        kept=parts.kept,
        accounts=parts.accounts,
        retries=parts.retries,
        explainer=parts.explainer,
    )
    holdings = Holdings(
        kept=parts.kept,
        revisions=parts.revisions,
        watches=parts.watches,
        discovery=parts.discovery,
        reader=parts.applier.reader,
    )
    return Reconciler(
        watches=parts.watches,
        contexts=Contexts(
            policy=parts.accounts.policy, retries=parts.retries, abandoned=parts.abandoned, now=parts.now
        ),
        steps=_make_steps(parts, hooks, holdings),
        retries=parts.retries,
        large=parts.large,
    )


def _make_steps(parts: Parts, hooks: Hooks, holdings: Holdings) -> Steps:
    assessor = Assessor(parts.watches, parts.explainer)
    executor = Executor(parts.applier, parts.contested, parts.observer)
    hand_overs = HandOvers(parts.watches, parts.givers, parts.accounts.policy, parts.revisions)
    planner = _make_planner(parts, hooks, holdings, hand_overs)
    dependencies = Dependencies(parts.watches, parts.elsewhere)
    return Steps(
        custody=_make_custody(parts, holdings),
        search=Search(
            registrar=Registrar(parts.accounts, holdings, parts.writer),
            finder=parts.finder,
            writer=parts.writer,
            retries=parts.retries,
        ),
        settled=Settled(
            watches=parts.watches,
            kept=parts.kept,
            holdings=holdings,
            dependencies=dependencies,
            repairer=_make_repairer(parts, planner, executor),
            assessor=assessor,
            writer=parts.writer,
        ),
        approvals=Approvals(
            kept=parts.kept, dependencies=dependencies, planner=planner, applier=parts.applier, writer=parts.writer
        ),
        hooks=hooks,
        planner=planner,
        installer=Installer(
            executor=executor,
            finisher=_make_finisher(parts, hooks, holdings, assessor),
            assessor=assessor,
            writer=parts.writer,
            installed=parts.installed,
        ),
        deleter=_make_deleter(parts, hooks, holdings, hand_overs),
        reporter=Reporter(accounts=parts.accounts, watches=parts.watches, kept=parts.kept, writer=parts.writer),
        scheduler=Scheduler(parts.watches, parts.finder, parts.retries),
    )


def _make_planner(parts: Parts, hooks: Hooks, holdings: Holdings, hand_overs: HandOvers) -> Planner:
    return Planner(
        watches=parts.watches,
        kept=parts.kept,
        hooks=hooks,
        holdings=holdings,
        hand_overs=hand_overs,
        accounts=parts.accounts,
        retries=parts.retries,
    )


def _make_custody(parts: Parts, holdings: Holdings) -> Custody:
    adoption = Adoption(
        watches=parts.watches,
        kept=parts.kept,
        holdings=holdings,
        accounts=parts.accounts,
        relabeler=parts.applier.relabeler,
        writer=parts.writer,
    )
    return Custody(
        watches=parts.watches,
        writer=parts.writer,
        revisions=parts.revisions,
        adoption=adoption,
        takeovers=parts.takeovers,
    )


def _make_repairer(parts: Parts, planner: Planner, executor: Executor) -> Repairer:
    return Repairer(
        watches=parts.watches,
        installed=parts.installed,
        planner=planner,
        executor=executor,
        writer=parts.writer,
    )


def _make_finisher(parts: Parts, hooks: Hooks, holdings: Holdings, assessor: Assessor) -> Finisher:
    pruner = Pruner(
        watches=parts.watches,
        holdings=holdings,
        remover=parts.remover,
        retries=parts.retries,
        observer=parts.observer,
    )
    return Finisher(
        watches=parts.watches,
        hooks=hooks,
        holdings=holdings,
        pruner=pruner,
        assessor=assessor,
        writer=parts.writer,
    )


def _make_deleter(parts: Parts, hooks: Hooks, holdings: Holdings, hand_overs: HandOvers) -> Deleter:
    return Deleter(
        watches=parts.watches,
        mandates=Mandates(watches=parts.watches, kept=parts.kept, accounts=parts.accounts, holdings=holdings),
        hooks=hooks,
        remover=TeardownRemover(parts.remover, parts.writer),
        reporter=DeletionReporter(parts.writer, parts.explainer),
        holdings=holdings,
        hand_overs=hand_overs,
    )
