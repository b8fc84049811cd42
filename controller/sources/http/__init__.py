"""One file over http. START HERE: `source`."""
