package transport

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/cleavestore/cleave/replica/internal/memnet"
)

// recorder notes what comes.
type recorder struct {
	mu       sync.Mutex
	got      []string
	snapshot func(*Incoming) error
	deaf     bool // nothing is read from clients
}

func (r *recorder) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, fmt.Sprintf(format, args...))
}

func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.got
	r.got = nil
	return out
}

func (r *recorder) Message(from, group uint64, m *pb.Message) {
	r.note("%d %d %v %d", from, group, m.GetType(), m.GetIndex())
}
func (r *recorder) Connected(node uint64)                         { r.note("connected %d", node) }
func (r *recorder) Disconnected(node uint64)                      { r.note("disconnected %d", node) }
func (r *recorder) Superseded(incarnation uint64)                 { r.note("superseded by %d", incarnation) }
func (r *recorder) Snapshot(_ context.Context, s *Incoming) error { return r.snapshot(s) }
func (r *recorder) Client(_ context.Context, c *Conn) {
	if r.deaf {
		<-c.Done()
		return
	}
	for {
		kind, payload, err := c.Read()
		if err != nil {
			return
		}
		c.Send(kind+1, func(dst []byte) []byte { return append(dst, payload...) })
	}
}

// credentials makes an authority and the credentials of some nodes and, with id 0, a client.
func credentials(t testing.TB, ids ...uint64) map[uint64]*Credentials {
	t.Helper()
	dir := t.TempDir()
	if _, err := NewAuthority(dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	a, err := LoadAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[uint64]*Credentials)
	for _, id := range ids {
		d := filepath.Join(dir, fmt.Sprint(id))
		err := os.Mkdir(d, 0o700)
		if err == nil && id == 0 {
			err = a.IssueClient(d, time.Now())
		} else if err == nil {
			err = a.IssueNode(d, id, time.Now())
		}
		if err == nil {
			out[id], err = LoadCredentials(d)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func address(id uint64) string { return fmt.Sprint("node", id) }

// node starts a Transport in memory.
func node(n *memnet.Network, id uint64, c *Credentials, others ...uint64) (*Transport, *recorder) {
	r := new(recorder)
	peers := make(map[uint64]string)
	for _, o := range others {
		peers[o] = address(o)
	}
	return New(Config{Node: id, Credentials: c, Peers: peers, Listener: n.Listen(address(id)), Dial: n.Dialer(address(id)), Handler: r}), r
}

func heartbeat(index uint64) *pb.Message {
	return &pb.Message{Type: pb.MsgHeartbeat.Enum(), To: new(uint64(2)), From: new(uint64(1)), Index: &index}
}

// TestMessages: messages of all groups come in order, in both directions, and a node that was
// killed is missed at once and found again.
func TestMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n memnet.Network
		c := credentials(t, 1, 2)
		one, r1 := node(&n, 1, c[1], 2)
		two, r2 := node(&n, 2, c[2], 1)
		time.Sleep(redialMost) // the first dial may have come too early
		for i := range uint64(3) {
			if !one.Send(2, i, heartbeat(i)) || !two.Send(1, 10+i, heartbeat(i)) {
				t.Error("not sent")
			}
		}
		if one.Send(3, 1, heartbeat(1)) {
			t.Error("sent to a node that is not there")
		}
		synctest.Wait()
		if got, want := strings.Join(r2.take(), ","), "connected 1,1 0 MsgHeartbeat 0,1 1 MsgHeartbeat 1,1 2 MsgHeartbeat 2"; got != want {
			t.Errorf("node 2 has got %s", got)
		}
		if got, want := strings.Join(r1.take(), ","), "connected 2,2 10 MsgHeartbeat 0,2 11 MsgHeartbeat 1,2 12 MsgHeartbeat 2"; got != want {
			t.Errorf("node 1 has got %s", got)
		}
		n.Kill(address(2))
		synctest.Wait()
		if got := fmt.Sprint(r1.take()); got != "[disconnected 2]" {
			t.Errorf("node 1 has noticed %s", got)
		}
		two.Close()
		two, r2 = node(&n, 2, c[2], 1)
		time.Sleep(2 * redialMost)
		if got := fmt.Sprint(r1.take(), r2.take()); got != "[connected 2] [connected 1]" {
			t.Errorf("after the restart: %s", got)
		}
		if s := one.Peers()[0]; !s.Connected || s.Err != nil || s.Address != address(2) {
			t.Errorf("%+v", s)
		}
		one.Close()
		two.Close()
	})
}

