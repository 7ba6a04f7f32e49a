package engine

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cleavestore/cleave/index"
)

// DefinitionError says that EnsureContainer found a container that does not match the
// definition. It matches ErrExists.
type DefinitionError struct {
	Container string
	Field     string // of ContainerDef, such as "DefaultTTL" or "Limits.ItemBytes"
	Have      string // the container's value
	Asked     string // the value that was asked for
	Change    string // how to change it
}

// Error implements error.
func (e *DefinitionError) Error() string {
	return fmt.Sprintf("container %q: %v with %s %s, asked for was %s: %s", e.Container, ErrExists, e.Field, e.Have, e.Asked, e.Change)
}

// Unwrap returns ErrExists.
func (e *DefinitionError) Unwrap() error { return ErrExists }

// compare returns a *DefinitionError for the first part of def that the container does
// not match.
func (c *Container) compare(def *ContainerDef) error {
	const anew = "load the items into another container"
	have := c.Def()
	byCopy := "Container.CopyTo or pbench copy makes another container with it"
	if have.Kind != JSON || have.Replicated || have.Synthetic.rule().Random() {
		byCopy = anew
	}
	differs := func(field, is, asked, change string) error {
		return &DefinitionError{Container: c.name, Field: field, Have: is, Asked: asked, Change: change}
	}
	switch {
	case have.Kind != def.Kind:
		return differs("Kind", have.Kind.String(), def.Kind.String(), anew)
	case !have.Synthetic.rule().Equal(def.Synthetic.rule()):
		return differs("Synthetic", have.KeyText(), def.KeyText(), byCopy)
	case !slices.Equal(have.PartitionKey, def.PartitionKey):
		return differs("PartitionKey", have.KeyText(), def.KeyText(), byCopy)
	case !slices.EqualFunc(have.UniqueKeys, def.UniqueKeys, slices.Equal[[]string]):
		return differs("UniqueKeys", fmt.Sprint(have.UniqueKeys), fmt.Sprint(def.UniqueKeys), anew)
	case !def.Index.empty() && !sameIndex(c.family.Indexing.Load(), def):
		return differs("Index", indexText(have.Index), indexText(def.Index), "Container.SetIndexPolicy changes it")
	}
	for _, f := range []struct {
		name        string
		have, asked any
		change      string
	}{
		{"Compression", have.Compression, def.Compression, byCopy},
		{"DefaultTTL", have.DefaultTTL, ttlFromManifest(ttlToManifest(def.DefaultTTL)), byCopy},
		{"Throughput", have.Throughput, def.Throughput, "Container.SetThroughput changes it"},
		{"NoBurst", have.NoBurst, def.NoBurst, byCopy},
		{"Replicated", have.Replicated, def.Replicated, anew},
		{"ChangeRetention", have.ChangeRetention, def.ChangeRetention.Truncate(time.Millisecond), byCopy},
		{"Limits.ItemBytes", have.Limits.ItemBytes, def.Limits.ItemBytes, byCopy},
		{"Limits.LogicalPartitionBytes", have.Limits.LogicalPartitionBytes, def.Limits.LogicalPartitionBytes, "Container.SetDefaultKeyLimits changes it"},
		{"Limits.LogicalPartitionThroughput", have.Limits.LogicalPartitionThroughput, def.Limits.LogicalPartitionThroughput, "Container.SetDefaultKeyLimits changes it"},
		{"Limits.BatchOperations", have.Limits.BatchOperations, def.Limits.BatchOperations, byCopy},
		{"Limits.BatchBytes", have.Limits.BatchBytes, def.Limits.BatchBytes, byCopy},
		{"Limits.PartitionThroughput", have.Limits.PartitionThroughput, def.Limits.PartitionThroughput, byCopy},
	} {
		if !reflect.ValueOf(f.asked).IsZero() && f.asked != f.have {
			return differs(f.name, definitionText(f.have), definitionText(f.asked), f.change)
		}
	}
	return nil
}

// sameIndex says whether the policy of def, which was checked, is the present one.
func sameIndex(have *index.Compiled, def *ContainerDef) bool {
	asked, err := def.compileIndex(def.Index)
	return err == nil && have != nil && have.Fingerprint() == asked.Fingerprint()
}

func indexText(p IndexPolicy) string {
	switch {
	case p.empty():
		return "of nothing"
	case len(p.Exclude) == 0:
		return strings.Join(p.Include, ",")
	}
	return strings.Join(p.Include, ",") + " without " + strings.Join(p.Exclude, ",")
}

func definitionText(v any) string {
	if v == NoExpiry {
		return "NoExpiry"
	}
	return fmt.Sprint(v)
}
