"""The API server: requests, discovery, watches. The only place that imports `kubernetes`; knows nothing of bundles."""
