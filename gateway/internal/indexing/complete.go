package indexing

import (
	"encoding/json"
	"fmt"
)

// Complete writes the paths of an indexing policy as the service does: the path / is /*,
// and the etag is always excluded.
func Complete(given map[string]json.RawMessage) error {
	for _, name := range []string{"includedPaths", "excludedPaths"} {
		text := given[name]
		if text == nil || string(text) == "null" {
			continue
		}
		var paths []map[string]json.RawMessage
		if err := json.Unmarshal(text, &paths); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		etag := false
		for _, at := range paths {
			if string(at["path"]) == `"/"` {
				at["path"] = json.RawMessage(`"/*"`)
			}
			var path string
			_ = json.Unmarshal(at["path"], &path) // another type is refused when it is used
			etag = etag || path == `/"_etag"/?` || path == "/_etag/?" || path == "/*"
		}
		if name == "excludedPaths" && !etag {
			paths = append(paths, map[string]json.RawMessage{"path": json.RawMessage(`"/\"_etag\"/?"`)})
		}
		given[name], _ = json.Marshal(paths)
	}
	return nil
}
