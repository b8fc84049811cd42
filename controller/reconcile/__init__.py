"""One pass over one BundleDeployment. START HERE: `reconciler` is the table of contents.

In: the name of a BundleDeployment, and what the watches know. Out: requests through `apply`, a status, and when to come
back. Which revision is wanted is decided in `revisions`, what is done about one object in `apply`, and what is said of
it all in `status`.

    reconciler     find, plan, apply, report, write status
    context        one pass as a value, and what several of its parts ask
    state          what a pass remembers for the next one, and may lose
    contexts       makes contexts of what is remembered
    search         finalizer, account, polls, and the revision that is wanted
    registration   records in status which account is used
    settled        nothing to do: all that is installed is as it was left
    installation   work on one revision: planned, applied, pruned, finished
    deletion       the pass over a BundleDeployment that is being deleted
    hooks          when the hooks of a chart are run
    holdings       what the kept revisions name: nothing else is touched
    health         how the objects of the revision do
    strays         objects with our marks that no revision names
    drift_counter  each drifted object counted once
    reporter       what was found and done becomes status
    requeue        when to come back, and why
    wiring         makes a reconciler of its parts
"""