// TestSilence: a connection on which nothing comes is closed, and one that only is idle stays.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n memnet.Network
		c := credentials(t, 1, 2)
		one, r1 := node(&n, 1, c[1], 2)
		two, _ := node(&n, 2, c[2], 1)
		time.Sleep(time.Hour)
		if got := fmt.Sprint(r1.take()); got != "[connected 2]" {
			t.Errorf("after an hour without messages: %s", got)
		}
		n.Blackhole(address(2), true)
		begun := time.Now()
		for len(r1.take()) == 0 {
			time.Sleep(pingEvery / 10)
		}
		if d := time.Since(begun); d > (silence+1)*pingEvery+pingEvery/10 {
			t.Errorf("noticed after %v", d)
		}
		n.Blackhole(address(2), false)
		time.Sleep(2 * (handshakeTime + redialMost))
		if got := fmt.Sprint(r1.take()); got != "[connected 2]" {
			t.Errorf("after the silence: %s", got)
		}
		one.Close()
		two.Close()
	})
}

// TestSlowFrame: a connection stays while the bytes of a frame come, however long that takes.
func TestSlowFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n memnet.Network
		c := credentials(t, 0, 1)
		one, _ := node(&n, 1, c[1])
		raw, in, err := dial(t.Context(), n.Dialer("client"), c[0], address(1), hello{purpose: forClient, to: 1})
		if err != nil {
			t.Fatal(err)
		}
		for part := range slices.Chunk(appendFrame(nil, FirstOfClients, make([]byte, 1000)), 100) {
			if time.Sleep(pingEvery); err == nil {
				_, err = raw.Write(part)
			}
		}
		kind, payload := kindPing, []byte(nil)
		for err == nil && kind == kindPing {
			kind, payload, err = in.read(MaxFrame)
		}
		if kind != FirstOfClients+1 || len(payload) != 1000 || err != nil {
			t.Errorf("kind %d with %d bytes, %v", kind, len(payload), err)
		}
		raw.NetConn().Close()
		one.Close()
	})
}

// TestSilenceOfStopped: a connection is closed as soon when the other side has stopped and a write to it waits.
func TestSilenceOfStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n memnet.Network
		c := credentials(t, 0, 1)
		l := n.Listen(address(1))
		stop := make(chan struct{})
		go func() {
			plain, err := l.Accept()
			if err == nil {
				_, _, _, err = accept(t.Context(), plain, c[1], 1, 0)
			}
			if err != nil {
				t.Error(err)
			}
			<-stop
		}()
		client, err := DialClient(t.Context(), n.Dialer("client"), c[0], 0, 1, address(1))
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		client.Send(FirstOfClients, func(dst []byte) []byte { return append(dst, make([]byte, 8<<20)...) })
		select {
		case <-client.Done():
		case <-time.After(time.Minute):
			t.Error("it is open after a minute")
		}
		if d := time.Since(begun); d > (silence+1)*pingEvery {
			t.Errorf("noticed after %v", d)
		}
		client.Close()
		close(stop)
	})
}

// TestSendNeverWaits: what a peer does not read is dropped when too much waits.
func TestSendNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n memnet.Network
		c := credentials(t, 0, 1)
		one, r1 := node(&n, 1, c[1])
		r1.deaf = true
		client, err := DialClient(t.Context(), n.Dialer("client"), c[0], 0, 1, address(1))
		if err != nil {
			t.Fatal(err)
		}
		body := make([]byte, 1<<20)
		fill := func(dst []byte) []byte { return append(dst, body...) }
		sent := 0
		for client.Send(FirstOfClients, fill) {
			if sent++; sent > 1000 {
				t.Fatal("a thousand MiB are taken")
			}
			if sent%16 == 0 {
				synctest.Wait()
			}
		}
		if sent < clientQueue>>20 {
			t.Errorf("%d MiB were taken", sent)
		}
		client.Close()
		one.Close()
	})
}

