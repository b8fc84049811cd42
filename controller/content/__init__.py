"""Content: reading archives, writing fetched files, storing content by key, and assembling the content tree.

In: untrusted bytes. Out: folders of folders and regular files only, within the limits. `sources` fetches the bytes,
`formats` interprets the files.

    archive        START HERE: the only writer of fetched files
    limits, shares  limits for one source, for a BundleDeployment, and for a tenant
    compression, tar, zip_directory, zip  the entries of an archive, one by one
    nodes          the tree while an archive is written, and where links lead
    store, index   content by key, and whether it is still intact
    folder         a local folder as the content of a source
    tree           contents at their destinations
    spool, disk, digests  shared by the others
    nesting        of YAML, as libyaml refuses it; for `formats` and `sources`
"""
