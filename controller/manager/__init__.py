"""The process: wires its parts, starts and stops them. Decides nothing about bundles.

In: `Settings` and the changes that watches report. Out: passes, one at a time for each BundleDeployment, on as many
threads as the settings allow. What a pass does is left to `reconcile`.

    manager       START HERE: create all parts, start and stop them
    wiring        how the parts are created and connected
    dispatcher    which change triggers which passes, and how soon
    queue         which pass runs next, and when a failed one is retried
    workers       the threads that run passes
    sweeper       deletes revisions of BundleDeployments that lost their finalizer
    survey        which shards no controller serves, for metrics
    metrics       what is measured; descriptions: what each metric means
    serving       metrics and probes over HTTP
    identity      the name of this process in leader election
    exits         ending the process although its threads cannot be stopped
    log           log lines in JSON or text
    allocator     returns freed memory to the system
    collector     spares Python's garbage collector what becomes known at startup
"""
