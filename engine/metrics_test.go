package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/metricset"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/metrics"
)

// TestMetricsComplete: a store in which everything is under way has a sample of each metric
// of the catalogue, with what happened in it.
func TestMetricsComplete(t *testing.T) {
	ctx := context.Background()
	o := testOptions(vfs.NewMem())
	clock := newTestClock(o)
	db, c := openStore(t, o, ContainerDef{PartitionKey: []string{"/k"}, Throughput: 100, NoBurst: true})
	clock.wall.Add(int64(1e10))
	throttled := 0
	for i := range 100 {
		if _, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":"a"}`, i), nil); errors.Is(err, ErrThrottled) {
			throttled++
		} else {
			must(t, err)
		}
	}
	snapshot, err := c.Snapshot(ctx)
	must(t, err)
	defer snapshot.Close()
	must(t, db.Flush(ctx))

	source, err := db.CreateContainer(ctx, "source", byK)
	must(t, err)
	must(t, second(source.Upsert(ctx, []byte(`{"id":"a","k":"b","l":"c"}`), nil)))
	must(t, db.Flush(ctx))
	copying, err := source.CopyTo(ctx, "target", ContainerDef{PartitionKey: []string{"/l"}})
	must(t, err)
	must(t, copying.Wait(ctx))
	j := &IndexJob{c: source} // under way: in a manual store none is
	j.begin(db, IndexProgress{})
	source.reindexing.job = j
	defer j.finish(nil)

	var m metrics.Snapshot
	for _, err := range source.Changes(ctx, AllPartitions(), FromStart(), nil) {
		must(t, err)
		clock.wall.Add(int64(5e9))
		set := metricset.New()
		m = db.metricsIn(set)
		if lost := set.Unknown(); len(lost) > 0 {
			t.Errorf("not in the catalogue: %q", lost)
		}
	}
	if len(m.Metrics) != len(metrics.Catalogue()) {
		have := make(map[string]bool)
		for _, each := range m.Metrics {
			have[each.Name] = true
		}
		for _, d := range metrics.Catalogue() {
			if !have[d.Name] {
				t.Errorf("there is no sample of %s", d.Name)
			}
		}
	}
	part := strconv.Itoa(int(c.Partitions()[0].ID))
	for _, want := range []struct {
		value  float64
		name   string
		labels []string
	}{
		{float64(throttled), "cleave_throttled_total", []string{"c"}},
		{float64(throttled), "cleave_partition_throttled_total", []string{"c", part}},
		{float64(100 - throttled), "cleave_container_documents", []string{"c"}},
		{100, "cleave_container_throughput", []string{"c"}},
		{1, "cleave_feeds", []string{"source"}},
		{1, "cleave_holders", []string{"snapshot"}},
		{5, "cleave_holder_age_seconds", []string{"snapshot"}},
		{1, "cleave_copied_documents", []string{"target"}},
		{0, "cleave_failed", nil},
		{0, "cleave_damage", []string{"c"}},
		{1, "cleave_reserve_kept", nil},
	} {
		if got, ok := m.Value(want.name, want.labels...); !ok || got != want.value {
			t.Errorf("%s%v: %v %v, want %v", want.name, want.labels, got, ok, want.value)
		}
	}
	if throttled == 0 {
		t.Error("no call was throttled")
	}
	if free, ok := m.Value("cleave_disk_free_bytes"); !ok || free <= 0 {
		t.Errorf("%v bytes are free", free)
	}
	text, err := json.Marshal(m)
	must(t, err)
	var tree map[string]any
	must(t, json.Unmarshal(text, &tree))
	if len(tree) != len(m.Metrics)+2 {
		t.Errorf("%d members in JSON, want %d", len(tree), len(m.Metrics)+2)
	}
	must(t, second(copying.Finish(ctx)))
	db.fail(errors.New("the device is gone"))
	m = db.Metrics()
	if failed, _ := m.Value("cleave_failed"); failed != 1 {
		t.Error("the store has failed, and metrics do not say so")
	}
}

// TestMetricsBounded: the number of samples does not grow with the store.
func TestMetricsBounded(t *testing.T) {
	ctx := context.Background()
	o := testOptions(vfs.NewMem())
	db, err := Open(ctx, "mem", o)
	must(t, err)
	defer db.Close()
	const over = 7
	for i := range metrics.MostContainers + over {
		c, err := db.CreateContainer(ctx, fmt.Sprintf("c%03d", i), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 3})
		must(t, err)
		must(t, second(c.Upsert(ctx, []byte(`{"id":"a","k":"b"}`), nil)))
	}
	m := db.Metrics()
	documents := 0.0
	for _, each := range m.Metrics {
		most := 6 * 4
		for _, label := range each.Labels {
			switch label {
			case "container":
				most = metrics.MostContainers + 1
			case "partition":
				most = metrics.MostPartitions
			}
		}
		if len(each.Samples) > most {
			t.Errorf("%s has %d samples", each.Name, len(each.Samples))
		}
		if each.Name == "cleave_container_documents" {
			for _, s := range each.Samples {
				documents += s.Value
			}
		}
	}
	if documents != metrics.MostContainers+over {
		t.Errorf("%v documents", documents)
	}
	if n, _ := m.Value("cleave_container_partitions", metrics.Rest); n != 3*over {
		t.Errorf("%v partitions in the rest", n)
	}
	if n, _ := m.Value("cleave_partitions_omitted"); n != 3*(metrics.MostContainers+over)-metrics.MostPartitions {
		t.Errorf("%v partitions are omitted", n)
	}
}

