"""Hooks of charts: what is run before and after a revision is applied or deleted, and how one is run."""
