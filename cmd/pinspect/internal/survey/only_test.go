package survey

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/cleavetest"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
)

// TestOnly: of one physical partition, as many of its logical ones are listed as are asked
// for, however large those of others are, and no time of others counts.
func TestOnly(t *testing.T) {
	ctx := t.Context()
	at := time.Unix(2_000_000_000, 0).UTC()
	s := cleavetest.New(t, cleavetest.At(at))
	c, err := s.DB().CreateContainer(ctx, "c", engine.ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	cs := s.DB().Stats().Containers[0]
	first := cs.Partitions[0]
	put := func(inFirst bool, size int) (n int) {
		for i := range 20 {
			key := fmt.Sprint("k", i)
			epk := engine.StringKey(key).EPK()
			if strings.Compare(epk.String(), first.Max) < 0 != inFirst {
				continue
			}
			if _, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"a","k":%q,"text":%q}`, key, strings.Repeat("x", size)), nil); err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	others := put(false, 1000)
	s.Advance(time.Minute)
	own := put(true, 1)
	s.Advance(time.Minute)
	put(false, 1001)
	if own < 3 || others < 3 {
		t.Fatalf("%d keys in the first partition, %d in the other", own, others)
	}
	line := cli.NewLine(io.Discard, 0, at)

	census, err := TakeCensus(ctx, s.DB(), &cs, 3, uint32(first.ID), line)
	if err != nil || len(census.Top) != 3 || census.Partitions[0].Logical != int64(own) || census.Partitions[1] != (Tally{}) {
		t.Errorf("%+v, %v", census, err)
	}
	for _, l := range census.Top {
		if l.Partition != first.ID {
			t.Errorf("a logical partition of another: %+v", l)
		}
	}

	heat, err := TakeHeat(ctx, s.DB(), &cs, HeatOptions{Options: Options{Top: 100, Only: uint32(first.ID)}}, line)
	if err != nil || heat.Documents != int64(own) || len(heat.Hottest) != own || heat.Span() != ", at "+at.Add(time.Minute).Format(time.DateTime)+" UTC" {
		t.Errorf("%+v%s, %v", heat, heat.Span(), err)
	}
	heat, err = TakeHeat(ctx, s.DB(), &cs, HeatOptions{Options: Options{Top: 100}}, line)
	if err != nil || heat.Documents != int64(own+others) || !strings.HasSuffix(heat.Span(), " to "+at.Add(2*time.Minute).Format(time.DateTime)+" UTC") {
		t.Errorf("%+v%s, %v", heat, heat.Span(), err)
	}
}
