"""The state of the cluster, and its health. Nothing is decided or written here.

In: lists, watches and replies to our own writes. Out: records, verdicts on health, and the names of the
BundleDeployments to reconcile. Not here: what to do about it (`apply`, `reconcile`).

    watches          START HERE: connects the modules below, which answer what a pass asks
    deployments      the latest known BundleDeployments, which depend on each other, or take over objects
    kinds            managed objects by owner, and the watched kinds that BundleDeployments need
    records          the part of a managed object that is kept, and what has changed since a reader last looked
    definitions      CustomResourceDefinitions and StorageClasses, on which health depends

    health/          pure: the health of an object, and of a revision
    progress         the health of one BundleDeployment over time
    evaluation       expressions of users about objects, in a child
    explanations     why objects are not healthy, from their pods or Namespaces

    following        what BundleDeployments wait for besides their own objects
"""
