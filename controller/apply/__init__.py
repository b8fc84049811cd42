"""Apply, repair and delete the objects of a revision (README.md). Decisions are pure, and only small modules act.

In: the objects of a revision, and the records of the watches. Out: requests, and an `Outcome` or `Removal` per object.
Not here: which revision is wanted (`reconcile`), what conditions say about it (`status`), and when the next pass runs
(`reconcile`). START HERE, in reading order:

    targets       what a revision asks for: a `Target` for each object
    ownership     who owns an object, and which marks ours carry
    order         in which order kinds are applied and deleted
    plan          what to do about each object: the rules of one pass, steps of tasks, and their outcomes
    differences   how many objects one revision would change, compared with another
    drift         whether an object is as the last apply left it
    ledger        how the last apply left each object
    possession    which objects may be deleted: those that a kept revision names
    teardown      which objects are deleted next when a BundleDeployment is deleted

    execute       executes a plan: reads what is missing, and sends what is ready
    dependencies  what an object must wait for
    sender        the requests to apply one object
    removal       deletes and releases objects
    lookup        reads objects that are not watched
    managed_fields  corrects managedFields entries
    pool          threads that send requests, in fair shares
    replies       what a refusal means
    rights        the rights that installing a revision takes
    reviews       asks which of them are missing
    hooks         hooks of charts
    crd_upgrade/  whether a CustomResourceDefinition may be changed

The first block is pure. `execute` and `removal` are the two entry points.
"""
