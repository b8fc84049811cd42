"""The process: wires its parts, starts and stops them. Decides nothing about bundles.

In: `Settings` and the changes that watches report. Out: passes, one at a time for each BundleDeployment, on as many
threads as the settings allow. What a pass does is left to `reconcile`.

    manager       START HERE: starts and stops a controller; whether it is healthy and ready
    assemble      creates its parts from the settings, and connects them
    queue         which pass runs next, and when a failed one is retried
    workers       which change triggers which passes, and the threads that run them
    metrics       what is measured, and what each metric means
    serving       metrics and probes over HTTP, reviews (who may read metrics) included
    process       memory, identity, log and end of the process
"""
