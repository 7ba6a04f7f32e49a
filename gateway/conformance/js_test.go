package conformance

import (
	"bufio"
	"context"
	"encoding/json"
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
	h, err := gateway.New(t.Context(), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		server.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return dir, server.URL + "/", db
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
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
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
		Done   bool
		Calls  int
		Items  int
		Errors []string
		Wrong  []string
	}
	var last report
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	// The script tells of each hundred calls: then the partitions change once more.
	for n := 0; lines.Scan(); {
		if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
			t.Fatalf("%s: %v", lines.Bytes(), err)
		}
		if n == reshapes || last.Done {
			continue
		}
		c, err := db.Container("d.c")
		if err == nil {
			err = reshape(ctx, c, n)
		}
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == reshapes {
			if _, err := io.WriteString(in, "stop\n"); err != nil {
				t.Fatal(err)
			}
		}
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
}
