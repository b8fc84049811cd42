"""Git repositories, by the git program in a guarded child. START HERE: `source`."""
