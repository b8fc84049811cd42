"""The health of objects: `rules.assess` judges one, `aggregate.aggregate` a revision. Pure, no I/O; see README.md.

verdict, subject  what a judgment results in, and what it is based on
rules             START HERE: the order of evaluation, and the rule of each kind
workloads, pods, storage, networking, extension, availability  the rules
checks            rules that users write
presence          objects that are missing or not observed yet
explain           why a workload or Namespace takes long
aggregate         deadlines, counts, the condition Healthy
"""
