package protocol

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/topology"
	"github.com/cleavestore/cleave/replica/transport"
)

// requests are one of each kind.
func requests() map[transport.Kind][]byte {
	q := ReadRequest{Group: 1 << 33, Level: Strong, Container: "items", Key: engine.JoinKeys(engine.StringKey("a"), engine.NumberKey(1)), ID: "i", Limit: 7}
	of := q
	of.ID, of.Query = "", Search{Range: partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}, Text: "SELECT * FROM c WHERE c.n > @n", Parameters: `{"@n":1}`, Continue: "place"}
	return map[transport.Kind][]byte{Query: of.Append(nil, Query, 5), Propose: AppendPropose(nil, 5, 1<<33, "items", []byte("command")), Read: q.Append(nil, Read, 5), Scan: q.Append(nil, Scan, 5), Status: AppendStatus(nil, 5)}
}

// TestRequests: requests are the same after their bytes have been decoded, and refused if they
// are cut, but for a command, which has its own format.
func TestRequests(t *testing.T) {
	for kind, b := range requests() {
		q, err := DecodeRequest(kind, b)
		if err != nil || q.Number != 5 {
			t.Fatalf("kind %d: %+v, %v", kind, q, err)
		}
		var again []byte
		switch kind {
		case Propose:
			again = AppendPropose(nil, q.Number, q.Group, q.Container, q.Command)
		case Status:
			again = AppendStatus(nil, q.Number)
		default:
			again = q.Read.Append(nil, kind, q.Number)
		}
		if string(again) != string(b) {
			t.Errorf("kind %d: % x became % x", kind, b, again)
		}
		for n := range b {
			if kind == Propose && n > 11 {
				break
			}
			if _, err := DecodeRequest(kind, b[:n]); !errors.Is(err, ErrInvalid) {
				t.Errorf("kind %d, %d of %d bytes: %v", kind, n, len(b), err)
			}
		}
	}
	for _, level := range []Level{Strong, Eventual, Session, Bounded, Prefix} {
		want := ReadRequest{Group: 5, Level: level, Container: "c", Key: engine.StringKey("k"), ID: "i"}
		if level == Session || level == Bounded {
			want.Index = 1 << 40
		}
		if level == Bounded {
			want.Bounds = Bounds{Age: 3 * time.Second, Entries: 300}
		}
		b := want.Append(nil, Read, 1)
		if q, err := DecodeRequest(Read, b); err != nil || q.Read != want {
			t.Errorf("%v: %+v, %v", level, q.Read, err)
		}
		for n := range b {
			if _, err := DecodeRequest(Read, b[:n]); !errors.Is(err, ErrInvalid) {
				t.Errorf("%v, %d of %d bytes: %v", level, n, len(b), err)
			}
		}
	}
	for _, level := range []Level{0, Prefix + 1} {
		q := ReadRequest{Level: level, Container: "c", Key: engine.StringKey("k")}
		if _, err := DecodeRequest(Read, q.Append(nil, Read, 1)); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("level %d: %v", level, err)
		}
	}
	empty := ReadRequest{Level: Strong, Container: "c", Key: engine.StringKey("k")}
	empty.Query = Search{Range: partmap.Range{Min: partmap.MaxEPK(), Max: partmap.MaxEPK()}, Text: "SELECT 1"}
	if q, err := DecodeRequest(Query, empty.Append(nil, Query, 5)); !errors.Is(err, ErrInvalid) || q.Number != 5 {
		t.Errorf("a query of an empty range: %+v, %v", q, err)
	}
	if q, err := DecodeRequest(Cancel+1, []byte{9}); !errors.Is(err, errors.ErrUnsupported) || q.Number != 9 {
		t.Errorf("a kind that is not known: %+v, %v", q, err)
	}
	if q, err := DecodeRequest(Cancel, AppendCancel(nil, 300)); err != nil || q.Number != 300 {
		t.Errorf("the end of a query: %+v, %v", q, err)
	}
}

