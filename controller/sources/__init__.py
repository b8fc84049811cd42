"""Sources: where content comes from. Each kind resolves a name to a digest and yields entries; none touches the disk.

Reading order: image, reference, manifest, registry, tokens, transport, connections.
For http: http, http_address, http_body, download.
"""
