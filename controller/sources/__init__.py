"""Sources: where content comes from. Each kind resolves a name to a digest and yields entries; none writes content.

In: the parameters of a source, and what a call may use (`Access`). Out: a `Resolution`, then entries. Checking and
writing entries is left to `content`, reading Secrets to `revisions`.

    image, git, http, config_map, chart  START HERE: the kinds
    chart_index, chart_registry  charts in a repository, and in a registry
    signatures     who has signed the content
    demands        who must have signed it, as the administrator says
    transport      HTTP for all kinds
    pace           how slow is too slow
    versions       ranges of versions
    hosts          which hosts and addresses are allowed and which redirects followed, and what is told about others
    routes         the way to a server: host, addresses, proxy, keys
    credentials    the values of a Secret, and for which registry they are
    trust          certificates to trust, and when credentials may be sent
"""
