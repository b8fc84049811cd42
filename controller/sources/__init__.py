"""Sources: where content comes from. Each kind resolves a name to a digest and yields entries; none writes content.

In: the parameters of a source, and what a call may use (`Access`). Out: a `Resolution`, then entries. Checking and
writing entries is left to `content`, reading Secrets to `revisions`.

    image, git, http, config_map, chart  START HERE: `source` of each is the kind
    transport      HTTP for all kinds, with connections, redirects, pace and transport_failures
    detours        what is told, and when, about hosts that the spec does not name
    versions       ranges of versions
    hosts, addresses  which hosts and addresses the administrator allows
    credentials    the values of a Secret
    trust          certificates to trust, and when credentials may be sent
    tls_contexts   TLS contexts, one for each set of trust
"""
