"""`rukpak adopt`: objects that another tool or BundleDeployment has installed change hands, in place.

adopt      START HERE: the verb; what is shown, asked and done, in order
hand_over  from another BundleDeployment
steps      what both have in common
origin     what `--from` names, and the marks of its objects; pure
survey     the objects of the revision as they are, and who may give them away
fields     the field managers and marks that an adopted object loses, and which fields stay; pure
tidying    its edge: writes that to each object
release    the release of Helm: its objects, and its Secrets
flux       the Kustomizations and HelmReleases that would fight
proposal   what would be done, and how that is told before the question; pure
"""
