"""The health of objects: `rules.assess` judges one, `verdict.aggregate` a revision. Pure, no I/O; see README.md.

verdict    what a judgment results in, what it is based on, and the condition Healthy: deadlines and counts
rules      START HERE: the order of evaluation, and the rule of each kind
expressions  of users about objects, in CEL; the controller runs it as a child (observe/evaluation.py)
explain    why a workload or Namespace takes long
"""
