//go:build !linux

package measure

func newAlarm() alarm { return newTimer() }
