"""Processors: changes of rendered objects before they are applied (`spec.processors`). Pure; see README.md.

`building/rendering.py` calls them in order and checks what they return.

    rendered   what they share: a function applied to every object of a rendering, labels and annotations
    patch      kind `patch`: which objects, and the three kinds of patches
    strategic  strategic merge patches, and by which keys they merge lists
    images     kind `images`: image names, and where objects have them
    metadata   kind `metadata`: labels and annotations
    rollouts   kind `rollouts`: a digest of the config that pods read, so that they are replaced when it changes
"""
