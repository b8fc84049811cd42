"""Whether a CustomResourceDefinition may be changed to another (README.md), in reading order.

    definition   a CustomResourceDefinition as a value
    comparison   what is compared: the definition, each version, served versions with each other
    schema       compares two schemas node by node
    checks       what may not change in one node: one rule per field
    finding      the finding of a check, and its text
    level        whether a finding blocks the upgrade
    survey       validates existing objects against the new schemas
    admission    prunes and defaults an object as the API server would
    validation   validates an object against a schema
    formats      formats and patterns of the API server
    inspector    the edge: reads the cluster, and decides

All but the last are pure.
"""
