package gateway

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway/internal/keyrange"
	"github.com/cleavestore/cleave/partmap"
)

// Store has the containers that a Handler serves. New makes one of an engine.DB; Over takes
// another one, such as a cluster of replicas. Its methods may be called from many goroutines.
//
// A method with the name of one of engine.DB does the same and returns the same errors. A *Fault
// that a method returns is what the client gets; a Store answers so what it does not do.
type Store interface {
	// Container is given the definition with which CreateContainer was called. A container of the name
	// with another partition key or other unique keys was made by another program: the error is engine.ErrNoContainer.
	// With the zero definition Container only tells whether there is a container; its result is not used.
	Container(ctx context.Context, name string, def engine.ContainerDef) (Items, error)
	CreateContainer(ctx context.Context, name string, def engine.ContainerDef) (Items, error)
	EnsureContainer(ctx context.Context, name string, def engine.ContainerDef) (Items, error)
	DropContainer(ctx context.Context, name string) error
	// LastSeq returns the sequence of the newest write. Session tokens have it, unless the Store has Sessions.
	LastSeq() uint64
	// Splitting reports whether a physical partition of a container is being split.
	Splitting(name string) bool
}

// Sessions is what a Store has besides, if the protocol's session tokens and consistency levels
// mean something to it. Without it reads are strong.
type Sessions interface {
	// Begin begins a request at a consistency level, by its name in the protocol, and with the session token
	// that the client has sent, "" for none. The calls of the request have the context that it
	// returns. Error: engine.ErrInvalid for a token that is none.
	Begin(ctx context.Context, level, token string) (context.Context, error)
	// Token returns the token of what the calls of a request have written and seen, "" if that is nothing.
	Token(ctx context.Context) string
}

// Items is a container of a Store. A method with the name of one of engine.Container does the same
// and returns the same errors.
type Items interface {
	Def() engine.ContainerDef
	KeyOf(doc []byte) (engine.PartitionKey, error)
	Read(ctx context.Context, key engine.PartitionKey, id string) (engine.Item, error)
	ReadMany(ctx context.Context, items []engine.ItemIdentity) iter.Seq2[engine.ReadManyResult, error]
	Scan(ctx context.Context, key engine.PartitionKey, ids engine.IDRange, o *engine.ScanOptions) iter.Seq2[engine.Item, error]
	Create(ctx context.Context, doc []byte, o *engine.WriteOptions) (engine.Meta, error)
	Replace(ctx context.Context, doc []byte, o *engine.WriteOptions) (engine.Meta, error)
	Upsert(ctx context.Context, doc []byte, o *engine.WriteOptions) (engine.Meta, error)
	// UpsertAll upserts documents of one logical partition, all or none, durably. It may be called within fn of
	// Transact, of which it is no part.
	UpsertAll(ctx context.Context, key engine.PartitionKey, docs [][]byte) ([]engine.Meta, error)
	Delete(ctx context.Context, key engine.PartitionKey, id string, o *engine.WriteOptions) error
	DeleteLogicalPartition(ctx context.Context, key engine.PartitionKey, o *engine.WriteOptions) error
	// Transact is engine.Container.UpdateWith.
	Transact(ctx context.Context, key engine.PartitionKey, o *engine.UpdateOptions, fn func(Tx) error) ([]engine.Meta, error)
	// Find runs a page of a query.
	Find(ctx context.Context, s *Search) Rows
	Explain(ctx context.Context, scope engine.Scope, q engine.Query) (engine.QueryPlan, error)
	// Changes shows a page of a change feed and returns the position behind it.
	Changes(ctx context.Context, f *Feed, show func(*engine.Change)) (at string, err error)

	// Ranges returns the physical partitions in the order of the key space.
	Ranges() []Partition
	// Ancestors returns the ids of all that each of some partitions descends from, as far as is known.
	Ancestors(of []Partition) map[string][]string
	// PastRange returns the bounds of a partition that was split or merged, as far as is known.
	PastRange(id string) (lo, hi string, ok bool)
	// SplitRange splits a partition, and returns when it is split. A Store that splits by rules of its own does nothing.
	SplitRange(ctx context.Context, id string) error

	SetDefaultTTL(ctx context.Context, ttl time.Duration) error
	SetIndexPolicy(ctx context.Context, p engine.IndexPolicy) error
	SetThroughput(ctx context.Context, perSecond float64) error
}

// Tx is a transaction, as engine.Tx is one.
type Tx interface {
	Read(id string) (engine.Item, error)
	Scan(ids engine.IDRange, o *engine.ScanOptions) iter.Seq2[engine.Item, error]
	Create(doc []byte, o *engine.WriteOptions) error
	Replace(doc []byte, o *engine.WriteOptions) error
	Upsert(doc []byte, o *engine.WriteOptions) error
	Patch(id string, p *engine.Patch, o *engine.WriteOptions) error
	Delete(id string, o *engine.WriteOptions) error
}

// Place is a part of a container, in two forms: as the engine takes it, and by its keys.
type Place struct {
	Scope  engine.Scope
	Key    engine.PartitionKey // what Scope is about, a whole key or its first levels; the zero key: all
	Within partmap.Range       // what lies outside is left out
}

// Search is a page of a query, in two forms: as the engine takes it, and as texts and bounds.
type Search struct {
	Place
	Query engine.Query // Limit and Continue are those of the page

	// Text and Parameters are what Query was read from. Parameters may have functions of the client.
	Text       string
	Parameters map[string]any
	// Named says that the request names a key or a range; else Within is all.
	Named bool
	// Page is how many results the page has at most. Those beyond, up to Query.Limit, only tell whether there are more.
	Page int
	// Sorted says that the results of several logical partitions are more than those of each, one after the other.
	Sorted bool
}

