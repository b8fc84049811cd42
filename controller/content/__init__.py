"""Content: reading archives, the only writer of fetched files, the store by digest, and the assembled tree.

In: bytes that nobody trusts. Out: folders that hold only folders and regular files, within the budgets. Where bytes
come from is left to `sources`, what files mean to `formats`.

    archive        START HERE: the only writer
    limits, shares  budgets of one source, of a BundleDeployment, and of a tenant
    compression, tar, zip_directory, zip  what archives hold, entry by entry
    nodes          what is where while an archive is written, and where links lead
    store, index   content by key, and whether it is still as it was put
    folder         a folder on this machine as the content of a source
    tree           contents at their destinations
    spool, disk, digests  what the others share
"""
