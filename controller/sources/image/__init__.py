"""Images and other OCI artifacts, from registries. START HERE: `source`."""
