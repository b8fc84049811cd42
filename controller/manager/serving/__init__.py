"""Probes and metrics over HTTP, with limits and authorization.

In: metrics, the state of the threads, and a client for reviews. Out: `Server`s, which the manager starts and stops.
What is measured is left to `manager/metrics.py`.

    server              START HERE: a listener; one request per connection
    connection          reading and writing within limits of time and size
    probes              whether the process is healthy and ready, and the paths that say so
    reviews             who may read the metrics
    certificate         the TLS certificate: given files, or self-signed
"""
