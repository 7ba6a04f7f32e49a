//go:build !linux

package alarm

// New returns an alarm as exact as the system has it.
func New() Alarm { return NewTimer() }
