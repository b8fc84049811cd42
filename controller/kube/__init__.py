"""The API server: requests, discovery, watches. The only place that imports `kubernetes`; knows nothing of bundles.

In: paths, manifests and whom to act as. Out: replies, records of what is there, and ApiError. What a reply means for an
object is left to `apply`, what an object means to `observe`.

    client         START HERE: one method for each verb
    transport, configuration, impersonation  connections, credentials, and as whom
    fence          what every write has to pass
    encoding, replies, errors  how requests and replies are written and read
    resources, discovery  kinds and their paths, and which of them are served
    watch, collection, cache  a collection that is followed, the requests for that, and what is known of it
    lease          who leads
    events         what people are told
"""
