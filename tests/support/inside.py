"""The inside of the controller, as far as integration and e2e tests need it: none of them imports it otherwise.

They use the API, the command line, metrics and logs, as users do. What is here is what those cannot replace: a client
of the API server, sources and the content store, and what is compared with a real server, such as the replies that it
gives, the fields that it records and the health of its objects. A module that moves is one line.
"""

from __future__ import annotations

from rukpak.controller.apply import managed_fields
from rukpak.controller.apply.drift import covers, equal_by_value, first_uncovered
from rukpak.controller.apply.ownership import Owner, make_body
from rukpak.controller.apply.replies import ApplyFailure, Recovery, classify
from rukpak.controller.building.capabilities import shipped
from rukpak.controller.building.entry_points import processor_of, source_of
from rukpak.controller.building.revision import Revision, Terms
from rukpak.controller.cli import run as run_command
from rukpak.controller.cli.lint import find_problems
from rukpak.controller.cli.permissions import Resources
from rukpak.controller.cli.ui import announce
from rukpak.controller.content.archive import write_entries
from rukpak.controller.content.store import ContentStore, assemble
from rukpak.controller.formats.applicable import make_applicable, revision_digest
from rukpak.controller.formats.manifests import read_documents
from rukpak.controller.formats.objects import BUILT_IN_GROUPS
from rukpak.controller.kube import discovery
from rukpak.controller.kube.cache import Trace, make_trace
from rukpak.controller.kube.client import Client, Response, connect
from rukpak.controller.kube.configuration import User
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.kube.resources import GroupVersionKind, Resource
from rukpak.controller.kube.watch import ListWatch, Pace, Reflector
from rukpak.controller.manager import manager
from rukpak.controller.observe.health.explain import explain_namespace
from rukpak.controller.observe.health.rules import assess
from rukpak.controller.observe.health.verdict import Context, State, Verdict
from rukpak.controller.observe.records import entry_hash, entry_of, key_of
from rukpak.controller.processes.programs import Mechanisms, View, start_confined
from rukpak.controller.retries import Backoff
from rukpak.controller.revisions.store import CHUNK_BYTES, TENANT_BYTES, RevisionStore, remove_orphans, secret_name
from rukpak.controller.sources import hosts as detours
from rukpak.controller.sources.git import objects as git_objects
from rukpak.controller.sources.git import process as git_process
from rukpak.controller.sources.git import source as git_submodules
from rukpak.controller.sources.git.objects import Objects
from rukpak.controller.sources.versions import Choice, Range
from rukpak.controller.ui import watching
from rukpak.controller.ui.logs import LINE_BYTES

__all__ = [
    "AGAIN_SECONDS",
    "BLOCKED_AFTER_SECONDS",
    "BUILT_IN_GROUPS",
    "CHUNK_BYTES",
    "LINE_BYTES",
    "NOTICED_SECONDS",
    "TENANT_BYTES",
    "TROUBLED_SECONDS",
    "ApiError",
    "ApplyFailure",
    "Backoff",
    "Choice",
    "Client",
    "ContentStore",
    "Context",
    "Discovery",
    "GroupVersionKind",
    "ListWatch",
    "Mechanisms",
    "Objects",
    "Owner",
    "Pace",
    "Range",
    "Recovery",
    "Reflector",
    "Resource",
    "Resources",
    "Response",
    "Revision",
    "RevisionStore",
    "State",
    "Terms",
    "Trace",
    "User",
    "Verdict",
    "View",
    "announce",
    "assemble",
    "assess",
    "classify",
    "connect",
    "covers",
    "detours",
    "discovery",
    "entry_hash",
    "entry_of",
    "equal_by_value",
    "explain_namespace",
    "find_problems",
    "first_uncovered",
    "git_objects",
    "git_process",
    "git_submodules",
    "key_of",
    "make_applicable",
    "make_body",
    "make_trace",
    "managed_fields",
    "manager",
    "processor_of",
    "read_documents",
    "remove_orphans",
    "revision_digest",
    "run_command",
    "secret_name",
    "shipped",
    "source_of",
    "start_confined",
    "watching",
    "write_entries",
]

# For `hurry`: after them the controller says that a deletion is blocked, and asks what explains an object in trouble.
BLOCKED_AFTER_SECONDS = "rukpak.controller.apply.order:BLOCKED_AFTER_SECONDS"
NOTICED_SECONDS = "rukpak.controller.apply.ledger:NOTICED_SECONDS"
TROUBLED_SECONDS = "rukpak.controller.observe.explanations:TROUBLED_SECONDS"
AGAIN_SECONDS = "rukpak.controller.observe.explanations:AGAIN_SECONDS"
