"""Every verb of `rukpak`: its help, its flags, and the function that runs it, which is imported only then."""

from __future__ import annotations

import argparse
import gc
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any, cast

from rukpak.api.proxies import IN_CLUSTER
from rukpak.controller.cli.command import FAILED
from rukpak.controller.cli.parser import FLAGS, OneOf, Parser, object_name
from rukpak.controller.settings import GROUPS as OPTION_GROUPS
from rukpak.controller.settings import add_options

Run = Callable[[argparse.Namespace], int]
"""Runs a verb with its options and returns the exit status."""
Adds = Callable[[Parser], object]
"""Adds a flag, or several, to the parser of a verb."""

SELECTION = "NAME...|-l SELECTOR|--all [flags]"
RENDERING = (
    *("registry_mirror", "denied_networks", "allowed_networks", "allowed_hosts", "allow_loopback"),
    *("fetch_timeout", "fetch_idle_timeout", "min_fetch_rate"),
    *("helm", "render_timeout", "render_mebibytes", "confinement"),
)
"""The options of the controller that `render` has, too."""
SHORTEST_INTERVAL = 30
"""Seconds of a pollInterval."""
_REGISTRY_TITLE, _TRUST_TITLE = "registry", "certificates"
_HIDDEN = frozenset({*OPTION_GROUPS.values(), _REGISTRY_TITLE, _TRUST_TITLE})
"""Groups of flags that few people need, and that most verbs have; `run` is about them."""
LEVELS = ("debug", "info", "warning", "error")
OBJECTS = ("json", "yaml", "name")
_KUBECTL_FORMS = {"jsonpath": 'use "kubectl get bd NAME -o jsonpath=TEMPLATE"'}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A verb as the command line knows it."""

    summary: str
    """One line for the list of verbs."""
    description: str
    usage: str = ""
    """What follows the name of the verb; by default, its arguments and flags."""
    examples: Mapping[str, str] = field(default_factory=dict)
    """Command lines after `rukpak`, each with what it does."""
    flags: Sequence[Adds]
    """Arguments and flags, in the order of help."""
    entry: str = ""
    """`module:function` below rukpak.controller.cli, called with the options; by default, `main` of its own module."""
    failed: int = FAILED
    """Exit status if it fails."""


def load(name: str) -> Run:
    """Import what a verb does."""
    module, _, function = (VERBS[name].entry or f"{name.replace('-', '_')}:main").partition(":")
    gc.disable()  # what is imported stays: looking for garbage in it, now or later, takes a tenth of the time
    try:
        return cast("Run", getattr(import_module(f"rukpak.controller.cli.{module}"), function))
    finally:
        gc.freeze()
        gc.enable()


def make_parser(name: str) -> Parser:
    """Return the parser of a verb."""
    verb = VERBS[name]
    hidden = () if name == "run" else _HIDDEN
    parser = Parser(name, description=verb.description, examples=verb.examples, hidden=hidden)
    for add in verb.flags:
        add(parser)
    arguments = [str(each.metavar) for each in parser.actions() if not each.option_strings]
    parser.usage = f"{parser.prog} {verb.usage or ' '.join([*arguments, '[flags]'])}"
    return parser


# kinds of flags


def _argument(name: str, shown: str, text: str, **options: Any) -> Adds:
    return lambda parser: parser.add_argument(name, metavar=shown, help=text, **options)


def _flag(form: str, text: str, *, group: str = FLAGS, **options: Any) -> Adds:
    def _add(parser: Parser) -> None:
        *short, last = form.split(", ")
        flag, _, value = last.partition(" ")
        kind: dict[str, Any] = {"metavar": value} if value else {"action": "store_true"}
        if "|" in value:
            kind["type"] = OneOf(tuple(value.split("|")))
        parser.add_flag(group, (*short, flag), help=text, **kind, **options)

    return _add


_of_cluster = partial(_flag, group=OPTION_GROUPS["kubeconfig"])
_of_content = partial(_flag, group="content")
_of_config = partial(_flag, group="format and config")
_of_registry = partial(_flag, group=_REGISTRY_TITLE)
_of_trust = partial(_flag, group=_TRUST_TITLE)


def _options(*names: str) -> Adds:
    return lambda parser: add_options(parser, os.environ, only=names or None)


def _defaults(**values: Any) -> Adds:
    return lambda parser: parser.set_defaults(**values)


def _output(*words: str, default: str = "") -> Adds:
    form = OneOf(words, is_optional=not default, remedies=_KUBECTL_FORMS)
    text = f"{', '.join(words)} [default: {default or 'text'}]"
    return _flag("-o, --output FORMAT", text, type=form, default=default)


def _seconds(text: str) -> float:
    from rukpak.api.v1alpha2.fields import parse_duration  # noqa: PLC0415 - slow to import, and not for --help

    try:
        return float(text) if text.isdecimal() else parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _interval(text: str) -> str:
    if text.isdecimal():
        text = f"{text}s"
    if 0 < _seconds(text) < SHORTEST_INTERVAL:
        raise argparse.ArgumentTypeError(f"must be at least {SHORTEST_INTERVAL}s, or 0 for never")
    return text if _seconds(text) else ""


def _wait(text: str) -> tuple[Adds, ...]:
    return _flag("--wait", text), _TIMEOUT


def _cluster(*others: str) -> tuple[Adds, ...]:
    return (
        _options("kubeconfig", "context", *others),
        _of_cluster("--as USER", "user to impersonate, as with kubectl", dest="as_user"),
        _of_cluster(
            "--as-group GROUP", "group to impersonate, with --as; may be repeated", dest="as_groups", action="append"
        ),
    )


def _add_fate(parser: Parser) -> None:
    group = parser.group(FLAGS).add_mutually_exclusive_group()
    group.add_argument("--keep", action="store_true", help="keep installed objects, without an owner [default]")
    text = "delete installed objects, unless spec.deletionPolicy is Orphan"
    group.add_argument("--delete", action="store_true", help=text)


# flags of several verbs

_PLAYGROUND = ("up", "restart", "status", "env", "down")
_LOCAL = "folder, archive, packed chart or file of manifests"
_SOURCES = (
    "content: folder, archive, packed chart or file of manifests; oci://IMAGE; https://ARCHIVE; "
    "git+https://REPOSITORY//DIRECTORY?ref=REF; -: stdin"
)
_CAPABILITIES = 'output of "rukpak capabilities"; -: stdin; default: those of the latest Kubernetes version'
_NAME = _argument("name", "NAME", "name of a BundleDeployment", type=object_name)
_YES = _flag("-y, --yes", "do not ask for confirmation")
_TIMEOUT = _flag(
    "--timeout DURATION", "how long to wait, such as 30s or 5m [default: 5m]", type=_seconds, default=300.0
)
_COLOR = _flag(
    "--color auto|always|never",
    "whether to use colors; auto: on a terminal, unless NO_COLOR is set [default: auto]",
    default="auto",
)
_UNTIL_READY = _wait("wait until it is Ready; ends at once if waiting cannot help")
_UNTIL_DONE = _wait("wait until the controller is done; ends at once if waiting cannot help")
_SELECTION = (
    _argument("names", "NAME", "name of a BundleDeployment", nargs="*", type=object_name),
    _flag("-A, --all", "all BundleDeployments"),
    _flag("-l, --selector SELECTOR", "those whose labels match, such as team=shop,!legacy"),
)
_CHANGE = (*_SELECTION, *_UNTIL_DONE, _output(*OBJECTS), *_cluster())
_DECISION = (
    _NAME,
    _flag(
        "--revision DIGEST",
        "digest of the revision, abbreviated if it waits for approval [default: the one that waits]",
        default="",
    ),
    _YES,
    *_UNTIL_DONE,
    _output(*OBJECTS),
    *_cluster(),
)
_SOURCE = _argument("source", "SOURCE", _SOURCES, nargs="?")
_TRUST = (
    _of_trust("--certificate-authority FILE", "PEM certificates to trust instead of the system's"),
    _of_trust(
        "--insecure-skip-tls-verify",
        "do not verify certificates, and use plain http if a registry does not serve https",
    ),
)
_CONFIG = (
    _of_config(
        "--format FORMAT",
        "plain, helm, registry-v1 or that of a plug-in [default: what the content looks like, else plain]",
    ),
    _of_config(
        "-n, --install-namespace NAMESPACE",
        "default namespace of namespaced objects, which is created if it is missing",
    ),
    _of_config("--config FILE", "YAML or JSON file with spec.config; -: stdin"),
    _of_config("--values FILE", "values of a chart, in place of those that are set; may be repeated", action="append"),
    _of_config(
        "--set KEY=VALUE",
        "a value of a chart, as Helm has it, beside those that are set; may be repeated",
        action="append",
    ),
    _of_config("--set-string KEY=TEXT", "the same, always a string", action="append"),
    _of_config("--set-file KEY=FILE", "the same, the content of a file", action="append"),
)
CONTENT = (
    _flag("-f, --file FILE", "BundleDeployment in place of SOURCE; -: stdin"),
    _of_content("--image REFERENCE", "image or OCI artifact"),
    _of_content("--git REPOSITORY", "git repository"),
    _of_content("--ref REF", "for git: commit, tag or branch [default: HEAD]"),
    _of_content("--directory DIRECTORY", "for git: part of the repository"),
    _of_content("--http URL", "archive, or file of manifests"),
    _of_content("--sha256 DIGEST", "for http and charts: SHA-256 that the file must have"),
    _of_content("--chart NAME", "Helm chart"),
    _of_content("--repository URL", "for --chart, in place of SOURCE: where index.yaml is, or oci://REGISTRY/FOLDER"),
    _of_content("--version RANGE", "for --chart: version or range [default: the highest release]"),
    _of_content("--secret NAME", "credentials for the source, in the install namespace"),
    *_TRUST,
    *_CONFIG,
    _of_config("--service-account NAME", "apply objects as this account of the install namespace"),
    _of_content("--use-secrets", "use the Secrets that sources name without asking"),
)
"""What describes a BundleDeployment, for all verbs that take content; beside SOURCE."""
_REGISTRY = (
    _of_registry(
        "--registry-config FILE",
        "Docker configuration with credentials [default: $DOCKER_CONFIG/config.json or ~/.docker/config.json]",
    ),
    _of_registry("--username USERNAME", "user at the registry, whose password is read from stdin"),
)
_REVIEWED = (_argument("name", "NAME", "name of a BundleDeployment", nargs="?", type=object_name), _SOURCE)
_FOR_CLUSTER = _flag(
    "--capabilities FILE",
    'for content: output of "rukpak capabilities"; default: those of the latest Kubernetes version',
)
_RENDERED = (
    *_cluster("namespace"),
    _options(*RENDERING),
    _defaults(from_cluster=False, capabilities=None),  # for verbs that lack these flags
)
_REVIEW = (
    _flag("--from-cluster", "read the revision from its Secrets; by default, it is rendered if you may not read them"),
    _output("json", "yaml"),
    *CONTENT,
    *_RENDERED,
)

DEPLOYMENTS = {
    "status": Verb(
        summary="show the state of BundleDeployments",
        description="Show a table of BundleDeployments, on a terminal the worst first, or the details of those named.",
        usage="[NAME...] [flags]",
        examples={
            "status": "all BundleDeployments",
            "status shop --objects": "details of one, with its objects",
            "status -l team=shop --wait --timeout 2m": "wait until all of a team are Ready",
        },
        flags=(
            *_SELECTION,
            _flag("--objects", "also list the objects"),
            _flag("-w, --watch", "show each change, until Ctrl-C"),
            *_wait("wait until they are Ready; ends at once if waiting cannot help"),
            _output(*OBJECTS, "wide"),
            _COLOR,
            *_cluster("namespace"),
        ),
    ),
    "tree": Verb(
        summary="show the objects of a BundleDeployment and what they own as a tree",
        description="Show the objects of a BundleDeployment and what its workloads own, with health and drift. A "
        "BundleDeployment among the objects is shown with its own objects.",
        examples={"tree shop": "objects, ReplicaSets and Pods", "tree shop -o json": "for programs"},
        flags=(_NAME, _output("json", "yaml", "wide"), _COLOR, *_cluster("namespace")),
    ),
    "health": Verb(
        summary="judge objects in a file or on the cluster, and try expressions for spec.healthChecks",
        description="Show how objects are judged: by the built-in rules, or by expressions in CEL about the object, "
        "which is self. Exits with 1 if one is not healthy.",
        usage="TYPE/NAME|-f FILE [flags]",
        examples={
            "health deployment/web -n shop": "an object on the cluster",
            "health -f database.yaml --expr 'status.readyReplicas >= 1'": "an object in a file",
            "health clusters.postgresql.cnpg.io/db --failed \"status.phase == 'Failed'\"": "of an operator",
        },
        flags=(
            _argument("object", "TYPE/NAME", "object on the cluster, as kubectl names it", nargs="?"),
            _flag("-f, --file FILE", "objects in a file; -: stdin"),
            _flag("--expr EXPRESSION", "the object is healthy if this is true (expressions.current)"),
            _flag("--failed EXPRESSION", "it has failed if this is true"),
            _flag("--in-progress EXPRESSION", "it is progressing if this is true, whatever the others say"),
            _flag("-n, --namespace NAMESPACE", "of the object", default="default"),
            _output("json", "yaml"),
            *_cluster(),
        ),
    ),
    "ui": Verb(
        summary="show all BundleDeployments on a page in the browser",
        description="Open a page about all BundleDeployments, which follows the cluster: states, pipelines, objects, "
        "history and what waits for approval. It is served by this program, with your rights, until Ctrl-C; nothing is "
        "added to the cluster.",
        examples={
            "ui": "open it in the browser",
            "ui --read-only --no-browser": "print its address; nothing can be changed there",
        },
        flags=(
            _flag("--read-only", "leave out everything that changes something"),
            _flag("--port PORT", "port to listen on [default: any that is free]", type=int, default=0),
            _flag("--no-browser", "only print the address"),
            _flag(
                "--listen ADDRESS",
                "address to listen on; another one than loopback requires --certificate [default: 127.0.0.1]",
                default="127.0.0.1",
            ),
            _flag("--certificate FILE", "PEM file with the certificate of the server and its key", default=""),
            *_cluster("namespace"),
        ),
    ),
    "events": Verb(
        summary="show the Events of a BundleDeployment",
        description="Show the Events of a BundleDeployment, the oldest first.",
        examples={"events shop -w": "also show new ones as they occur"},
        flags=(
            _NAME,
            _flag("-w, --watch", "also show new Events, until Ctrl-C"),
            _output(*OBJECTS),
            *_cluster(),
        ),
        entry="events:show_events",
    ),
    "logs": Verb(
        summary="show what the controller logged about a BundleDeployment",
        description="Show what the pods of the controller logged about a BundleDeployment.",
        examples={"logs shop -f --since 10m": "the last ten minutes, and everything from now on"},
        flags=(
            _NAME,
            _flag("-f, --follow", "also show new lines, until Ctrl-C"),
            _flag("--since DURATION", "only lines newer than this, such as 5m or 1h", type=_seconds),
            _flag(f"--level {'|'.join(LEVELS)}", "lowest level shown", default="debug"),
            _output("text", "json", default="text"),
            *_cluster("namespace"),
        ),
        entry="events:show_logs",
    ),
    "push": Verb(
        summary="push a folder as the content of a BundleDeployment, without a registry",
        description="Pack a folder into immutable ConfigMaps in the install namespace, at most 32 MiB, and have a "
        "source of kind configMap name them.",
        examples={
            "push ./bundle shop --wait": "return when it is Ready",
            "push ./chart shop --source 1": "replace the second source, whatever its kind",
        },
        flags=(
            _argument("source", "FOLDER", _LOCAL),
            _NAME,
            _flag(
                "--source NUMBER",
                "position of the source in spec.sources, from 0 [default: the only one of kind configMap]",
                type=int,
                dest="position",
            ),
            _flag("-n, --install-namespace NAMESPACE", "sets spec.installNamespace if that is not set"),
            _flag(
                "--poll-interval DURATION",
                "how often to check the other sources for a new tag, commit or version, such as 5m; 0: never",
                type=_interval,
            ),
            *_UNTIL_READY,
            _output(*OBJECTS),
            *_cluster(),
        ),
        entry="install:push",
    ),
    "package": Verb(
        summary="push a folder to a registry as an image",
        description="Render a folder, and if that succeeds, push it to a registry as an image that a source of kind "
        "image installs. The same files give the same digest.",
        examples={
            "package ./shop registry.example.com/shop:v1": "with the credentials of docker login",
            "package ./chart registry.example.com/chart:v1 --format helm": "refuse a folder that is not a chart",
        },
        flags=(
            _argument("source", "FOLDER", _LOCAL),
            _argument("reference", "REGISTRY/REPOSITORY:TAG", "name of the image"),
            _flag("--capabilities FILE", _CAPABILITIES),
            _output("name"),
            *_REGISTRY,
            *_TRUST,
            *_CONFIG,
            _options(*RENDERING),
            _defaults(service_account=None),
        ),
        entry="install:package",
    ),
    "history": Verb(
        summary="show the revisions of a BundleDeployment that are kept",
        description="Show the revisions of a BundleDeployment that are kept, newest first, and what became of them.",
        examples={"history shop -o json": "with full digests and times"},
        flags=(_NAME, _output("json", "yaml"), _COLOR, *_cluster()),
        entry="changes:show_history",
    ),
    "rollback": Verb(
        summary="roll back to an earlier revision",
        description="Apply a revision again that is kept, and ignore new content and config until that is undone "
        "(spec.pinnedRevision).",
        examples={
            "rollback shop --wait": "to the last one that was healthy; return when it is Ready",
            "rollback shop --to 1f2e3d4c5b6a": "to another one",
            "rollback shop --undo": "forward to what the spec asks for: show the changes, and ask",
        },
        flags=(
            _NAME,
            _flag(
                "--to DIGEST",
                'kept revision, as "rukpak history" shows it [default: the last one that was healthy]',
                default="",
            ),
            _flag("--undo", "apply what the spec asks for again"),
            _flag("-y, --yes", "with --undo: do not ask for confirmation"),
            _flag("--use-secrets", "with --undo: use the Secrets that sources name without asking"),
            *_UNTIL_READY,
            _output(*OBJECTS),
            *_RENDERED,
        ),
        entry="changes:roll_back",
    ),
    "prune": Verb(
        summary="delete objects that no revision contains",
        description="Delete the strays of a BundleDeployment: objects with its marks that no revision contains.",
        examples={
            "prune shop --dry-run": "show what would be deleted",
            "prune shop": "show it, ask, and delete it, with your permissions",
        },
        flags=(_NAME, _YES, _flag("--dry-run", "only show what would be deleted"), *_cluster("namespace")),
    ),
    "pause": Verb(
        summary="pause BundleDeployments: report drift, change nothing",
        description="Pause BundleDeployments: keep reporting health and drift, but change no object.",
        usage=SELECTION,
        examples={
            "pause shop --wait": "return once nothing changes any more",
            "pause --all": "all of them, until resume --all",
        },
        flags=_CHANGE,
        entry="changes:pause",
    ),
    "resume": Verb(
        summary="resume paused BundleDeployments",
        description="Resume paused BundleDeployments: repair drift and install pending revisions. With --all, only "
        "those that pause --all has paused; those that were paused before stay paused.",
        usage=SELECTION,
        examples={"resume shop --wait": "return when it is Ready", "resume --all": "all that pause --all has paused"},
        flags=_CHANGE,
        entry="changes:resume",
    ),
    "reconcile": Verb(
        summary="re-resolve all sources and retry failures immediately",
        description="Re-resolve all sources and retry failures immediately.",
        usage=SELECTION,
        examples={"reconcile shop --wait": "return when it is Ready", "reconcile -l team=shop": "all of a team"},
        flags=_CHANGE,
        entry="changes:reconcile",
    ),
    "approve": Verb(
        summary="approve the revision that waits for approval",
        description="Show what a revision that waits for approval would change, ask, and approve exactly that.",
        examples={
            "approve shop --wait": "return when it is Ready",
            "approve shop --revision 1f2e3d4c5b6a --yes": "do not ask, but approve no other revision than this one",
        },
        flags=_DECISION,
        entry="changes:approve",
    ),
    "deny": Verb(
        summary="deny the revision that waits for approval",
        description="Show what a revision that waits for approval would change, ask, and deny it.",
        examples={"deny shop": "keep what is installed until the sources or the spec give another revision"},
        flags=_DECISION,
        entry="changes:deny",
    ),
}
BUNDLES = {
    "render": Verb(
        summary="print the objects of a bundle as the controller would apply them",
        description="Print the objects of a bundle as the controller would apply them.",
        usage="SOURCE|-f FILE [flags]",
        examples={
            "render ./bundle --install-namespace shop": "a directory, without a cluster",
            "render oci://quay.io/shop/chart:1.2.0": "an image or chart in a registry",
            "render -f shop.yaml -o revision": "the future status.revision of a BundleDeployment",
            "render -f shop.yaml | kubectl diff -f -": "what would change on the cluster",
            "render --revision shop@1f2e3d4c5b6a": "a revision that was applied earlier, from the revision store",
        },
        flags=(
            _SOURCE,
            _flag(
                "--revision NAME@DIGEST",
                "revision that was applied: name of the BundleDeployment and digest, which may be abbreviated",
            ),
            _flag("--name NAME", "overrides the name of the BundleDeployment [default for SOURCE: bundle]"),
            _flag("--capabilities FILE", _CAPABILITIES),
            _output("yaml", "json", "name", "revision", default="yaml"),
            _flag("--show-secrets", "print values of Secrets also where a processor decrypts some", default=False),
            *CONTENT,
            *_RENDERED,
        ),
    ),
    "lint": Verb(
        summary="find fields of objects that a cluster would refuse, without a cluster",
        description="Render a bundle, check that the kinds of its objects exist, and check custom objects by the "
        "CustomResourceDefinitions beside them. Exits with 1 if something is wrong. For the fields of Kubernetes' own "
        "kinds, rukpak diff asks the API server; without a cluster: rukpak render ./bundle | kubeconform -strict "
        "-ignore-missing-schemas.",
        usage="SOURCE|-f FILE [flags]",
        examples={
            "lint ./bundle": "a directory",
            "lint ./chart --values values.yaml --capabilities served.yaml": "a chart, for a certain cluster",
            "lint -f shop.yaml -o json": "a BundleDeployment in a file; print the findings as JSON",
        },
        flags=(
            _SOURCE,
            _flag("--name NAME", "name of the BundleDeployment, for SOURCE [default: bundle]"),
            _flag("--capabilities FILE", _CAPABILITIES),
            _output("json"),
            *CONTENT,
            *_RENDERED,
        ),
    ),
    "verify": Verb(
        summary="check who has signed the sources of a BundleDeployment",
        description="Check the signatures that the sources of a BundleDeployment must have, as the controller does, "
        "and print who has signed what. The keys are read from the Secrets that verify names, with your permissions. "
        "What status records is checked, if there is one, otherwise what the sources lead to now. Exits with 1 if "
        "a source lacks a signature, or nothing demands one of content that can be signed, unlike a ConfigMap.",
        usage="NAME|-f FILE [flags]",
        examples={
            "verify shop": "a BundleDeployment on the cluster",
            "verify -f shop.yaml": "a BundleDeployment in a file",
            "verify -f shop.yaml -o json": "print who has signed as JSON",
            "verify -f shop.yaml --require-verified 'ghcr.io/acme/*=acme.pub'": "what the controller with this option "
            "says",
        },
        flags=(
            _argument("name", "NAME", "name of a BundleDeployment", nargs="?", type=object_name),
            _flag("-f, --file FILE", "BundleDeployment in place of NAME; -: stdin"),
            _flag("--use-secrets", "use the Secrets that sources name without asking", default=False),
            _output("json", "yaml"),
            *_cluster("namespace"),
            _options("require_verified", *RENDERING),
        ),
    ),
    "install": Verb(
        summary="install a bundle, or upgrade it: render it, show what it changes and may do, ask, apply",
        description="Create a BundleDeployment, or change the one that exists, after showing what that would change "
        "and what the bundle may do once it runs. What no flag says stays as it is. Content of this machine is put "
        "into ConfigMaps of the install namespace, at most 32 MiB, or with --registry into an image.",
        examples={
            "install shop ./shop": "a folder of manifests or a chart; run it again after a change",
            "install shop ./shop-1.2.0.tgz -n shop --values production.yaml --wait": "return when it is Ready",
            "install shop oci://quay.io/shop/chart:1.2.0 -n shop --set replicas=3": "a chart in a registry",
            "install shop https://charts.example.com --chart shop --version 1.x": "a chart in a repository",
            "install shop git+https://github.com/shop/shop//deploy?ref=v1.2.0 -n shop --dry-run -o yaml": "print the "
            "BundleDeployment, for a repository of manifests",
            "install -f shop.yaml --diff": "a BundleDeployment in a file; show each line that would change",
        },
        flags=(
            _argument("name", "NAME", "name of the BundleDeployment", nargs="?", type=object_name),
            _SOURCE,
            _flag(
                "--approval Automatic|NewPermissions|Manual",
                "which revisions wait for approval; this one is approved [default: Automatic]",
            ),
            _flag("--diff", "show each line that would change"),
            _YES,
            _flag("--dry-run", "change nothing; with -o yaml, print the BundleDeployment"),
            _flag("--force", "also install what would be refused as things are"),
            _of_content(
                "--poll-interval DURATION",
                "how often to check for a new tag, commit or version, such as 5m; 0: never",
                type=_interval,
            ),
            *_UNTIL_READY,
            _output(*OBJECTS),
            _of_registry("--registry REGISTRY/REPOSITORY:TAG", "push SOURCE there, and install the image"),
            *_REGISTRY,
            *CONTENT,
            *_RENDERED,
        ),
        entry="install:install",
    ),
    "adopt": Verb(
        summary="take over what Helm, Flux, kubectl or another BundleDeployment has installed",
        description="Take over objects that Helm, Flux or kubectl has installed, in place: show what would be taken, "
        "ask, suspend Flux, apply the BundleDeployment, wait until it is Ready, remove what the tool has left on the "
        "objects, and delete the Secrets of the Helm release. No other object is deleted. From kubectl without SOURCE, "
        "the bundle is made of what kubectl has applied in a namespace, and kept in ConfigMaps there. Another "
        "BundleDeployment is paused, and named in spec.takeOver.",
        usage="NAME [SOURCE] --from OWNER [flags]",
        examples={
            "adopt shop ./shop-1.2.0.tgz --from helm/shop -n shop --values prod.yaml": "a release, with its chart",
            "adopt shop -f shop.yaml --from helm/shop": "the same, with a BundleDeployment",
            "adopt shop -f shop.yaml --from flux/apps.team-a --dry-run": "only show what would be done",
            "adopt shop -f shop.yaml --from kubectl --yes": "do not ask",
            "adopt shop --from kubectl -n shop -l app=shop": "what kubectl has applied in a namespace, without a file",
            "adopt shop-v2 --from shop-v1": "objects of another BundleDeployment; with -f, one that does not exist yet",
        },
        flags=(
            _argument("name", "NAME", "name of the BundleDeployment", type=object_name),
            _SOURCE,
            _flag(
                "--from OWNER",
                "what has installed the objects: helm/RELEASE[.NAMESPACE], flux/KUSTOMIZATION[.NAMESPACE], kubectl, or "
                "the name of another BundleDeployment",
                dest="origin",
                required=True,
            ),
            _flag(
                "-l, --selector SELECTOR",
                "of what kubectl has applied in the namespace, only objects whose labels match, such as app=shop",
            ),
            _flag("--include-secrets", "of that, also Secrets; ConfigMaps then contain their values in clear"),
            _flag(
                "--field-manager NAME",
                "another field manager whose entries are removed from the objects; may be repeated",
                dest="managers",
                action="append",
            ),
            _YES,
            _flag("--dry-run", "only show what would be done"),
            _flag("--diff", "show how objects change as a whole, and what is created, not only some changed lines"),
            _TIMEOUT,
            _output(*OBJECTS),
            *CONTENT,
            *_RENDERED,
        ),
    ),
    "diff": Verb(
        summary="show what a revision would change on the cluster",
        description="Show what a revision would change, as the API server answers a dry run of each apply: of the "
        "revision that waits for approval, or else of the one that the BundleDeployment asks for. Exit status: 0 no "
        "difference, 1 a difference, which is also an object to create or delete, a hook to run, or an object that you "
        "may not read, 2 something failed or would be refused.",
        usage="NAME [SOURCE]|-f FILE [flags]",
        examples={
            "diff shop": "what waits for approval, or is paused, against the cluster",
            "diff shop ./shop": "what installing this folder would change",
            "diff -f shop.yaml": "of a BundleDeployment that is not applied yet, or changed",
            "diff shop --from 1f2e3d4c5b6a": "against an earlier revision instead of the cluster",
            "diff shop --to 1f2e3d4c5b6a": "what an earlier revision would change; see: rukpak history shop",
        },
        flags=(
            *_REVIEWED,
            _flag(
                "--from REVISION",
                "compare with this revision of the store, by its digest or the beginning of it, instead of the cluster",
                dest="before",
            ),
            _flag("--to REVISION", "what this revision of the store would change"),
            _COLOR,
            *_REVIEW,
        ),
        failed=2,
    ),
    "permissions": Verb(
        summary="show what a bundle may do once it runs",
        description="Show what a bundle may do once it runs, the most dangerous first.",
        usage="NAME [SOURCE]|-f FILE [flags]",
        examples={
            "permissions shop": "of the revision that it asks for",
            "permissions shop --new": "only what is not installed yet",
            "permissions -f shop.yaml": "of one that is not applied yet",
        },
        flags=(*_REVIEWED, _flag("--new", "only what the installed revision may not do"), _FOR_CLUSTER, *_REVIEW),
        entry="permissions:show_permissions",
    ),
    "rights": Verb(
        summary="show what a ServiceAccount needs to install a bundle",
        description="Show the permissions that the ServiceAccount of a BundleDeployment needs to install, repair "
        "and delete its revision.",
        usage="NAME [SOURCE]|-f FILE [flags]",
        examples={
            "rights shop": "as a list",
            "rights -f shop.yaml -o yaml | kubectl apply -f -": "grant them",
        },
        flags=(*_REVIEWED, _FOR_CLUSTER, *_REVIEW),
        entry="permissions:show_rights",
    ),
    "capabilities": Verb(
        summary="print the kinds that a cluster serves, for render",
        description='Print what a cluster serves, for "rukpak render --capabilities".',
        examples={"capabilities > c.yaml": "then: rukpak render --capabilities c.yaml ./bundle"},
        flags=(_output("yaml", "json", default="yaml"), *_cluster()),
        entry="render:show_capabilities",
    ),
}
INSTALLATION = {
    "run": Verb(
        summary="run the controller",
        description="Run the controller until it is told to stop.",
        examples={
            "run": "with the current context of the kubeconfig",
            "run --context staging --log-format json": "with another one",
        },
        flags=(_options(),),
    ),
    "install-controller": Verb(
        summary="install or upgrade RukPak on a cluster",
        description="Install the API and the controller on a cluster, or upgrade them to this release.",
        examples={
            "install-controller --image registry.example.com/rukpak:0.1.0 --wait": "show it, ask, and wait",
            "install-controller --image registry.example.com/rukpak:0.1.0 -o yaml | kubectl apply -f -": "with kubectl",
        },
        flags=(
            _flag(
                "--image IMAGE",
                "image of the controller; required, because none is published: build the Dockerfile",
                required=True,
            ),
            _flag("--restricted", "for a cluster with tenants: install bundles only as their ServiceAccounts"),
            _flag(
                "--https-proxy URL",
                "proxy of sources, kept in the Secret rukpak-proxy [default: the one that it has]",
                default="",
            ),
            _flag(
                "--no-proxy HOSTS",
                f"with --https-proxy: hosts and networks that are read without it [default: {IN_CLUSTER}]",
                default=IN_CLUSTER,
            ),
            _YES,
            _flag("--dry-run", "only show what would be created or changed"),
            *_wait("wait until the API is served and the controller runs"),
            _output("yaml"),
            *_cluster("namespace"),
        ),
    ),
    "playground": Verb(
        summary="try RukPak on a cluster of its own on this machine",
        description="Start a cluster, a registry and the controller on this machine, to try RukPak: without root and "
        "without containers, so that pods are only objects. Programs that are missing are downloaded once. Results "
        "are lines for eval. All of it is below RUKPAK_CACHE [default: ~/.cache/rukpak]: set that to another folder "
        "for another playground.",
        usage=f"[{'|'.join(_PLAYGROUND)}]",
        examples={
            "playground": "start it, and print how to use it",
            "playground status": "what of it runs, and where the logs are",
            "playground down": "stop it, and delete what is in it",
        },
        flags=(
            _argument(
                "action",
                "ACTION",
                "up: start it, or what of it has ended; restart: all of it; status: what runs; env: print the "
                "environment; down: delete it [default: up]",
                nargs="?",
                type=OneOf(_PLAYGROUND),
                default="up",
            ),
        ),
    ),
    "plugin": Verb(
        summary="write a package with a plug-in that works, to begin with",
        description="Write a package with a format, a source or a processor that works, with tests that hold it to "
        "what plug-ins promise, and a Dockerfile for the image of a controller with it.",
        usage="new DOMAIN/NAME --kind KIND [flags]",
        examples={
            "plugin new example.com/properties --kind format": "in ./rukpak-properties",
            "plugin new ini.example.com/v1 --kind source --folder ini": "elsewhere",
        },
        flags=(
            _argument("action", "new", "the only one", type=OneOf(("new",))),
            _argument("name", "DOMAIN/NAME", "name of the plug-in in specs"),
            _flag("--kind format|source|processor", "what it is", required=True),
            _flag("--folder FOLDER", "does not exist, or is empty [default: the name of the package]", default=""),
        ),
    ),
    "crd": Verb(
        summary="print the CustomResourceDefinition",
        description="Print the CustomResourceDefinition of this release.",
        examples={"crd | kubectl apply --server-side -f -": "install or upgrade the API"},
        flags=(_output("yaml", "json", "name", default="yaml"),),
        entry="installation:show_definition",
    ),
    "check": Verb(
        summary="check that RukPak can work on a cluster, and say what to do if not",
        description="Check a cluster for what RukPak needs, and this machine for what run and render need; exit status "
        "1 if something is missing.",
        examples={"check --context staging": "another cluster", "check -o json": "for programs"},
        flags=(_output("json", "yaml"), *_cluster("namespace"), _options("helm")),
        entry="installation:check_installation",
    ),
    "plugins": Verb(
        summary="list the installed sources, formats and processors",
        description=(
            "List the plug-ins that are installed beside this program: built in, or from other packages. Exit status 1 "
            "if one of them is refused; the status says why."
        ),
        examples={"plugins -o json": "for programs"},
        flags=(_output("json", "yaml"),),
        entry="installation:show_plugins",
    ),
    "version": Verb(
        summary="print the versions of this program, the controller and the API",
        description="Print the versions of this program, and of the controller and the API in the cluster.",
        examples={"version --client": "without a cluster"},
        flags=(
            _flag("--client", "only this program; no cluster is asked"),
            _output("json", "yaml"),
            *_cluster("namespace"),
            _options("helm"),
        ),
        entry="installation:show_version",
    ),
    "completion": Verb(
        summary="print what bash, zsh or fish load to complete command lines",
        description="Print what a shell loads to complete command lines. kubectl completes its plugin without it.",
        usage="SHELL",
        examples={
            "completion bash > ~/.local/share/bash-completion/completions/rukpak": "for each new bash",
            "completion fish | source": "for the current fish",
        },
        flags=(_argument("shell", "SHELL", "bash, zsh, fish", type=OneOf(("bash", "zsh", "fish"))),),
        entry="completion:show_script",
    ),
    "uninstall": Verb(
        summary="remove RukPak from a cluster",
        description="Remove RukPak from a cluster: BundleDeployments, API and controller.",
        examples={
            "uninstall --dry-run": "show what would be deleted",
            "uninstall --keep --yes": "keep what is installed, and do not ask",
            "uninstall --delete --namespaces": "leave nothing behind",
        },
        flags=(
            _add_fate,
            _flag("--namespaces", "with --delete: also namespaces that RukPak has made, with everything in them"),
            _YES,
            _flag("--dry-run", "only show what would be deleted"),
            _TIMEOUT,
            *_cluster("namespace"),
        ),
        entry="uninstall:uninstall",
    ),
}
GROUPS = {"BundleDeployments": DEPLOYMENTS, "Bundles": BUNDLES, "The installation": INSTALLATION}
"""The verbs by the titles that help shows."""
VERBS: dict[str, Verb] = DEPLOYMENTS | BUNDLES | INSTALLATION
