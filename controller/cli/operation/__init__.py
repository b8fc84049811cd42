"""Verbs that change BundleDeployments.

changes      pause, resume, reconcile
approval     approve, deny
rollback     rollback
prune        prune
push         push
"""
