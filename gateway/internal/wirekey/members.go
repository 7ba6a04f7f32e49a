package wirekey

import (
	"encoding/json"
	"strings"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/partmap"
)

// Members returns the values of a partition key by the names on the paths of its container, but for those that are undefined.
func Members(key engine.PartitionKey, paths []string) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	enc := key.Encoded()
	for _, path := range paths {
		n := partmap.PrefixLen(enc, 1)
		if text := []byte(partmap.FromTrusted(enc[:n]).String()); json.Valid(text) { // undefined is no JSON
			out[memberNames(path)] = text
		}
		enc = enc[n:]
	}
	return out
}

func memberNames(path string) string {
	var names []string
	for _, step := range jsondoc.KeyPath(path) {
		names = append(names, step.Name)
	}
	return strings.Join(names, "/")
}
