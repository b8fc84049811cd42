"""The API server: requests, discovery, watches. The only package that imports `kubernetes`; knows nothing of bundles.

In: paths, manifests and the user to act as. Out: replies, records of objects, and ApiError. Not here: what a reply
means for an object (`apply`), and what an object means (`observe`).

    client         START HERE: one method for each verb; the fence admits writes while this process leads
    configuration  where the cluster is, and as whom requests are sent
    encoding, errors  the wire format, and what failed
    resources      kinds and their paths, and which BundleDeployments a controller serves. Pure
    discovery      which kinds are served
    watch, cache   a reflector of one collection, and its records
    lease          leader election
    events         Kubernetes Events
"""
