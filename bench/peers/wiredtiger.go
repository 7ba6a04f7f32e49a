//go:build wiredtiger

package main

/*
#cgo LDFLAGS: -lwiredtiger
#include <wiredtiger.h>
#include <stdlib.h>
#include <string.h>

#define PEERS_WT_TABLE "table:documents"

// A session and its cursor; a goroutine at a time uses them.
typedef struct {
	WT_SESSION *session;
	WT_CURSOR *cursor;
} peers_wt_session;

static int peers_wt_open_session(WT_CONNECTION *connection, peers_wt_session *s) {
	int code = connection->open_session(connection, NULL, NULL, &s->session);
	if (code == 0) code = s->session->open_cursor(s->session, PEERS_WT_TABLE, NULL, NULL, &s->cursor);
	return code;
}

static int peers_wt_open(const char *dir, const char *config, const char *table, WT_CONNECTION **connection) {
	WT_SESSION *session;
	int code = wiredtiger_open(dir, NULL, config, connection);
	if (code != 0) return code;
	code = (*connection)->open_session(*connection, NULL, NULL, &session);
	if (code == 0) code = session->create(session, PEERS_WT_TABLE, table);
	if (code == 0) code = session->close(session, NULL);
	if (code != 0) (*connection)->close(*connection, NULL);
	return code;
}

static int peers_wt_close(WT_CONNECTION *connection) { return connection->close(connection, NULL); }

static int peers_wt_checkpoint(peers_wt_session s) { return s.session->checkpoint(s.session, NULL); }

// get copies a value to buf if it is not longer than room.
static int peers_wt_get(peers_wt_session s, void *key, size_t key_bytes, char *buf, size_t room, size_t *bytes) {
	WT_ITEM k = {.data = key, .size = key_bytes}, v;
	s.cursor->set_key(s.cursor, &k);
	int code = s.cursor->search(s.cursor);
	if (code == 0) code = s.cursor->get_value(s.cursor, &v);
	if (code == 0) {
		*bytes = v.size;
		if (v.size <= room) memcpy(buf, v.data, v.size);
	}
	int reset = s.cursor->reset(s.cursor);
	return code != 0 ? code : reset;
}

// put writes pairs that lie one behind the other in memory: one of them by itself, several
// in a transaction that waits for no sync.
static int peers_wt_put(peers_wt_session s, char *memory, size_t *lengths, size_t pairs) {
	int code = 0;
	if (pairs > 1) code = s.session->begin_transaction(s.session, "sync=false");
	if (code != 0) return code;
	for (size_t i = 0; code == 0 && i < pairs; i++) {
		WT_ITEM k = {.data = memory, .size = lengths[2*i]}, v = {.data = memory + lengths[2*i], .size = lengths[2*i+1]};
		s.cursor->set_key(s.cursor, &k);
		s.cursor->set_value(s.cursor, &v);
		code = s.cursor->insert(s.cursor);
		memory += k.size + v.size;
	}
	if (pairs > 1) {
		if (code == 0) code = s.session->commit_transaction(s.session, NULL);
		else s.session->rollback_transaction(s.session, NULL);
	}
	s.cursor->reset(s.cursor);
	return code;
}

// scan begins at key if first is set, else goes on where the cursor stands, and ends before
// a key that does not begin with prefix bytes of it and after limit values. It copies values
// to buf, one behind the other, with their lengths to lengths, as far as they fit. More
// says that the cursor stands on the next value; need is the size of one that does not fit
// alone.
static int peers_wt_scan(peers_wt_session s, int first, void *key, size_t key_bytes, size_t prefix, size_t limit,
	char *buf, size_t room, size_t *lengths, size_t max, size_t *found, int *more, size_t *need) {
	WT_ITEM k = {.data = key, .size = key_bytes}, at, v;
	size_t n = 0, used = 0;
	int code = 0, exact = 0;
	*more = 0;
	*need = 0;
	if (first) {
		s.cursor->set_key(s.cursor, &k);
		code = s.cursor->search_near(s.cursor, &exact);
		if (code == 0 && exact < 0) code = s.cursor->next(s.cursor);
	}
	while (code == 0 && n < limit) {
		code = s.cursor->get_key(s.cursor, &at);
		if (code != 0 || at.size < prefix || memcmp(at.data, key, prefix) != 0) break;
		code = s.cursor->get_value(s.cursor, &v);
		if (code != 0) break;
		if (n == max || v.size > room - used) {
			if (n == 0) *need = v.size;
			*found = n;
			*more = 1;
			return 0;
		}
		memcpy(buf + used, v.data, v.size);
		used += v.size;
		lengths[n++] = v.size;
		if (n < limit) code = s.cursor->next(s.cursor);
	}
	*found = n;
	int reset = s.cursor->reset(s.cursor);
	if (code == WT_NOTFOUND) code = 0;
	return code != 0 ? code : reset;
}
*/
import "C"

import (
	"context"
	"fmt"
	"iter"
	"time"
	"unsafe"

	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/partmap"
)

var wiredTigerStore = candidate{
	name: "wiredtiger",
	about: func() string {
		var major, minor, patch C.int
		C.wiredtiger_version(&major, &minor, &patch)
		return fmt.Sprintf("WiredTiger %d.%d.%d, own shim", major, minor, patch)
	},
	settings: "cache 1 GiB, 4 eviction threads; blocks compressed by snappy, keys by prefix; log compressed by snappy, " +
		"transaction_sync fsync when synced, else none; a checkpoint each minute or 2 GB of log; " +
		"one call of C for a get, a put or 256 KiB of a scan; loads in transactions of 1 MiB",
	open: openWiredTiger,
}

