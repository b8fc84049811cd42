"""How objects reach the cluster and leave it: what is decided is pure, what acts is small (README.md).

In: the objects of a revision, and what the watches know. Out: requests, and an `Outcome` or `Removal` for each object.
Left to others: which revision is wanted (`revisions`), what conditions say of it (`status`), and when to come back
(`reconcile`). START HERE, in reading order:

    targets       what a revision asks for: a `Target` for each object
    optional      which of them are skipped while their kind is not served
    ownership     whose an object is, and how ours are marked
    order         in which order kinds are applied, and deleted
    options       for whom, and under which rules, a plan is made and carried out
    plan          what is to be done about each object: steps of tasks
    drift/        whether an object is as we left it
    possession    which objects of older revisions may be deleted: those that a kept revision names
    teardown      which objects go next when a BundleDeployment is deleted

    execute       carries out a plan: asks what is missing, and sends what is ready
    dependencies  why an object has to wait for another
    object/       the requests about one object
    outcome       what became of each task
    prune         deletes and releases objects
    failures/     what a refusal means, and which rights are missing
    hooks/        hooks of charts
    crd_upgrade/  whether a CustomResourceDefinition may be changed

All of the first block is pure. `execute` and `prune` are the two entry points.
"""
