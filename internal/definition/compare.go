package definition

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/jsondoc"
)

// Difference is a part of a definition that is not as it was asked for.
type Difference struct {
	Field  string // of engine.ContainerDef, such as "DefaultTTL" or "Limits.ItemBytes"
	Have   string
	Asked  string
	Change string // how to change it
}

// Compare returns the first part of asked that a container with the definition d does not
// match; nil: it matches. Kind, partition key and unique keys must be the same, and so
// must every other part of asked that is not zero, except for MinPartitions. Check has
// accepted both, but asked is without defaults.
func (d *Def) Compare(asked *Def) *Difference {
	const anew = "load the items into another container"
	const byLimits = "Container.SetDefaultKeyLimits changes it"
	byCopy := "Container.CopyTo makes another container with it"
	byKey := "Container.CopyTo or pbench copy makes another container with it"
	switch { // what CopyTo refuses
	case d.Kind != JSON || d.Replicated || asked.Replicated || d.Synthetic.Random() || asked.Synthetic.Random():
		byCopy, byKey = anew, anew
	case len(asked.UniqueKeys) > 0:
		byCopy = anew + ": Container.CopyTo makes none with unique keys"
		byKey = byCopy
	}
	byTTL := byCopy
	if d.MutableTTL && !d.Replicated {
		byTTL = "Container.SetDefaultTTL changes it"
	}
	switch {
	case d.Kind != asked.Kind:
		return &Difference{"Kind", d.Kind.String(), asked.Kind.String(), anew}
	case !d.Synthetic.Equal(asked.Synthetic):
		return &Difference{"Synthetic", d.KeyText(), asked.KeyText(), byCopy}
	case !jsondoc.SamePaths(d.PartitionKey, asked.PartitionKey):
		return &Difference{"PartitionKey", d.KeyText(), asked.KeyText(), byKey}
	case hashVersion(d.HashVersion) != hashVersion(asked.HashVersion):
		return &Difference{"HashVersion", hashVersion(d.HashVersion), hashVersion(asked.HashVersion), byCopy}
	case !slices.EqualFunc(d.UniqueKeys, asked.UniqueKeys, jsondoc.SamePaths):
		return &Difference{"UniqueKeys", fmt.Sprint(d.UniqueKeys), fmt.Sprint(asked.UniqueKeys), byCopy}
	case !asked.Index.Empty() && !sameIndex(d.Index, asked.Index):
		return &Difference{"Index", indexText(d.Index), indexText(asked.Index), "Container.SetIndexPolicy changes it"}
	}
	for _, f := range []struct {
		name        string
		have, asked any
		change      string
	}{
		{"Compression", d.Compression, asked.Compression, byCopy},
		{"DefaultTTL", d.DefaultTTL, Duration(Millis(asked.DefaultTTL)), byTTL},
		{"MutableTTL", d.MutableTTL, asked.MutableTTL, byCopy},
		{"Throughput", d.Throughput, asked.Throughput, "Container.SetThroughput changes it"},
		{"NoBurst", d.NoBurst, asked.NoBurst, byCopy},
		{"Replicated", d.Replicated, asked.Replicated, anew},
		{"ChangeRetention", d.ChangeRetention, asked.ChangeRetention.Truncate(time.Millisecond), byCopy},
		{"Limits.ItemBytes", d.Limits.ItemBytes, asked.Limits.ItemBytes, byCopy},
		{"Limits.LogicalPartitionBytes", d.Limits.LogicalPartitionBytes, asked.Limits.LogicalPartitionBytes, byLimits},
		{"Limits.LogicalPartitionThroughput", d.Limits.LogicalPartitionThroughput, asked.Limits.LogicalPartitionThroughput, byLimits},
		{"Limits.BatchOperations", d.Limits.BatchOperations, asked.Limits.BatchOperations, byCopy},
		{"Limits.BatchBytes", d.Limits.BatchBytes, asked.Limits.BatchBytes, byCopy},
		{"Limits.PartitionThroughput", d.Limits.PartitionThroughput, asked.Limits.PartitionThroughput, byCopy},
	} {
		if !reflect.ValueOf(f.asked).IsZero() && f.asked != f.have {
			return &Difference{f.name, text(f.have), text(f.asked), f.change}
		}
	}
	return nil
}

func hashVersion(v int) string { return fmt.Sprint(cmp.Or(v, 2)) }

// sameIndex says whether two policies index the same values.
func sameIndex(a, b index.Policy) bool {
	have, err := index.Compile(a)
	if err != nil || a.Empty() {
		return false
	}
	asked, err := index.Compile(b)
	return err == nil && have.Fingerprint() == asked.Fingerprint()
}

func indexText(p index.Policy) string {
	if p.Empty() {
		return "of nothing"
	}
	text := strings.Join(p.Include, ",")
	if len(p.Exclude) > 0 {
		text += " without " + strings.Join(p.Exclude, ",")
	}
	for _, paths := range p.Composite {
		text += " (" + index.CompositeText(paths) + ")"
	}
	return strings.TrimSpace(text)
}

func text(v any) string {
	if v == time.Duration(NoExpiry) {
		return "NoExpiry"
	}
	return fmt.Sprint(v)
}
