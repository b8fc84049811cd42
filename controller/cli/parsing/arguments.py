"""The flags of each verb: functions that add them to its parser."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

from controller.cli.parsing.parser import FLAGS, OneOf, Parser
from controller.options import add_options
from controller.settings import GROUPS

Arguments = Callable[[Parser], None]

RENDERING = (
    *("registry_mirror", "denied_networks", "allowed_networks", "allowed_hosts", "allow_loopback"),
    *("fetch_timeout", "fetch_idle_timeout", "min_fetch_rate"),
    *("helm", "render_timeout", "render_mebibytes", "confinement"),
)
"""The options of the controller that `render` has, too."""
CLUSTER = GROUPS["kubeconfig"]
"""Title of the flags that select a cluster and a user."""
LEVELS = ("debug", "info", "warning", "error")
OBJECTS = ("json", "yaml", "name")
JSONPATH = "jsonpath="


def run(parser: Parser) -> None:
    """Add every option of the controller."""
    add_options(parser, os.environ)


def render(parser: Parser) -> None:
    """Add where the bundle is, what replaces fields of the spec, and the options that rendering depends on."""
    text = "directory, packed chart, archive or manifest; oci:// reference or URL of one; -: stdin"
    parser.add_argument("source", nargs="?", metavar="SOURCE", help=text)
    _add(parser, "-f", "--file", metavar="FILE", help="BundleDeployment whose sources to fetch; -: stdin")
    text = "revision that was applied: name of the BundleDeployment and digest, which may be abbreviated"
    _add(parser, "--revision", metavar="NAME@DIGEST", help=text)
    parser.add_flag(
        FLAGS, ("--use-secrets",), action="store_true", help="use the Secrets that FILE names without asking"
    )
    _add(parser, "--format", help="overrides spec.format [default for SOURCE: what it looks like, else plain]")
    _add(parser, "--name", help="overrides the name of the BundleDeployment [default for SOURCE: bundle]")
    _add(parser, "--install-namespace", metavar="NAMESPACE", help="overrides spec.installNamespace")
    _add(parser, "--config", metavar="FILE", help="YAML or JSON file that overrides spec.config; -: stdin")
    text = 'output of "rukpak capabilities"; -: stdin; default: those of the latest Kubernetes version'
    _add(parser, "--capabilities", metavar="FILE", help=text)
    _add_output(parser, "yaml", "json", "name", "revision", default="yaml")
    _add_cluster(parser, "namespace")
    add_options(parser, os.environ, only=RENDERING)


def package(parser: Parser) -> None:
    """Add the folder, the image, how it is rendered, and how to log in to the registry."""
    parser.add_argument("source", metavar="FOLDER", help="folder to push, such as a chart or one with manifests/")
    parser.add_argument("reference", metavar="REGISTRY/REPOSITORY:TAG", help="name of the image")
    _add(parser, "--format", help="format that it must have [default: what it looks like, else plain]")
    _add(parser, "--config", metavar="FILE", help="YAML or JSON file with the spec.config to render it with; -: stdin")
    _add(parser, "--install-namespace", metavar="NAMESPACE", help="spec.installNamespace to render it with")
    text = 'output of "rukpak capabilities"; -: stdin; default: those of the latest Kubernetes version'
    _add(parser, "--capabilities", metavar="FILE", help=text)
    text = "Docker configuration with credentials [default: $DOCKER_CONFIG/config.json or ~/.docker/config.json]"
    _add(parser, "--registry-config", metavar="FILE", help=text)
    _add(parser, "--username", help="user at the registry, whose password is read from stdin")
    _add(parser, "--certificate-authority", metavar="FILE", help="PEM certificates to trust instead of the system's")
    text = "do not verify certificates, and use plain http if the registry does not serve https"
    parser.add_flag(FLAGS, ("--insecure-skip-tls-verify",), action="store_true", help=text)
    _add_output(parser, "name")
    parser.set_defaults(name=None)
    add_options(parser, os.environ, only=RENDERING)


def diff(parser: Parser) -> None:
    """Add the BundleDeployment, and which revisions are compared."""
    _add_reviewed(parser)
    text = "compare with this revision of the store, by its digest or the beginning of it, instead of the cluster"
    _add(parser, "--from", dest="before", metavar="REVISION", help=text)
    _add(parser, "--to", metavar="REVISION", help="what this revision of the store would change")
    _add_review(parser)


def install(parser: Parser) -> None:
    """Add the fields of a BundleDeployment, and what rendering depends on."""
    parser.add_argument("name", metavar="NEW-NAME", help="name of the BundleDeployment")
    _add(parser, "--image", metavar="REFERENCE", help="image or OCI artifact")
    _add(parser, "--git", metavar="REPOSITORY", help="git repository")
    _add(parser, "--ref", help="for --git: commit, tag or branch [default: HEAD]")
    _add(parser, "--directory", help="for --git: part of the repository")
    _add(parser, "--http", metavar="URL", help="archive, or file of manifests")
    _add(parser, "--sha256", metavar="DIGEST", help="for --http and --chart: of the file")
    _add(parser, "--chart", metavar="NAME", help="Helm chart")
    _add(parser, "--repository", metavar="URL", help="for --chart: where index.yaml is, or oci://registry/folder")
    _add(parser, "--version", metavar="RANGE", help="for --chart: version or range [default: the highest release]")
    _add(parser, "--secret", metavar="NAME", help="credentials for the source, in the install namespace")
    _add(parser, "--format", default="plain", help="plain, helm, registry-v1 or that of a plug-in [default: plain]")
    text = "default namespace of namespaced objects; created if it is missing"
    _add(parser, "-n", "--install-namespace", metavar="NAMESPACE", help=text)
    _add(parser, "--service-account", metavar="NAME", help="apply objects as this account of the install namespace")
    _add(parser, "--config", metavar="FILE", help="YAML or JSON file with spec.config; -: stdin")
    text = "which revisions wait for approval; this one is approved, unless Automatic [default: Automatic]"
    policies = ("Automatic", "NewPermissions", "Manual")
    _add(parser, "--approval", type=OneOf(policies), default=policies[0], metavar="|".join(policies), help=text)
    parser.add_flag(FLAGS, ("-y", "--yes"), action="store_true", help="do not ask for confirmation")
    text = "create nothing; with -o yaml, print the BundleDeployment"
    parser.add_flag(FLAGS, ("--dry-run",), action="store_true", help=text)
    text = "use the Secret of the source without asking"
    parser.add_flag(FLAGS, ("--use-secrets",), action="store_true", help=text)
    _add_wait(parser, "wait until it is Ready; ends at once if waiting cannot help")
    _add_output(parser, *OBJECTS, prefix=JSONPATH)
    _add_cluster(parser)
    add_options(parser, os.environ, only=RENDERING)
    parser.set_defaults(from_cluster=False, capabilities=None)


def adopt(parser: Parser) -> None:
    """Add the BundleDeployment, what has installed its objects, and what rendering depends on."""
    parser.add_argument("name", metavar="NAME", help="name of the BundleDeployment")
    _add(
        parser,
        "-f",
        "--file",
        metavar="FILE",
        help="BundleDeployment to apply; it may be left out if --from names another one; -: stdin",
    )
    text = (
        "what has installed the objects: helm/RELEASE[.NAMESPACE], flux/KUSTOMIZATION[.NAMESPACE], kubectl, or the "
        "name of another BundleDeployment"
    )
    _add(parser, "--from", dest="origin", metavar="OWNER", required=True, help=text)
    text = "field manager that has set fields of the objects, too, and keeps none; may be repeated"
    _add(parser, "--field-manager", dest="managers", action="append", metavar="NAME", help=text)
    parser.add_flag(FLAGS, ("-y", "--yes"), action="store_true", help="do not ask for confirmation")
    parser.add_flag(FLAGS, ("--dry-run",), action="store_true", help="only show what would be done")
    parser.add_flag(FLAGS, ("--use-secrets",), action="store_true", help="use the Secrets of sources without asking")
    _add_timeout(parser)
    _add_output(parser, *OBJECTS, prefix=JSONPATH)
    _add_cluster(parser, "namespace")
    add_options(parser, os.environ, only=RENDERING)
    parser.set_defaults(from_cluster=False, capabilities=None)


def permissions(parser: Parser) -> None:
    """Add the BundleDeployment, and whether only what is new is shown."""
    _add_reviewed(parser)
    parser.add_flag(FLAGS, ("--new",), action="store_true", help="only what the installed revision may not do")
    _add_review(parser)


def rights(parser: Parser) -> None:
    """Add the BundleDeployment and the account."""
    _add_reviewed(parser)
    _add(parser, "--service-account", metavar="NAME", help="overrides spec.serviceAccountName")
    _add_review(parser)


def capabilities(parser: Parser) -> None:
    """Add the output format."""
    _add_output(parser, "yaml", "json", default="yaml")
    _add_cluster(parser)


def crd(parser: Parser) -> None:
    """Add the output format."""
    _add_output(parser, "yaml", "json", "name", default="yaml")


def completion(parser: Parser) -> None:
    """Add the shell."""
    shells = ("bash", "zsh", "fish")
    parser.add_argument("shell", metavar="SHELL", type=OneOf(shells), help=", ".join(shells))


def status(parser: Parser) -> None:
    """Add names, and how much is shown of each."""
    _add_selection(parser)
    parser.add_flag(FLAGS, ("--objects",), action="store_true", help="list the objects, too")
    parser.add_flag(FLAGS, ("-w", "--watch"), action="store_true", help="show each change, until Ctrl-C")
    _add_wait(parser, "wait until they are Ready; ends at once if waiting cannot help")
    _add_output(parser, *OBJECTS, "wide", prefix=JSONPATH)
    _add_cluster(parser, "namespace")


def change(parser: Parser) -> None:
    """Add names of BundleDeployments to change."""
    _add_selection(parser)
    _add_wait(parser, "wait until the controller is done; ends at once if waiting cannot help")
    _add_output(parser, *OBJECTS, prefix=JSONPATH)
    _add_cluster(parser)


def decision(parser: Parser) -> None:
    """Add the name of a BundleDeployment, the revision that is decided about, and whether to ask."""
    parser.add_argument("name", metavar="NAME", help="name of a BundleDeployment")
    text = "digest of the revision, abbreviated if it waits for approval [default: the one that waits]"
    _add(parser, "--revision", metavar="DIGEST", default="", help=text)
    parser.add_flag(FLAGS, ("-y", "--yes"), action="store_true", help="do not ask for confirmation")
    _add_wait(parser, "wait until the controller is done; ends at once if waiting cannot help")
    _add_output(parser, *OBJECTS, prefix=JSONPATH)
    _add_cluster(parser)


def push(parser: Parser) -> None:
    """Add the folder, the BundleDeployment, and which source is replaced."""
    parser.add_argument("folder", metavar="FOLDER", help="folder to push, such as a chart or one with manifests/")
    parser.add_argument("name", metavar="NAME", help="name of a BundleDeployment")
    text = "position of the source in spec.sources, from 0 [default: the only one of kind configMap]"
    _add(parser, "--source", metavar="NUMBER", type=int, help=text)
    _add_wait(parser, "wait until it is Ready; ends at once if waiting cannot help")
    _add_output(parser, *OBJECTS, prefix=JSONPATH)
    _add_cluster(parser)


def history(parser: Parser) -> None:
    """Add the name of a BundleDeployment."""
    parser.add_argument("name", metavar="NAME", help="name of a BundleDeployment")
    _add_output(parser, "json", "yaml")
    _add_cluster(parser)


def rollback(parser: Parser) -> None:
    """Add the name of a BundleDeployment, and the revision."""
    parser.add_argument("name", metavar="NAME", help="name of a BundleDeployment")
    text = 'kept revision, as "rukpak history" shows it [default: the last one that was healthy]'
    _add(parser, "--to", metavar="DIGEST", default="", help=text)
    _add_wait(parser, "wait until it is Ready; ends at once if waiting cannot help")
    _add_output(parser, *OBJECTS, prefix=JSONPATH)
    _add_cluster(parser)


def prune(parser: Parser) -> None:
    """Add the name of a BundleDeployment, and whether to ask."""
    parser.add_argument("name", metavar="NAME", help="name of a BundleDeployment")
    parser.add_flag(FLAGS, ("-y", "--yes"), action="store_true", help="do not ask for confirmation")
    parser.add_flag(FLAGS, ("--dry-run",), action="store_true", help="only show what would be deleted")
    _add_cluster(parser, "namespace")


def tree(parser: Parser) -> None:
    """Add the name of a BundleDeployment."""
    parser.add_argument("name", metavar="NAME", help="name of a BundleDeployment")
    _add_output(parser, "json", "yaml")
    _add_cluster(parser, "namespace")


def events(parser: Parser) -> None:
    """Add the name of a BundleDeployment."""
    parser.add_argument("name", metavar="NAME", help="name of a BundleDeployment")
    parser.add_flag(FLAGS, ("-w", "--watch"), action="store_true", help="show new Events, too, until Ctrl-C")
    _add_output(parser, *OBJECTS)
    _add_cluster(parser)


def logs(parser: Parser) -> None:
    """Add the name of a BundleDeployment, and which part of the log is shown."""
    parser.add_argument("name", metavar="NAME", help="name of a BundleDeployment")
    parser.add_flag(FLAGS, ("-f", "--follow"), action="store_true", help="show new lines, too, until Ctrl-C")
    _add(parser, "--since", metavar="DURATION", type=_seconds, help="only lines newer than this, such as 5m or 1h")
    _add(parser, "--level", type=OneOf(LEVELS), metavar="|".join(LEVELS), default="debug", help="lowest level shown")
    _add_output(parser, "text", "json", default="text")
    _add_cluster(parser, "namespace")


def version(parser: Parser) -> None:
    """Add whether the cluster is asked, and the program that renders charts."""
    parser.add_flag(FLAGS, ("--client",), action="store_true", help="only this program; no cluster is asked")
    _add_output(parser, "json", "yaml")
    _add_cluster(parser, "namespace")
    add_options(parser, os.environ, only=("helm",))


def check(parser: Parser) -> None:
    """Add the cluster, and the program that renders charts."""
    _add_cluster(parser, "namespace")
    add_options(parser, os.environ, only=("helm",))


def uninstall(parser: Parser) -> None:
    """Add what to keep, and whether to ask."""
    group = parser.group(FLAGS).add_mutually_exclusive_group()
    group.add_argument("--keep", action="store_true", help="keep installed objects, without an owner [default]")
    text = "delete installed objects, unless spec.deletionPolicy is Orphan"
    group.add_argument("--delete", action="store_true", help=text)
    parser.add_flag(FLAGS, ("-y", "--yes"), action="store_true", help="do not ask for confirmation")
    parser.add_flag(FLAGS, ("--dry-run",), action="store_true", help="only show what would be deleted")
    _add_timeout(parser)
    _add_cluster(parser, "namespace")


def _add_reviewed(parser: Parser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="name of a BundleDeployment")
    _add(parser, "-f", "--file", metavar="FILE", help="BundleDeployment whose sources to fetch; -: stdin")


def _add_review(parser: Parser) -> None:
    """Add what rendering depends on, and where the revision is read."""
    text = "read the revision from its Secrets; by default, it is rendered if you may not read them"
    parser.add_flag(FLAGS, ("--from-cluster",), action="store_true", help=text)
    text = "use the Secrets that sources name without asking"
    parser.add_flag(FLAGS, ("--use-secrets",), action="store_true", help=text)
    text = 'for -f: output of "rukpak capabilities"; default: those of the latest Kubernetes version'
    _add(parser, "--capabilities", metavar="FILE", help=text)
    _add_output(parser, "json", "yaml")
    _add_cluster(parser, "namespace")
    add_options(parser, os.environ, only=RENDERING)


def _add(parser: Parser, *flags: str, **options: Any) -> None:
    parser.add_flag(FLAGS, flags, **options)


def _add_selection(parser: Parser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="name of a BundleDeployment")
    parser.add_flag(FLAGS, ("-A", "--all"), action="store_true", help="all BundleDeployments")
    _add(parser, "-l", "--selector", metavar="SELECTOR", help="those whose labels match, such as team=shop,!legacy")


def _add_wait(parser: Parser, text: str) -> None:
    parser.add_flag(FLAGS, ("--wait",), action="store_true", help=text)
    _add_timeout(parser)


def _add_timeout(parser: Parser) -> None:
    text = "how long to wait, such as 30s or 5m [default: 5m]"
    _add(parser, "--timeout", type=_seconds, default=300.0, metavar="DURATION", help=text)


def _seconds(text: str) -> float:
    from api.v1alpha2.types import parse_duration  # noqa: PLC0415 - slow to import, and not for --help

    try:
        return float(text) if text.isdecimal() else parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _add_output(parser: Parser, *words: str, default: str = "", prefix: str = "") -> None:
    shown = [*words, *([f"{prefix}TEMPLATE"] if prefix else [])]
    text = f"{', '.join(shown)} [default: {default or 'text'}]"
    _add(
        parser,
        "-o",
        "--output",
        type=OneOf(words, prefix, is_optional=not default),
        default=default,
        metavar="FORMAT",
        help=text,
    )


def _add_cluster(parser: Parser, *others: str) -> None:
    add_options(parser, os.environ, only=("kubeconfig", "context", *others))
    parser.add_flag(CLUSTER, ("--as",), dest="as_user", metavar="USER", help="user to impersonate, as with kubectl")
    text = "group to impersonate, with --as; may be repeated"
    parser.add_flag(CLUSTER, ("--as-group",), dest="as_groups", action="append", metavar="GROUP", help=text)
