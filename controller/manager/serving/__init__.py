"""What the process serves over HTTP: probes and metrics, to whom, and within which limits.

In: what was measured, the state of the threads, and a client for reviews. Out: `Server`s, which the manager starts and
stops. What is measured is left to `manager/metrics.py`.

    server              START HERE: one listener, one request a connection
    connection          what a peer sends and gets, within time and size
    connection_limiter  how many may be connected, and which one is closed for a new one
    routes              what is served at which path
    probes              whether the process is healthy, and ready
    activity            when the API server last answered, and when a pass last made progress
    reviews             who may read the metrics
    certificate         what TLS shows: given files, or self-signed
"""
