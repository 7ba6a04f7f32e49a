package fault

import "errors"

// Text returns the text of an error, for JSON; nil has none.
func Text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// FromText returns an error with a text, nil for none.
func FromText(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}
