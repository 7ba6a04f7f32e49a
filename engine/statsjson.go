package engine

import (
	"encoding/json"

	"github.com/cleavestore/cleave/internal/definition"
	"github.com/cleavestore/cleave/internal/fault"
)

// MarshalJSON implements json.Marshaler: errors as text, durations in
// nanoseconds, times as RFC 3339 has them.
func (s Stats) MarshalJSON() ([]byte, error) {
	type plain Stats
	return json.Marshal(struct {
		plain
		Failed string `json:"failed,omitempty"`
	}{plain(s), fault.Text(s.Failed)})
}

// UnmarshalJSON implements json.Unmarshaler, for what MarshalJSON writes. Of an error only
// its text comes back.
func (s *Stats) UnmarshalJSON(text []byte) error {
	type plain Stats
	read := struct {
		*plain
		Failed string `json:"failed"`
	}{plain: (*plain)(s)}
	err := json.Unmarshal(text, &read)
	s.Failed = fault.FromText(read.Failed)
	return err
}

// MarshalJSON implements json.Marshaler: the error as text.
func (d Damage) MarshalJSON() ([]byte, error) {
	type plain Damage
	return json.Marshal(struct {
		plain
		Err string `json:"error"`
	}{plain(d), fault.Text(d.Err)})
}

// UnmarshalJSON implements json.Unmarshaler, for what MarshalJSON writes. Of the error only
// its text comes back.
func (d *Damage) UnmarshalJSON(text []byte) error {
	type plain Damage
	read := struct {
		*plain
		Err string `json:"error"`
	}{plain: (*plain)(d)}
	err := json.Unmarshal(text, &read)
	d.Err = fault.FromText(read.Err)
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (k ContainerKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *ContainerKind) UnmarshalText(text []byte) error {
	return (*definition.Kind)(k).UnmarshalText(text)
}

// MarshalText implements encoding.TextMarshaler.
func (c Compression) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler: see ParseCompression.
func (c *Compression) UnmarshalText(text []byte) (err error) {
	*c, err = ParseCompression(string(text))
	return err
}
