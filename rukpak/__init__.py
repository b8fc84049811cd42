"""What packages of plug-ins import: `rukpak.plugins`, and in their tests `rukpak.conformance`."""
