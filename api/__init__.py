"""The public interface: names, errors, plug-in contracts, API versions. Imports nothing from `controller`."""
