"""Watches: a small record of every object of a collection, kept up to date.

In: the path of a collection, and a function from an object to its record. Out: records, and calls about their changes.
Not here: what the objects mean (`observe`), and single objects (`observe.following.object_follower`).

    reflector   START HERE: keeps the records of one collection, on a thread of its own
    pace        how long a watch may last and be silent, and the pause after a failure
    collection  its requests and events
    cache       its records: which one is newer
"""
