//go:build cgo

package main

import (
	"database/sql"
	"testing"
)

// SQLite keeps the page size only if it is set before anything else.
func TestSQLiteSettings(t *testing.T) {
	for synced, synchronous := range map[bool]string{false: "1", true: "2"} {
		s, err := openSQLite(t.Context(), t.TempDir(), mode{Synced: synced, Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		db := s.(*sqliteDB)
		for pragma, want := range map[string]string{
			"page_size": "8192", "journal_mode": "wal", "synchronous": synchronous, "wal_autocheckpoint": "8192", "cache_size": "-262144", "mmap_size": "2147418112",
		} {
			for _, pool := range []*sql.DB{db.writes, db.reads} {
				var got string
				if err := pool.QueryRow("PRAGMA " + pragma).Scan(&got); err != nil || got != want {
					t.Errorf("%s is %s, want %s: %v", pragma, got, want, err)
				}
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
