"""The work of a pass on one revision, step by step.

work       START HERE: plans what to do
installer  announces and applies it, or only compares
pruning    deletes what older revisions have left
finish     health, and whether anything is left to do
"""
