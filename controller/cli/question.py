"""Questions to the user, on the terminal: stdin may be a file that the command reads."""

from __future__ import annotations

from pathlib import Path

from controller.cli.command import MisuseError

TERMINAL = Path("/dev/tty")


def ask(no_terminal: str) -> bool:
    """Ask whether to continue, and return the answer.

    Args:
        no_terminal: the message where nobody can be asked.

    Raises: MisuseError if there is no terminal.
    """
    try:
        with TERMINAL.open("w", encoding="utf-8") as screen, TERMINAL.open(encoding="utf-8") as keys:
            screen.write("Do you want to continue? (y/N): ")
            screen.flush()
            return keys.readline().strip().lower() in ("y", "yes")
    except OSError:
        raise MisuseError(no_terminal) from None
