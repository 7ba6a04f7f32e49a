//go:build cgo

package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"runtime"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/partmap"
)

var sqliteStore = candidate{
	name: "sqlite",
	about: func() string {
		version, _, _ := sqlite3.Version()
		return "SQLite " + version + ", " + moduleVersion("github.com/mattn/go-sqlite3")
	},
	settings: "table WITHOUT ROWID with key (pk, id); pages of 8 KiB; WAL, synchronous NORMAL (FULL for synced puts), checkpoints at 64 MiB; " +
		"page cache 256 MiB a connection; mmap_size 16 GiB, of which SQLite takes 2; prepared statements, one connection that writes; loads in transactions of 1 MiB",
	open: openSQLite,
}

func init() { cgoStores = append(cgoStores, sqliteStore) }

// The page size must be set before anything is written, the WAL mode included.
const sqlitePragmas = `
PRAGMA page_size = 8192;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = %s;
PRAGMA wal_autocheckpoint = 8192;
PRAGMA cache_size = -262144;
PRAGMA mmap_size = 17179869184;
PRAGMA busy_timeout = 60000;
`

type sqliteDB struct {
	reads, writes  *sql.DB
	get, scan, put *sql.Stmt
}

// sqliteConnector makes connections with the settings.
type sqliteConnector struct {
	driver *sqlite3.SQLiteDriver
	name   string
}

func (c sqliteConnector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.name) }
func (c sqliteConnector) Driver() driver.Driver                        { return c.driver }

func openSQLite(ctx context.Context, dir string, m mode) (_ store, err error) {
	synchronous := "NORMAL"
	if m.Synced {
		synchronous = "FULL"
	}
	pragmas := fmt.Sprintf(sqlitePragmas, synchronous)
	connector := sqliteConnector{
		name: "file:" + filepath.Join(dir, "sqlite.db") + "?_txlock=immediate&_mutex=no",
		driver: &sqlite3.SQLiteDriver{ConnectHook: func(c *sqlite3.SQLiteConn) error {
			_, err := c.Exec(pragmas, nil)
			return err
		}},
	}
	s := &sqliteDB{reads: sql.OpenDB(connector), writes: sql.OpenDB(connector)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	s.writes.SetMaxOpenConns(1)
	readers := min(m.Workers, 2*runtime.GOMAXPROCS(0))
	s.reads.SetMaxOpenConns(readers)
	s.reads.SetMaxIdleConns(readers)
	if _, err = s.writes.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS docs (pk BLOB NOT NULL, id TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (pk, id)) WITHOUT ROWID`); err != nil {
		return nil, err
	}
	for _, p := range []struct {
		stmt **sql.Stmt
		db   *sql.DB
		text string
	}{
		{&s.put, s.writes, `INSERT INTO docs (pk, id, body) VALUES (?, ?, ?) ON CONFLICT (pk, id) DO UPDATE SET body = excluded.body`},
		{&s.get, s.reads, `SELECT body FROM docs WHERE pk = ? AND id = ?`},
		{&s.scan, s.reads, `SELECT body FROM docs WHERE pk = ? AND id >= ? ORDER BY id LIMIT ?`},
	} {
		if *p.stmt, err = p.db.PrepareContext(ctx, p.text); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *sqliteDB) Upsert(ctx context.Context, key partmap.Key, id string, doc []byte) error {
	_, err := s.put.ExecContext(ctx, key.Encoded(), id, doc)
	return err
}

func (s *sqliteDB) Read(ctx context.Context, key partmap.Key, id string, buf []byte) ([]byte, error) {
	rows, err := s.get.QueryContext(ctx, key.Encoded(), id)
	if err != nil {
		return buf, err
	}
	found := false
	var body sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&body); err != nil {
			return buf, errors.Join(err, rows.Close())
		}
		found = true
		buf = append(buf, body...)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return buf, err
	}
	if !found {
		return buf, measure.ErrNotFound
	}
	return buf, nil
}

func (s *sqliteDB) Scan(ctx context.Context, key partmap.Key, from string, limit int, visit func([]byte)) error {
	if limit == 0 {
		limit = -1
	}
	rows, err := s.scan.QueryContext(ctx, key.Encoded(), from, limit)
	if err != nil {
		return err
	}
	var body sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&body); err != nil {
			return errors.Join(err, rows.Close())
		}
		visit(body)
	}
	return errors.Join(rows.Err(), rows.Close())
}

func (s *sqliteDB) Load(ctx context.Context, docs iter.Seq[document]) error {
	var tx *sql.Tx
	var put *sql.Stmt
	size := 0
	for doc := range docs {
		var err error
		if tx == nil {
			if tx, err = s.writes.BeginTx(ctx, nil); err != nil {
				return err
			}
			put = tx.StmtContext(ctx, s.put)
		}
		if _, err = put.ExecContext(ctx, doc.key.Encoded(), doc.id, doc.body); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		if size += len(doc.body); size >= batchBytes {
			if err = tx.Commit(); err != nil {
				return err
			}
			tx, size = nil, 0
		}
	}
	if tx == nil {
		return nil
	}
	return tx.Commit()
}

func (s *sqliteDB) Settle(ctx context.Context) (time.Duration, error) {
	_, err := s.writes.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
	return 0, err
}

func (s *sqliteDB) Close() error {
	for _, stmt := range []*sql.Stmt{s.get, s.scan, s.put} {
		if stmt != nil {
			stmt.Close()
		}
	}
	return errors.Join(s.reads.Close(), s.writes.Close())
}
