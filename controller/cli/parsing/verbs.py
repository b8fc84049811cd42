"""Every verb of `rukpak`: its help, its flags, and the function that runs it, which is imported only then."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import cast

from controller.cli.command import FAILED
from controller.cli.parsing import arguments
from controller.cli.parsing.arguments import Arguments
from controller.cli.parsing.parser import Parser

Run = Callable[[argparse.Namespace], int]
"""Runs a verb with its options and returns the exit status."""

SELECTION = "NAME...|-l SELECTOR|--all [flags]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A verb as the command line knows it."""

    summary: str
    """One line for the list of verbs."""
    description: str
    usage: str = "[flags]"
    """What follows the name of the verb."""
    examples: Mapping[str, str] = field(default_factory=dict)
    """Command lines after `rukpak`, each with what it does."""
    arguments: Arguments
    """Adds its flags to a parser."""
    entry: str
    """`module:function` below controller.cli, called with the options."""
    failed: int = FAILED
    """Exit status if it fails."""

    def load(self) -> Run:
        """Import what the verb does."""
        module, _, function = self.entry.partition(":")
        return cast("Run", getattr(import_module(f"controller.cli.{module}"), function))


DEPLOYMENTS = {
    "status": Verb(
        summary="show the state of BundleDeployments",
        description="Show a table of BundleDeployments, or the details of those named.",
        usage="[NAME...] [flags]",
        examples={
            "status": "all BundleDeployments",
            "status shop --objects": "details of one, with its objects",
            "status -l team=shop --wait --timeout 2m": "wait until all of a team are Ready",
            "status shop -o jsonpath='{.status.installedRevision}'": "one field",
        },
        arguments=arguments.status,
        entry="inspection.status:main",
    ),
    "tree": Verb(
        summary="show the objects of a BundleDeployment and what they own as a tree",
        description="Show the objects of a BundleDeployment and what its workloads own, with health and drift.",
        usage="NAME [flags]",
        examples={"tree shop": "objects, ReplicaSets and Pods", "tree shop -o json": "for programs"},
        arguments=arguments.tree,
        entry="inspection.tree:main",
    ),
    "events": Verb(
        summary="show the Events of a BundleDeployment",
        description="Show the Events of a BundleDeployment, the oldest first.",
        usage="NAME [flags]",
        examples={"events shop -w": "also show new ones as they occur"},
        arguments=arguments.events,
        entry="inspection.events:main",
    ),
    "logs": Verb(
        summary="show what the controller logged about a BundleDeployment",
        description="Show what the pods of the controller logged about a BundleDeployment.",
        usage="NAME [flags]",
        examples={"logs shop -f --since 10m": "the last ten minutes, and everything from now on"},
        arguments=arguments.logs,
        entry="inspection.logs:main",
    ),
    "push": Verb(
        summary="push a folder as the content of a BundleDeployment, without a registry",
        description="Pack a folder into immutable ConfigMaps in the install namespace, at most 32 MiB, and have a "
        "source of kind configMap name them.",
        usage="FOLDER NAME [flags]",
        examples={
            "push ./bundle shop --wait": "return when it is Ready",
            "push ./chart shop --source 1": "replace the second source, whatever its kind",
        },
        arguments=arguments.push,
        entry="operation.push:main",
    ),
    "package": Verb(
        summary="push a folder to a registry as an image",
        description="Render a folder, and if that succeeds, push it to a registry as an image that a source of kind "
        "image installs. The same files give the same digest.",
        usage="FOLDER REGISTRY/REPOSITORY:TAG [flags]",
        examples={
            "package ./shop registry.example.com/shop:v1": "with the credentials of docker login",
            "package ./chart registry.example.com/chart:v1 --format helm": "refuse a folder that is no chart",
        },
        arguments=arguments.package,
        entry="rendering.package:main",
    ),
    "history": Verb(
        summary="show the revisions of a BundleDeployment that are kept",
        description="Show the revisions of a BundleDeployment that are kept, newest first, and what became of them.",
        usage="NAME [flags]",
        examples={"history shop -o json": "with full digests and times"},
        arguments=arguments.history,
        entry="inspection.history:main",
    ),
    "rollback": Verb(
        summary="apply a revision again that is kept",
        description="Apply a revision again that is kept, without its sources, until spec.pinnedRevision is removed.",
        usage="NAME [flags]",
        examples={
            "rollback shop --wait": "to the last one that was healthy; return when it is Ready",
            "rollback shop --to 1f2e3d4c5b6a": "to another one",
        },
        arguments=arguments.rollback,
        entry="operation.rollback:main",
    ),
    "prune": Verb(
        summary="delete objects that no revision contains",
        description="Delete the strays of a BundleDeployment: objects with its marks that no revision contains.",
        usage="NAME [flags]",
        examples={
            "prune shop --dry-run": "show what would be deleted",
            "prune shop": "show it, ask, and delete it, with your permissions",
        },
        arguments=arguments.prune,
        entry="operation.prune:main",
    ),
    "pause": Verb(
        summary="pause BundleDeployments: report drift, change nothing",
        description="Pause BundleDeployments: keep reporting health and drift, but change no object.",
        usage=SELECTION,
        examples={"pause shop --wait": "return when nothing is changed any more", "pause --all": "all of them"},
        arguments=arguments.change,
        entry="operation.changes:pause",
    ),
    "resume": Verb(
        summary="resume paused BundleDeployments",
        description="Resume paused BundleDeployments: repair drift and install pending revisions.",
        usage=SELECTION,
        examples={"resume shop --wait": "return when it is Ready"},
        arguments=arguments.change,
        entry="operation.changes:resume",
    ),
    "reconcile": Verb(
        summary="re-resolve all sources and retry failures immediately",
        description="Re-resolve all sources and retry failures immediately.",
        usage=SELECTION,
        examples={"reconcile shop --wait": "return when it is Ready", "reconcile -l team=shop": "all of a team"},
        arguments=arguments.change,
        entry="operation.changes:reconcile",
    ),
    "approve": Verb(
        summary="approve the revision that waits for approval",
        description="Show what a revision that waits for approval would change, ask, and approve exactly that.",
        usage="NAME [flags]",
        examples={
            "approve shop --wait": "return when it is Ready",
            "approve shop --revision 1f2e3d4c5b6a --yes": "do not ask, but approve no other revision than this one",
        },
        arguments=arguments.decision,
        entry="operation.approval:approve",
    ),
    "deny": Verb(
        summary="deny the revision that waits for approval",
        description="Show what a revision that waits for approval would change, ask, and deny it.",
        usage="NAME [flags]",
        examples={"deny shop": "what is installed is kept, until the sources or the spec lead to another revision"},
        arguments=arguments.decision,
        entry="operation.approval:deny",
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
            "render --revision shop@1f2e3d4c5b6a": "what was applied once, from the revision store",
        },
        arguments=arguments.render,
        entry="rendering.render:main",
    ),
    "install": Verb(
        summary="install a bundle: render it, show what it changes and may do, ask, create",
        description="Create a BundleDeployment, after showing what it would change and what it may do once it runs.",
        usage="NEW-NAME --image REFERENCE [flags]",
        examples={
            "install shop --image quay.io/shop/chart:1.2.0 --format helm -n shop --wait": "return when it is Ready",
            "install shop --chart shop --repository https://charts.example.com --version 1.x --format helm": "a chart",
            "install shop --git https://github.com/shop/shop --directory deploy -n shop --dry-run -o yaml": "print the "
            "BundleDeployment, for a repository of manifests",
        },
        arguments=arguments.install,
        entry="review.install:main",
    ),
    "adopt": Verb(
        summary="take over what Helm, Flux, kubectl or another BundleDeployment has installed",
        description="Take over objects that Helm, Flux or kubectl has installed, in place: show what would be taken, "
        "ask, suspend Flux, apply the BundleDeployment, wait until it is Ready, remove what the tool has left on the "
        "objects, and delete the Secrets of the Helm release. No other object is deleted. Another BundleDeployment is "
        "paused, and named in spec.takeOver.",
        usage="NAME [-f FILE] --from OWNER [flags]",
        examples={
            "adopt shop -f shop.yaml --from helm/shop": "a release in the install namespace",
            "adopt shop -f shop.yaml --from flux/apps.team-a --dry-run": "only show what would be done",
            "adopt shop -f shop.yaml --from kubectl --yes": "do not ask",
            "adopt shop-v2 --from shop-v1": "objects of another BundleDeployment; with -f, one that does not exist yet",
        },
        arguments=arguments.adopt,
        entry="adoption.adopt:main",
    ),
    "diff": Verb(
        summary="show what a revision would change on the cluster",
        description="Show what a revision would change, as the API server answers a dry run of each apply: of the "
        "revision that waits for approval, or else of the one that the BundleDeployment asks for. Exit status: 0 no "
        "difference, 1 a difference, 2 something failed or would be refused.",
        usage="NAME|-f FILE [flags]",
        examples={
            "diff shop": "what waits for approval, or is paused, against the cluster",
            "diff -f shop.yaml": "of a BundleDeployment that is not applied yet, or changed",
            "diff shop --from 1f2e3d4c5b6a": "against an earlier revision instead of the cluster",
            "diff shop --to 1f2e3d4c5b6a": "what an earlier revision would change; see: rukpak history shop",
        },
        arguments=arguments.diff,
        entry="review.diff:main",
        failed=2,
    ),
    "permissions": Verb(
        summary="show what a bundle may do once it runs",
        description="Show what a bundle may do once it runs, the most dangerous first.",
        usage="NAME|-f FILE [flags]",
        examples={
            "permissions shop": "of the revision that it asks for",
            "permissions shop --new": "only what is not installed yet",
            "permissions -f shop.yaml": "of one that is not applied yet",
        },
        arguments=arguments.permissions,
        entry="review.permissions:main",
    ),
    "rights": Verb(
        summary="show what a ServiceAccount needs to install a bundle",
        description="Show the permissions that the ServiceAccount of a BundleDeployment needs to install, repair "
        "and delete its revision.",
        usage="NAME|-f FILE [flags]",
        examples={
            "rights shop": "as a list",
            "rights -f shop.yaml -o yaml | kubectl apply -f -": "grant them",
        },
        arguments=arguments.rights,
        entry="review.rights:main",
    ),
    "capabilities": Verb(
        summary="print the kinds that a cluster serves, for render",
        description='Print what a cluster serves, for "rukpak render --capabilities".',
        examples={"capabilities > c.yaml": "then: rukpak render --capabilities c.yaml ./bundle"},
        arguments=arguments.capabilities,
        entry="rendering.capabilities:main",
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
        arguments=arguments.run,
        entry="run:main",
    ),
    "crd": Verb(
        summary="print the CustomResourceDefinition",
        description="Print the CustomResourceDefinition of this release.",
        examples={"crd | kubectl apply --server-side -f -": "install or upgrade the API"},
        arguments=arguments.crd,
        entry="installation.crd:main",
    ),
    "check": Verb(
        summary="check that RukPak can work on a cluster, and say what to do if not",
        description="Check a cluster and this machine for what RukPak needs; exit status 1 if something is missing.",
        examples={"check --context staging": "another cluster"},
        arguments=arguments.check,
        entry="installation.check:main",
    ),
    "version": Verb(
        summary="print the versions of this program, the controller and the API",
        description="Print the versions of this program, and of the controller and the API in the cluster.",
        examples={"version --client": "without a cluster"},
        arguments=arguments.version,
        entry="installation.version:main",
    ),
    "completion": Verb(
        summary="print what bash, zsh or fish load to complete command lines",
        description="Print what a shell loads to complete command lines. kubectl completes its plugin without it.",
        usage="SHELL",
        examples={
            "completion bash > ~/.local/share/bash-completion/completions/rukpak": "for each new bash",
            "completion fish | source": "for the current fish",
        },
        arguments=arguments.completion,
        entry="completion.command:main",
    ),
    "uninstall": Verb(
        summary="remove RukPak from a cluster",
        description="Remove RukPak from a cluster: BundleDeployments, API and controller.",
        examples={
            "uninstall --dry-run": "show what would be deleted",
            "uninstall --keep --yes": "keep what is installed, and do not ask",
        },
        arguments=arguments.uninstall,
        entry="installation.uninstall:main",
    ),
}

GROUPS = {"BundleDeployments": DEPLOYMENTS, "Bundles": BUNDLES, "The installation": INSTALLATION}
"""The verbs by the titles that help shows."""
VERBS: dict[str, Verb] = DEPLOYMENTS | BUNDLES | INSTALLATION


def make_parser(name: str) -> Parser:
    """Return the parser of a verb."""
    verb = VERBS[name]
    parser = Parser(name, usage=verb.usage, description=verb.description, examples=verb.examples)
    verb.arguments(parser)
    return parser
