// Reads files as kubectl does: each line of stdin is a file, as a JSON string in base64; each line of stdout is its
// documents as JSON, or an error.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/util/yaml"
)

type answer struct {
	Documents []json.RawMessage `json:"documents"`
	Error     string            `json:"error,omitempty"`
}

func main() {
	files, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var text []byte
		if err := files.Decode(&text); err != nil {
			return
		}
		if err := answers.Encode(read(text)); err != nil {
			os.Exit(1)
		}
	}
}

func read(text []byte) answer {
	result := answer{Documents: []json.RawMessage{}}
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var document json.RawMessage
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return result
		}
		if err != nil {
			return answer{Documents: []json.RawMessage{}, Error: err.Error()}
		}
		if document = bytes.TrimSpace(document); len(document) > 0 && !bytes.Equal(document, []byte("null")) {
			result.Documents = append(result.Documents, document)
		}
	}
}
