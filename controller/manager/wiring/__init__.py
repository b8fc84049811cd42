"""How the parts of a controller are made from its settings, and joined.

In: `Settings`. Out: values that hold the parts of one side each, for `make_manager`, which calls these modules in this
order. Starting and stopping is left to `manager`.

    connections  requests to the API server, with the fence and without
    resources    the disk and the memory that work may use
    cluster      what is known of the cluster, and the queue that its changes fill
    building     from a spec to a revision
    applying     what changes the cluster
    passes       the reconciler, of all of these, and the workers
    leadership   whether this process may act
    endpoints    metrics, probes, and their listeners
"""
