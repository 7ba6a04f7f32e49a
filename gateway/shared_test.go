package gateway

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/cleavestore/cleave/cleavetest"
	"github.com/cleavestore/cleave/engine"
)

// TestSharedThroughput: the containers of a database get together what the database has, each as
// much as it asks for; one with throughput of its own takes none of it. Replacing the offer holds at
// once, and a handler that is made anew knows it.
func TestSharedThroughput(t *testing.T) {
	s := cleavetest.New(t, cleavetest.At(time.Now()), cleavetest.NoBackground(), cleavetest.WithOptions(engine.Options{Durability: engine.Buffered}))
	with := func(throttle bool) *server {
		h, err := New(t.Context(), s.DB(), &Options{Throttle: throttle, Clock: s.Now, SignatureClock: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		return &server{t: t, db: s.DB(), h: h, s: httptest.NewUnstartedServer(h)}
	}
	g := with(true)
	send := func(method, path, body string, head ...string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		g.h.ServeHTTP(w, g.signed(method, path, []byte(body), head...))
		return w
	}
	expect := func(status int, method, path, body string, head ...string) *httptest.ResponseRecorder {
		t.Helper()
		w := send(method, path, body, head...)
		if w.Code != status {
			t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
		return w
	}
	expect(201, "POST", "/dbs", `{"id":"d"}`, "x-ms-offer-throughput", "400")
	for _, name := range []string{"a", "b", "own"} {
		var head []string
		if name == "own" {
			head = []string{"x-ms-offer-throughput", "1000"}
		}
		expect(201, "POST", "/dbs/d/colls", `{"id":"`+name+`","partitionKey":{"paths":["/pk"]}}`, head...)
		s.Advance(time.Second)
		expect(201, "POST", "/dbs/d/colls/"+name+"/docs", `{"id":"1","pk":"a"}`, pk, `["a"]`)
	}
	// units reads items of containers for some seconds, as fast as answers let it.
	units := func(seconds int, names ...string) (each map[string]float64, refused int) {
		t.Helper()
		each = map[string]float64{}
		for i := range seconds * 1000 {
			for j := range names {
				name := names[(i+j)%len(names)] // no container is always the first
				for range 4 {
					w := send("GET", "/dbs/d/colls/"+name+"/docs/1", "", pk, `["a"]`)
					charge, err := strconv.ParseFloat(w.Header().Get("x-ms-request-charge"), 64)
					if err != nil {
						t.Fatal(err)
					}
					if w.Code == http.StatusTooManyRequests {
						refused++
						if wait, err := strconv.Atoi(w.Header().Get("x-ms-retry-after-ms")); err != nil || wait < 1 || w.Header().Get("x-ms-substatus") != "3200" {
							t.Fatalf("%v: %v", w.Header(), err)
						}
						break
					} else if w.Code != http.StatusOK {
						t.Fatal(w.Code, w.Body)
					}
					each[name] += charge
				}
			}
			s.Advance(time.Millisecond)
		}
		return each, refused
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if got < 0.98*want || got > 1.02*want {
			t.Errorf("%s: %v RU, want %v", what, got, want)
		}
	}
	units(3, "a", "b") // what was saved for bursts is spent
	both, refused := units(2, "a", "b")
	near("two containers", both["a"]+both["b"], 800)
	if refused == 0 || both["a"] < 100 || both["b"] < 100 {
		t.Errorf("%v, %d refused", both, refused)
	}
	one, _ := units(2, "b")
	near("one alone", one["b"], 800)
	if own, _ := units(1, "own", "a"); own["own"] < 900 {
		t.Errorf("a container with throughput of its own: %v", own)
	}
	// Twice as much, at once and in a handler that is made anew.
	var offers struct {
		Offers []struct {
			RID      string `json:"id"`
			Resource string
			Content  struct{ OfferThroughput int }
		}
	}
	if err := json.Unmarshal(expect(200, "GET", "/offers", "").Body.Bytes(), &offers); err != nil {
		t.Fatal(err)
	}
	for _, o := range offers.Offers {
		if o.Content.OfferThroughput == 400 {
			expect(200, "PUT", "/offers/"+o.RID, `{"content":{"offerThroughput":800}}`)
		}
	}
	units(1, "a", "b")
	both, _ = units(2, "a", "b")
	near("twice as much", both["a"]+both["b"], 1600)
	g = with(true)
	units(1, "a", "b")
	both, _ = units(2, "a", "b")
	near("a handler made anew", both["a"]+both["b"], 1600)
	g = with(false)
	if _, refused := units(1, "a", "b"); refused > 0 {
		t.Errorf("%d calls refused without Throttle", refused)
	}
}
