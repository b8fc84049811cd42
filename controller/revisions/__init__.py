"""Finds the revision that a BundleDeployment asks for: pinned, kept in the cluster, or still being built.

In: a BundleDeployment and its state. Out: the wanted revision, or the one applied last and why. How a spec becomes a
revision is left to `build`; slow work runs in the background and triggers the next pass when it ends.

    finder            START HERE: the wanted revision, or the one to keep instead
    approval          whether a revision may be applied, or waits for approval
    downgrades        refuses lower versions than those that are installed
    kept              kept revisions, read once while a pass works on them
    making            resolves sources and builds revisions, and records failures
    state             what the finder remembers between passes
    store             rendered objects, kept in the cluster as Secrets
    secrets           these Secrets by their metadata, watched
    quota             how many bytes a tenant may keep there
    orphans           deletes those of BundleDeployments that are gone
    background        slow work, off the reconcile workers
    polling           re-resolves floating references
    source_access     what sources may use: credentials, memory, progress
    credentials       reads the Secrets that sources name
    local_content     reads ConfigMaps that are content
    config_objects    reads what spec.configFrom refers to
    account           a ServiceAccount by its name
    service_accounts  as which account objects are applied and Secrets read, and whether it exists
    identities        whether a namespace or ServiceAccount was replaced under its name
    large             keeps large revisions in memory only while there is room
    quarantine        sets aside what crashed the process twice
"""
