"""What passes use to find, make and store revisions. Which revision is wanted is decided in `reconcile/finding.py`.

How a spec becomes a revision is left to `building`; slow work runs in the background and triggers the next pass when it
ends.

    approval        whether a revision may be applied, waits for approval, or is older than the installed one

    polling         re-resolves floating references
    background      slow work, off the reconcile workers
    source_access   what sources may use: Secrets and ConfigMaps that they name, memory, progress
    config_objects  those that spec.configFrom names
    lookups         what charts look up while they are rendered
    quarantine      sets aside what crashed the process twice

    large           keeps large revisions in memory only while there is room
    store           the revision store: rendered objects as Secrets; deletes those of BundleDeployments that are gone

    accounts        as which account objects are applied and Secrets read
"""
