"""One pass over one BundleDeployment. START HERE: `reconciler` is the table of contents.

In: the name of a BundleDeployment, and what the watches know. Out: requests through `apply`, a status, and when the
next pass runs. `revisions` decides which revision is wanted, `apply` what is done about one object, and `status` what
is reported.

    reconciler     find, plan, apply, report, write status
    context        one pass as a value, and what several of its parts ask
    contexts       makes the context of a pass from the remembered state
    state          what is remembered between passes
    custody        whether this shard may act, and the hand-over to another one
    adoption       objects that came from another shard
    search         finalizer, account, polls, and the wanted revision
    registration   records in status which account is used
    settled        recognizes that there is nothing to do, or only objects to repair
    repair         repairs objects of the installed revision
    installed_targets  the compressed targets that it needs
    approval       keeps the revision on the cluster while another one waits
    dependencies   whether the BundleDeployments of spec.dependsOn are ready
    handovers      from and to which BundleDeployments objects may pass
    installation   work on one revision: plan, apply, prune, finish
    deletion       the pass over a BundleDeployment that is being deleted
    hooks          when the hooks of a chart run
    holdings       what the kept revisions name: nothing else is deleted
    health         the health of the objects of a revision
    strays         objects with our marks that no revision names
    drift_counter  counts each drifted object once
    reporter       turns what was found and done into status
    requeue        when the next pass runs, and why
    wiring         makes a reconciler from its parts
"""
