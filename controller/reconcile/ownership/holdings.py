"""What the kept revisions of a BundleDeployment name: it owns nothing else on the cluster (README.md, rule 5).

Objects of kinds that the controller may not watch are read here, as the account, before a pass decides about them.
Not here: what is done with them (installation, deletion), and the test for ownership (apply/possession.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from api.errors import BundleError
from controller.apply.failures.replies import classify
from controller.apply.object.lookup import ObjectReader
from controller.apply.possession import (
    MORE,
    RevisionObject,
    describe_left,
    describe_past,
    name_objects,
    name_past,
    past_keys,
)
from controller.build.revision import Revision, Terms
from controller.kube.client import ApiError, User
from controller.kube.discovery import Discovery
from controller.kube.resources import GroupVersionKind, Resource, read_kinds
from controller.observe.records import ObjectKey
from controller.observe.watches import Watches
from controller.reconcile.context import Context
from controller.revisions.approval import NEW
from controller.revisions.kept import KeptRevisions
from controller.revisions.storage.store import RevisionStore
from controller.status.history import choose


class Holdings:
    """Thread-safe; remembers everything in the state of each BundleDeployment."""

    def __init__(
        self,
        *,
        kept: KeptRevisions,
        revisions: RevisionStore,
        watches: Watches,
        discovery: Discovery,
        reader: ObjectReader,
    ) -> None:
        self._kept, self._revisions, self._watches = kept, revisions, watches
        self._discovery, self._reader = discovery, reader

    def older(self, context: Context, revision: Revision) -> dict[ObjectKey, RevisionObject]:
        """Return the objects that only older revisions name; some may still exist.

        Of what retired or deleted revisions named, those that exist again.

        Raises: CrowdedError, ApiError.
        """
        others = [each for each in _applied(self._read(context)) if each.digest != revision.digest]
        past = self._past([*others, revision], context)
        if not (others or revision.terms.left or past):
            return {}
        own = self._name_own(revision, context)
        named = {**past, **self._name([*others, revision], context)}
        return {key: each for key, each in named.items() if key not in own}

    def all(self, context: Context) -> dict[ObjectKey, RevisionObject] | None:
        """Return all objects that kept revisions name; None if no revision can be read.

        Raises: CrowdedError, ApiError.
        """
        kept = self._read(context)
        applied = _applied(kept)
        return {**self._past(applied, context), **self._name(applied, context)} if kept else None

    def had(self, context: Context, keys: Iterable[ObjectKey]) -> bool:
        """Whether a revision that is retired or deleted named one of these objects.

        Raises: CrowdedError, ApiError.
        """
        digest, known = context.status.installed_revision, context.state.past
        if known is None or known[0] != digest:
            kept = context.state.revisions.get(digest) or self._revisions.read_packed(context.name, digest)
            known = context.state.past = (digest, past_keys(kept.terms) if kept else frozenset())
        return not known[1].isdisjoint(keys)

    def installed_kinds(self, context: Context) -> set[GroupVersionKind]:
        """Return the kinds of the objects that were once applied in full.

        Raises: CrowdedError, ApiError.
        """
        installed = self._kept.read(context, context.status.installed_revision)
        return {GroupVersionKind.of(manifest) for manifest in installed.objects} if installed else set()

    def kinds(self, context: Context) -> set[GroupVersionKind]:
        """Return the kinds that kept revisions name and that are not skipped: status may have been wiped.

        Raises: CrowdedError, ApiError.
        """
        named = {each.kind for each in (self.all(context) or {}).values()}
        return named - set(read_kinds(context.status.skipped_kinds))

    def with_hooks(self, context: Context) -> list[Revision]:
        """Return the kept revisions that have hooks, also those that were never applied.

        Raises: CrowdedError, ApiError.
        """
        stored = self._revisions.digests(context.name, context.metadata.uid)
        kept = (self._kept.read(context, each) for each in dict.fromkeys((*stored, *context.state.revisions)))
        return [each for each in kept if each and each.hooks]

    def terms(self, context: Context) -> list[Terms]:
        """Return the terms of each kept revision.

        Raises: CrowdedError, ApiError.
        """
        return [each.terms for each in self._read(context)]

    def _read(self, context: Context) -> list[Revision]:
        status = context.status
        if context.state.kept is None and status.managed_state:
            installed = self._kept.read(context, status.installed_revision)
            if installed and MORE not in installed.terms.left:
                context.state.kept = (status.installed_revision,)  # when settled, no other revision has objects
        digests = dict.fromkeys((*self._kept.stored(context), *context.state.revisions))
        found = [each for digest in digests if (each := self._kept.read(context, digest))]
        context.state.kept = tuple(each.digest for each in found)
        return found

    def _name_own(self, revision: Revision, context: Context) -> dict[ObjectKey, RevisionObject]:
        return self._name([replace(revision, terms=replace(revision.terms, left=()))], context)

    def _past(self, revisions: Iterable[Revision], context: Context) -> dict[ObjectKey, RevisionObject]:
        return name_past(revisions, self._watches.managed(context.name), orphan=context.orphan)

    def _name(self, revisions: Iterable[Revision], context: Context) -> dict[ObjectKey, RevisionObject]:
        return name_objects(revisions, self._watches.served.is_namespaced, orphan=context.orphan)

    def read_unwatched(
        self, context: Context, named: Mapping[ObjectKey, RevisionObject], user: User | None
    ) -> dict[ObjectKey, BundleError]:
        """Read the named objects that are not watched, and add them to what the watches know.

        Args:
            context: of the pass.
            named: by revisions.
            user: that reads them; None: the controller.

        Returns: why objects could not be read.
        """
        unseen = [(key, resource) for key, each in named.items() if (resource := self._unseen(each))]
        failures: dict[ObjectKey, BundleError] = {}
        for key, found in self._reader.read_all(unseen, user).items():
            if isinstance(found, ApiError):
                failures[key] = _failure(found, key)
            elif found is None or found.owner != context.name:
                self._watches.forget_object(key)
            else:
                self._watches.learn(found)
        return failures

    def drop_all(self, context: Context) -> None:
        """Delete all revisions, once nothing is left that they name.

        Raises: ApiError.
        """
        self._revisions.keep_only(context.name, ())

    def forget(self, keys: Iterable[ObjectKey]) -> None:
        """Drop deleted objects that are not watched: no event reports their deletion."""
        for key in keys:
            if self._watches.is_forbidden(key.group, key.kind):
                self._watches.forget_object(key)

    def _unseen(self, named: RevisionObject) -> Resource | None:
        if not self._watches.is_forbidden(*named.group_kind):
            return None
        return self._discovery.resource(named.kind) or self._discovery.any_version(*named.group_kind)

    def keep_only(
        self,
        context: Context,
        digests: Iterable[str],
        older: Mapping[ObjectKey, RevisionObject],
    ) -> None:
        """Record what older revisions leave and what they had, then retire those of the history and delete the others.

        If they leave too much to record, they are kept as they are.

        Args:
            context: of the pass; its state has the installed revision.
            digests: of the revisions to keep; the first of them is installed.
            older: objects that only older revisions name; the state has those of them that are kept for good.

        Raises: ApiError.
        """
        kept = list(digests)
        installed = context.state.revisions.get(kept[0])
        left = {key: named for key, named in older.items() if key in context.state.older}
        texts = describe_left(left)
        if installed:
            past = self._describe_past(context, installed, older)
            with suppress(BundleError):  # without room, what is left over is only reported
                self._write_terms(context, installed, replace(installed.terms, left=texts, past=past))
            installed = context.state.revisions[installed.digest]
            self._write_terms(context, installed, replace(installed.terms, left=texts))
        entries = choose(context.status.history, kept, context.spec.revision_history_limit)
        history = [each.revision for each in entries if each.revision not in kept]
        if MORE in texts or self._revisions.is_tidy(context.name, kept, history):
            return
        self._revisions.keep_only(context.name, kept, [each for each in history if not self._is_new(context, each)])

    def _write_terms(self, context: Context, kept: Revision, terms: Terms) -> None:
        if terms != kept.terms:
            revised = replace(kept, terms=terms)
            self._revisions.write(context.name, revised, context.metadata.uid)
            context.state.revisions[revised.digest] = revised
            context.state.past = None

    def _describe_past(
        self, context: Context, installed: Revision, older: Mapping[ObjectKey, RevisionObject]
    ) -> tuple[str, ...]:
        others = [each for each in _applied(self._read(context)) if each.digest != installed.digest]
        if not (older or others):
            return installed.terms.past
        earlier = [text for each in (installed, *others) for text in each.terms.past]
        return describe_past(older, earlier, self._name_own(installed, context))

    def _is_new(self, context: Context, digest: str) -> bool:
        """Whether a revision was never applied, whatever status says: it waits for approval, or is gone."""
        if self._revisions.is_retired(context.name, digest):
            return False
        found = self._kept.read(context, digest)
        return found is None or found.terms.held == NEW


def _applied(kept: Iterable[Revision]) -> list[Revision]:
    """Return the revisions that may have objects; a new one that waits for approval must not name what is deleted."""
    return [each for each in kept if each.terms.held != NEW]


def _failure(error: ApiError, key: ObjectKey) -> BundleError:
    failure = classify(error, key, install_namespace="")
    return BundleError(failure.reason, failure.message, retry_after=failure.retry_after)
