//go:build lmdb

package main

/*
#cgo LDFLAGS: -llmdb
#include <lmdb.h>
#include <stdlib.h>
#include <string.h>

// get copies a value to buf if it is not longer than room.
static int peers_lmdb_get(MDB_txn *txn, MDB_dbi dbi, void *key, size_t key_bytes, void *buf, size_t room, size_t *bytes) {
	int rc = mdb_txn_renew(txn);
	if (rc != 0) return rc;
	MDB_val k = {key_bytes, key}, v;
	rc = mdb_get(txn, dbi, &k, &v);
	if (rc == 0) {
		*bytes = v.mv_size;
		if (v.mv_size <= room) memcpy(buf, v.mv_data, v.mv_size);
	}
	mdb_txn_reset(txn);
	return rc;
}

// put writes n pairs, which lie one behind the other in memory, in a
// transaction. lengths has those of key and value of each.
static int peers_lmdb_put(MDB_env *env, MDB_dbi dbi, char *memory, size_t *lengths, size_t n) {
	MDB_txn *txn;
	int rc = mdb_txn_begin(env, NULL, 0, &txn);
	if (rc != 0) return rc;
	for (size_t i = 0; i < n; i++) {
		MDB_val k = {lengths[2*i], memory};
		memory += lengths[2*i];
		MDB_val v = {lengths[2*i+1], memory};
		memory += lengths[2*i+1];
		if ((rc = mdb_put(txn, dbi, &k, &v, 0)) != 0) {
			mdb_txn_abort(txn);
			return rc;
		}
	}
	return mdb_txn_commit(txn);
}

// scan puts up to n values of keys with the prefix into values: from the first
// key on if first, else behind the cursor. *found is less than n at the end.
static int peers_lmdb_scan(MDB_cursor *cursor, int first, void *key, size_t key_bytes, size_t prefix_bytes, MDB_val *values, size_t n, size_t *found) {
	MDB_val k = {key_bytes, key}, v;
	size_t i = 0;
	int rc = 0;
	for (; i < n; i++) {
		rc = mdb_cursor_get(cursor, &k, &v, first ? MDB_SET_RANGE : MDB_NEXT);
		first = 0;
		if (rc != 0 || k.mv_size < prefix_bytes || memcmp(k.mv_data, key, prefix_bytes) != 0) break;
		values[i] = v;
	}
	*found = i;
	return rc == MDB_NOTFOUND ? 0 : rc;
}
*/
import "C"

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"
	"unsafe"

	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/partmap"
)

var lmdbStore = candidate{
	name: "lmdb",
	about: func() string {
		var major, minor, patch C.int
		C.mdb_version(&major, &minor, &patch)
		return fmt.Sprintf("LMDB %d.%d.%d, own shim", major, minor, patch)
	},
	settings: "NOTLS, NORDAHEAD, NOSYNC when buffered; map 16 GiB; read transactions are kept and renewed; " +
		"one call of C for a get, a put or 128 documents of a scan; loads in transactions of 1 MiB",
	open: openLMDB,
}

func init() { cgoStores = append(cgoStores, lmdbStore) }

type lmdbDB struct {
	env     *C.MDB_env
	dbi     C.MDB_dbi
	readers chan *C.MDB_txn // reset, to be renewed
	writer  sync.Mutex      // LMDB has one; waiting for it here holds no thread
}

const (
	lmdbMapBytes = 16 << 30
	lmdbReaders  = 126 // the default of LMDB
	lmdbScan     = 128
)

func lmdbError(call string, code C.int) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", call, C.GoString(C.mdb_strerror(code)))
}

func openLMDB(_ context.Context, dir string, m mode) (_ store, err error) {
	s := &lmdbDB{readers: make(chan *C.MDB_txn, lmdbReaders)}
	if err := lmdbError("mdb_env_create", C.mdb_env_create(&s.env)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			C.mdb_env_close(s.env)
		}
	}()
	flags := C.uint(C.MDB_NOTLS | C.MDB_NORDAHEAD)
	if !m.Synced {
		flags |= C.MDB_NOSYNC
	}
	if err := lmdbError("mdb_env_set_mapsize", C.mdb_env_set_mapsize(s.env, lmdbMapBytes)); err != nil {
		return nil, err
	}
	path := C.CString(dir)
	defer C.free(unsafe.Pointer(path))
	if err := lmdbError("mdb_env_open", C.mdb_env_open(s.env, path, flags, 0o600)); err != nil {
		return nil, err
	}
	var txn *C.MDB_txn
	if err := lmdbError("mdb_txn_begin", C.mdb_txn_begin(s.env, nil, C.MDB_RDONLY, &txn)); err != nil {
		return nil, err
	}
	if err := lmdbError("mdb_dbi_open", C.mdb_dbi_open(txn, nil, 0, &s.dbi)); err != nil {
		C.mdb_txn_abort(txn)
		return nil, err
	}
	// Only a commit makes the handle that of the environment.
	return s, lmdbError("mdb_txn_commit", C.mdb_txn_commit(txn))
}

