"""YAML and JSON, read exactly as Kubernetes reads them. START HERE: `manifests`."""
