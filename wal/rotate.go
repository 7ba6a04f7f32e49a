package wal

// Rotate seals the file that takes records, unless it has none, and goes on to
// the next one; when it returns nil the sealed file is complete and durable.
// After an error that matches fault.ErrDiskFull nothing has changed.
func (l *Log) Rotate() error {
	l.mu.Lock()
	err := l.appendableLocked()
	if err == nil && l.mu.offset > fileHeaderBytes {
		err = l.rotateLocked(0)
	}
	pos := l.Appended()
	l.mu.Unlock()
	if err != nil {
		return err
	}
	return l.waitSynced(pos)
}
