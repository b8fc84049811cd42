"""One pass over one BundleDeployment. START HERE: `reconciler` is the table of contents.

In: the name of a BundleDeployment, and what the watches know. Out: requests through `apply`, a status, and when the
next pass runs. `revisions` stores revisions and makes them in the background, `apply` decides what is done about one
object, and `status` what is reported. Steps are functions that take the context of the pass.

    reconciler     find, plan, apply, report, write status, and when the next pass runs; if only repairs are left, these

    finding        which revision is wanted: pinned, kept, or being built
    stored         the kept revisions, in memory while passes work on them
    gates          keeps the revision on the cluster while another one waits
    hook_phases    when the hooks of a chart run
    planning       the plan of the work on one revision
    installation   carries it out: announce, apply, prune, finish
    deletion       the pass over a BundleDeployment that is being deleted

    inventory      which objects belong to a BundleDeployment: nothing else is deleted
    context        one pass as a value
    memory         what is remembered of a BundleDeployment between passes
"""
