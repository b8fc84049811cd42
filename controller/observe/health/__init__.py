"""The health of objects: `rules.assess` judges one, `aggregate.aggregate` a revision. Pure, no I/O; see README.md.

verdict    what a judgment results in, and what it is based on
rules      START HERE: the order of evaluation, and the rule of each kind
explain    why a workload or Namespace takes long
aggregate  deadlines, counts, the condition Healthy
"""
