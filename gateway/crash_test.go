package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/cleavetest"
	"github.com/cleavestore/cleave/engine"
)

// TestCatalogAfterCrash: whenever the process dies or the power fails, the gateway starts again,
// shows what was acknowledged, and the store has the containers that it shows and no others.
func TestCatalogAfterCrash(t *testing.T) {
	for _, power := range []bool{false, true} {
		done := false
		for n := 1; !done; n++ {
			s := cleavetest.New(t, cleavetest.NoBackground(), cleavetest.AllowLeaks(),
				cleavetest.WithOptions(engine.Options{Durability: engine.Buffered}))
			h, err := New(t.Context(), s.DB(), nil)
			if err != nil {
				t.Fatal(err)
			}
			g := &server{t: t, db: s.DB(), h: h, s: httptest.NewUnstartedServer(h)}
			send := func(method, path, body string, head ...string) int {
				r := g.signed(method, path, []byte(body), head...)
				w := httptest.NewRecorder()
				g.h.ServeHTTP(w, r)
				return w.Code
			}
			s.CrashAt(n)
			const of = `{"id":"%s","partitionKey":{"paths":["/pk"]}}`
			must := map[string]bool{} // containers that are there, or not; absent: nobody knows
			step := func(method, path, body string, ok int, change func(acknowledged bool)) {
				change(send(method, path, body) == ok)
			}
			set := func(there bool, names ...string) func(bool) {
				return func(acknowledged bool) {
					for _, name := range names {
						if delete(must, name); acknowledged {
							must[name] = there
						}
					}
				}
			}
			step("POST", "/dbs", `{"id":"d"}`, 201, set(true))
			step("POST", "/dbs/d/colls", fmt.Sprintf(of, "a"), 201, set(true, "d.a"))
			step("POST", "/dbs/d/colls", fmt.Sprintf(of, "b"), 201, set(true, "d.b"))
			step("DELETE", "/dbs/d/colls/a", "", 204, set(false, "d.a"))
			step("POST", "/dbs/d/colls", fmt.Sprintf(of, "a"), 201, set(true, "d.a"))
			step("PUT", "/dbs/d/colls/a", `{"id":"a","partitionKey":{"paths":["/pk"]},"indexingPolicy":{"indexingMode":"none"}}`, 200, func(bool) {})
			step("DELETE", "/dbs/d", "", 204, set(false, "d.a", "d.b"))
			step("POST", "/dbs", `{"id":"d"}`, 201, set(true))
			step("POST", "/dbs/d/colls", fmt.Sprintf(of, "c"), 201, set(true, "d.c"))
			if done = !s.Crashed(); power {
				s.CutPower(cleavetest.Seed(uint64(n)))
			} else {
				s.Kill()
			}
			h, err = New(t.Context(), s.DB(), nil)
			if err != nil {
				t.Fatalf("power %v, crash at %d: %v", power, n, err)
			}
			g.h, g.db = h, s.DB()
			var shown []string
			for _, d := range h.catalog.databases() {
				for _, k := range h.catalog.containersOf(d) {
					shown = append(shown, k.record.Store)
				}
			}
			slices.Sort(shown)
			if got := g.inStore(); !slices.Equal(got, shown) {
				t.Errorf("power %v, crash at %d: the store has %v, %v are shown", power, n, got, shown)
			}
			for name, there := range must {
				if slices.Contains(shown, name) != there {
					t.Errorf("power %v, crash at %d: %v are shown, %s: %v", power, n, shown, name, there)
				}
			}
			for _, name := range []string{"x", "y"} {
				if code := send("POST", "/dbs", fmt.Sprintf(`{"id":%q}`, name)); code != http.StatusCreated {
					t.Errorf("power %v, crash at %d: then %d", power, n, code)
				}
			}
			s.Close()
		}
	}
}
