"""Content: reading archives, writing fetched files, storing content by key, and assembling the content tree.

In: untrusted bytes. Out: folders of folders and regular files only, within the limits. `sources` fetches the bytes,
`formats` interprets the files.

    archive   START HERE: which archive a body is, the only writer of fetched files, and where links lead
    limits    for one source, for a BundleDeployment, and for a tenant
    tar, zip  the entries of an archive, one by one
    store     content by key, whether it is still intact, and the tree of contents at their destinations
    disk, digests  shared by the others
"""
