//go:build !linux

package vfs

func (f *osFile) MapWrite(int64) (*WriteMapping, error) { return nil, nil }

func unmapWritten([]byte) error { return nil }
