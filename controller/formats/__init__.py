"""Formats: from a content tree to Kubernetes objects (README.md)."""
