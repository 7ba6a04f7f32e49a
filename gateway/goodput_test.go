package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/cleavestore/cleave/cleavetest"
	"github.com/cleavestore/cleave/engine"
)

// TestGoodput: clients that together ask for more than is provisioned, and repeat a call exactly when
// the answer says so, get what is provisioned. One that is alone is then admitted.
func TestGoodput(t *testing.T) {
	for _, tc := range []struct {
		clients, perSecond, pad int
	}{{1, 400, 1}, {1, 1000, 30_000}, {16, 1000, 1}, {16, 5000, 100_000}, {40, 400, 1000}} {
		t.Run(fmt.Sprintf("%+v", tc), func(t *testing.T) {
			s := cleavetest.New(t, cleavetest.At(time.Now()), cleavetest.NoBackground(),
				cleavetest.WithOptions(engine.Options{Durability: engine.Buffered}))
			h, err := New(t.Context(), s.DB(), &Options{Throttle: true, Clock: s.Now, SignatureClock: time.Now})
			if err != nil {
				t.Fatal(err)
			}
			g := &server{t: t, db: s.DB(), h: h, s: httptest.NewUnstartedServer(h)}
			send := func(method, path, body string, head ...string) *httptest.ResponseRecorder {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, g.signed(method, path, []byte(body), head...))
				return w
			}
			send("POST", "/dbs", `{"id":"d"}`)
			send("POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]}}`, "x-ms-offer-throughput", strconv.Itoa(tc.perSecond))
			s.Advance(time.Millisecond)
			if w := send("POST", "/dbs/d/colls/c/docs", fmt.Sprintf(`{"id":"1","pk":"a","pad":"%0*d"}`, tc.pad, 0), pk, `["a"]`); w.Code != http.StatusCreated {
				t.Fatal(w.Code, w.Body)
			}
			const seconds = 3
			var now time.Duration
			at := make([]time.Duration, tc.clients) // when each asks next
			told := make([]bool, tc.clients)
			var units float64
			refused := 0
			for counting := time.Second; ; {
				next := 0
				for i := range at {
					if at[i] < at[next] {
						next = i
					}
				}
				if at[next] >= counting+seconds*time.Second {
					break
				}
				if at[next] > now {
					s.Advance(at[next] - now)
					now = at[next]
				}
				w := send("GET", "/dbs/d/colls/c/docs/1", "", pk, `["a"]`)
				switch w.Code {
				case http.StatusOK:
					charge, err := strconv.ParseFloat(w.Header().Get("x-ms-request-charge"), 64)
					if err != nil {
						t.Fatal(err)
					}
					if now >= counting {
						units += charge
					}
					told[next] = false
				case http.StatusTooManyRequests:
					refused++
					wait, err := strconv.Atoi(w.Header().Get("x-ms-retry-after-ms"))
					if err != nil || wait < 1 {
						t.Fatalf("retry after %d ms: %v", wait, err)
					}
					if told[next] && tc.clients == 1 {
						t.Fatal("refused again when it came as it was told")
					}
					told[next] = true
					at[next] += time.Duration(wait) * time.Millisecond
				default:
					t.Fatal(w.Code, w.Body)
				}
			}
			if share := units / float64(tc.perSecond*seconds); refused == 0 || share < 0.98 || share > 1.02 {
				t.Errorf("%v of what is provisioned, %d calls refused", share, refused)
			}
		})
	}
}
