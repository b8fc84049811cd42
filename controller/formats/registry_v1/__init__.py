"""The format `registry-v1`: OLM bundles, rendered object for object as OLM v1 does (operator-controller).

In: a content tree, `spec.config` and the capabilities of the cluster. Out: a `Rendering`.

    registry_format  START HERE: the steps in order
    bundle/          files to values
    checks           what is refused, or warned about
    config           what `spec.config` may set
    generators       values to objects
"""
