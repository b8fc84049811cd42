"""What a call does at hosts that the spec does not name: where a redirect or an index leads to.

A tenant could use its own server to send the controller to services that only the controller reaches. So whatever goes
wrong there, also with the content that is sent, ends the call with one error, at one time: refused and silent ports,
other certificates, any status, and any content look alike. Nor does the server that has redirected see a difference:
it is not asked again, and its connections stay open until then.

What lasts longer than `SECONDS` because the other host keeps sending content is told later. Once that is verified by
its digest, or is the list or the repository that was looked for, it is like content of the named host.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

from api.errors import BundleError
from api.plugins import Access

log = logging.getLogger(__name__)

SECONDS = 10.0
"""From the request to another host to the report of a failure."""
_MARGIN = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Detour:
    """A request to a host that the spec does not name.

    Attributes:
        shown: the only error that users see.
        began: monotonic seconds.
    """

    shown: BundleError
    began: float = field(default_factory=time.monotonic)

    @property
    def until(self) -> float:
        """When the header of a response must have arrived, in monotonic seconds."""
        return self.began + SECONDS - _MARGIN

    def end(self, error: BundleError, access: Access) -> BundleError:
        """Wait until failures are reported, and return the error to report; the log may contain the real one."""
        if time.monotonic() >= access.deadline > self.until:
            return error  # it took so long that there is nothing to hide: a large file
        log.debug("failed at another host", extra={"shown": self.shown.message, "problem": error.message})
        access.cancelled.wait(max(min(self.began + SECONDS, access.deadline) - time.monotonic(), 0.0))
        return self.shown
