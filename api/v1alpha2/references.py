"""What a spec names on the cluster: other BundleDeployments, ConfigMaps and Secrets."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from rukpak.api.v1alpha2.fields import FIELD_PATH, Api, Expression, Kind, Namespace, ObjectName, rule, rules

_API_VERSION = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[a-z0-9]+$"
# More than DNS allows, as of ClusterRoles, but no step of a path.
_OBJECT_NAME = r"^[A-Za-z0-9:][-A-Za-z0-9.:_]*$"


class DeploymentReference(Api):
    """Another BundleDeployment."""

    name: ObjectName
    """Name of the BundleDeployment."""


class SecretReference(Api):
    """A Secret."""

    namespace: Namespace | None = None
    """Namespace of the Secret. Default: spec.installNamespace, which is then required."""
    name: ObjectName
    """Name of the Secret."""


class ConfigMapReference(Api):
    """A ConfigMap in the install namespace."""

    name: ObjectName
    """Name of the ConfigMap, in spec.installNamespace."""


class DependencyReference(Api):
    """A BundleDeployment, or any other object, that must be ready before a new revision is applied."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("has(self.apiVersion) == has(self.kind)", "set both apiVersion and kind, or neither", ".kind"),
            rule(
                "has(self.kind) || !(has(self.__namespace__) || has(self.ready))",
                "namespace and ready are of other objects than BundleDeployments: set apiVersion and kind, too",
                ".kind",
            ),
            rule(
                "!has(self.kind) || self.kind != 'BundleDeployment'",
                "name a BundleDeployment without apiVersion and kind",
                ".kind",
            ),
        )
    )
    api_version: Annotated[str, Field(min_length=1, max_length=317, pattern=_API_VERSION)] | None = None
    """API group and version of an object. Default: it is a BundleDeployment."""
    kind: Kind | None = None
    """Kind of the object."""
    name: Annotated[str, Field(min_length=1, max_length=253, pattern=_OBJECT_NAME)]
    """Name of the BundleDeployment or object."""
    namespace: Namespace | None = None
    """Namespace of the object, if its kind has one. Default: the install namespace."""
    ready: Expression | None = None
    """An expression in CEL about the object, as in healthChecks: it is ready if this is true. Default: it is ready if
    it is healthy, by healthChecks and the built-in rules."""


class ConfigReference(Api):
    """A key of a ConfigMap or Secret in the install namespace, read as the account that applies the objects."""

    kind: Literal["ConfigMap", "Secret"]
    """ConfigMap or Secret."""
    name: ObjectName
    """Name of the object, in spec.installNamespace."""
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")] = "values.yaml"
    """Key in its data."""
    path: Annotated[
        str,
        Field(
            max_length=512,
            json_schema_extra=rules(
                rule(
                    f"self == '' || self.matches(r'{FIELD_PATH}')",
                    'must be empty or a dotted path like auth["quoted.key"].password',
                )
            ),
        ),
    ] = ""
    """Where to put the value, as it is, as one string: database.password. Empty: the value is YAML, and a mapping."""
    optional: bool = False
    """Whether the object or the key may be missing. It is used once it exists."""
