"""The pass over a BundleDeployment whose revision is installed: nothing to do, or only objects to repair.

It costs what has changed (README.md, "What a pass costs"). Not here: a pass over all objects (`installation`).

    settled  START HERE: recognizes that nothing else is left to do
    repair   repairs the objects that have drifted
"""
