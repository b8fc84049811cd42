"""The pass over a BundleDeployment that is being deleted.

deleter    START HERE: the steps, in order
mandate    as which account objects are deleted, and which objects
removing   deletes and releases objects, and leaves what the account may not touch
reporting  writes how far it is, and what holds it if it is slow
"""
