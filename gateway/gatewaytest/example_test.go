package gatewaytest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/gateway/control"
	"github.com/cleavestore/cleave/gateway/gatewaytest"
)

// TestPlainHTTP is an example: a test that speaks the protocol itself, against a server of its own.
// It retries what is refused, and sees a session expire without waiting.
func TestPlainHTTP(t *testing.T) {
	t.Parallel()
	s := gatewaytest.Start(t, nil)
	s.Do(t, "POST", "dbs", `{"id":"shop"}`)
	s.Do(t, "POST", "dbs/shop/colls", `{"id":"sessions","partitionKey":{"paths":["/user"]},"defaultTtl":1800}`)
	const sessions, key = "dbs/shop/colls/sessions/docs", "x-ms-documentdb-partitionkey"

	// The first two attempts are refused.
	s.Plant(t, control.Fault{Status: 429, RetryAfter: 1, Operations: []string{"create"}, Count: 2})
	attempts := 1
	for ; ; attempts++ {
		status, body, _ := s.Do(t, "POST", sessions, `{"id":"1","user":"ann"}`, key, `["ann"]`)
		if status == 201 {
			break
		}
		if status != 429 || attempts > 3 {
			t.Fatalf("%d %s", status, body)
		}
	}
	if attempts != 3 {
		t.Errorf("%d attempts", attempts)
	}
	if status, body, _ := s.Do(t, "GET", sessions+"/1", "", key, `["ann"]`); status != 200 || !strings.Contains(body, `"user":"ann"`) {
		t.Errorf("%d %s", status, body)
	}
	if _, err := s.Control.Advance(t.Context(), 31*time.Minute); err != nil {
		t.Fatal(err)
	}
	if status, body, _ := s.Do(t, "GET", sessions+"/1", "", key, `["ann"]`); status != 404 {
		t.Errorf("after its time to live: %d %s", status, body)
	}
}

// TestApart: servers of different tests share nothing.
func TestApart(t *testing.T) {
	t.Parallel()
	a, b := gatewaytest.Start(t, nil), gatewaytest.Start(t, nil)
	a.Do(t, "POST", "dbs", `{"id":"shop"}`)
	if _, err := b.Control.Advance(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if status, _, _ := b.Do(t, "GET", "dbs/shop", ""); status != 404 {
		t.Errorf("the other server has the database: %d", status)
	}
	if now, err := a.Control.Clock(t.Context()); err != nil || now.Ahead != 0 {
		t.Errorf("the other clock was turned: %+v %v", now, err)
	}
}
