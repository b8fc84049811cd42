"""The health of objects: `rules.assess` judges one, `verdict.aggregate` a revision. Pure, no I/O; see README.md.

verdict    what a judgment results in, what it is based on, and the condition Healthy: deadlines and counts
rules      START HERE: the order of evaluation, and the rule of each kind
expressions  of users about objects, in CEL; the controller runs it as a child (observe/evaluation.py)
stability  when a verdict about what was just applied counts: once it has held
explain    why a workload or Namespace takes long; kubelet has what Kubernetes says about pods, in words that last
"""
