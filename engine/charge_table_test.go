package engine

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// withoutCharge are the methods that cost nothing, by name.
var withoutCharge = strings.Fields(`
	AppliedIndex AppliedTTL ApplyAt BaseKeys Close Container CopyTo Def DerivedKey DigestPartition DurableIndex Evict Explain
	ExportPartition FlushPartition History Hot In InstallPartition KeyOf LimitedKeys LogicalPartitions LogicalPartitionsFrom
	Merge MoveBoundary Name NewBatch Partitions PreviewSplit Redistribute RegisterTrigger ReplacePartition Seq SetDefaultKeyLimits SetDefaultTTL SetIndexPolicy SetKeyLimits SetThroughput Snapshot Split Usage`)

// TestChargeTable: docs/throughput.md says of each method that costs where its charge is, and
// of no other.
func TestChargeTable(t *testing.T) {
	text, err := os.ReadFile("../docs/throughput.md")
	must(t, err)
	_, table, _ := strings.Cut(string(text), "| call | its charge |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	listed := make(map[string]bool)
	for row := range strings.Lines(table) {
		for call := range strings.SplitSeq(strings.Split(row, "|")[1], ",") {
			listed[strings.Trim(call, " `")] = true
		}
	}
	found := make(map[string]bool)
	for _, of := range []reflect.Type{
		reflect.TypeFor[*Container](), reflect.TypeFor[*Snapshot](), reflect.TypeFor[TypedContainer[int]](),
	} {
		for i := range of.NumMethod() {
			name := of.Method(i).Name
			found[name] = true
			if listed[name] == slices.Contains(withoutCharge, name) {
				t.Errorf("%s.%s: want it either in the table of docs/throughput.md or among those that cost nothing", of, name)
			}
		}
	}
	for name := range listed {
		if !found[name] {
			t.Errorf("docs/throughput.md: no method %q", name)
		}
	}
	for _, name := range withoutCharge {
		if !found[name] {
			t.Errorf("no method %q", name)
		}
	}
}
