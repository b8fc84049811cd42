"""The processor `patch`: three kinds of patches, as the API server applies them. Pure.

In: objects of a rendering. Out: the same objects, those that the target selects patched.

    processor   START HERE: validation, and the objects that are patched
    target      which objects a target selects
    operations  JSON merge patches (RFC 7386) and JSON patches (RFC 6902)
    strategic   strategic merge patches
    merge_keys  by which keys lists are merged: merge_keys.json, which hack/generate writes from a real API server
"""