// TestAnswers: answers are the same after their bytes have been decoded.
func TestAnswers(t *testing.T) {
	head := Head{Number: 9, Leader: 2, Applied: 77}
	decode := func(b []byte) Reply {
		t.Helper()
		p, err := DecodeAnswer(b)
		if err != nil || p.Head != head {
			t.Fatalf("%+v, %v", p, err)
		}
		return p
	}
	now := time.UnixMilli(1_700_000_000_123)
	want := group.Outcome{Index: 5, Duplicate: true, Results: []engine.BatchResult{{Metas: []engine.Meta{{ETag: 1 << 63, Seq: 300, Modified: now, Charge: 7.5}, {ETag: 2}}}, {Err: engine.ErrExists}}}
	want.Results[0].Metas[1].Modified = time.UnixMilli(0)
	p := decode(head.AppendOutcome(nil, &want))
	got, err := p.Outcome()
	if err != nil || !errors.Is(got.Results[1].Err, engine.ErrExists) {
		t.Fatalf("%+v, %v", got, err)
	}
	got.Results[1].Err = engine.ErrExists
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	items := []engine.Item{{Meta: engine.Meta{ID: "i", ETag: 7, Modified: now, Charge: 1.5}, Body: []byte(`{}`)}, {Meta: engine.Meta{ID: "j", Modified: now}, Body: []byte{}}}
	p = decode(head.AppendItems(nil, items, true))
	list, more, err := p.Items()
	if err != nil || !more || !reflect.DeepEqual(list, items) {
		t.Errorf("%+v, %v, %v", list, more, err)
	}
	p = decode(head.AppendItem(nil, &items[0]))
	if it, err := p.Item(); err != nil || !reflect.DeepEqual(it, items[0]) {
		t.Errorf("%+v, %v", it, err)
	}
	p = decode(head.AppendText(nil, []byte("text")))
	if string(p.Text()) != "text" || p.Err != nil {
		t.Errorf("%q, %v", p.Text(), p.Err)
	}
}

// TestErrors: each error that a client tells from others is itself on the other side, with the
// text that it had.
func TestErrors(t *testing.T) {
	h := Head{}
	for code, want := range errs[1:] {
		sent := fmt.Errorf("group 7: %w", want)
		p, err := DecodeAnswer(h.AppendError(nil, sent))
		if err != nil || !errors.Is(p.Err, want) || p.Err.Error() != sent.Error() {
			t.Errorf("code %d: %v became %v, %v", code+1, sent, p.Err, err)
		}
	}
	p, err := DecodeAnswer(h.AppendError(nil, errors.New("else")))
	if err != nil || p.Err == nil || p.Err.Error() != "else" {
		t.Errorf("%v, %v", p.Err, err)
	}
}

// TestCodes holds the codes of errors: they are fixed.
func TestCodes(t *testing.T) {
	for err, want := range map[error]byte{group.ErrNotLeader: 2, group.ErrUnknown: 4, ErrNoGroup: 7, engine.ErrNotFound: 8, engine.ErrInvalid: 13, engine.ErrKeyMismatch: 14, ErrInvalid: 18} {
		if got := codeOf(err); got != want {
			t.Errorf("%v has code %d, want %d", err, got, want)
		}
	}
}

// FuzzRequest: nothing panics.
func FuzzRequest(f *testing.F) {
	for kind, b := range requests() {
		f.Add(byte(kind), b)
	}
	f.Fuzz(func(t *testing.T, kind byte, in []byte) {
		q, err := DecodeRequest(transport.Kind(kind), in)
		if err == nil && (transport.Kind(kind) == Read || transport.Kind(kind) == Scan) {
			again, err := DecodeRequest(transport.Kind(kind), q.Read.Append(nil, transport.Kind(kind), q.Number))
			if err != nil || !reflect.DeepEqual(again, q) {
				t.Errorf("%+v became %+v, %v", q, again, err)
			}
		}
	})
}

// TestPage: an answer to a query comes back as it was; one that is cut short is refused.
func TestPage(t *testing.T) {
	h := Head{Number: 1}
	want := Page{Rows: []Row{{7, []byte(`{"id":"a"}`)}, {0, []byte(`3`)}}, Continue: "long", Short: "short", Documents: 3, Bytes: 99, Charge: 5.3}
	p, err := DecodeAnswer(h.AppendPage(nil, &want))
	if err != nil {
		t.Fatal(err)
	}
	if got, failed := p.Page(); failed != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, failed, want)
	}
	for n := range p.rest {
		short := Reply{rest: p.rest[:n]}
		if _, failed := short.Page(); !errors.Is(failed, ErrInvalid) {
			t.Errorf("%d bytes: %v", n, failed)
		}
	}
}

