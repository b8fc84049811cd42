"""The format `registry-v1`: OLM bundles, rendered object for object as OLM v1 does (operator-controller).

In: a content tree, `spec.config` and the capabilities of the cluster. Out: a `Rendering`.

    registry_format  START HERE: the steps in order, and what is refused or warned about
    bundle           files to values
    typed            reads and writes values as Go's typed structures do: upstream decodes a bundle into them and
                     encodes it again, and names and fields depend on that
    config           what `spec.config` may set
    generators       values to objects
"""
