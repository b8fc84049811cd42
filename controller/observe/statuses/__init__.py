"""The status of each BundleDeployment, which other clients may wipe or edit.

own        START HERE: what this process left, and which changes of others are believed
writers    who wrote the fields of a status, from managedFields. Pure
validity   what of a status can be used. Pure
"""
