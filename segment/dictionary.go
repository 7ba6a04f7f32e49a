package segment

import (
	"github.com/cleavestore/cleave/internal/dictionary"
	"github.com/cleavestore/cleave/internal/payload"
)

// Sizes of a dictionary, in bytes.
const (
	MinDictionary = dictionary.MinSize
	MaxDictionary = dictionary.MaxSize
)

// Dictionary is a compression dictionary: plain sample documents. It is immutable and
// safe for concurrent use. Two dictionaries of the same bytes are one object as long as
// it is in use, so that files share it.
type Dictionary = dictionary.Dictionary

// NewDictionary returns the dictionary of the bytes, which it copies: between
// MinDictionary and MaxDictionary of them.
func NewDictionary(b []byte) (*Dictionary, error) { return dictionary.New(b) }

// Compression says how a writer stores items.
type Compression = payload.Compression

// Compressions.
const (
	Fast  = payload.Fast
	Small = payload.Small
	None  = payload.None
)
