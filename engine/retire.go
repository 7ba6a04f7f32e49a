package engine

// retire releases partitions that have ended: see physical.Env.Retire.
func (db *DB) retire(parts []*partition) {
	if db.env.Retire(physicals(parts)) {
		if err := db.retention.Release(); err != nil {
			db.backgroundError("release log files", err)
		}
	}
}
