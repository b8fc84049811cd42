"""The kind `configMap`: content that is in the cluster."""
