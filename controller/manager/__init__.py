"""Running it: wiring, queue, workers, probes and metrics, logs. Decides nothing about bundles."""
