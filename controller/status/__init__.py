"""From what a pass found to conditions, counts and Events. Pure, but for `writer`.

In: a `Report`. Out: a `Status`, and Events where it differs from the one before. Nothing is judged here: health comes
from `observe`, failures carry their reason. START HERE, in reading order:

    report      what a pass found and did, as values
    conditions  the one place where conditions are set
    summary     the rest of status: revisions, counts, what is not ready
    notes       what Events say
    texts       how digests and lists are shortened
    writer      writes status, Events and the finalizer
"""
