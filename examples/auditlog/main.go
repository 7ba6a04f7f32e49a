// Auditlog keeps the actions of the users of many tenants: a log to which events are
// only added, with hierarchical keys, and with events that expire.
//
//	go run ./examples/auditlog
//
// The key has two levels, /tenant and /user. A key by tenant alone would put all events
// of a large tenant into one logical partition, which is never divided and may
// hold 20 GiB. A key by user alone would scatter a tenant over the whole container.
// With both levels
//
//   - the events of one user are a logical partition, read in the order of their
//     ids, which begin with the time;
//   - a query about a tenant names the first level only, and goes to the
//     physical partitions with keys that begin with it, which are neighbours;
//   - a tenant may grow over any number of physical partitions.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// event is a line of the log.
type event struct {
	Tenant string    `json:"tenant"`
	User   string    `json:"user"`
	ID     string    `json:"id"` // see eventID
	At     time.Time `json:"at"`
	Action string    `json:"action"`
	Target string    `json:"target,omitempty"`
	Denied bool      `json:"denied"`
	// TTL is in seconds, -1: for ever. Without it the event lives as long as the
	// container says. The engine reads this member.
	TTL int64 `json:"ttl,omitempty"`
}

const (
	retention = 90 * 24 * time.Hour // of events that say nothing else
	forever   = -1
)

// auditLog is a container of events.
type auditLog struct {
	container *engine.Container
	events    engine.TypedContainer[event]
}

// openLog returns the log of a store, made if there is none.
func openLog(ctx context.Context, db *engine.DB) (auditLog, error) {
	c, err := db.EnsureContainer(ctx, "audit", engine.ContainerDef{
		PartitionKey:  []string{"/tenant", "/user"},
		DefaultTTL:    retention,
		MinPartitions: 4,
		Index:         engine.IndexPolicy{Include: []string{"/action/?", "/denied/?", "/id/?"}},
	})
	if err != nil {
		return auditLog{}, err
	}
	return auditLog{container: c, events: engine.Typed[event](c, nil)}, nil
}

// append adds an event. Nothing else of a log is ever written: Create refuses
// what is there already, so that a retry cannot count an event twice.
func (l auditLog) append(ctx context.Context, e event, o *engine.WriteOptions) (engine.Meta, error) {
	e.ID = eventID(e)
	return l.events.Create(ctx, e, o)
}

// eventID names an event: the time in UTC, as text of one length, so that the order
// of the ids is that of the times; then what tells events of a user at one moment apart.
func eventID(e event) string {
	id := e.At.UTC().Format("2006-01-02T15:04:05.000000Z") + " " + e.Action
	if e.Target != "" {
		id += " " + e.Target
	}
	return id
}

// ofUser returns the events of a user from a time on: a scan of one logical
// partition. It begins where the time says and reads nothing before it.
func (l auditLog) ofUser(ctx context.Context, tenant, user string, from time.Time, each func(event)) error {
	key := engine.JoinKeys(engine.StringKey(tenant), engine.StringKey(user))
	for e, err := range l.events.Scan(ctx, key, engine.IDRange{From: eventID(event{At: from})}, nil) {
		if err != nil {
			return err
		}
		each(e.Value)
	}
	return nil
}

// denied returns what any user of a tenant was refused: a query over all keys
// that begin with the tenant, ordered by time. That is by /id: the texts that JSON has of
// times, at /at, have as many digits and the zone that they happen to have.
func (l auditLog) denied(ctx context.Context, tenant string, each func(event)) (engine.QueryStats, error) {
	result := l.container.Query(ctx, engine.PrefixOf(engine.StringKey(tenant)), engine.Query{
		Where:   engine.Eq("/denied", true),
		OrderBy: []engine.QueryOrder{{Path: "/id"}},
	})
	for item, err := range result.All() {
		if err != nil {
			return engine.QueryStats{}, err
		}
		var e event
		if err := json.Unmarshal(item.Body, &e); err != nil {
			return engine.QueryStats{}, err
		}
		each(e)
	}
	return result.Stats(), nil
}

