"""BundleDeployments that move between shards (`kube.shard`).

In: the context of a pass. Out: the context with which it may act, when to try again, or that another shard has it.

    custody   START HERE: whether this shard may act, and the hand-over to another one
    adoption  labels the objects that came from another shard
"""
