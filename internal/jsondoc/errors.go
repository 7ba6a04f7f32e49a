package jsondoc

import (
	"errors"
	"fmt"
)

// Kinds of Error, for errors.Is.
var (
	ErrSyntax        = errors.New("not JSON")
	ErrNotObject     = errors.New("not a JSON object")
	ErrUTF8          = errors.New("not valid UTF-8")
	ErrDuplicateName = errors.New("duplicate member name")
	ErrTooDeep       = errors.New("nested too deep")
	ErrTooLarge      = errors.New("document too large")
	ErrNoID          = errors.New("no id")
	ErrBadID         = errors.New("bad id")
	ErrBadKey        = errors.New("bad partition key value")
	ErrBadTTL        = errors.New("bad ttl")
)

// Error says why a document was refused.
type Error struct {
	Offset int    // byte of the document at which the trouble is
	Path   string // path of the value or member there, as in "/tags/3/name"; "" for the root
	Kind   error  // one of the kinds of this package
	Msg    string // what exactly, without offset and path
}

// Error implements error.
func (e *Error) Error() string {
	at := ""
	if e.Path != "" {
		at = " at " + e.Path
	}
	return fmt.Sprintf("offset %d%s: %v: %s", e.Offset, at, e.Kind, e.Msg)
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// flaw is a reason to refuse a document, without its place.
type flaw struct {
	kind error
	msg  string
}

var (
	flawEnd       = &flaw{ErrSyntax, "document ends too early"}
	flawTrailing  = &flaw{ErrSyntax, "bytes after the document"}
	flawValue     = &flaw{ErrSyntax, "no value begins with this byte"}
	flawLiteral   = &flaw{ErrSyntax, "only true, false and null are literals"}
	flawName      = &flaw{ErrSyntax, "a member name in quotes must follow"}
	flawColon     = &flaw{ErrSyntax, "a colon must follow the member name"}
	flawMember    = &flaw{ErrSyntax, "a comma or } must follow the member"}
	flawElement   = &flaw{ErrSyntax, "a comma or ] must follow the element"}
	flawDigit     = &flaw{ErrSyntax, "a digit must follow in the number"}
	flawZero      = &flaw{ErrSyntax, "a number must not begin with 0"}
	flawControl   = &flaw{ErrSyntax, "control characters in strings must be escaped"}
	flawEscape    = &flaw{ErrSyntax, "unknown escape"}
	flawHex       = &flaw{ErrSyntax, "four hexadecimal digits must follow \\u"}
	flawSurrogate = &flaw{ErrUTF8, "escape of half a surrogate pair"}
	flawUTF8      = &flaw{ErrUTF8, "bytes that are no character"}
	flawDuplicate = &flaw{ErrDuplicateName, "the object has a member of this name"}
)
