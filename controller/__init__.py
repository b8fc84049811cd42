"""The controller, in the order in which to read it.

    api/v1alpha2/types  what a user writes, and what status reports
    reconcile           START HERE: one pass over one BundleDeployment
    revisions           which revision the spec asks for: pinned, stored, or being made
    building            from a spec to a revision: resolve, fetch, assemble, render; without a cluster
    sources             where content comes from: references to digests, digests to entries
    content             fetched content on disk: verified, written once, by digest
    formats             what content means: from a tree to Kubernetes objects
    processors          what changes content before it is rendered, such as patches
    permissions         what a bundle may do once it runs: from a revision to a set of statements
    observe             which objects are on the cluster, and how healthy they are
    apply               what to do with objects (plan), and doing it (execute, prune)
    status              from the report of a pass to conditions, counts and Events
    retries             when failures are retried
    telemetry           events inside the controller, for metrics, and bugs
    untrusted           reading JSON values that anybody may have written

The other packages are infrastructure: `cli`, `ui`, `views`, `settings`, `playground` (the command, its page, what both
show, its options, and its clusters), `manager` (wiring, queue, workers, logs, metrics, probes), `kube` (requests,
watches, the Lease), `processes` (supervised threads, confined children), `sharing` (fair shares of workers and memory).
The `__init__` of each package describes its input, its output and where to start. README.md has the numbered rules and
describes how to add sources, formats and more.
"""
