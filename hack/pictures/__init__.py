"""The pictures of README.md, as SVG for light and dark backgrounds: a recording of hack/demo, and the architecture."""