// Rows are the results of a Search, as engine.QueryResult has them. Continue may be "" behind a result that is not the last
// one of the page: then the page is to go on.
type Rows interface {
	All() iter.Seq2[engine.Item, error]
	Stats() engine.QueryStats
	Continue() string
	ShortContinue() string
}

// Feed is a page of a change feed.
type Feed struct {
	Place
	From        string // what Changes has returned, or the text of an engine.ChangePosition that is none of a place in the feed
	AllVersions bool
	Page        int      // how many changes it has at most
	Charge      *float64 // gets what it costs, in RU
}

// Partition is a physical partition.
type Partition struct {
	// ID names its part of the key space: a partition with other bounds has another one, for ever.
	ID       string
	Min, Max string // as engine.PartitionStats has them
	Items    int64  // at most; -1: it is not known, nor is RawBytes
	RawBytes int64
	Visible  uint64 // sequence up to which it shows all writes
	Parents  []string
}

// local is the store of an engine.DB.
type local struct{ db *engine.DB }

func (l local) Container(ctx context.Context, name string, def engine.ContainerDef) (Items, error) {
	c, err := l.db.Container(name)
	if err == nil && len(def.PartitionKey) > 0 {
		_, err = l.db.EnsureContainer(ctx, name, engine.ContainerDef{PartitionKey: def.PartitionKey, HashVersion: def.HashVersion, UniqueKeys: def.UniqueKeys})
	}
	if errors.Is(err, engine.ErrExists) {
		err = fmt.Errorf("%w: %w", engine.ErrNoContainer, err)
	}
	return itemsOf(c, err)
}

func (l local) CreateContainer(ctx context.Context, name string, def engine.ContainerDef) (Items, error) {
	return itemsOf(l.db.CreateContainer(ctx, name, def))
}

func (l local) EnsureContainer(ctx context.Context, name string, def engine.ContainerDef) (Items, error) {
	return itemsOf(l.db.EnsureContainer(ctx, name, def))
}

func (l local) DropContainer(ctx context.Context, name string) error {
	return l.db.DropContainer(ctx, name)
}

func (l local) LastSeq() uint64 { return l.db.Stats().LastSeq }

func (l local) Splitting(name string) bool {
	return slices.ContainsFunc(l.db.Jobs(), func(j engine.JobStats) bool { return j.Kind == "split" && j.Container == name })
}

// localItems is a container of an engine.DB.
type localItems struct{ *engine.Container }

func itemsOf(c *engine.Container, err error) (Items, error) {
	if err != nil {
		return nil, err
	}
	return localItems{c}, nil
}

func (l localItems) UpsertAll(ctx context.Context, key engine.PartitionKey, docs [][]byte) ([]engine.Meta, error) {
	b := l.NewBatch(key)
	b.Durability = engine.Synced
	for _, doc := range docs {
		if err := b.Upsert(doc, nil); err != nil {
			return nil, err
		}
	}
	return l.Commit(ctx, b)
}

func (l localItems) Transact(ctx context.Context, key engine.PartitionKey, o *engine.UpdateOptions, fn func(Tx) error) ([]engine.Meta, error) {
	return l.UpdateWith(ctx, key, o, func(tx *engine.Tx) error { return fn(tx) })
}

func (l localItems) Find(ctx context.Context, s *Search) Rows { return l.Query(ctx, s.Scope, s.Query) }

func (l localItems) Changes(ctx context.Context, f *Feed, show func(*engine.Change)) (string, error) {
	at, err := engine.ParsePosition(f.From)
	if err != nil {
		return "", err
	}
	o := &engine.ChangeOptions{AllVersions: f.AllVersions, Charge: f.Charge, Progress: func(p engine.ChangePosition) { at = p }}
	count, size := 0, 0
	for ch, err := range l.Container.Changes(ctx, f.Scope, at, o) {
		if err != nil {
			return "", err
		}
		show(&ch)
		if count, size = count+1, size+len(ch.Body); count == f.Page || size >= pageBytes {
			return ch.Position().String(), nil
		}
	}
	return at.String(), nil
}

func rangeID(id engine.PartitionID) string { return strconv.FormatUint(uint64(id), 10) }

func (l localItems) Ranges() []Partition {
	stats := l.Partitions()
	parts := make([]Partition, len(stats))
	for i := range stats {
		p := &stats[i]
		parts[i] = Partition{ID: rangeID(p.ID), Min: p.Min, Max: p.Max, Items: p.Items, RawBytes: p.RawBytes, Visible: p.Visible}
		for _, parent := range p.Parents {
			parts[i].Parents = append(parts[i].Parents, rangeID(parent))
		}
	}
	return parts
}

func (l localItems) Ancestors(of []Partition) map[string][]string {
	parents := make(map[string][]string, len(of))
	for i := range of {
		parents[of[i].ID] = of[i].Parents
	}
	return keyrange.Ancestors(l.History(), parents)
}

func (l localItems) PastRange(id string) (lo, hi string, ok bool) {
	for _, past := range l.History() {
		for _, p := range past.Parents {
			if rangeID(p.ID) == id && p.Max != "" {
				return p.Min, p.Max, true
			}
		}
	}
	return "", "", false
}

func (l localItems) SplitRange(ctx context.Context, id string) error {
	n, err := strconv.ParseUint(id, 10, 32)
	if err != nil {
		return err
	}
	job, err := l.Split(ctx, engine.PartitionID(n), nil)
	if err != nil {
		return err
	}
	return job.Wait(ctx)
}

func (l localItems) SetIndexPolicy(ctx context.Context, p engine.IndexPolicy) error {
	_, err := l.Container.SetIndexPolicy(ctx, p)
	return err
}
