package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway"
)

// javascript returns a directory with our scripts and the packages that they need, and the
// endpoint of a gateway with its store. It skips the test where Node is absent.
func javascript(t *testing.T) (dir, endpoint string, db *engine.DB) {
	t.Helper()
	dir, h, db := workshop(t)
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return dir, server.URL + "/", db
}

// workshop is javascript with the handler in the place of an endpoint.
func workshop(t *testing.T) (dir string, h *gateway.Handler, db *engine.DB) {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	dir = t.TempDir()
	for _, name := range []string{"package.json", "scenarios.mjs", "splits.mjs"} {
		text, err := os.ReadFile(filepath.Join("js", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	build(t, ctx, dir, "npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
	db, err := engine.Open(t.Context(), t.TempDir(), &engine.Options{Durability: engine.Buffered})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if failed := db.Close(); failed != nil {
			t.Error(failed)
		}
	})
	h, err = gateway.New(t.Context(), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	return dir, h, db
}

func node(ctx context.Context, dir, endpoint, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "node", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "ACCOUNT_HOST="+endpoint, "ACCOUNT_KEY="+gateway.EmulatorKey)
	cmd.Stderr = os.Stderr
	return cmd
}

// TestJavaScript runs our scenarios of @azure/cosmos.
func TestJavaScript(t *testing.T) {
	dir, endpoint, _ := javascript(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := node(ctx, dir, endpoint, "scenarios.mjs").Output()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// TestSplitsUnderJavaScript: while physical partitions split and merge, eight workers of
// @azure/cosmos write, also in bulk, read, query and follow the change feed. No call fails
// beyond what the client itself repeats, and nothing is lost, doubled or out of order.
func TestSplitsUnderJavaScript(t *testing.T) {
	dir, endpoint, db := javascript(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute+2**phase)
	defer cancel()
	cmd := node(ctx, dir, endpoint, "splits.mjs")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	type report struct {
		Done      bool
		Calls     int
		Items     int
		Errors    []string
		Wrong     []string
		Latencies map[string][2][2]float64 // p50 and p99 in milliseconds, before and while
	}
	var last report
	reports := make(chan report)
	go func() { // ends with the script, or with ctx
		defer close(reports)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var r report
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				r.Errors = []string{fmt.Sprintf("%s: %v", lines.Bytes(), err)}
			}
			select {
			case reports <- r:
			case <-ctx.Done():
				return
			}
		}
	}()
	// wait lets the script work for a part of a phase. It tells of each hundred calls.
	wait := func(part int) {
		var over <-chan time.Time
		if *phase > 0 {
			over = time.After(*phase * time.Duration(part) / reshapes)
		}
		for n := 0; over != nil || n < part; n++ {
			select {
			case r, more := <-reports:
				if last = r; !more || r.Done {
					t.Fatalf("the script has ended: %+v", r)
				}
			case <-over:
				return
			}
		}
	}
	tell := func(what string) {
		if _, err := io.WriteString(in, what+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	wait(reshapes)
	tell("change")
	c, err := db.Container("d.c")
	if err != nil {
		t.Fatal(err)
	}
	for n := range reshapes {
		if err := reshape(ctx, c, n); err != nil {
			t.Fatal(err)
		}
		wait(1) // with the new partitions
	}
	tell("stop")
	for r := range reports {
		last = r
	}
	if err := cmd.Wait(); err != nil || !last.Done {
		t.Fatalf("the script has not ended as it should: %+v: %v", last, err)
	}
	for _, e := range last.Errors {
		t.Errorf("a call failed: %s", e)
	}
	for _, e := range last.Wrong {
		t.Error(e)
	}
	t.Logf("%d calls, %d items, %d splits and merges", last.Calls, last.Items, reshapes)
	for kind, p := range last.Latencies {
		t.Logf("%s: p50 %.2f ms before and %.2f ms while partitions changed, p99 %.2f ms and %.2f ms (%.2f x)", kind, p[0][0], p[1][0], p[0][1], p[1][1], p[1][1]/p[0][1])
	}
}
