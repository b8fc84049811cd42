"""What the process serves over HTTP: probes and metrics, to whom, and within which limits.

In come the metrics, the probes and a client; out go `Server`s that the manager starts and stops. Read `server.py`
first: one listener, one request a connection. `routes.py` says what is served at which path, `probes.py` whether the
process is healthy and ready, from what `activity.py` notes of requests; `certificate.py`, `reviews.py` and `seats.py`
say with which certificate, to whom, and to how many at a time. What is measured is `manager/metrics.py`'s.
"""