// TestFormats holds what frames of this version have. A change of that raises Version, and sets the digest anew: then programs
// of before and after refuse each other instead of misreading what they hear.
func TestFormats(t *testing.T) {
	h := hello{version: Version, purpose: forMessages, from: 1, to: 300, incarnation: 2}
	b := appendFrame(nil, kindHello, h.append(nil))
	b = appendFrame(b, kindMessage, appendMessage(nil, 7, &pb.Message{
		Type: pb.MsgApp.Enum(), From: new(uint64(1)), To: new(uint64(2)), Term: new(uint64(3)), LogTerm: new(uint64(4)), Index: new(uint64(5)), Commit: new(uint64(6)),
		Reject: new(true), RejectHint: new(uint64(7)), Context: []byte("context"),
		Entries: []*pb.Entry{{Type: pb.EntryConfChangeV2.Enum(), Term: new(uint64(8)), Index: new(uint64(9)), Data: []byte("data")}},
	}))
	const want = "version 4: 955980ea662c2720"
	if got := fmt.Sprintf("version %d: %.8x", Version, sha256.Sum256(b)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestRefusals: each reason for which a connection is not made has an error that says it.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n memnet.Network
		c, others := credentials(t, 0, 1, 2, 3), credentials(t, 0, 1, 2)
		one, _ := node(&n, 1, c[1], 2, 3)
		plain := n.Listen("plain")
		go func() {
			for {
				conn, err := plain.Accept()
				if err != nil {
					return
				}
				go func() {
					_, _ = io.ReadFull(conn, make([]byte, 10))
					_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
					conn.Close()
				}()
			}
		}()
		try := func(creds *Credentials, at string, h hello) error {
			raw, _, err := dial(t.Context(), n.Dialer("x"), creds, at, h)
			if err == nil {
				raw.NetConn().Close()
			}
			return err
		}
		for _, test := range []struct {
			what  string
			err   error
			is    error
			holds string
		}{
			{"another authority", try(others[2], address(1), hello{purpose: forMessages, from: 2, to: 1}), ErrCertificate, "another cluster"},
			{"another node at the address", try(c[2], address(1), hello{purpose: forMessages, from: 2, to: 3}), ErrCertificate, "node 1 is at this address"},
			{"the certificate of another node", try(c[2], address(1), hello{purpose: forMessages, from: 3, to: 1}), ErrRefused, "not that of node 3"},
			{"a client that says it is a node", try(c[0], address(1), hello{purpose: forSnapshot, from: 2, to: 1}), ErrRefused, "not that of node 2"},
			{"the same node", try(c[1], address(1), hello{purpose: forMessages, from: 1, to: 1}), ErrRefused, "same id"},
			{"nobody", try(c[1], "nowhere", hello{purpose: forMessages, from: 1, to: 2}), nil, "refused"},
			{"no TLS", try(c[2], "plain", hello{purpose: forMessages, from: 2, to: 1}), nil, "no node is at this address"},
		} {
			if test.err == nil || test.is != nil && !errors.Is(test.err, test.is) || !strings.Contains(test.err.Error(), test.holds) {
				t.Errorf("%s: %v", test.what, test.err)
			}
		}
		for _, version := range []uint32{Version - 1, Version + 1} {
			plain, err := n.Dialer("x")(t.Context(), address(1))
			if err != nil {
				t.Fatal(err)
			}
			raw := tls.Client(plain, c[0].dialer(1))
			// Behind the version another format may have anything.
			if _, err = raw.Write(appendFrame(nil, kindHello, append(binary.LittleEndian.AppendUint32([]byte(helloMagic), version), "else"...))); err != nil {
				t.Fatal(err)
			}
			err = welcomed(newFrameReader(raw))
			text := fmt.Sprintf("the program that dials speaks %d, node 1 speaks %d; run the same program on both", version, Version)
			if !errors.Is(err, ErrVersion) || !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), text) {
				t.Errorf("version %d: %v", version, err)
			}
			plain.Close()
		}
		if err := c[1].CheckNode(2, time.Now()); !errors.Is(err, ErrCertificate) {
			t.Errorf("node 1 as node 2: %v", err)
		}
		if err := c[1].CheckNode(1, time.Now()); err != nil {
			t.Error(err)
		}
		if err := c[1].CheckNode(1, time.Now().Add(2*lifetime)); !errors.Is(err, ErrCertificate) {
			t.Errorf("a certificate that has expired: %v", err)
		}
		plain.Close()
		one.Close()
	})
}

// TestForeignClient: a node does not serve a client of another authority.
func TestForeignClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n memnet.Network
		c, others := credentials(t, 0, 1), credentials(t, 0, 1)
		// The server would be taken, so the refusal is the node's.
		others[0].pool = c[0].pool
		one, _ := node(&n, 1, c[1])
		if conn, err := DialClient(t.Context(), n.Dialer("client"), others[0], 0, 1, address(1)); !errors.Is(err, ErrCertificate) {
			t.Errorf("%v, %v", conn, err)
		}
		client, err := DialClient(t.Context(), n.Dialer("client"), c[0], 0, 1, address(1))
		if err != nil {
			t.Fatal(err)
		}
		client.Send(FirstOfClients, func(dst []byte) []byte { return append(dst, "text"...) })
		if kind, payload, err := client.Read(); kind != FirstOfClients+1 || string(payload) != "text" || err != nil {
			t.Errorf("%d %q %v", kind, payload, err)
		}
		client.Close()
		one.Close()
	})
}

func snapshotMessage() *pb.Message {
	return &pb.Message{Type: pb.MsgSnap.Enum(), From: new(uint64(7)), To: new(uint64(8)), Term: new(uint64(3)),
		Snapshot: &pb.Snapshot{Data: []byte("state"), Metadata: &pb.SnapshotMetadata{Index: new(uint64(5)), Term: new(uint64(2)), ConfState: new(pb.ConfState)}}}
}

