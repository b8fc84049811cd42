"""What a spec names on the cluster: other BundleDeployments, ConfigMaps and Secrets."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from api.v1alpha2.fields import FIELD_PATH, Api, Namespace, ObjectName, rule, rules


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
