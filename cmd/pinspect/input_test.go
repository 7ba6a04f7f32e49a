package main

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/manifest"
)

func TestBadInput(t *testing.T) {
	s := newSample(t)
	f := func(status int, text string, args ...string) {
		t.Helper()
		r := pinspect(t, args...)
		if r.status != status || !strings.Contains(r.stderr, text) || r.stdout != "" {
			t.Errorf("pinspect %s: status %d, want %d and %q\n%s%s", strings.Join(args, " "), r.status, status, text, r.stdout, r.stderr)
		}
		if !strings.HasPrefix(r.stderr, "pinspect: ") {
			t.Errorf("message: %s", r.stderr)
		}
	}
	f(cli.ExitUsage, "<dir>")
	f(cli.ExitUsage, "empty", "")
	f(cli.ExitUsage, "unexpected argument", "frob", s.dir)
	f(cli.ExitUsage, "--frob", "info", s.dir, "--frob")
	f(cli.ExitUsage, "<id>", "get", s.dir, "cities", `"C1"`)
	f(cli.ExitUsage, `"nowhere"`, "get", s.dir, "nowhere", `"C1"`, "x")
	f(cli.ExitUsage, `"nowhere"`, "export", s.dir, "nowhere")
	f(cli.ExitUsage, `"nowhere"`, "tree", s.dir, "--container", "nowhere")
	f(cli.ExitUsage, `"nowhere"`, "partitions", s.dir, "--container", "nowhere")
	f(cli.ExitUsage, "named by --container", "advise", s.dir, "cities", "--container", "cities")
	f(cli.ExitUsage, "99", "segments", s.dir, "--partition", "99")
	f(cli.ExitUsage, "99", "partitions", s.dir, "--container", "cities", "--partition", "99")
	f(cli.ExitUsage, "quotes", "get", s.dir, "cities", "C1", "x")
	f(cli.ExitUsage, "quotes", "export", s.dir, "cities", `"C1`)
	f(cli.ExitUsage, "levels", "get", s.dir, "cities", `["C1",2]`, "x")
	f(cli.ExitUsage, "levels", "export", s.dir, "blobs", `"C1"`)
	f(cli.ExitUsage, "empty id", "get", s.dir, "cities", `"C1"`, "")
	f(cli.ExitUsage, "id", "get", s.dir, "cities", `"C1"`, strings.Repeat("x", 1024))
	f(cli.ExitUsage, "--limit", "export", s.dir, "cities", "--limit=-1")
	f(cli.ExitUsage, "--top", "partitions", s.dir, "--top=-7")
	f(exitFindings, `no document with key "C1" and id "nobody"`, "get", s.dir, "cities", `"C1"`, "nobody")
	f(exitFindings, "no document", "get", s.dir, "cities", `"C0"`, "city-0000") // deleted
}

// An interrupt ends every command in the same way.
func TestInterrupted(t *testing.T) {
	s := newSample(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range everyCommand(s.dir) {
		var out, errs bytes.Buffer
		if status := execute(ctx, args, &environment{stdout: &out, stderr: &errs}); status != cli.ExitInterrupted || errs.String() != "pinspect: interrupted\n" {
			t.Errorf("pinspect %s: status %d: %s", strings.Join(args, " "), status, &errs)
		}
	}
	if text := clean(t, "--help"); !strings.Contains(text, "130 interrupted") {
		t.Error(text)
	}
}

// Every command refuses what is no store it can open.
func TestNoStore(t *testing.T) {
	s := newSample(t)
	kinds := 0 // a short run takes every fourth command, others for each kind
	f := func(name, text string, status int, prepare func(dir string) string) {
		kinds++
		t.Run(name, func(t *testing.T) {
			dir := prepare(copyStore(t, s.dir))
			for i, args := range everyCommand(dir) {
				if testing.Short() && i%4 != kinds%4 {
					continue
				}
				if args[0] == "advise" && name == "file" {
					continue // a file is a sample
				}
				want := exitCannotOpen
				if args[0] == "verify" {
					want = status
				}
				r := pinspect(t, args...)
				if r.status != want || !strings.Contains(r.stdout+r.stderr, text) {
					t.Errorf("pinspect %s: status %d, want %d and %q\n%s%s", strings.Join(args, " "), r.status, want, text, r.stdout, r.stderr)
				}
			}
		})
	}
	f("absent", "no such file", exitCannotOpen, func(dir string) string { return dir + "-absent" })
	f("file", "not a directory", exitCannotOpen, func(dir string) string { return filepath.Join(dir, storeFiles(t, dir, "MANIFEST-*")[0]) })
	f("empty", "not a cleave store", exitCannotOpen, func(string) string { return t.TempDir() })
	f("something else", "not a cleave store", exitCannotOpen, func(string) string {
		dir := t.TempDir()
		check(t, os.WriteFile(filepath.Join(dir, "letter.txt"), nil, 0o600))
		return dir
	})
	f("partition", "partition 1 of one", exitCannotOpen, func(dir string) string { return filepath.Join(dir, "p/000001") })
	f("lost manifest", "the store manifest is missing", exitFindings, func(dir string) string {
		check(t, os.Remove(filepath.Join(dir, storeFiles(t, dir, "MANIFEST-*")[0])))
		return dir
	})
	f("newer format", "format 9", exitCannotOpen, func(dir string) string {
		name := filepath.Join(dir, storeFiles(t, dir, "MANIFEST-*")[0])
		data, err := os.ReadFile(name)
		check(t, err)
		line, body, _ := strings.Cut(string(data), "\n")
		words := strings.Fields(strings.Replace(line, "store 2 ", "store 9 ", 1))
		head := strings.Join(words[:len(words)-2], " ")
		sum := crc32.Checksum([]byte(head+body), crc32.MakeTable(crc32.Castagnoli))
		check(t, os.WriteFile(name, fmt.Appendf(nil, "%s %08x %d\n%s", head, sum, len(body), body), 0o600))
		return dir
	})
	f("damaged manifest", "MANIFEST-", exitFindings, func(dir string) string {
		patch(t, filepath.Join(dir, storeFiles(t, dir, "MANIFEST-*")[0]), 99, func(b byte) byte { return b ^ 1 })
		return dir
	})
	f("empty manifest", "MANIFEST-", exitFindings, func(dir string) string {
		check(t, os.WriteFile(filepath.Join(dir, manifest.Name(1<<33)), nil, 0o600))
		return dir
	})
}
