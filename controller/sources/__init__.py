"""Sources: where content comes from. Each kind resolves a name to a digest and yields entries; none writes content.

In: the parameters of a source, and what a call may use (`Access`). Out: a `Resolution`, then entries. Checking and
writing entries is left to `content`, reading Secrets to `revisions`.

    image, git, http, config_map, chart  START HERE: `source` of each is the kind
    transport      HTTP for all kinds
    redirects      which are followed, and what is told about hosts that the spec does not name
    pace           how slow is too slow
    versions       ranges of versions
    hosts, addresses  which hosts and addresses the administrator allows
    credentials    the values of a Secret
    trust          certificates to trust, and when credentials may be sent
"""
