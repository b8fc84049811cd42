"""Content: reading archives, the only writer of fetched files, the store by digest, and the assembled tree.

Reading order: limits, compression, tar, nodes, archive, store, tree. `disk` holds what the last three share.
"""
