"""Content: reading archives, the only writer of fetched files, the store by digest, and the assembled tree.

Reading order: limits, compression, tar, zip_directory, zip, nodes, archive, store, spool, tree. `disk` holds what the
last four share, `digests` is for all.
"""
