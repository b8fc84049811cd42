"""The requests about one object.

In: a `Task`. Out: an `Outcome`. What is to be done is decided in `plan`, what a refusal means in `failures`.
START HERE: `sender`, in reading order:

    sender          sends an apply, and recovers at once from a refusal where that is possible
    lookup          reads objects that the watches do not show
    managed_fields  corrects entries of managedFields, ours and those of others
    deletion        deletes an object that was judged
    release         gives an object up without deleting it
    pool            the threads that requests are sent on, in fair shares
    concurrency     how many requests may be under way
"""
