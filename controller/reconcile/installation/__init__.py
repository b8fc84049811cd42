"""The work of a pass on one revision, step by step.

work       what is to be done, planned
installer  announced and applied, or only compared
finish     how it does, and whether anything is left to do
pruning    what older revisions have left
"""