// TestSnapshot: a snapshot comes whole, with its message, or not at all.
func TestSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n memnet.Network
		c := credentials(t, 1, 2)
		one, _ := node(&n, 1, c[1], 2)
		two, r2 := node(&n, 2, c[2], 1)
		want := make([]byte, 1_000_001)
		rng := rand.NewChaCha8([32]byte{1})
		_, _ = rng.Read(want)
		var got []byte
		var message *pb.Message
		var failed error
		r2.snapshot = func(s *Incoming) error {
			got, failed = io.ReadAll(s)
			message = s.Message()
			if failed == nil && (s.Node != 1 || s.Group != 4 || s.From != 7 || s.To != 8) {
				t.Errorf("%+v", s)
			}
			return failed
		}
		err := one.SendSnapshot(t.Context(), 2, 4, 7, 8, func(w io.Writer) (*pb.Message, error) {
			_, err := io.Copy(w, bytes.NewReader(want))
			return snapshotMessage(), err
		})
		if err != nil || !bytes.Equal(got, want) || !proto.Equal(message, snapshotMessage()) {
			t.Errorf("%v, %d bytes, %v", err, len(got), message)
		}
		broken := errors.New("broken")
		err = one.SendSnapshot(t.Context(), 2, 4, 7, 8, func(w io.Writer) (*pb.Message, error) {
			_, _ = w.Write(want)
			return nil, broken
		})
		synctest.Wait()
		if !errors.Is(err, broken) || failed == nil {
			t.Errorf("one that its sender has given up: %v, %v", err, failed)
		}
		r2.snapshot = func(*Incoming) error { return errors.New("disk is full") }
		err = one.SendSnapshot(t.Context(), 2, 4, 7, 8, func(io.Writer) (*pb.Message, error) { return snapshotMessage(), nil })
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "disk is full") {
			t.Errorf("one that was refused: %v", err)
		}
		other := snapshotMessage()
		other.To = new(uint64(9))
		r2.snapshot = func(s *Incoming) error { _, err := io.ReadAll(s); return err }
		err = one.SendSnapshot(t.Context(), 2, 4, 7, 8, func(io.Writer) (*pb.Message, error) { return other, nil })
		if !errors.Is(err, ErrRefused) {
			t.Errorf("one for another replica than it says: %v", err)
		}
		one.Close()
		two.Close()
	})
}

// TestSnapshotOfManyCommands: a snapshot of a group that remembers millions of commands comes too.
func TestSnapshotOfManyCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n memnet.Network
		c := credentials(t, 1, 2)
		one, _ := node(&n, 1, c[1], 2)
		two, r2 := node(&n, 2, c[2], 1)
		m := snapshotMessage()
		m.Snapshot.Data = bytes.Repeat([]byte{7}, MaxFrame+1)
		var message *pb.Message
		r2.snapshot = func(s *Incoming) error {
			_, err := io.Copy(io.Discard, s)
			message = s.Message()
			return err
		}
		err := one.SendSnapshot(t.Context(), 2, 4, 7, 8, func(w io.Writer) (*pb.Message, error) {
			_, err := w.Write([]byte("items"))
			return m, err
		})
		if err != nil || !proto.Equal(message, m) {
			t.Errorf("%v", err)
		}
		one.Close()
		two.Close()
	})
}

// TestCloseEndsAll: Close returns with connections in every state.
func TestCloseEndsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n memnet.Network
		c := credentials(t, 0, 1, 2)
		one, _ := node(&n, 1, c[1], 2)
		two, r2 := node(&n, 2, c[2], 1)
		r2.snapshot = func(s *Incoming) error { _, err := io.ReadAll(s); return err }
		client, err := DialClient(t.Context(), n.Dialer("client"), c[0], 0, 1, address(1))
		if err != nil {
			t.Fatal(err)
		}
		silent, err := n.Dialer("silent")(t.Context(), address(1)) // says nothing
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			ended <- one.SendSnapshot(context.Background(), 2, 4, 7, 8, func(w io.Writer) (*pb.Message, error) {
				for {
					if _, err := w.Write(make([]byte, 1<<16)); err != nil {
						return nil, err
					}
					time.Sleep(time.Millisecond)
				}
			})
		}()
		time.Sleep(100 * time.Millisecond)
		one.Close()
		if err := <-ended; err == nil {
			t.Error("the snapshot has come to its end")
		}
		if _, _, err := client.Read(); err == nil {
			t.Error("the client's connection is open")
		}
		two.Close()
		silent.Close()
		if one.Send(2, 1, heartbeat(1)) {
			t.Error("sent")
		}
	})
}
