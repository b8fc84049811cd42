"""The files of a bundle as values. START HERE: `bundle` finds and reads it.

`service_version` is what is used of a ClusterServiceVersion. `typed` reads and writes values as Go's typed structures
do: upstream decodes a bundle into them and encodes it again, and names and fields depend on that.
"""
