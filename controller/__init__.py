"""The controller, in the order in which to read it.

    api/v1alpha2/types  what a user writes, and what status says
    reconcile           START HERE: one pass over one BundleDeployment
    revisions           which revision the spec asks for: pinned, kept, or being made
    build               from a spec to a revision: resolve, fetch, assemble, render; no cluster
    sources             where content comes from: names to digests, digests to entries
    content             what is fetched, on disk: written once, verified, by digest
    formats             what content says: a tree to Kubernetes objects
    observe             what is on the cluster, and how healthy it is
    apply               deciding about objects (plan), and acting (execute, prune)
    status              from what a pass found to conditions, counts and Events
    retries             when what failed may be tried again
    telemetry           what all of it tells about itself, for metrics

The rest is machinery: `cli`, `settings` and `options` (the command and its options), `manager` (wiring, queue, workers,
logs, metrics, probes), `kube` (requests, watches, the Lease), `processes` (threads that last, children that are
confined), `sharing` (fair shares of places and memory). Each package says in its `__init__` what it takes, what it
gives, and where to start. Rules by number, and how to add things: README.md.
"""
