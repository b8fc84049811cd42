"""How much a program that is started may use: prlimit(1) sets the limits before it begins, for it and all it starts.

No shell takes part, and nothing of ours runs between fork and exec, which is not safe beside other threads.

Not here: what a program may see, and how it ends (sources/git_process.py, formats/helm/child.py).
"""

from __future__ import annotations

import resource
import shutil
import threading
from collections.abc import Sequence

STARTING = threading.Lock()
"""Held while a program is started, and while a file is written that is to be started itself.

A child that is forked meanwhile has that file open for writing until it is another program, and so long the kernel
refuses to start it (execve(2), ETXTBSY).
"""


def confined(command: Sequence[str], **limits: int) -> list[str]:
    """Return the command that runs a program within limits; 126 and 127 tell that it could not be started.

    Args:
        command: program and arguments.
        limits: by the names of setrlimit(2), such as `fsize`, in its units. What this process may not exceed itself
            is not raised.

    Raises: RuntimeError: there is no prlimit.
    """
    if shutil.which("prlimit") is None:
        raise RuntimeError("prlimit cannot be found; install util-linux beside the controller")
    return ["prlimit", *(f"--{name}={_bounded(name, amount)}" for name, amount in limits.items()), "--", *command]


def _bounded(name: str, amount: int) -> int:
    hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[1]
    return amount if hard == resource.RLIM_INFINITY else min(amount, hard)
