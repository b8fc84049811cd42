"""What the page can do to a BundleDeployment: the requests of the verbs of the command line, as the same user.

Not here: the question before it, which the page asks, and who may ask for it (guard.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from rukpak.api import names
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.apply.execute import REVIEWS
from rukpak.controller.kube.client import Client
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.ui.model import seal
from rukpak.controller.untrusted import field, text
from rukpak.controller.views import FailedError
from rukpak.controller.views.access import PAUSE, RESUME, Choice, Deployments, decide, find_kept, make_request, pin

RIGHT_SECONDS = 30.0
"""How long an answer about rights is kept."""


def act(client: Client, name: str, verb: str, given: Mapping[str, Any]) -> None:
    """Do what a verb of the command line does.

    Args:
        client: with the rights of the user.
        name: of the BundleDeployment.
        verb: a key of `ACTS`.
        given: what was shown: for a decision `revision` and `shown`, for a rollback `revision`.

    Raises: FailedError if it cannot be done, or something else was shown; ApiError.
    """
    ACTS[verb](Deployments(client), name, given)


def _merge(make: Callable[[], Mapping[str, Any]]) -> _Act:
    def _change(deployments: Deployments, name: str, _given: Mapping[str, Any]) -> None:
        if deployments.change(name, make()) is None:
            raise FailedError(f'BundleDeployment "{name}" not found')

    return _change


def _decide(verb: str) -> _Act:
    def _send(deployments: Deployments, name: str, given: Mapping[str, Any]) -> None:
        deployment = deployments.read(name)[1]
        pending = deployment.status.pending
        if pending is None or text(given, "revision") != pending.revision or text(given, "shown") != seal(deployment):
            raise FailedError("what waits for approval has changed meanwhile; look at it again")
        decide(verb, deployments, Choice(deployment, pending.revision), lambda: _choose(deployments, name))

    return _send


def _choose(deployments: Deployments, name: str) -> Choice:
    deployment = deployments.read(name)[1]
    if deployment.status.pending is None:
        raise FailedError(f"{name}: no revision waits for approval")
    return Choice(deployment, deployment.status.pending.revision)


def _roll_back(deployments: Deployments, name: str, given: Mapping[str, Any]) -> None:
    _, deployment = deployments.read(name)
    pin(deployments, deployment, _kept(deployment, text(given, "revision")))


def _undo(deployments: Deployments, name: str, _given: Mapping[str, Any]) -> None:
    _, deployment = deployments.read(name)
    pin(deployments, deployment, None)


def _kept(deployment: BundleDeployment, revision: str) -> str:
    found = find_kept(deployment.status, revision) if revision else ""
    if not found:
        raise FailedError(f"{deployment.metadata.name}: this revision is not kept any more")
    return found


def _request() -> Mapping[str, Any]:
    return make_request(datetime.now(UTC).isoformat(timespec="microseconds"))


_Act = Callable[[Deployments, str, Mapping[str, Any]], None]
ACTS: Mapping[str, _Act] = {
    "pause": _merge(lambda: PAUSE),
    "resume": _merge(lambda: RESUME),
    "reconcile": _merge(_request),
    "approve": _decide("approve"),
    "deny": _decide("deny"),
    "rollback": _roll_back,
    "undo": _undo,
}
"""By name; `undo` is `rollback --undo`."""


class Rights:
    """Whether the user may change a BundleDeployment, as the API server says. Thread-safe.

    Args:
        client: with the rights of the user.
        clock: in seconds.
    """

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, bool]] = {}

    def may_change(self, name: str) -> bool:
        """Return whether an act may be offered; not if that cannot be found out."""
        with self._lock:
            at, answer = self._known.get(name, (0.0, False))
            if name not in self._known or self._clock() - at > RIGHT_SECONDS:
                answer = self._ask(name)
                self._known[name] = (self._clock(), answer)
            return answer

    def _ask(self, name: str) -> bool:
        about = {"group": names.GROUP, "resource": names.PLURAL, "verb": "patch", "name": name}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": about},
        }
        try:
            return field(self._client.create(REVIEWS, review).value, "status", "allowed") is True
        except ApiError:
            return False
