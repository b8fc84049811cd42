module rukpak/tests/go_registry

go 1.26.0

require github.com/google/go-containerregistry v0.20.3
