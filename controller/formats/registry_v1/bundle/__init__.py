"""The files of a bundle as values. START HERE: `layout` finds the bundle, `bundle` reads it.

`service_version` is what is used of a ClusterServiceVersion, `install_modes` and `namespaces` what it says about
namespaces, `properties` its annotation `olm.properties`. `typed` and `go_json` read and write values as Go's typed
structures do: upstream decodes a bundle into them and encodes it again, and names and fields depend on that.
"""
