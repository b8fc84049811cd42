"""What a person is told in one line instead of a traceback. Light: command lines import it before anything else."""

from __future__ import annotations


class MisuseError(Exception):
    """The command line is invalid or names a file that cannot be read; the message is one line."""


class FailedError(Exception):
    """A verb cannot be carried out; the message is one line, which is printed with the name of the verb."""
