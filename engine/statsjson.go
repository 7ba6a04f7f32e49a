package engine

import "encoding/json"

// MarshalJSON implements json.Marshaler: errors as text, durations in
// nanoseconds, times as RFC 3339 has them.
func (s Stats) MarshalJSON() ([]byte, error) {
	type plain Stats
	return json.Marshal(struct {
		plain
		Failed string `json:"failed,omitempty"`
	}{plain(s), errorText(s.Failed)})
}

// MarshalJSON implements json.Marshaler: the error as text.
func (d Damage) MarshalJSON() ([]byte, error) {
	type plain Damage
	return json.Marshal(struct {
		plain
		Err string `json:"error"`
	}{plain(d), errorText(d.Err)})
}

// MarshalJSON implements json.Marshaler: kind and compression by their names.
func (d ContainerDef) MarshalJSON() ([]byte, error) {
	type plain ContainerDef
	return json.Marshal(struct {
		plain
		Kind        string `json:"kind"`
		Compression string `json:"compression"`
	}{plain(d), d.Kind.String(), d.Compression.String()})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
