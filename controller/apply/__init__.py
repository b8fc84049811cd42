"""Deciding about objects (pure: targets, plan, order, ownership, drift, teardown), and acting (execute, prune)."""
