"""Apply, repair and delete the objects of a revision (README.md). Decisions are pure, and only small modules act.

In: the objects of a revision, and the records of the watches. Out: requests, and an `Outcome` or `Removal` per object.
Not here: which revision is wanted (`reconcile`), what conditions say about it (`status`), and when the next pass runs
(`reconcile`). START HERE, in reading order:

    targets       what a revision asks for: a `Target` for each object; how many another one would change
    ownership     who owns an object, which marks ours carry, and which objects may be deleted
    order         in which order objects are applied, and deleted with their BundleDeployment
    plan          what to do about each object: the rules of one pass, steps of tasks, and their outcomes
    drift         whether an object is as the last apply left it
    leftovers     what stays on an object although nobody applies it
    trees         the fields that an entry of managedFields has
    holders       which dropped object has what a refused one needs
    ledger        how the last apply left each object
    replies       what a refusal means
    rights        the rights that installing a revision takes
    crd_changes   what a change of a CustomResourceDefinition means

    execute       executes a plan: reads what is missing, sends what is ready, and says what the others wait for
    sender        the requests to apply one object
    requests      threads that send requests, in fair shares; reads objects that are not watched, and which webhooks
                  a write that is not answered may be waiting for
    managed_fields  corrects managedFields entries
    removal       deletes and releases objects
    hooks         hooks of charts
    crd_upgrade   whether a CustomResourceDefinition may be changed: existing objects are validated

The first block is pure, but for the dry runs of `holders`. `execute` and `removal` are the two entry points.
"""