// FuzzAnswer: nothing panics, and lists take no more memory than their bytes are worth.
func FuzzAnswer(f *testing.F) {
	h := Head{Number: 1}
	f.Add(h.AppendItems(nil, []engine.Item{{Meta: engine.Meta{ID: "i"}, Body: []byte(`{}`)}}, true))
	f.Add(h.AppendOutcome(nil, &group.Outcome{Index: 1, Results: []engine.BatchResult{{Metas: make([]engine.Meta, 2)}}}))
	f.Fuzz(func(t *testing.T, in []byte) {
		p, err := DecodeAnswer(in)
		if err != nil {
			return
		}
		if o, err := p.Outcome(); err == nil && len(o.Results) > len(in) {
			t.Errorf("%d results of %d bytes", len(o.Results), len(in))
		}
		if items, _, err := p.Items(); err == nil && len(items) > len(in) {
			t.Errorf("%d items of %d bytes", len(items), len(in))
		}
		_, _ = p.Item()
		if page, err := p.Page(); err == nil && len(page.Rows) > len(in) {
			t.Errorf("%d rows of %d bytes", len(page.Rows), len(in))
		}
	})
}

// taken is the error of a batch whose unique key is taken.
func taken() error {
	return fmt.Errorf("operation 3: %w", &engine.UniqueKeyError{Paths: []string{"/u", "/v"}, Holder: "other", ID: "mine"})
}

// TestUniqueKey: a refusal for a unique key comes back with what it is about; bytes that are cut short are refused.
func TestUniqueKey(t *testing.T) {
	h := Head{Number: 9}
	b := h.AppendOutcome(nil, &group.Outcome{Index: 5, Results: []engine.BatchResult{{Err: taken()}, {Err: engine.ErrUniqueKey}}})
	p, err := DecodeAnswer(b)
	if err != nil {
		t.Fatal(err)
	}
	o, err := p.Outcome()
	if err != nil {
		t.Fatal(err)
	}
	var got *engine.UniqueKeyError
	if err = o.Results[0].Err; !errors.As(err, &got) || !errors.Is(err, engine.ErrUniqueKey) || err.Error() != taken().Error() || got.ID != "mine" || got.Holder != "other" || !slices.Equal(got.Paths, []string{"/u", "/v"}) {
		t.Errorf("%v, %+v", err, got)
	}
	if err = o.Results[1].Err; !errors.Is(err, engine.ErrUniqueKey) {
		t.Errorf("without more about it: %v", err)
	}
	for n := 5; n < len(b); n++ {
		if p, err = DecodeAnswer(b[:n]); err == nil {
			if _, err = p.Outcome(); err == nil {
				t.Errorf("%d of %d bytes: no error", n, len(b))
			}
		}
	}
}

// formats has a request and an answer of each kind.
func formats() (out []byte) {
	kinds := requests()
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		out = append(append(out, byte(kind)), kinds[kind]...)
	}
	change := Change{Group: 7, What: Promote, First: 1 << 40, Second: 3, Text: "x"}
	out = AppendExport(change.Append(AppendRoutes(out, 5), 5), 5, 7, 300, true)
	h := Head{Number: 9, Leader: 2, Applied: 77}
	at := time.UnixMilli(1_700_000_000_123)
	it := engine.Item{Meta: engine.Meta{ID: "i", ETag: 7, Modified: at, Charge: 1}, Body: []byte(`{}`)}
	out = h.AppendOutcome(out, &group.Outcome{Index: 5, Duplicate: true, Results: []engine.BatchResult{{Metas: []engine.Meta{{ETag: 1, Seq: 300, Modified: at, Charge: 5}}}, {Err: engine.ErrExists}, {Err: taken()}}})
	out = h.AppendText(h.AppendItems(h.AppendItem(out, &it), []engine.Item{it}, true), []byte("text"))
	g := topology.New(7, "items", partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}, 1, 2, 3)
	out = h.AppendRoutes(out, []Peer{{4, "d:1"}}, []*topology.Group{g}, []uint64{3})
	changes := ChangesRequest{Group: 7, Strong: true, Container: "items", Range: partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}, Position: "start", Limit: 300}
	it.Key, it.Seq = engine.StringKey("k"), 300
	out = h.AppendChanges(changes.Append(out, 5), &ChangesPage{Items: []engine.Item{it}, Position: "position", More: true, Charge: 3.3})
	out = h.AppendPage(out, &Page{Done: true, Rows: []Row{{7, []byte("row")}}, Continue: "place", Short: "short", Documents: 1, Bytes: 300, Charge: 3.3})
	return h.AppendExport(h.AppendNumber(out, 1), 100, 7, []byte("chunk"))
}

