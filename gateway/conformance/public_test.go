package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// publicDirectory names the directory test or test/public of the sources of the SDK. It is no
// part of the package, and none of this repository.
const publicDirectory = "COSMOS_JS_TESTS"

// notInScope are the files, or directories with a slash at their end, that say nothing of a
// server, and those that need what this one does not have, with the reason.
var notInScope = map[string]string{
	"unit/":                                   "tests functions of the SDK, without a server",
	"functional/globalEndpointManager.spec":   "calls internals of the SDK that version 4 has in another form",
	"functional/npcontainer.spec":             "its plugin has the form of version 3; containers without a partition key",
	"functional/plugin.spec":                  "its plugins have the form of version 3; no server",
	"functional/client.spec":                  "aborts requests after a millisecond, which are answered before",
	"functional/offer.spec":                   "wants a quota of 10 GiB, and an offer signed by a link that is none",
	"functional/spatial.spec":                 "spatial functions",
	"integration/extractPartitionKey.spec":    "a function of the SDK that version 4 does not export",
	"integration/multiregion.spec":            "several regions",
	"integration/proxy.spec":                  "proxies",
	"integration/retry.spec":                  "has no test",
	"integration/session.spec":                "spies on internals of the SDK, which modules do not allow",
	"integration/split.spec":                  "its plugin has the form of version 3",
	"integration/sslVerification.spec":        "wants a server without a valid certificate at https://localhost:8081",
	"integration/queryMetrics.spec":           "no server",
	"functional/clientSideEncryption.spec":    "encryption by clients",
	"functional/dotnetcse.spec":               "encryption by clients",
	"functional/vectorEmbeddingPolicy.spec":   "vectors",
	"functional/NonStreamingQueryPolicy.spec": "vectors",
	"integration/nonStreamingOrderBy/":        "vectors",
	"integration/fullTextSearch.spec":         "full text",
	"integration/failover.spec":               "several regions",
	"integration/ppaf.spec":                   "several regions",
	"integration/ppcb.spec":                   "several regions",
	"indexMetrics.spec":                       "a function of the SDK that version 4.10 does not have",
}

// otherVersion is in the failures of tests that count how often their version of the SDK asked
// for metadata. The version that is tested here asks less often.
const otherVersion = "In CosmosDiagnostics, Number of metadataLookups should match the spec"

// isOfOtherVersion reports whether a failure says no more than that. One test takes that error
// for the answer of the server, which it does not look at then: gateway.TestPathsAreAList does.
func isOfOtherVersion(failure string) bool {
	return strings.Contains(failure, otherVersion) || strings.Contains(failure, "Has 'paths' property as string: undefined == 400")
}

// knownFailures is how many tests of a file fail although it is in scope; docs/gateway.md has
// the reasons.
var knownFailures = map[string]int{
	"integration/crossPartition.spec": 5,
	"functional/item/bulk.item.spec":  2,
}

func serveAt(t *testing.T, h http.Handler, address string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
}

// TestPublicJavaScript runs the tests of the SDK that its authors have written, unchanged.
func TestPublicJavaScript(t *testing.T) {
	tests := os.Getenv(publicDirectory)
	if tests == "" {
		t.Skipf("%s does not name the tests of the SDK", publicDirectory)
	}
	dir, h, _ := workshop(t)
	// The tests know two fixed ports: that of the older front end, and that of the newer.
	serveAt(t, h.WithQuirks(), "127.0.0.1:8081")
	serveAt(t, h, "127.0.0.1:8903")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	for _, name := range []string{"package.json", "public.mjs"} {
		text, err := os.ReadFile(filepath.Join("js", "public", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	build(t, ctx, dir, "npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
	var files []string
	err := filepath.WalkDir(tests, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".spec.ts") {
			return err
		}
		name, err := filepath.Rel(tests, path)
		files = append(files, filepath.ToSlash(name))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(name string) bool {
		why := notInScope[strings.TrimSuffix(name, ".ts")]
		for prefix, reason := range notInScope {
			if strings.HasSuffix(prefix, "/") && strings.HasPrefix(name, prefix) {
				why = reason
			}
		}
		if why != "" {
			t.Logf("%s: out of scope: %s", name, why)
		}
		return why != ""
	})
	if len(files) == 0 {
		t.Fatalf("%s has no tests", tests)
	}
	cmd := exec.CommandContext(ctx, "node", append([]string{"public.mjs", tests}, files...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), "ACCOUNT_HOST=http://127.0.0.1:8081/", "MOCHA_TIMEOUT=60000")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	whole, tested := 0, 0
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var r struct {
			File   string
			Passed int
			Failed []string
			Error  string
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("%s: %v", lines.Bytes(), err)
		}
		all := len(r.Failed)
		r.Failed = slices.DeleteFunc(r.Failed, isOfOtherVersion)
		t.Logf("%s: %d passed, %d failed, %d are of another version %s", r.File, r.Passed, len(r.Failed), all-len(r.Failed), r.Error)
		if tested++; len(r.Failed) == 0 && r.Error == "" {
			whole++
		}
		if r.Error != "" || len(r.Failed) > knownFailures[strings.TrimSuffix(r.File, ".ts")] || r.Passed == 0 {
			t.Errorf("%s: %s %s", r.File, r.Error, strings.Join(r.Failed, "\n"))
		}
	}
	if tested != len(files) {
		t.Errorf("%d of %d files have a result", tested, len(files))
	}
	t.Logf("%d of %d files pass as a whole", whole, tested)
}
