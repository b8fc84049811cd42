"""Processors: changes of rendered objects before they are applied (`spec.processors`). Pure; see README.md.

`build/rendering.py` calls them in order and checks what they return.

    rendered   a function applied to every object of a rendering
    patch      kind `patch`: which objects, and the three kinds of patches
    strategic  strategic merge patches, and by which keys they merge lists
    images     kind `images`: image names, and where objects have them
    metadata   kind `metadata`: labels and annotations
"""
