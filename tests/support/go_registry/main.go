// The registry of go-containerregistry, in memory, which lists referrers (OCI 1.1): at the address that it is given.
package main

import (
	"io"
	"log"
	"net/http"
	"os"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	silent := log.New(io.Discard, "", 0)
	handler := registry.New(registry.WithReferrersSupport(true), registry.Logger(silent))
	log.Fatal(http.ListenAndServe(os.Args[1], handler))
}
