"""What others rely on: names, errors, plug-in contracts and the versions of the API. Imports nothing of `controller`."""
