"""What is there and how it is. Nothing is decided or written here.

In: lists, watches and what replies to our own writes said. Out: records, verdicts of health, and the names of the
BundleDeployments to reconcile. What to do about any of it is decided in `apply` and `reconcile`.

    watches          START HERE: all that a pass asks; puts together the next seven
    listener         who is told what has changed
    deployments      BundleDeployments as they were seen last
    managed/         managed objects: kinds that are watched, objects by owner
    records          what is kept of a managed object
    definitions      CustomResourceDefinitions: storage version, announced status
    storage_classes  whether a claim is bound with its first pod
    prerequisites    APIServices and Namespaces, which something may wait for

    health/          pure: how an object does, and a revision
    progress         the health of one BundleDeployment over time
    explanations     why something is not healthy: asked of pods and Namespaces

    followed_objects the single objects that each BundleDeployment follows
    object_follower  how one object is followed: by a watch, or by asking in turn
    named            Secrets and ServiceAccounts that something failed for
    contested        objects that somebody else owns
    grants           RBAC, while somebody lacks rights
"""
