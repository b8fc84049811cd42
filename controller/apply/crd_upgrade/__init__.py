"""Whether a CustomResourceDefinition may be changed to another (README.md), in reading order.

    definition   a CustomResourceDefinition as a value, and what is found about a change of it
    schemas      compares two schemas node by node: what may not change
    validation   validates existing objects against the new schemas, and decides

All but the reading of existing objects is pure.
"""
