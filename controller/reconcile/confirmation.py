"""Binds what a pass creates and deletes to the BundleDeployment as the API server has it, whatever the watches know.

Where two controllers act at once, by mistake or since one hung and came back, the watch of the second may not have
shown what the first has done. Its pass would create again what the first has pruned, and nobody would delete that. An
apply of an object that exists needs none of this: it is bound to the UID that was judged (apply/object/preparation.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from controller.apply.options import OvertakenError
from controller.observe.watches import Watches
from controller.reconcile.context import Context

SECONDS = 1.0
"""What was read or written in these last seconds is believed: a pass that creates many objects reads seldom."""


def make_confirmation(watches: Watches, context: Context, revision: str) -> Callable[[], None]:
    """Return a function that raises OvertakenError once the pass has been overtaken, and ApiError if that is not known.

    Args:
        watches: know when the BundleDeployment was last read.
        context: of the pass.
        revision: that is applied; status records it before, except for hooks and if objects are only deleted.
    """
    recorded = {revision, context.status.revision}
    lock = threading.Lock()  # of many threads that create objects one reads

    def _confirm() -> None:
        with lock:
            found = watches.confirm(context.name, SECONDS)
        if found is None or not context.is_same_spec(found) or found.status.revision not in recorded:
            raise OvertakenError(context.name)

    return _confirm
