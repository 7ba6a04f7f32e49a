package host_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/protocol"
	"github.com/cleavestore/cleave/replica/serve"
)

// levels is a cluster of one group whose third node can be cut off from the others.
type levels struct {
	*host.Rig
	t      *testing.T
	key    engine.PartitionKey
	text   string
	writer *client.Client // asks the leader, as all writers do
	reader *client.Client // asks the third node first
	bounds protocol.Bounds
}

func openLevels(t *testing.T) *levels {
	l := &levels{Rig: host.NewRig(t, 1, serve.Client), t: t, bounds: protocol.Bounds{Age: 2 * time.Second, Entries: 1 << 40}}
	l.text = l.KeyIn(0)
	l.key = engine.StringKey(l.text)
	l.writer, l.reader = l.client(0), l.client(3)
	l.Steady()
	l.put(1)
	time.Sleep(time.Second)
	return l
}

func (l *levels) client(near uint64) *client.Client {
	c := client.New(client.Config{Cluster: l.Cluster(), Credentials: l.Credentials(), Dial: l.Network().Dialer(clientAddress), Near: near, Bounds: l.bounds})
	l.t.Cleanup(c.Close)
	return c
}

// cut cuts the third node off from the other nodes, not from clients.
func (l *levels) cut(on bool) {
	for id := uint64(1); id <= 2; id++ {
		a, b := l.Cluster().Node(id).Address, l.Cluster().Node(3).Address
		l.Network().Cut(a, b, on)
		l.Network().Cut(b, a, on)
	}
}

func (l *levels) put(n int) {
	l.t.Helper()
	_, err := l.writer.Upsert(within(20*time.Second), "items", l.key, fmt.Appendf(nil, `{"id":"i","k":%q,"n":%d}`, l.text, n))
	must(l.t, err)
}

// sees checks what a read sees, of an item and of a page.
func (l *levels) sees(what string, v client.View, want int) {
	l.t.Helper()
	doc := fmt.Sprintf(`{"id":"i","k":%q,"n":%d}`, l.text, want)
	it, err := v.Read(within(20*time.Second), "items", l.key, "i")
	if err != nil || string(it.Body) != doc {
		l.t.Errorf("%s: a read at the level %v sees %s, %v; want %s", what, v.Level, it.Body, err, doc)
	}
	items, _, err := v.Scan(within(20*time.Second), "items", l.key, "", 10)
	if err != nil || len(items) != 1 || string(items[0].Body) != doc {
		l.t.Errorf("%s: a scan at the level %v sees %v, %v; want %s", what, v.Level, items, err, doc)
	}
}

func (l *levels) close() {
	l.writer.Close()
	l.reader.Close()
	l.Close()
}

// TestLevels: what each level sees at a replica that lags, and what makes it see more.
func TestLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openLevels(t)
		at := func(level protocol.Level) client.View {
			return client.View{Client: l.reader, Session: client.NewSession(), Level: level}
		}
		for _, level := range []protocol.Level{protocol.Strong, protocol.Bounded, protocol.Session, protocol.Prefix, protocol.Eventual} {
			l.sees("all is well", at(level), 1)
		}
		l.cut(true)
		l.put(2)
		for _, level := range []protocol.Level{protocol.Prefix, protocol.Eventual, protocol.Session} {
			l.sees("cut off, nothing demanded", at(level), 1)
		}
		l.sees("cut off, not long ago", at(protocol.Bounded), 1)

		session := at(protocol.Session)
		must(t, session.Session.Join(l.writer.Session().Token()))
		l.sees("cut off, in the writer's session", session, 2)
		l.sees("cut off", at(protocol.Strong), 2)

		l.cut(false)
		time.Sleep(5 * time.Second)
		l.sees("together again", at(protocol.Eventual), 2)
		l.close()
	})
}

// TestBoundedStaleness: a replica that is cut off answers for as long as the bound allows, and not
// longer; and no more entries than the bound allows may be missing of those that the client has
// heard of.
func TestBoundedStaleness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openLevels(t)
		v := client.View{Client: l.reader, Session: client.NewSession(), Level: protocol.Bounded, Bounds: protocol.Bounds{Age: 1500 * time.Millisecond, Entries: 1 << 40}}
		time.Sleep(5 * time.Second) // what was confirmed before is too old
		l.sees("before", v, 1)
		l.cut(true)
		l.put(2)
		time.Sleep(time.Second)
		l.sees("cut off for a second", v, 1)
		time.Sleep(time.Second)
		l.sees("cut off for two seconds", v, 2)

		l.cut(false)
		time.Sleep(5 * time.Second)
		v.Bounds.Age = time.Minute
		l.sees("together again", v, 2)
		l.cut(true)
		for n := 3; n <= 7; n++ {
			l.put(n)
		}
		heard := v
		heard.Client = l.client(3)
		_, err := heard.Client.Upsert(within(5*time.Second), "items", l.key, fmt.Appendf(nil, `{"id":"i","k":%q,"n":8}`, l.text))
		must(t, err)
		heard.Bounds.Entries = 6
		l.sees("six entries are missing", heard, 2)
		heard.Bounds.Entries = 5
		l.sees("one more than may be missing", heard, 8)
		heard.Client.Close()
		l.close()
	})
}

// TestSessionIsMonotonic: in a session nothing that was seen goes away, also if it was seen
// by an eventual read, when the leader dies, and at a replica that lags.
func TestSessionIsMonotonic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openLevels(t)
		l.cut(true)
		for n := 2; n <= 5; n++ {
			l.put(n)
		}
		time.Sleep(time.Second) // the second node has been told what was committed
		l.Kill(1)               // the leader; the second node cannot lead alone
		seen := l.client(2)     // has not written
		own := seen.View(protocol.Eventual)
		l.sees("at the second node", own, 5)
		l.cut(false)
		later := client.View{Client: l.reader, Session: client.NewSession(), Level: protocol.Session}
		must(t, later.Session.Join(seen.Session().Token()))
		for range 10 {
			l.sees("after the leader's death", later, 5)
		}
		if _, err := later.Read(within(time.Second), "items", l.key, "none"); !errors.Is(err, engine.ErrNotFound) {
			t.Error(err)
		}
		l.put(6)
		must(t, l.Start(1))
		mine := l.writer.View(protocol.Session)
		for range 10 {
			l.sees("in the client's own session", mine, 6)
		}
		seen.Close()
		l.close()
	})
}

// TestStrangers: a session that knows of a group of which the client does not, as another
// client does after a split, reads strongly.
func TestStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openLevels(t)
		l.cut(true)
		l.put(2)
		v := client.View{Client: l.reader, Session: client.NewSession(), Level: protocol.Session}
		l.sees("nothing demanded", v, 1)
		must(t, v.Session.Join("987654321:-1#1"))
		l.sees("a group that split off may have been seen", v, 2)
		l.close()
	})
}
