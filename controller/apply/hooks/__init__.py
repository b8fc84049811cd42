"""Hooks of charts: run before and after a revision is applied or deleted.

In: a `Revision` and a `HookEvent`. Out: None, or why its hooks are not done. When that event is,
`reconcile` decides. START HERE: `hook`, in reading order:

    hook    which hooks run at an event, how they are sent, and their state; pure
    runner  runs them one after the other, and removes them as their delete policies say
"""
