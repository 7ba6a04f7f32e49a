package wal

// Rotate seals the file that takes records, unless the file has none, and goes on to the
// next one. When it returns nil the sealed file is complete and durable, and its seal
// vouches for what was appended before the call: no record may come to the next file for
// long, and a copy of the log may end with the sealed one. After an error that matches
// fault.ErrDiskFull a later call makes it so.
func (l *Log) Rotate() error {
	for {
		if err := l.MakeFile(); err != nil {
			return err
		}
		if err := l.Sync(); err != nil {
			return err
		}
		l.mu.Lock()
		err := l.appendableLocked()
		var next *file
		done := l.mu.offset == fileHeaderBytes
		if err == nil && !done {
			if next = l.maker.take(0); next != nil {
				l.rotateLocked(next)
				done = true
			}
		}
		pos := l.Appended()
		l.mu.Unlock()
		if err != nil {
			return err
		}
		if done {
			return l.askSynced(pos)
		}
		if err := l.maker.prepare(0, false); err != nil {
			return err
		}
	}
}
