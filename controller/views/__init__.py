"""What the verbs and the page show of a cluster and do to it, as the user who asks. It imports neither of them.

objects      START HERE: what a BundleDeployment is doing, and its objects, wanted beside live; pure
comparison   what a revision would change, as values, text and data, without the values of Secrets; pure
dry_run      finds that out, by a dry run of each apply

access       BundleDeployments, objects and stored revisions, read and changed as the user
texts        YAML, JSON, tables and colors

Not there: what a person is told in one line instead of a traceback. That is here, where it costs no import.
"""

from __future__ import annotations


class MisuseError(Exception):
    """The command line is invalid or names a file that cannot be read; the message is one line."""


class FailedError(Exception):
    """A verb cannot be carried out; the message is one line, which is printed with the name of the verb."""
