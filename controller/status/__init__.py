"""Turns what a pass found into conditions, counts and Events. Pure, except for `writer`.

In: a `Report`. Out: a `Status`, and Events for what differs from the previous one. Nothing is judged here: health comes
from `observe`, failures carry their reason. START HERE, in reading order:

    report      what a pass found and did, as values, and how digests and lists are shortened
    summary     the status: the one place where conditions are set, and revisions, counts, objects that are not ready
    history     which revisions were applied, what became of them, and when an upgrade is rolled back
    notes       the texts of Events
    writer      writes status, Events and the finalizer
"""
