"""Finds the revision that a BundleDeployment asks for: pinned, kept in the cluster, or still being built.

In: a BundleDeployment and its state. Out: the wanted revision, or the one applied last and why. How a spec becomes a
revision is left to `build`; slow work runs in the background and triggers the next pass when it ends.

    finder         START HERE: the wanted revision, or the one to keep instead
    downgrades     refuses lower versions than those that are installed
    approval       whether a revision may be applied, or waits for approval
    state          what the finder remembers between passes

    making         resolves sources and builds revisions, and records failures
    polling        re-resolves floating references
    background     slow work, off the reconcile workers
    source_access  what sources may use: credentials, memory, progress
    quarantine     sets aside what crashed the process twice
    inputs/        what is read from the cluster: Secrets, local content, config

    kept           kept revisions, read once while a pass works on them
    large          keeps large revisions in memory only while there is room
    storage/       the revision store: rendered objects as Secrets

    accounts/      as which account objects are applied and Secrets read
"""
