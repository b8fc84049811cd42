"""One pass over one BundleDeployment. START HERE: `reconciler` is the table of contents.

In: the name of a BundleDeployment, and what the watches know. Out: requests through `apply`, a status, and when the
next pass runs. `revisions` decides which revision is wanted, `apply` what is done about one object, and `status` what
is reported.

    reconciler     find, plan, apply, report, write status

    shards/        whether this shard may act, and the hand-over to another one
    search         finalizer, account, polls, and the wanted revision
    registration   records in status which account is used
    installed/     nothing to do, or only objects to repair
    waiting/       keeps the revision on the cluster while another one waits
    hooks          when the hooks of a chart run
    installation/  work on one revision: plan, apply, prune, finish
    deletion/      the pass over a BundleDeployment that is being deleted
    reporter       turns what was found and done into status
    requeue        when the next pass runs, and why

    ownership/     which objects belong to a BundleDeployment: nothing else is deleted
    confirmation   binds creations and deletions to the BundleDeployment as the API server has it
    context        one pass as a value, and what several of its parts ask
    contexts       makes the context of a pass from the remembered state
    state          what is remembered between passes
    drift_counter  counts each drifted object once
    wiring         makes a reconciler from its parts
"""
