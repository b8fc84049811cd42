"""From what a pass found to conditions, counts and Events. Pure, but for `writer`.

In: a `Report`. Out: a `Status`, and Events where it differs from the one before. Nothing is judged here: health comes
from `observe`, failures carry their reason.

    report   what a pass found and did, as values
    summary  START HERE: the one place where conditions are set
    notes    what Events say about objects that a deletion leaves behind
    writer   writes status, Events and the finalizer
"""
