package serve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/protocol"
)

// TestTurns: a query that waits for its turn gets it when one before it is over, or is for nobody any more, and else is told to go
// elsewhere while it has time left.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queries{turns: make(chan struct{}, 2), ends: make(map[uint64]context.CancelFunc)}
		run := func(number uint64) chan error { // as a session does, with a query that has no end
			over := make(chan error, 1)
			ctx, end := q.begin(t.Context(), number)
			go func() {
				defer end()
				if err := q.turn(ctx); err != nil {
					over <- err
					return
				}
				<-ctx.Done()
				<-q.turns
				over <- ctx.Err()
			}()
			synctest.Wait()
			return over
		}
		first, second := run(1), run(2)
		begun := time.Now()
		third, fourth := run(3), run(4)
		q.cancel(2)
		synctest.Wait()
		if err := <-second; !errors.Is(err, context.Canceled) || len(q.turns) != 2 || len(third)+len(fourth) != 0 {
			t.Fatalf("after one was given up: %v, %d have their turns", err, len(q.turns))
		}
		q.cancel(9)        // none
		var late, up error // of the one that has no turn, and of the other
		select {
		case late = <-third:
			third = fourth
		case late = <-fourth:
		}
		if !errors.Is(late, group.ErrBusy) || time.Since(begun) != protocol.QueryTime/2 {
			t.Errorf("without a turn: %v, after %v", late, time.Since(begun))
		}
		if up = <-third; !errors.Is(up, context.DeadlineExceeded) {
			t.Errorf("with a turn: %v", up)
		}
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != protocol.QueryTime {
			t.Errorf("after its time: %v, after %v", err, time.Since(begun))
		}
		synctest.Wait()
		if len(q.ends) != 0 || len(q.turns) != 0 {
			t.Errorf("%d queries are kept, %d have turns", len(q.ends), len(q.turns))
		}
		ctx, end := q.begin(t.Context(), 5)
		q.cancel(5)
		for range 20 { // a place is free, and it is for nobody
			if err := q.turn(ctx); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		end()
	})
}

// fading is a context whose time is up when it was asked some times.
type fading struct {
	context.Context
	left int
}

func (f *fading) Err() error {
	if f.left--; f.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// TestTimeUp: a query whose time is up has what there was until then and goes on behind that; without anything it has an error.
func TestTimeUp(t *testing.T) {
	db, err := engine.Open(t.Context(), t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c, err := db.CreateContainer(t.Context(), "c", engine.ContainerDef{PartitionKey: []string{"/k"}})
	if err != nil {
		t.Fatal(err)
	}
	const items = 30
	for i := range items {
		if _, err := c.Upsert(t.Context(), fmt.Appendf(nil, `{"id":"i%02d","k":"k","s":"%02d%s"}`, i, i, strings.Repeat("x", 3<<10)), nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"SELECT VALUE c.s FROM c WHERE c.s >= '0'", "SELECT VALUE c.s FROM c WHERE c.s >= '0' OFFSET 0 LIMIT 30"} {
		r := &protocol.ReadRequest{Key: engine.StringKey("k"), Limit: 100, Query: protocol.Search{Text: text, Range: partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}}}
		next, short, nothing := 0, 0, 0
		for done, left := false, 0; !done; {
			var p protocol.Page
			err := evaluate(&fading{t.Context(), left}, c, r, &p)
			if errors.Is(err, context.DeadlineExceeded) && len(p.Rows) == 0 {
				nothing++
				left++
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range p.Rows {
				if got := string(row.Body[1:3]); got != fmt.Sprintf("%02d", next) {
					t.Fatalf("%s in the place of %d", got, next)
				}
				next++
			}
			r.Query.Continue, done = p.Continue, p.Done
			if !done {
				short++
			}
		}
		if next != items || short == 0 || nothing == 0 {
			t.Errorf("%s: %d results, %d pages that are short, %d with nothing", text, next, short, nothing)
		}
	}
}
