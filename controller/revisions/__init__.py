"""Which revision a BundleDeployment asks for: pinned, kept in the cluster, or being made.

In: a BundleDeployment and its state. Out: the wanted revision, or the one that was applied last and why. Making one out
of a spec is left to `build`; slow work runs in the background, and its end brings the next pass.

    finder            START HERE: the wanted revision, or what stays instead
    kept              the kept ones, read once while a pass works on them
    making            resolving and building, and the book of what failed there
    state             what the finder remembers, and may lose
    store             rendered objects, kept in the cluster as Secrets
    background        resolving, fetching and rendering, off the reconcile workers
    polling           re-resolves floating references
    source_access     what sources are given: credentials, and a place to report progress
    credentials       reads the Secrets that sources name
    account           a ServiceAccount by its name
    service_accounts  as whom objects are applied and Secrets read, and whether that account is there
    identities        whether a namespace or account was made again under its name
    large             large revisions are in memory only while there is room
    quarantine        what the process died of twice is set aside
"""
