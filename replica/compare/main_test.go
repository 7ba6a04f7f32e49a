package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestMain lets the program of the tests be the processes that a trial starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "node" {
		main()
	}
	os.Exit(m.Run())
}

func run(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = execute(context.Background(), append(args, "--dir", filepath.Join(t.TempDir(), "stores")), &environment{&out, &errs})
	return status, out.String(), errs.String()
}

// TestCompare: Cleave, etcd, NATS, and copying alone take puts from several clients and from one, and each is a row.
func TestCompare(t *testing.T) {
	status, out, errs := run(t, "--systems", "cleave,etcd,nats,copying", "--clients", "4,1", "--keys", "20", "--time", "200ms")
	if status != 0 {
		t.Fatalf("status %d: %s%s", status, out, errs)
	}
	for _, want := range []string{`Cleave, 8 groups \| 4 \| [1-9]`, `Cleave, 8 groups \| 1 \| [1-9]`, `etcd 3.7.3, 1 group \| 4 \| [1-9]`, `etcd 3.7.3, 1 group \| 1 \| [1-9]`, `NATS 2.15.2, 1 group \| 1 \| [1-9]`, `Neither Raft .* \| 4 \| [1-9]`, `Neither Raft .* \| 1 \| [1-9]`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s is not in %s", want, out)
		}
	}
}

// TestUsage: what is not known is wrong usage, and nothing is started.
func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"--systems", "zookeeper"}, {"--clients", "0"}, {"--connections", "0"}, {"--loss", "--systems", "copying"}} {
		if status, out, _ := run(t, args...); status != 2 || out != "" {
			t.Errorf("%v: status %d, %s", args, status, out)
		}
	}
}

// TestLoss: a put that Cleave or etcd has acknowledged survives the end of all processes.
func TestLoss(t *testing.T) {
	status, out, errs := run(t, "--loss", "--systems", "cleave,etcd", "--clients", "4", "--time", "200ms")
	if status != 0 {
		t.Fatalf("status %d: %s%s", status, out, errs)
	}
	for _, want := range []string{`Cleave, 8 groups \| ([1-9]\d*) \| \d+ \| 0 \|`, `etcd 3.7.3, 1 group \| ([1-9]\d*) \| \d+ \| 0 \|`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s is not in %s", want, out)
		}
	}
}

// TestPower: a power cut takes puts that NATS JetStream has acknowledged by default, and none of
// Cleave's.
func TestPower(t *testing.T) {
	if _, err := os.Stat("/dev/fuse"); err != nil || os.Getuid() != 0 {
		t.Skip("only root on Linux with /dev/fuse can cut the power: ", err)
	}
	status, out, errs := run(t, "--power", "--systems", "nats,cleave", "--clients", "4", "--time", "200ms")
	if status != 0 {
		t.Fatalf("status %d: %s%s", status, out, errs)
	}
	for _, want := range []string{`NATS 2.15.2, 1 group \| ([1-9]\d*) \| \d+ \| [1-9]\d* \|`, `Cleave, 8 groups \| ([1-9]\d*) \| \d+ \| 0 \|`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s is not in %s", want, out)
		}
	}
}
