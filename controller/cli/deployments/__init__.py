"""Verbs for BundleDeployments.

access       reading and changing them on a cluster
selection    which ones a command line names
waiting      --wait: progress, success, and why waiting ends early
changes      pause, resume, reconcile
approval     approve, deny
status       status: table.py, description.py, objects.py
history      history
rollback     rollback
push         push: packing.py
tree         tree: branches.py
events       events
logs         logs
"""
