"""Keeps the revision on the cluster while another one waits: for approval, or for other BundleDeployments.

approval      START HERE: which revision the pass works on, and what a pending one would change
dependencies  whether the BundleDeployments of spec.dependsOn are ready
"""
