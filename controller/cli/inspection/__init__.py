"""Verbs that show BundleDeployments.

status       status: table.py, description.py, objects.py
tree         tree: branches.py
events       events
logs         logs
history      history
"""
