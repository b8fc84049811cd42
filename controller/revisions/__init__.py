"""What passes use to find, make and store revisions. Which revision is wanted is decided in `reconcile/finding.py`.

How a spec becomes a revision is left to `building`; slow work runs in the background and triggers the next pass when it
ends.

    approval        whether a revision may be applied, waits for approval, or is older than the installed one

    polling         re-resolves floating references
    background      slow work, off the reconcile workers, and a quarantine for what crashed the process twice
    source_access   what sources may use: Secrets and ConfigMaps that they name, memory, progress
    references      other objects: the config of a spec, what it depends on, what charts look up while they are rendered

    store           the revision store: rendered objects as Secrets; memory for large ones, and deletion of orphans

    accounts        as which account objects are applied and Secrets read
"""
