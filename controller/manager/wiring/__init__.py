"""Creates the parts of a controller from its settings, and connects them.

In: `Settings`. Out: groups of parts for `make_manager`, which calls these modules in this order. Starting and stopping
them is left to `manager`.

    connections  clients of the API server, with and without the fence
    resources    disk and memory for the work
    cluster      what is known about the cluster, and the queue that its changes fill
    building     from a spec to a revision
    applying     what changes the cluster
    passes       the reconciler, made of these, and the workers
    leadership   whether this process may act
    endpoints    metrics, probes and their listeners
"""
