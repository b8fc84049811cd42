"""Helm charts where charts are. START HERE: `source`."""
