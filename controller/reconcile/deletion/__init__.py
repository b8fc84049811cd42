"""The pass over a BundleDeployment that is being deleted.

deleter   the steps, in order
mandate   as whom objects are taken away, and which
removing  deleting, releasing, and leaving what nobody may touch
"""
