"""What a bundle may do once it runs: from the objects of a revision to a set of statements. Pure.

Not here: what it takes to install it (apply/rights), and what is done about a difference (reconcile).

    permissions  START HERE: the set of a revision, and the difference of two sets
    statement    one statement, which rights include others, and the lines that people read
    grants       what roles and bindings grant, and which rights amount to cluster-admin or need attention
    powers       what pods may do, webhooks and policies, identities in clouds, objects elsewhere
"""
