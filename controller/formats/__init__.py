"""What a bundle says: content trees become lists of Kubernetes objects."""
