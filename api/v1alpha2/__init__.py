"""The API version `core.rukpak.io/v1alpha2`."""