func init() { cgoStores = append(cgoStores, wiredTigerStore) }

type wiredTiger struct {
	connection *C.WT_CONNECTION
	sessions   chan *wiredTigerSession // not in use
}

// wiredTigerSession is a session with the memory of its calls.
type wiredTigerSession struct {
	peer    C.peers_wt_session
	buf     []byte
	lengths [wiredTigerScanItems]C.size_t
}

const (
	wiredTigerSessions  = 1000
	wiredTigerScanBytes = 256 << 10
	wiredTigerScanItems = 1024
)

func wiredTigerError(call string, code C.int) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", call, C.GoString(C.wiredtiger_strerror(code)))
}

func openWiredTiger(_ context.Context, dir string, m mode) (store, error) {
	method := "none"
	if m.Synced {
		method = "fsync"
	}
	config := C.CString(fmt.Sprintf("create,cache_size=%d,session_max=%d,eviction=(threads_min=4,threads_max=4),"+
		"extensions=[libwiredtiger_snappy.so],log=(enabled,archive,compressor=snappy),"+
		"transaction_sync=(enabled,method=%s),checkpoint=(wait=60,log_size=2GB)", m.blockCache(), wiredTigerSessions+100, method))
	defer C.free(unsafe.Pointer(config))
	table := C.CString("key_format=u,value_format=u,block_compressor=snappy,prefix_compression")
	defer C.free(unsafe.Pointer(table))
	path := C.CString(dir)
	defer C.free(unsafe.Pointer(path))
	s := &wiredTiger{sessions: make(chan *wiredTigerSession, wiredTigerSessions)}
	return s, wiredTigerError("wiredtiger_open", C.peers_wt_open(path, config, table, &s.connection))
}

// session returns a session that nobody uses.
func (s *wiredTiger) session() (*wiredTigerSession, error) {
	select {
	case one := <-s.sessions:
		return one, nil
	default:
	}
	one := &wiredTigerSession{buf: make([]byte, wiredTigerScanBytes)}
	return one, wiredTigerError("open_session", C.peers_wt_open_session(s.connection, &one.peer))
}

// release takes a session back. Those above wiredTigerSessions stay open until Close.
func (s *wiredTiger) release(one *wiredTigerSession) {
	select {
	case s.sessions <- one:
	default:
	}
}

func (s *wiredTiger) Upsert(_ context.Context, key partmap.Key, id string, doc []byte) error {
	k := joinKey(key, id)
	defer k.release()
	lengths := [2]C.size_t{C.size_t(len(k.b)), C.size_t(len(doc))}
	k.b = append(k.b, doc...)
	return s.put(k.b, lengths[:])
}

// put writes pairs that lie one behind the other in memory.
func (s *wiredTiger) put(memory []byte, lengths []C.size_t) error {
	session, err := s.session()
	if err != nil {
		return err
	}
	defer s.release(session)
	for {
		code := C.peers_wt_put(session.peer, chars(memory), unsafe.SliceData(lengths), C.size_t(len(lengths)/2))
		if code != C.WT_ROLLBACK { // another goroutine wrote the same key
			return wiredTigerError("put", code)
		}
	}
}

func (s *wiredTiger) Read(_ context.Context, key partmap.Key, id string, buf []byte) ([]byte, error) {
	k := joinKey(key, id)
	defer k.release()
	session, err := s.session()
	if err != nil {
		return buf, err
	}
	defer s.release(session)
	for {
		var bytes C.size_t
		code := C.peers_wt_get(session.peer, unsafe.Pointer(unsafe.SliceData(k.b)), C.size_t(len(k.b)), chars(buf), C.size_t(cap(buf)), &bytes)
		if code == C.WT_NOTFOUND {
			return buf, measure.ErrNotFound
		}
		if err := wiredTigerError("get", code); err != nil {
			return buf, err
		}
		if int(bytes) <= cap(buf) {
			return buf[:bytes], nil
		}
		buf = make([]byte, 0, bytes)
	}
}

func (s *wiredTiger) Scan(_ context.Context, key partmap.Key, from string, limit int, visit func([]byte)) error {
	k := joinKey(key, from)
	defer k.release()
	session, err := s.session()
	if err != nil {
		return err
	}
	defer s.release(session)
	left := ^C.size_t(0)
	if limit > 0 {
		left = C.size_t(limit)
	}
	for first, more := C.int(1), C.int(1); more != 0; first = 0 {
		var found, need C.size_t
		code := C.peers_wt_scan(session.peer, first, unsafe.Pointer(unsafe.SliceData(k.b)), C.size_t(len(k.b)), C.size_t(len(key.Encoded())), left,
			chars(session.buf), C.size_t(len(session.buf)), &session.lengths[0], wiredTigerScanItems, &found, &more, &need)
		if err := wiredTigerError("scan", code); err != nil {
			return err
		}
		at := C.size_t(0)
		for _, length := range session.lengths[:found] {
			visit(session.buf[at : at+length])
			at += length
		}
		left -= found
		if need > 0 {
			session.buf = make([]byte, need)
		}
	}
	return nil
}

func (s *wiredTiger) Load(_ context.Context, docs iter.Seq[document]) error {
	return putPacked(docs, s.put)
}

func (s *wiredTiger) Settle(ctx context.Context) (time.Duration, error) {
	session, err := s.session()
	if err != nil {
		return 0, err
	}
	err = wiredTigerError("checkpoint", C.peers_wt_checkpoint(session.peer))
	s.release(session)
	if err != nil {
		return 0, err
	}
	return atRest(ctx, usesProcessor())
}

// Close closes all sessions too.
func (s *wiredTiger) Close() error {
	return wiredTigerError("close", C.peers_wt_close(s.connection))
}