func main() {
	dir, err := os.MkdirTemp("", "auditlog")
	if err != nil {
		log.Fatal(err)
	}
	err = run(context.Background(), dir, os.Stdout)
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
}

// run writes a morning's events of three tenants and asks about them.
func run(ctx context.Context, dir string, out io.Writer) (err error) {
	db, err := engine.Open(ctx, dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	l, err := openLog(ctx, db)
	if err != nil {
		return err
	}
	nine := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	if err = l.morning(ctx, nine); err != nil {
		return err
	}

	fmt.Fprintln(out, "What grace of acme did from 9:30 on: one logical partition, in order")
	err = l.ofUser(ctx, "acme", "grace", nine.Add(30*time.Minute), func(e event) {
		fmt.Fprintf(out, "  %s  %-7s %s\n", e.At.Format("15:04"), e.Action, e.Target)
	})
	if err != nil {
		return err
	}

	fmt.Fprintln(out, "\nWhat users of acme were refused: all keys that begin with acme")
	stats, err := l.denied(ctx, "acme", func(e event) {
		fmt.Fprintf(out, "  %s  %-7s %-7s %s\n", e.At.Format("15:04"), e.User, e.Action, e.Target)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  (%d of %d physical partitions asked)\n", stats.Partitions, len(l.container.Partitions()))

	fmt.Fprintln(out, "\nWhat all tenants do: counted in the indexes, no document is read")
	q, err := engine.ParseQuery(`SELECT c.action, COUNT(1) AS n FROM c GROUP BY c.action`, nil)
	if err != nil {
		return err
	}
	for item, err := range l.container.Query(ctx, engine.AllPartitions(), q).All() {
		if err != nil {
			return err
		}
		var row struct {
			Action string
			N      int
		}
		if err := json.Unmarshal(item.Body, &row); err != nil {
			return err
		}
		fmt.Fprintf(out, "  %-7s %d\n", row.Action, row.N)
	}
	return l.lifetimes(ctx, nine, out)
}

// morning writes the events that the questions are about.
func (l auditLog) morning(ctx context.Context, nine time.Time) error {
	users := []struct{ tenant, name string }{
		{"acme", "grace"}, {"acme", "linus"}, {"acme", "margaret"}, {"globex", "grace"}, {"initech", "peter"},
	}
	for i, user := range users {
		for j := range 12 {
			e := event{Tenant: user.tenant, User: user.name, At: nine.Add(time.Duration(10*j+i) * time.Minute)}
			switch {
			case j == 0:
				e.Action = "login"
			case j%5 == 4:
				e.Action, e.Target, e.Denied = "delete", fmt.Sprintf("report-%d", j), i%2 == 1
			default:
				e.Action, e.Target = "read", fmt.Sprintf("report-%d", j)
			}
			if _, err := l.append(ctx, e, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// lifetimes shows how long events live, and one that goes.
func (l auditLog) lifetimes(ctx context.Context, at time.Time, out io.Writer) error {
	fmt.Fprintln(out, "\nHow long events live")
	written, err := l.append(ctx, event{Tenant: "acme", User: "auditor", At: at, Action: "login"}, nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  login: %v from its last write on, as the container says\n", written.Expires.Sub(written.Modified))
	written, err = l.append(ctx, event{Tenant: "acme", User: "auditor", At: at, Action: "grant", TTL: forever}, nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  grant: for ever, as its member \"ttl\" says; expires: %t\n", !written.Expires.IsZero())
	written, err = l.append(ctx, event{Tenant: "acme", User: "auditor", At: at, Action: "trace"},
		&engine.WriteOptions{TTL: 200 * time.Millisecond})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  trace: %v, as the call says\n", written.Expires.Sub(written.Modified))

	// Nobody sees an event from the moment on at which it expires. What it took
	// on disk comes back later, by itself.
	select {
	case <-time.After(time.Until(written.Expires) + time.Millisecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	fmt.Fprint(out, "  a moment later:")
	err = l.ofUser(ctx, "acme", "auditor", at, func(e event) { fmt.Fprintf(out, " %s", e.Action) })
	fmt.Fprintln(out)
	return err
}
