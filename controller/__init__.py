"""The controller, in the order in which to read it.

    api/v1alpha2/types   what a user writes, and what status says
    reconciler           one pass over one BundleDeployment: the table of contents
    questions            what several parts of a pass ask about a BundleDeployment
    memory               what a pass remembers for the next one, and may lose
    account, accounts    as whom objects are applied and Secrets read, and whether there is such an account
    identities           whether it is still the one that was used first; registration records which that is
    wanted               which revision the spec asks for: pinned, kept, or being made
    preparations         where slow work goes on, so that no pass waits
    shares               fair turns of tenants, and how much of what is limited each gets
    polling              asking again what a floating ref names
    assistance, secrets  what sources are given: credentials, a place to say how far they are
    admission            memory that is held before it is used; memory_limit: how much there is
    quarantine           who was prepared when the process died
    retries              when what failed may be tried again
    desired              from a spec to a revision: resolve, fetch, assemble, render
    rendering, aside     from content to a revision, here or in a process of its own
    origins              who gave a content, and who shares it
    capabilities         what a cluster serves, as a file: for renderings without one
    sources              where content comes from: names to digests, digests to entries
    content              what is fetched, on disk: written once, verified, by digest
    formats              what content says: a tree to Kubernetes objects
    revision             the rendered objects as a value, and as bytes
    revisions            where they are kept: Secrets in the cluster
    large_revisions      passes over those that take much memory
    observe              what is on the cluster, and how healthy it is
    apply                deciding about objects (plan), and acting (execute, prune)
    holdings, strays     what kept revisions name, which alone is acted upon; what only looks like that
    hooks                when the hooks of a chart are run
    report               what a pass found and did, as values
    observer, drifting   what a pass tells about itself, for metrics; how drift is counted
    status, notes        from that to conditions, counts and Events
    publisher            writing those; the finalizer, too
    deletion             the pass over one that is being deleted

The rest is machinery: `cli` and `settings` (the command and its options), `manager` (wiring, queue, workers, logs,
metrics, probes), `supervision` (threads that must not end), `kube` (requests, watches, the Lease), `extensions`
(plug-ins by kind), `confinement` (what git and helm may use and reach, by `landlock` and `seccomp`). Rules by number,
and how to add things: README.md.
"""
