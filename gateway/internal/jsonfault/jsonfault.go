// Package jsonfault says what is wrong with a body that does not have the JSON that is wanted, in the
// words of the protocol and not in those of a program.
package jsonfault

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Text describes an error of encoding/json.
func Text(err error) string {
	var kind *json.UnmarshalTypeError
	var text *json.SyntaxError
	switch {
	case errors.As(err, &kind) && kind.Field != "":
		return fmt.Sprintf("the member %s at byte %d has the type %s", kind.Field, kind.Offset, kind.Value)
	case errors.As(err, &kind):
		return fmt.Sprintf("the value at byte %d has the type %s", kind.Offset, kind.Value)
	case errors.As(err, &text):
		return fmt.Sprintf("%v at byte %d", text, text.Offset)
	}
	return err.Error()
}
