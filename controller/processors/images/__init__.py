"""The processor `images`: other registries, tags and digests. Pure.

In: objects of a rendering. Out: the same objects with other images, in pods, pod templates and the given fields of
custom resources.
"""
