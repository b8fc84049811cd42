"""The process: its parts joined, started and stopped. Decides nothing about bundles.

In: `Settings`, and what the watches say has changed. Out: passes, one BundleDeployment at a time, on as many threads as
the settings allow. What a pass does is left to `reconcile`.

    manager       START HERE: make all parts, start and stop them
    wiring        how the parts of each side are made and joined
    dispatcher    what has changed brings which passes, and how soon
    queue         whose turn it is; when a pass that failed is tried again
    workers       the threads that run passes
    sweeper       removes what BundleDeployments without a finalizer leave behind
    metrics       what is measured; descriptions: what each metric means
    serving       metrics and probes over HTTP
    identity      who this process is in the election of a leader
    exits         how the process ends where its threads cannot be stopped
    log           lines of JSON or text
    allocator     freed memory goes back to the system
"""
