"""One pass over one BundleDeployment. START HERE: `reconciler` is the table of contents.

In: the name of a BundleDeployment, and what the watches know. Out: requests through `apply`, a status, and when to come
back. Which revision is wanted is decided in `revisions`, what is done about one object in `apply`, and what is said of
it all in `status`.

    reconciler     find, plan, apply, report, write status
    context        what several parts of a pass ask about a BundleDeployment
    state          what a pass remembers for the next one, and may lose
    install        work on one revision: targets, plan, apply, prune
    hooks          when the hooks of a chart are run
    health         how the objects of the revision do
    holdings       what the kept revisions name: nothing else is touched
    registration   records in status which account is used
    strays         objects with our marks that no revision names
    drift_counter  each drifted object counted once
    deletion       the pass over a BundleDeployment that is being deleted
"""
