"""What others rely on: names, errors, plug-in contracts, versions of the API. Imports nothing of `controller`."""
