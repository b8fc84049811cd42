"""Whether a CustomResourceDefinition may be changed to another (README.md), in reading order.

    definition   a CustomResourceDefinition as a value
    comparison   what is compared with what: the definition, each version, served versions with each other
    schema       two schemas side by side, node by node
    checks       what may not change in one node, a rule a field
    finding      what was found, and how it is told
    level        whether that holds the definition back, as the spec says
    survey       existing objects against the schemas to come
    admission    an object as the API server would take it: pruned and defaulted
    validation   what a schema finds wrong with an object
    formats      formats and patterns, as the API server knows them
    inspector    the edge: reads what is on the cluster, and says yes or no

All but the last are pure.
"""
