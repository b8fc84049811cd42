"""Apply, repair and delete the objects of a revision (README.md). Decisions are pure, and only small modules act.

In: the objects of a revision, and the records of the watches. Out: requests, and an `Outcome` or `Removal` per object.
Not here: which revision is wanted (`revisions`), what conditions say about it (`status`), and when the next pass runs
(`reconcile`). START HERE, in reading order:

    targets       what a revision asks for: a `Target` for each object
    packed_targets  the same, compressed
    ownership     who owns an object, and which marks ours carry
    order         in which order kinds are applied and deleted
    options       the BundleDeployment and the rules of one pass
    plan          what to do about each object: steps of tasks
    differences   how many objects one revision would change, compared with another
    drift/        whether an object is as the last apply left it
    possession    which objects may be deleted: those that a kept revision names
    teardown      which objects are deleted next when a BundleDeployment is deleted

    examination   what would prevent applying a revision that waits for approval
    execute       executes a plan: reads what is missing, and sends what is ready
    dependencies  what an object must wait for
    object/       the requests for one object
    outcome       the result of each task
    prune         deletes and releases objects
    rights        the rights that installing a revision takes; for `rukpak rights`
    failures/     what a refusal means, and which rights are missing
    hooks/        hooks of charts
    crd_upgrade/  whether a CustomResourceDefinition may be changed

The first block is pure. `execute` and `prune` are the two entry points.
"""
