//go:build rocksdb

package main

/*
#cgo LDFLAGS: -lrocksdb
#include <rocksdb/c.h>
#include <stdlib.h>
#include <string.h>

extern const int peers_rocksdb_version[3];

// get copies a value to buf if it is not longer than room. It returns 1 if
// there is one.
static int peers_rocksdb_get(rocksdb_t *db, rocksdb_readoptions_t *o, char *key, size_t key_bytes, char *buf, size_t room, size_t *bytes, char **err) {
	rocksdb_pinnableslice_t *slice = rocksdb_get_pinned(db, o, key, key_bytes, err);
	if (slice == NULL) return 0;
	const char *value = rocksdb_pinnableslice_value(slice, bytes);
	if (*bytes <= room) memcpy(buf, value, *bytes);
	rocksdb_pinnableslice_destroy(slice);
	return 1;
}

// A scan under way, or one that ended if it is NULL.
typedef struct {
	rocksdb_iterator_t *it;
	rocksdb_readoptions_t *o;
	char *end;
} peers_rocksdb_scan;

static void peers_rocksdb_scan_close(peers_rocksdb_scan *s) {
	rocksdb_iter_destroy(s->it);
	rocksdb_readoptions_destroy(s->o);
	free(s->end);
	free(s);
}

// scan begins at key if *scan is NULL, ends before end and after limit values,
// and copies values to buf, one behind the other, with their lengths to
// lengths, as far as they fit. If more are left, *scan must be given to the
// next call, or closed; else it is NULL. *need is the size of a value that does
// not fit alone.
static size_t peers_rocksdb_fill(rocksdb_t *db, peers_rocksdb_scan **scan, char *key, size_t key_bytes, char *end, size_t end_bytes,
	size_t limit, char *buf, size_t room, size_t *lengths, size_t max, size_t *need, char **err) {
	peers_rocksdb_scan *s = *scan;
	size_t n = 0, used = 0;
	*need = 0;
	if (s == NULL) {
		s = malloc(sizeof *s);
		s->end = malloc(end_bytes);
		memcpy(s->end, end, end_bytes);
		s->o = rocksdb_readoptions_create();
		rocksdb_readoptions_set_iterate_upper_bound(s->o, s->end, end_bytes);
		s->it = rocksdb_create_iterator(db, s->o);
		rocksdb_iter_seek(s->it, key, key_bytes);
	}
	while (n < limit && rocksdb_iter_valid(s->it)) {
		size_t bytes;
		const char *value = rocksdb_iter_value(s->it, &bytes);
		if (n == max || bytes > room - used) {
			if (n == 0) *need = bytes;
			*scan = s;
			return n;
		}
		memcpy(buf + used, value, bytes);
		used += bytes;
		lengths[n++] = bytes;
		if (n < limit) rocksdb_iter_next(s->it);
	}
	rocksdb_iter_get_error(s->it, err);
	peers_rocksdb_scan_close(s);
	*scan = NULL;
	return n;
}
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"
	"unsafe"

	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/partmap"
)

var rocksdbStore = candidate{
	name: "rocksdb",
	about: func() string {
		v := C.peers_rocksdb_version
		return fmt.Sprintf("RocksDB %d.%d.%d, own shim", v[0], v[1], v[2])
	},
	settings: "memtables of 64 MiB, 4 of them; LRU block cache 1 GiB, blocks of 16 KiB, bloom filters of 10 bits; LZ4, zstd in the last level; " +
		"dynamic level sizes, 2 background jobs; one call of C for a get, a put or 256 KiB of a scan; loads in batches of 1 MiB",
	open: openRocksDB,
}

func init() { cgoStores = append(cgoStores, rocksdbStore) }

type rocksDB struct {
	db    *C.rocksdb_t
	read  *C.rocksdb_readoptions_t
	write *C.rocksdb_writeoptions_t
	scans sync.Pool // of *rocksScan
}

// rocksScan is where a scan copies to.
type rocksScan struct {
	buf     []byte
	lengths [rocksScanItems]C.size_t
}

const (
	rocksScanBytes = 256 << 10
	rocksScanItems = 1024
)

// rocksError takes an error message of the library.
func rocksError(message *C.char) error {
	if message == nil {
		return nil
	}
	defer C.rocksdb_free(unsafe.Pointer(message))
	return errors.New(C.GoString(message))
}

func openRocksDB(_ context.Context, dir string, m mode) (store, error) {
	o := C.rocksdb_options_create()
	defer C.rocksdb_options_destroy(o)
	C.rocksdb_options_set_create_if_missing(o, 1)
	C.rocksdb_options_set_write_buffer_size(o, 64<<20)
	C.rocksdb_options_set_max_write_buffer_number(o, 4)
	C.rocksdb_options_set_level_compaction_dynamic_level_bytes(o, 1)
	C.rocksdb_options_set_max_background_jobs(o, 2)
	C.rocksdb_options_set_compression(o, C.rocksdb_lz4_compression)
	C.rocksdb_options_set_bottommost_compression(o, C.rocksdb_zstd_compression)
	cache := C.rocksdb_cache_create_lru(C.size_t(m.blockCache()))
	defer C.rocksdb_cache_destroy(cache)
	tables := C.rocksdb_block_based_options_create()
	defer C.rocksdb_block_based_options_destroy(tables)
	C.rocksdb_block_based_options_set_block_cache(tables, cache)
	C.rocksdb_block_based_options_set_block_size(tables, 16<<10)
	C.rocksdb_block_based_options_set_filter_policy(tables, C.rocksdb_filterpolicy_create_bloom_full(10))
	C.rocksdb_options_set_block_based_table_factory(o, tables)
	path := C.CString(dir)
	defer C.free(unsafe.Pointer(path))
	var message *C.char
	db := C.rocksdb_open(o, path, &message)
	if err := rocksError(message); err != nil {
		return nil, err
	}
	s := &rocksDB{db: db, read: C.rocksdb_readoptions_create(), write: C.rocksdb_writeoptions_create()}
	if m.Synced {
		C.rocksdb_writeoptions_set_sync(s.write, 1)
	}
	s.scans.New = func() any { return &rocksScan{buf: make([]byte, rocksScanBytes)} }
	return s, nil
}

func (s *rocksDB) Upsert(_ context.Context, key partmap.Key, id string, doc []byte) error {
	k := joinKey(key, id)
	defer k.release()
	var message *C.char
	C.rocksdb_put(s.db, s.write, chars(k.b), C.size_t(len(k.b)), chars(doc), C.size_t(len(doc)), &message)
	return rocksError(message)
}

func (s *rocksDB) Read(_ context.Context, key partmap.Key, id string, buf []byte) ([]byte, error) {
	k := joinKey(key, id)
	defer k.release()
	for {
		var bytes C.size_t
		var message *C.char
		found := C.peers_rocksdb_get(s.db, s.read, chars(k.b), C.size_t(len(k.b)), chars(buf), C.size_t(cap(buf)), &bytes, &message)
		if err := rocksError(message); err != nil {
			return buf, err
		}
		if found == 0 {
			return buf, measure.ErrNotFound
		}
		if int(bytes) <= cap(buf) {
			return buf[:bytes], nil
		}
		buf = make([]byte, 0, bytes)
	}
}

func (s *rocksDB) Scan(_ context.Context, key partmap.Key, from string, limit int, visit func([]byte)) error {
	k := joinKey(key, from)
	defer k.release()
	end := keys.Get().(*keyBuffer)
	defer end.release()
	end.b = afterPrefix(end.b[:0], key.Encoded())
	to := s.scans.Get().(*rocksScan)
	defer s.scans.Put(to)
	left := ^C.size_t(0)
	if limit > 0 {
		left = C.size_t(limit)
	}
	var scan *C.peers_rocksdb_scan
	for {
		var need C.size_t
		var message *C.char
		n := C.peers_rocksdb_fill(s.db, &scan, chars(k.b), C.size_t(len(k.b)), chars(end.b), C.size_t(len(end.b)),
			left, chars(to.buf), C.size_t(len(to.buf)), &to.lengths[0], rocksScanItems, &need, &message)
		if err := rocksError(message); err != nil {
			return err
		}
		at := C.size_t(0)
		for _, length := range to.lengths[:n] {
			visit(to.buf[at : at+length])
			at += length
		}
		left -= n
		if scan == nil {
			return nil
		}
		if need > 0 {
			to.buf = make([]byte, need)
		}
	}
}

func (s *rocksDB) Load(_ context.Context, docs iter.Seq[document]) error {
	batch := C.rocksdb_writebatch_create()
	defer C.rocksdb_writebatch_destroy(batch)
	size := 0
	flush := func() error {
		var message *C.char
		C.rocksdb_write(s.db, s.write, batch, &message)
		C.rocksdb_writebatch_clear(batch)
		size = 0
		return rocksError(message)
	}
	for doc := range docs {
		k := joinKey(doc.key, doc.id)
		C.rocksdb_writebatch_put(batch, chars(k.b), C.size_t(len(k.b)), chars(doc.body), C.size_t(len(doc.body)))
		k.release()
		if size += len(doc.body); size >= batchBytes {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

func (s *rocksDB) Settle(ctx context.Context) (time.Duration, error) {
	o := C.rocksdb_flushoptions_create()
	defer C.rocksdb_flushoptions_destroy(o)
	var message *C.char
	C.rocksdb_flush(s.db, o, &message)
	if err := rocksError(message); err != nil {
		return 0, err
	}
	return atRest(ctx, func() bool {
		for _, name := range []string{"rocksdb.mem-table-flush-pending", "rocksdb.num-running-flushes", "rocksdb.compaction-pending", "rocksdb.num-running-compactions"} {
			if s.property(name) > 0 {
				return true
			}
		}
		return false
	})
}

// property returns a number that the store knows about itself.
func (s *rocksDB) property(name string) uint64 {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	var x C.uint64_t
	C.rocksdb_property_int(s.db, c, &x)
	return uint64(x)
}

func (s *rocksDB) Close() error {
	C.rocksdb_readoptions_destroy(s.read)
	C.rocksdb_writeoptions_destroy(s.write)
	C.rocksdb_close(s.db)
	return nil
}