// TestFormats holds what requests and answers of this version have. A change of that raises transport.Version, and sets
// the digest anew: then programs of before and after refuse each other instead of misreading what they hear.
func TestFormats(t *testing.T) {
	const want = "version 4: 5ff3bc104c505b96"
	if got := fmt.Sprintf("version %d: %.8x", transport.Version, sha256.Sum256(formats())); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestChanges: a request for changes and its answer come back as they were; bytes that are cut short are refused.
func TestChanges(t *testing.T) {
	want := ChangesRequest{Group: 7, Strong: true, Container: "items", Range: partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}, Position: "start", Limit: 300}
	b := want.Append(nil, 5)
	if q, err := DecodeRequest(Changes, b); err != nil || q.Number != 5 || q.Group != 7 || q.Changes != want {
		t.Errorf("%+v, %v", q, err)
	}
	for n := range b {
		if _, err := DecodeRequest(Changes, b[:n]); !errors.Is(err, ErrInvalid) {
			t.Errorf("%d of %d bytes: %v", n, len(b), err)
		}
	}
	at := time.UnixMilli(1_700_000_000_123)
	items := []engine.Item{
		{Meta: engine.Meta{Key: engine.StringKey("k"), ID: "i", ETag: 7, Seq: 300, Modified: at}, Body: []byte(`{}`)},
		{Meta: engine.Meta{Key: engine.JoinKeys(engine.StringKey("a"), engine.NumberKey(1)), ID: "j", Modified: at}, Body: []byte{}},
	}
	h := Head{Number: 9}
	page := ChangesPage{Items: items, Position: "position", More: true, Charge: 4.3}
	p, err := DecodeAnswer(h.AppendChanges(nil, &page))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Changes(); err != nil || !reflect.DeepEqual(got, page) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, units := range []float64{-1, math.NaN(), math.Inf(1)} {
		page.Charge = units
		if p, err := DecodeAnswer(h.AppendChanges(nil, &page)); err != nil {
			t.Error(err)
		} else if _, err = p.Changes(); !errors.Is(err, ErrInvalid) {
			t.Errorf("a charge of %v: %v", units, err)
		}
	}
	for n := range p.rest {
		short := Reply{rest: p.rest[:n]}
		if _, err := short.Changes(); !errors.Is(err, ErrInvalid) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
}

// TestRoutes: what a node knows of nodes and groups comes back as it was, and so does a change;
// bytes that are cut short are refused.
func TestRoutes(t *testing.T) {
	min, max := partmap.MinEPK(), partmap.MaxEPK()
	g := topology.New(7, "items", partmap.Range{Min: min, Max: max}, 1, 2, 3)
	h := Head{Number: 9}
	b := h.AppendRoutes(nil, []Peer{{4, "d:1"}}, []*topology.Group{g}, nil)
	p, err := DecodeAnswer(b)
	if err != nil {
		t.Fatal(err)
	}
	peers, groups, dropped, err := p.Routes()
	if err != nil || len(dropped) != 0 || len(peers) != 1 || peers[0] != (Peer{4, "d:1"}) || len(groups) != 1 || !reflect.DeepEqual(groups[0], g) {
		t.Errorf("%v, %v, %v", peers, groups, err)
	}
	for n := range p.rest {
		short := Reply{rest: p.rest[:n]}
		if _, _, _, err := short.Routes(); !errors.Is(err, ErrInvalid) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	before := len(p.rest)
	p, err = DecodeAnswer(h.AppendRoutes(nil, []Peer{{4, "d:1"}}, []*topology.Group{g}, []uint64{3, 1 << 20}))
	if err != nil {
		t.Fatal(err)
	}
	if _, groups, dropped, err = p.Routes(); err != nil || len(groups) != 1 || !slices.Equal(dropped, []uint64{3, 1 << 20}) {
		t.Errorf("with dropped ones: %v, %v, %v", groups, dropped, err)
	}
	for n := before + 1; n < len(p.rest); n++ {
		short := Reply{rest: p.rest[:n]}
		if _, _, _, err := short.Routes(); !errors.Is(err, ErrInvalid) {
			t.Errorf("the first %d bytes, with dropped ones: %v", n, err)
		}
	}
	want := Change{Group: 7, What: Promote, First: 1 << 40, Second: 3, Text: "x"}
	q, err := DecodeRequest(Alter, want.Append(nil, 5))
	if err != nil || q.Number != 5 || q.Change != want {
		t.Errorf("%+v, %v", q, err)
	}
	p, err = DecodeAnswer(h.AppendError(nil, fmt.Errorf("a key: %w", group.ErrRange)))
	if err != nil || !errors.Is(p.Err, group.ErrRange) {
		t.Errorf("a key of another group: %v, %v", p.Err, err)
	}
}