// reader returns a read transaction that is reset.
func (s *lmdbDB) reader() (*C.MDB_txn, error) {
	select {
	case txn := <-s.readers:
		return txn, nil
	default:
	}
	var txn *C.MDB_txn
	if err := lmdbError("mdb_txn_begin", C.mdb_txn_begin(s.env, nil, C.MDB_RDONLY, &txn)); err != nil {
		return nil, err
	}
	C.mdb_txn_reset(txn)
	return txn, nil
}

func (s *lmdbDB) release(txn *C.MDB_txn) {
	select {
	case s.readers <- txn:
	default:
		C.mdb_txn_abort(txn)
	}
}

func (s *lmdbDB) Upsert(_ context.Context, key partmap.Key, id string, doc []byte) error {
	k := joinKey(key, id)
	defer k.release()
	lengths := [2]C.size_t{C.size_t(len(k.b)), C.size_t(len(doc))}
	k.b = append(k.b, doc...)
	return s.put(k.b, lengths[:])
}

// put writes pairs that lie one behind the other in memory.
func (s *lmdbDB) put(memory []byte, lengths []C.size_t) error {
	s.writer.Lock()
	defer s.writer.Unlock()
	return lmdbError("put", C.peers_lmdb_put(s.env, s.dbi, (*C.char)(unsafe.Pointer(unsafe.SliceData(memory))), unsafe.SliceData(lengths), C.size_t(len(lengths)/2)))
}

func (s *lmdbDB) Read(_ context.Context, key partmap.Key, id string, buf []byte) ([]byte, error) {
	k := joinKey(key, id)
	defer k.release()
	txn, err := s.reader()
	if err != nil {
		return buf, err
	}
	defer s.release(txn)
	for {
		var bytes C.size_t
		code := C.peers_lmdb_get(txn, s.dbi, unsafe.Pointer(unsafe.SliceData(k.b)), C.size_t(len(k.b)),
			unsafe.Pointer(unsafe.SliceData(buf)), C.size_t(cap(buf)), &bytes)
		if code == C.MDB_NOTFOUND {
			return buf, measure.ErrNotFound
		}
		if err := lmdbError("get", code); err != nil {
			return buf, err
		}
		if int(bytes) <= cap(buf) {
			return buf[:bytes], nil
		}
		buf = make([]byte, 0, bytes)
	}
}

func (s *lmdbDB) Scan(_ context.Context, key partmap.Key, from string, limit int, visit func([]byte)) error {
	k := joinKey(key, from)
	defer k.release()
	txn, err := s.reader()
	if err != nil {
		return err
	}
	defer s.release(txn)
	if err := lmdbError("mdb_txn_renew", C.mdb_txn_renew(txn)); err != nil {
		return err
	}
	defer C.mdb_txn_reset(txn)
	var cursor *C.MDB_cursor
	if err := lmdbError("mdb_cursor_open", C.mdb_cursor_open(txn, s.dbi, &cursor)); err != nil {
		return err
	}
	defer C.mdb_cursor_close(cursor)
	var values [lmdbScan]C.MDB_val
	first := C.int(1)
	for n := 0; ; {
		want := lmdbScan
		if limit > 0 {
			want = min(want, limit-n)
		}
		var found C.size_t
		code := C.peers_lmdb_scan(cursor, first, unsafe.Pointer(unsafe.SliceData(k.b)), C.size_t(len(k.b)), C.size_t(len(key.Encoded())),
			&values[0], C.size_t(want), &found)
		if err := lmdbError("scan", code); err != nil {
			return err
		}
		for _, v := range values[:found] {
			visit(unsafe.Slice((*byte)(v.mv_data), v.mv_size))
		}
		first = 0
		if n += int(found); int(found) < want || n == limit {
			return nil
		}
	}
}

func (s *lmdbDB) Load(_ context.Context, docs iter.Seq[document]) error {
	return putPacked(docs, s.put)
}

func (s *lmdbDB) Settle(context.Context) (time.Duration, error) {
	return 0, lmdbError("mdb_env_sync", C.mdb_env_sync(s.env, 1))
}

func (s *lmdbDB) Close() error {
	_, err := s.Settle(context.Background())
	for {
		select {
		case txn := <-s.readers:
			C.mdb_txn_abort(txn)
		default:
			C.mdb_env_close(s.env)
			return err
		}
	}
}
