"""Which objects belong to a BundleDeployment (README.md, rule 5).

In: its stored revisions, and the objects with its label. Out: what may be changed or deleted, and what may not. Not
here: the marks on one object (`apply.ownership`, `apply.possession`).

    holdings   what the kept revisions name: nothing else is deleted
    strays     objects with our marks that no revision names
    handovers  from and to which BundleDeployments objects may pass
"""
