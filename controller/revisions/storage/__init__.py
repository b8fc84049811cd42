"""The revision store: rendered objects, kept as Secrets in the controller's namespace (README.md, rule 2).

In: revisions. Out: the same, also after a restart. Not here: which of them is wanted (`finder`), and when one is
retired or deleted (`reconcile.holdings`).

    store    START HERE: writes, reads, retires and deletes revisions
    secrets  their Secrets by the metadata, watched
    quota    how many bytes a tenant may keep
    orphans  deletes the revisions of BundleDeployments that are gone
"""
