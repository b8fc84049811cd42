"""The ServiceAccount as which the objects of a BundleDeployment are applied and its Secrets read (README.md, rule 10).

In: a spec, or the terms of a stored revision. Out: the account, or why it may not be used. Not here: what the account
may do (`apply.rights`), and when it is recorded in status (`reconcile.registration`).

    service_accounts  START HERE: which account is used, and whether it exists
    account           an account by its name
    identities        whether a namespace or ServiceAccount was replaced under its name
"""