// TestMetricsRest: the counters of containers that share a label only grow, whichever these are.
func TestMetricsRest(t *testing.T) {
	ctx := t.Context()
	db, err := Open(ctx, "mem", testOptions(vfs.NewMem()))
	must(t, err)
	defer db.Close()
	containers := make(map[string]*Container)
	create := func(name string) {
		c, err := db.CreateContainer(ctx, name, ContainerDef{PartitionKey: []string{"/k"}})
		must(t, err)
		containers[name] = c
	}
	for i := range metrics.MostContainers + 2 {
		create(fmt.Sprintf("c%03d", i))
	}
	check := func(what string, want float64) {
		t.Helper()
		m := db.Metrics()
		if n, _ := m.Value("cleave_throttled_total", metrics.Rest); n != want {
			t.Errorf("%s: %v, want %v", what, n, want)
		}
	}
	containers["c099"].throttled.Add(10)
	containers["c100"].throttled.Add(5)
	containers["c101"].throttled.Add(3)
	check("two share it", 8)
	must(t, db.DropContainer(ctx, "c100"))
	check("one is dropped", 8)
	create("a")
	check("one that had a label of its own", 8)
	containers["c099"].throttled.Add(2)
	check("it counts on", 10)
	must(t, db.DropContainer(ctx, "a"))
	check("it has its label again", 10)
	m := db.Metrics()
	if n, _ := m.Value("cleave_throttled_total", "c099"); n != 10 {
		t.Errorf("its own: %v, want 10", n)
	}
}

// TestCountersNeverFall: not when the throughput is unlimited for a while, nor when a container takes the name of one that was dropped.
func TestCountersNeverFall(t *testing.T) {
	ctx := t.Context()
	def := ContainerDef{PartitionKey: []string{"/k"}, Throughput: 100, NoBurst: true, Limits: ContainerLimits{LogicalPartitionThroughput: 1}}
	s := newMeteredStore(t, def)
	last := make(map[string]float64)
	check := func(what string, grown ...string) {
		t.Helper()
		m := s.db.Metrics()
		part := fmt.Sprint(s.c.Partitions()[0].ID)
		for name, labels := range map[string][]string{
			"cleave_throttled_total": {"metered"}, "cleave_key_throttled_total": {"metered"},
			"cleave_partition_throttled_total": {"metered", part}, "cleave_partition_consumed_total": {"metered", part},
		} {
			n, shown := m.Value(name, labels...)
			at := fmt.Sprint(name, labels)
			if shown && (n < last[at] || n == last[at] && slices.Contains(grown, name)) {
				t.Errorf("%s: %s is %v after %v", what, at, n, last[at])
			}
			last[at] = max(n, last[at])
		}
	}
	refuse := func() {
		t.Helper()
		s.pass(time.Hour)
		must(t, second(s.c.Upsert(ctx, documentOf("a", "k", 1<<20), nil)))
		for _, key := range []string{"k", "other"} {
			if _, err := s.c.Upsert(ctx, documentOf("a", key, 1<<10), nil); !errors.Is(err, ErrThrottled) {
				t.Fatal(err)
			}
		}
	}
	ofContainer := []string{"cleave_throttled_total", "cleave_key_throttled_total"}
	all := append(ofContainer, "cleave_partition_throttled_total", "cleave_partition_consumed_total")
	refuse()
	check("refused", all...)
	must(t, s.c.SetThroughput(ctx, 0))
	check("unlimited")
	must(t, s.c.SetThroughput(ctx, 50))
	check("limited again")
	refuse()
	check("refused again", all...)
	must(t, s.db.DropContainer(ctx, "metered"))
	c, err := s.db.CreateContainer(ctx, "metered", def)
	must(t, err)
	s.c = c
	check("made again")
	refuse()
	check("refused in the new one", all...)
}

// TestMetricsClosed: Metrics may be called while the store is being closed, and afterwards;
// then there are none, rather than wrong ones.
func TestMetricsClosed(t *testing.T) {
	ctx := context.Background()
	db, c := openStore(t, &Options{MemoryBudget: minMemoryBudget})
	must(t, second(c.Upsert(ctx, []byte(`{"id":"a","k":"b"}`), nil)))
	must(t, db.Flush(ctx))
	must(t, second(c.Upsert(ctx, []byte(`{"id":"b","k":"b"}`), nil)))
	first, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ; n++ {
			m := db.Metrics()
			if n == 0 {
				close(first)
			}
			if len(m.Metrics) == 0 {
				return
			}
			if documents, _ := m.Value("cleave_container_documents", "c"); documents != 2 {
				t.Errorf("%v documents", documents)
			}
		}
	}()
	<-first
	must(t, db.Close())
	<-ended
	if m := db.Metrics(); len(m.Metrics) != 0 || m.Time.IsZero() {
		t.Errorf("a closed store: %+v", m)
	}
}

// TestSequencesBeginAtZero: the sequences of earlier lives of a store are none of what exporters say began at 0 when it was opened.
func TestSequencesBeginAtZero(t *testing.T) {
	fs := vfs.NewMem()
	for life, writes := range []int{5, 0, 3} {
		db, err := Open(t.Context(), "mem", testOptions(fs))
		must(t, err)
		c, err := db.EnsureContainer(t.Context(), "c", ContainerDef{PartitionKey: []string{"/k"}})
		must(t, err)
		for i := range writes {
			must(t, second(c.Upsert(t.Context(), fmt.Appendf(nil, `{"id":"%d","k":"a"}`, i), nil)))
		}
		m := db.Metrics()
		if got, ok := m.Value("cleave_sequences_total"); !ok || got != float64(writes) {
			t.Errorf("life %d: %v sequences, want %d", life, got, writes)
		}
		must(t, db.Close())
	}
}
