package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
)

// TestServeFollows: the page of a store that another process writes to shows what that has
// written since the page was begun.
func TestServeFollows(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	writer, err := engine.Open(t.Context(), dir, nil)
	check(t, err)
	defer writer.Close()
	c, err := writer.CreateContainer(t.Context(), "cities", engine.ContainerDef{PartitionKey: []string{"/country"}})
	check(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	said, says := io.Pipe()
	status := make(chan int, 1)
	go func() {
		status <- execute(ctx, []string{"serve", dir, "--addr", "localhost:0", "--refresh", "1ns"}, &environment{stdout: new(bytes.Buffer), stderr: says})
	}()
	line, err := bufio.NewReader(said).ReadString('\n')
	check(t, err)
	_, address, found := strings.Cut(line, " on ")
	address, _, cut := strings.Cut(address, ",")
	if !found || !cut {
		t.Fatalf("serve says %q", line)
	}
	const document = `{"id":"porto","country":"PT"}`
	_, err = c.Upsert(t.Context(), []byte(document), nil)
	check(t, err)
	check(t, writer.Compact(t.Context()))
	get := func(path string) string {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+path, nil)
		check(t, err)
		response, err := http.DefaultClient.Do(request)
		check(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		check(t, err)
		if response.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s\n%s", path, response.Status, body)
		}
		return string(body)
	}
	get("/api/store") // time to refresh
	if body := get(`/api/item?name=cities&key=%22PT%22&id=porto`); !strings.Contains(body, "porto") {
		t.Errorf("the item: %s", body)
	}
	cancel()
	if got := <-status; got != cli.ExitOK {
		t.Errorf("status %d when interrupted", got)
	}
}
