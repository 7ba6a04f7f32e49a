package host

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/replica/group"
)

// TestSnapshotOfBefore: a leader that hands over gives up the snapshot that it is sending. The next one sends its own at once.
func TestSnapshotOfBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.steady()
		id := r.cluster.Groups()[0].ID
		r.kill(3)
		for i := range 10 {
			r.pad(id, fmt.Sprint("key", i), strings.Repeat("x", 64<<10))
		}
		r.truncate()
		slow := r.hosts[1]
		slow.cfg.SnapshotBytesPerSecond = 4 << 10
		must(t, r.start(3))
		r.until("a snapshot is under way", func() bool { return len(slow.sending) > 0 })
		must(t, slow.Transfer(t.Context(), id, 2))
		r.until("node 3 has a snapshot", func() bool { return r.hosts[3].log.Group(id).Base().Index > group.Bootstrap })
		r.close()
	})
}

// TestCloseGivesUp: a node that is closed does not wait for a snapshot that it is installing, and gets one when it comes back.
func TestCloseGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.steady()
		r.kill(3)
		for range 30 {
			r.put(r.keyIn(0), 5*time.Second)
		}
		r.truncate()
		must(t, r.start(3))
		h, installs, late, closed := r.hosts[3], make(chan struct{}, 1), make(chan struct{}), make(chan error, 1)
		r.faulty[3].SetHook(func(c vfs.Call) error {
			if c.Op == vfs.OpRead && strings.HasPrefix(c.Name, incomingDir+"/") {
				select {
				case installs <- struct{}{}:
				default:
				}
				select { // the snapshot is long
				case <-h.ctx.Done():
				case <-late:
				}
			}
			return nil
		})
		<-installs
		go func() { closed <- h.Close() }()
		select {
		case err := <-closed:
			must(t, err)
		case <-time.After(200 * time.Millisecond):
			t.Error("it waits for the snapshot")
			close(late)
			must(t, <-closed)
		}
		delete(r.hosts, 3)
		must(t, r.start(3))
		r.check()
		r.close()
	})
}
