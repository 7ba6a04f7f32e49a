package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

// TestRecordBehindFence: the log has a write of a partition behind the fence that
// ended it. No store writes that, so the open is refused.
func TestRecordBehindFence(t *testing.T) {
	ctx := context.Background()
	s := newSplitStore(t, byK, func(o *Options) { o.keepInheritance = true })
	for i := range 20 {
		s.put(i, fmt.Sprint(i), "text")
	}
	parent := s.ids()[0]
	s.split(0, nil)
	var k item.Key
	var epk partmap.EPK
	fillKey(&k, &epk, StringKey("a").Encoded(), []byte("late"))
	v := item.Version{Modified: s.db.stamp(), Body: doc("late", "a", 1)}
	_, _, err := s.db.log.Append(wal.Stream(parent), wal.TypeWrite, 1, logrecord.AppendHead(nil, &k, &v), v.Body)
	must(t, err)
	must(t, s.db.log.Sync())
	db, err := Open(ctx, "fenced", testOptions(s.mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone})))
	if err == nil {
		db.Close()
	}
	if !errors.Is(err, ErrCorrupt) {
		t.Errorf("open: %v", err)
	}
}
