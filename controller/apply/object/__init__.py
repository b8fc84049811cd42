"""The requests for one object.

In: a `Task`. Out: an `Outcome`. Not here: what to do (`plan`), and what a refusal means (`failures`).
START HERE: `sender`, in reading order:

    sender          sends an apply, and recovers from a refusal where possible
    request         an apply as a value
    preparation     what is corrected before an apply, and tidied up after it
    lookup          reads objects that the watches do not know
    managed_fields  corrects managedFields entries, ours and those of others
    deletion        deletes an object that was judged
    release         releases an object without deleting it
    labels          changes the shard of objects whose BundleDeployment has moved
    pool            threads that send requests, in fair shares
    concurrency     how many requests may run
"""
