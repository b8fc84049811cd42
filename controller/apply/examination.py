"""What would prevent applying a revision, as far as reading shows. Nothing is written."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from api.errors import BundleError
from controller.apply.crd_upgrade.inspector import Inspector
from controller.apply.failures.access_review import AccessReviewer
from controller.apply.failures.replies import classify
from controller.apply.object.pool import Pool
from controller.apply.options import ApplyOptions
from controller.apply.targets import Target
from controller.kube.client import ApiError, Client
from controller.kube.resources import Resource
from controller.observe.records import ObjectKey

_CRD = ("apiextensions.k8s.io", "CustomResourceDefinition")


class Examiner:
    """Thread-safe.

    Args:
        client: acts as the controller.
        pool: sends concurrent requests.
        reviewer: asks for missing rights.
    """

    def __init__(self, client: Client, pool: Pool, reviewer: AccessReviewer) -> None:
        self._client, self._pool, self._reviewer = client, pool, reviewer

    def find_problems(
        self, items: Sequence[tuple[Target, Resource]], options: ApplyOptions, changed: Collection[ObjectKey]
    ) -> list[BundleError]:
        """Return the rights that the account lacks, and unsafe upgrades of CustomResourceDefinitions.

        Args:
            items: the objects of the revision.
            options: of the revision.
            changed: objects that differ from those of the revision on the cluster.

        Raises: CancelledError if the pool was stopped.
        """
        user = options.user
        lack = self._reviewer.lack(items, options, user) if user else None
        upgraded = [item for item in items if item[0].key[:2] == _CRD and item[0].key in changed]
        unsafe = self._pool.run(lambda item: self._judge_upgrade(*item, options), upgraded, user)
        return [error for error in (lack, *unsafe) if error]

    def _judge_upgrade(self, target: Target, resource: Resource, options: ApplyOptions) -> BundleError | None:
        inspector = Inspector(self._client.acting_as(options.user))
        try:
            inspector.inspect(resource.path("", target.key.name), target.manifest, options.crd_upgrade_safety)
        except BundleError as error:
            return error
        except ApiError as error:
            failure = classify(error, target.key, install_namespace="")
            return BundleError(failure.reason, failure.message, retry_after=failure.retry_after)
        return None
