"""What a bundle may do once it runs: from the objects of a revision to a set of statements. Pure.

Not here: what it takes to install it (apply/rights), and what is done about a difference (reconcile).
START HERE: `permissions`, in reading order:

    permissions  the set of a revision, the difference of two sets, and the lines that people read
    statement    one statement
    lines        statements as lines, the most dangerous first
    grants       what roles and bindings grant
    roles        the roles of a bundle, with those that are aggregated
    dangers      which rights amount to cluster-admin, and other rights that need attention
    inclusion    which rights include others
    pods         what pods may do to their nodes and to others
    standards    what pods do not restrict, as the Pod Security Standards ask for it
    requests     webhooks, aggregated APIs and policies: whose requests they see
    cloud        identities in clouds
    scope        objects outside the install namespace
"""
