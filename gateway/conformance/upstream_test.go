package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const upstream = "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

// TestAzcosmos runs the emulator tests of azcosmos, as they ship with the module, against
// pserve at the two fixed ports that they expect: at 8081 with the quirks of the older
// front end, at 8903 without.
func TestAzcosmos(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	dir := t.TempDir()
	server := filepath.Join(dir, "pserve")
	build(t, ctx, "..", "go", "build", "-o", server, "./cmd/pserve")
	tests := filepath.Join(dir, "azcosmos.test")
	build(t, ctx, ".", "go", "test", "-c", "-o", tests, upstream)
	where := strings.TrimSpace(build(t, ctx, ".", "go", "list", "-f", "{{.Dir}}", upstream))
	names := emulatorTests(t, where)

	store := filepath.Join(dir, "db")
	cert := serve(t, server, "--db", store, "--durability", "buffered", "--listen", "127.0.0.1:8903", "--listen-quirks", "127.0.0.1:8081",
		"--endpoint", "127.0.0.1", "--region", "South Central US", "--consistency", "Strong")
	cmd := exec.CommandContext(ctx, tests, "-test.v", "-test.run", "^("+strings.Join(names, "|")+")$")
	cmd.Dir = where
	cmd.Env = append(os.Environ(), "EMULATOR=true", "SSL_CERT_FILE="+cert)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	passed := 0
	for _, name := range names {
		if bytes.Contains(out, []byte("--- PASS: "+name+" (")) {
			passed++
		} else {
			t.Errorf("%s has not passed", name)
		}
	}
	t.Logf("%d of %d emulator tests of azcosmos pass", passed, len(names))
	if t.Failed() {
		t.Logf("%s", out)
	}
}

// emulatorTests returns the names of the tests that want an emulator.
func emulatorTests(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "emulator*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
	}
	slices.Sort(names)
	if len(names) < 40 {
		t.Fatalf("%d emulator tests in %s", len(names), dir)
	}
	return names
}

// build runs a command in a directory and returns what it printed.
func build(t *testing.T, ctx context.Context, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return string(out)
}

// serve starts pserve and waits until it is ready. It returns the file of its certificate.
// The server ends with the test.
func serve(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("pserve: %v", err)
		}
	})
	var ready struct {
		Ready       bool
		Certificate string
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil || !ready.Ready {
		t.Fatalf("pserve printed %q: %v", line, err)
	}
	return ready.Certificate
}
