"""What a BundleDeployment waits for besides its own objects: it continues when one of these changes.

followed_objects START HERE: the single objects that each BundleDeployment follows
object_follower  follows one object by a watch, or by polling
named            Secrets and ServiceAccounts that caused a failure
contested        objects that have another owner
grants           RBAC, while permissions are missing
"""
