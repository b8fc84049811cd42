"""The work of a pass on one revision, step by step.

work               START HERE: plans what to do
installer          announces and applies it, or only compares
execution          executes a plan, and remembers how objects were left
pruning            deletes what older revisions have left
warnings           what is wrong although everything was applied
health             the health of the objects
finish             health, and whether anything is left to do
installed_targets  the targets of what is installed, compressed, for repairs
"""
