package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// meteredStore is a store whose time moves only when it is told to.
type meteredStore struct {
	t       *testing.T
	db      *DB
	c       *Container
	o       *Options
	elapsed *atomic.Int64
}

func newMeteredStore(t *testing.T, def ContainerDef) *meteredStore {
	t.Helper()
	s := &meteredStore{t: t, elapsed: new(atomic.Int64)}
	start := time.Unix(1_000_000, 0)
	s.o = testOptions(vfs.NewMem())
	s.o.clock = func() time.Time { return start.Add(time.Duration(s.elapsed.Load())) }
	s.o.pause = s.pass
	s.open()
	def.PartitionKey = []string{"/k"}
	c, err := s.db.CreateContainer(context.Background(), "metered", def)
	if err != nil {
		t.Fatal(err)
	}
	s.c = c
	t.Cleanup(func() { s.db.Close() })
	return s
}

func (s *meteredStore) pass(d time.Duration) { s.elapsed.Add(int64(d)) }

func (s *meteredStore) open() {
	s.t.Helper()
	db, err := Open(context.Background(), "mem", s.o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.db = db
}

func (s *meteredStore) reopen() {
	s.t.Helper()
	if err := s.db.Close(); err != nil {
		s.t.Fatal(err)
	}
	s.open()
	c, err := s.db.Container("metered")
	if err != nil {
		s.t.Fatal(err)
	}
	s.c = c
}

// rates returns the RU/s of the partitions.
func (s *meteredStore) rates() (rates []float64) {
	for _, p := range s.c.routing.Load().parts {
		rate := 0.0
		if m := p.meter.Load(); m != nil {
			rate = m.Rate()
		}
		rates = append(rates, rate)
	}
	return rates
}

func (s *meteredStore) wantRates(want ...float64) {
	s.t.Helper()
	got := s.rates()
	same := len(got) == len(want)
	for i := 0; same && i < len(got); i++ {
		same = math.Abs(got[i]-want[i]) < 1e-6
	}
	if !same {
		s.t.Errorf("rates %v, not %v", got, want)
	}
}

// fill writes documents of as many keys, one a second.
func (s *meteredStore) fill(n int) {
	s.t.Helper()
	for i := range n {
		s.pass(time.Second)
		if _, err := s.c.Upsert(context.Background(), documentOf(fmt.Sprint(i), fmt.Sprint("k", i), 1<<10), nil); err != nil {
			s.t.Fatal(err)
		}
	}
}

// split splits the partition with this place.
func (s *meteredStore) split(place int) {
	s.t.Helper()
	s.done(s.c.Split(context.Background(), s.c.Partitions()[place].ID, nil))
}

// merge merges the partition with this place and the next one.
func (s *meteredStore) merge(place int) {
	s.t.Helper()
	parts := s.c.Partitions()
	s.done(s.c.Merge(context.Background(), parts[place].ID, parts[place+1].ID))
}

func (s *meteredStore) done(j *ReshapeJob, err error) {
	s.t.Helper()
	if err == nil {
		err = j.Wait(context.Background())
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// keyIn returns a key that lies in the partition with this place.
func (s *meteredStore) keyIn(place int) string {
	for i := 0; ; i++ {
		key := fmt.Sprint("k", i)
		epk := StringKey(key).EPK()
		if s.c.routing.Load().table.Find(&epk) == place {
			return key
		}
	}
}

// TestThrottled reads one key as fast as it is let, and another one now and
// then.
func TestThrottled(t *testing.T) {
	ctx := context.Background()
	s := newMeteredStore(t, ContainerDef{MinPartitions: 2, Throughput: 2000, NoBurst: true})
	s.wantRates(1000, 1000)
	hot, cold := s.keyIn(0), s.keyIn(1)
	s.pass(time.Second)
	for _, key := range []string{hot, cold} {
		if _, err := s.c.Upsert(ctx, documentOf("a", key, 1<<10), nil); err != nil {
			t.Fatal(err)
		}
	}
	spent, refused := 0.0, int64(0)
	for end := s.db.uptime() + 20*time.Second; s.db.uptime() < end; {
		it, err := s.c.Read(ctx, StringKey(hot), "a")
		if err == nil {
			spent += it.Charge
			continue
		}
		var throttled *ThrottledError
		if !errors.Is(err, ErrThrottled) || !errors.As(err, &throttled) || throttled.RetryAfter <= 0 {
			t.Fatal(err)
		}
		if refused++; refused%100 == 0 {
			if _, err := s.c.Read(ctx, StringKey(cold), "a"); err != nil {
				t.Fatal(err)
			}
		}
		s.pass(throttled.RetryAfter)
		if _, err := s.c.Read(ctx, StringKey(hot), "a"); err != nil {
			t.Fatalf("after %v: %v", throttled.RetryAfter, err)
		}
		spent++
	}
	if math.Abs(spent-20_000) > 400 {
		t.Errorf("%v RU in 20 s at 1,000 RU/s", spent)
	}
	if got := s.c.Partitions()[0].Throttled; got != refused {
		t.Errorf("%d refused, counted %d", refused, got)
	}
}

// TestThrottledWrite writes nothing while the partition owes.
func TestThrottledWrite(t *testing.T) {
	ctx := context.Background()
	s := newMeteredStore(t, ContainerDef{Throughput: 100})
	s.pass(time.Second)
	if _, err := s.c.Create(ctx, documentOf("a", "k", 1<<20), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.c.Create(ctx, documentOf("b", "k", 100), nil); !errors.Is(err, ErrThrottled) {
		t.Fatal(err)
	}
	if err := s.c.Delete(ctx, StringKey("k"), "a", nil); !errors.Is(err, ErrThrottled) {
		t.Fatal(err)
	}
	if err := s.c.SetThroughput(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.c.Read(ctx, StringKey("k"), "b"); err != ErrNotFound {
		t.Fatal(err)
	}
}

// TestThrottledLoops loads and scans in a container with little throughput:
// what has begun waits.
func TestThrottledLoops(t *testing.T) {
	ctx := context.Background()
	s := newMeteredStore(t, ContainerDef{MinPartitions: 2, Throughput: 1000, NoBurst: true})
	const n = 2000
	begun := s.db.uptime()
	stats, err := s.c.Load(ctx, func(yield func([]byte, error) bool) {
		for i := range n {
			if !yield(documentOf(fmt.Sprint(i), fmt.Sprint("k", i%50), 1<<10), nil) {
				return
			}
		}
	}, nil)
	if err != nil || stats.Committed != n {
		t.Fatal(stats, err)
	}
	if took := s.db.uptime() - begun; took < 9*time.Second {
		t.Errorf("a load of 10,000 RU took %v", took)
	}
	s.pass(time.Minute)
	begun = s.db.uptime()
	found := 0
	for _, err := range s.c.ScanAll(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		found++
	}
	if took := s.db.uptime() - begun; found != n || took < 3*time.Second {
		t.Errorf("%d items in %v", found, took)
	}
	s.pass(time.Minute)
	if _, err := s.c.Create(ctx, documentOf("large", "k0", 1<<20), nil); err != nil {
		t.Fatal(err)
	}
	loops := 0
	for _, err := range s.c.Scan(ctx, StringKey("k0"), IDRange{}, nil) {
		if loops++; !errors.Is(err, ErrThrottled) {
			t.Errorf("a scan while the partition owes: %v", err)
		}
	}
	if loops != 1 {
		t.Errorf("%d turns", loops)
	}
}

// TestThroughputSplits is the worked example of the model: 100,000 RU/s take 10
// partitions, 120,000 take more; less merges nothing. All of it is there after
// the next open.
func TestThroughputSplits(t *testing.T) {
	ctx := context.Background()
	s := newMeteredStore(t, ContainerDef{})
	s.wantRates(0)
	set := func(perSecond float64, parts int) {
		t.Helper()
		if err := s.c.SetThroughput(ctx, perSecond); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			var want []float64
			for range parts {
				want = append(want, perSecond/float64(parts))
			}
			s.wantRates(want...)
			if got := s.c.Def().Throughput; got != perSecond {
				t.Errorf("throughput %v, not %v", got, perSecond)
			}
			s.reopen()
		}
	}
	set(10_000, 1)
	set(100_000, 10)
	set(120_000, 12)
	set(24_000, 12)
	set(0, 12)
	for _, bad := range []float64{-1, 0.5, math.NaN(), math.Inf(1)} {
		if err := s.c.SetThroughput(ctx, bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// TestThroughputAtCreation begins with as many partitions as it takes.
func TestThroughputAtCreation(t *testing.T) {
	s := newMeteredStore(t, ContainerDef{Throughput: 2500, Limits: ContainerLimits{PartitionThroughput: 1000}})
	s.wantRates(2500.0/3, 2500.0/3, 2500.0/3)
}

// TestChildrenShareThroughput splits and merges partitions of a container: the
// parts stay equal, and what has been saved goes to the children.
func TestChildrenShareThroughput(t *testing.T) {
	s := newMeteredStore(t, ContainerDef{MinPartitions: 2, Throughput: 900})
	s.pass(time.Hour)
	s.fill(20)
	s.split(0)
	s.wantRates(300, 300, 300)
	if b := s.c.routing.Load().parts[0].meter.Load().Balance(s.db.uptime()); math.Abs(b-67_500) > 1000 {
		t.Errorf("a child may spend %v RU", b)
	}
	s.reopen()
	s.wantRates(300, 300, 300)
	s.merge(1)
	s.wantRates(450, 450)
}

// TestRedistribute moves throughput between partitions. The proportions stay, at
// the next open and for children.
func TestRedistribute(t *testing.T) {
	ctx := context.Background()
	s := newMeteredStore(t, ContainerDef{MinPartitions: 4, Throughput: 4000, Limits: ContainerLimits{PartitionThroughput: 3000}})
	s.fill(40)
	ids := func() (ids []PartitionID) {
		for _, p := range s.c.Partitions() {
			ids = append(ids, p.ID)
		}
		return ids
	}
	id := ids()
	for _, bad := range []struct {
		targets map[PartitionID]float64
		sources []PartitionID
		want    error
	}{
		{map[PartitionID]float64{id[0]: 2000}, nil, ErrInvalid},
		{map[PartitionID]float64{id[0]: 2000}, []PartitionID{id[1]}, ErrInvalid}, // nothing would be left
		{map[PartitionID]float64{id[0]: 2000}, []PartitionID{id[0], id[1]}, ErrInvalid},
		{map[PartitionID]float64{id[0]: 3001}, []PartitionID{id[1], id[2], id[3]}, ErrInvalid},
		{map[PartitionID]float64{id[0]: 1, id[1]: 1, id[2]: 1}, []PartitionID{id[3]}, ErrInvalid}, // too much for it
		{map[PartitionID]float64{id[0]: 0}, []PartitionID{id[1]}, ErrInvalid},
		{map[PartitionID]float64{id[0]: math.NaN()}, []PartitionID{id[1]}, ErrInvalid},
		{map[PartitionID]float64{999: 1000}, []PartitionID{id[1]}, ErrNotFound},
		{map[PartitionID]float64{id[0]: 1000}, []PartitionID{999}, ErrNotFound},
	} {
		if err := s.c.Redistribute(ctx, bad.targets, bad.sources...); !errors.Is(err, bad.want) {
			t.Errorf("%v from %v: %v", bad.targets, bad.sources, err)
		}
		s.wantRates(1000, 1000, 1000, 1000)
	}
	if err := s.c.Redistribute(ctx, map[PartitionID]float64{id[0]: 2500}, id[1], id[2], id[1]); err != nil {
		t.Fatal(err)
	}
	s.wantRates(2500, 250, 250, 1000)
	s.reopen()
	s.wantRates(2500, 250, 250, 1000)
	s.split(0)
	s.wantRates(1250, 1250, 250, 250, 1000)
	s.merge(3)
	s.wantRates(1250, 1250, 250, 1250)
	if err := s.c.SetThroughput(ctx, 2000); err != nil {
		t.Fatal(err)
	}
	s.wantRates(625, 625, 125, 625)
	s.reopen()
	id = ids()
	if err := s.c.Redistribute(ctx, map[PartitionID]float64{id[0]: 25, id[1]: 25}, id[2]); err != nil {
		t.Fatal(err)
	}
	s.wantRates(25, 25, 1325, 625)
	if err := s.c.SetThroughput(ctx, 12_000); err != nil {
		t.Fatal(err)
	}
	s.wantRates(150, 150, 3000, 3000) // of 7,950 and 3,750: no partition has more than 3,000
	if err := s.c.SetThroughput(ctx, 15_000); err != nil {
		t.Fatal(err)
	}
	s.wantRates(187.5, 187.5, 3000, 3000, 3000) // the largest part was split
	if err := s.c.Redistribute(ctx, nil); err != nil {
		t.Fatal(err)
	}
	s.wantRates(3000, 3000, 3000, 3000, 3000)
	if err := s.c.SetThroughput(ctx, 0); err != nil {
		t.Fatal(err)
	}
	for _, targets := range []map[PartitionID]float64{{id[0]: 25}, nil} {
		if err := s.c.Redistribute(ctx, targets, id[1]); !errors.Is(err, ErrInvalid) {
			t.Errorf("an unlimited container, targets %v: %v", targets, err)
		}
	}
}
