package wirekey

import (
	"encoding/json"
	"strings"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/jsondoc"
)

// Members returns the values of a partition key by the names on the paths of its container.
func Members(key engine.PartitionKey, paths []string) map[string]json.RawMessage {
	var values []json.RawMessage
	if json.Unmarshal([]byte(key.String()), &values) != nil {
		values = []json.RawMessage{json.RawMessage(key.String())}
	}
	out := map[string]json.RawMessage{}
	for i, path := range paths {
		if i < len(values) && json.Valid(values[i]) {
			out[memberNames(path)] = values[i]
		}
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
