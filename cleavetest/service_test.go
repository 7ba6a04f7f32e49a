package cleavetest_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/cleavetest"
	"github.com/cleavestore/cleave/engine"
)

// orders serves a container over HTTP: the program that the test below is about.
func orders(c *engine.Container) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		doc, err := io.ReadAll(r.Body)
		if err == nil {
			_, err = c.Upsert(r.Context(), doc, nil)
		}
		switch {
		case err == nil:
			w.WriteHeader(http.StatusCreated)
		case errors.Is(err, engine.ErrDiskFull):
			w.Header().Set("Retry-After", "30")
			http.Error(w, "no space", http.StatusServiceUnavailable)
		case errors.Is(err, engine.ErrInvalid):
			http.Error(w, err.Error(), http.StatusBadRequest)
		default:
			http.Error(w, "internal", http.StatusInternalServerError)
		}
	})
}

// TestOrdersOnAFullDisk: the service asks clients to come back while the disk is full, and
// takes orders again when there is space.
func TestOrdersOnAFullDisk(t *testing.T) {
	s := cleavetest.New(t)
	service := orders(s.Container("orders", "/customer"))
	post := func() *http.Response {
		w := httptest.NewRecorder()
		service.ServeHTTP(w, httptest.NewRequest("POST", "/orders", strings.NewReader(`{"id":"1","customer":"ann"}`)))
		return w.Result()
	}
	if r := post(); r.StatusCode != http.StatusCreated {
		t.Fatalf("answered %s", r.Status)
	}
	s.FillDisk()
	if r := post(); r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" {
		t.Errorf("on a full disk answered %s, Retry-After %q", r.Status, r.Header.Get("Retry-After"))
	}
	s.FreeDisk()
	if r := post(); r.StatusCode != http.StatusCreated {
		t.Errorf("with space again answered %s", r.Status)
	}
}
