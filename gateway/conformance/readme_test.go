package conformance

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/gateway"
)

// TestReadme runs what the README says to write in Go and in JavaScript, one after the other.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for block := range strings.SplitSeq(string(text), "```text\n") {
		code, _, _ := strings.Cut(block, "```")
		if strings.Contains(code, "127.0.0.1:8081") {
			blocks = append(blocks, code)
		}
	}
	if len(blocks) != 2 {
		t.Fatalf("the README has %d examples, want one of Go and one of JavaScript", len(blocks))
	}
	dir, endpoint, _ := javascript(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	at := func(code string) string { return strings.ReplaceAll(code, "http://127.0.0.1:8081/", endpoint) }
	// The Go file is compiled in this module, which has the client.
	program := "package main\n\nimport (\n\t\"context\"\n\t\"fmt\"\n\n\t\"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos\"\n)\n\nfunc main() {\n\tctx, key := context.Background(), \"" +
		gateway.EmulatorKey + "\"\n" + at(blocks[0]) + "}\n"
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(ctx, "go", "run", file).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte(`"total":40`)) {
		t.Errorf("Go: %v: %s\n%s", err, out, program)
	}
	script := strings.Replace(at(blocks[1]), "key }", `key: process.env.ACCOUNT_KEY }`, 1)
	if err := os.WriteFile(filepath.Join(dir, "readme.mjs"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := node(ctx, dir, endpoint, "readme.mjs").Output(); err != nil || strings.TrimSpace(string(out)) != "42" {
		t.Errorf("JavaScript: %v: %s", err, out)
	}
}
