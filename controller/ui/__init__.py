"""`rukpak ui`: a page about the BundleDeployments of a cluster, for whoever runs it, with their rights.

Nothing is added to the cluster. It needs the extra `ui`.

    model            START HERE: what the page shows, as values made of objects; pure
    panel            what it shows of one object; pure
    logs             the lines of a log; pure
    watching         the watches behind all pages
    guard            who may ask; pure
    server           the addresses, the streams to pages, and what these can do: the requests of the verbs
    static/          the page: JavaScript modules without a framework or a build, and one style sheet
    templates/       the document that loads them
"""
