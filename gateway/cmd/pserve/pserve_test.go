package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/gateway"
	"github.com/cleavestore/cleave/gateway/gatewaytest"
	"github.com/cleavestore/cleave/internal/doctest"
)

// serve runs the server until the test ends, and returns its ready line.
func serve(t *testing.T, args ...string) ready {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, append([]string{"--listen", "127.0.0.1:0"}, args...), in, io.Discard)
		in.CloseWithError(io.EOF)
		ended <- err
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var r ready
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err != nil || !r.Ready {
		t.Fatalf("ready line %q: %v", line, err)
	}
	return r
}

func get(t *testing.T, c *http.Client, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// TestServe: HTTP and HTTPS share a port; the certificate is good for the names of this
// host and stays over restarts; the pages without a signature tell nothing of the data.
func TestServe(t *testing.T) {
	db := filepath.Join(t.TempDir(), "db")
	var certificate []byte
	for range 2 {
		t.Run("run", func(t *testing.T) {
			r := serve(t, "--db", db)
			if !r.Emulator || len(r.HTTP) != 1 || len(r.HTTPS) != 1 {
				t.Errorf("%+v", r)
			}
			text, err := os.ReadFile(r.Cert)
			if err != nil {
				t.Fatal(err)
			}
			if certificate != nil && !bytes.Equal(text, certificate) {
				t.Error("the certificate was made anew")
			}
			certificate = text
			roots := x509.NewCertPool()
			if !roots.AppendCertsFromPEM(text) {
				t.Fatal("no certificate")
			}
			transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport}
			_, port, err := net.SplitHostPort(strings.Trim(strings.TrimPrefix(r.HTTP[0], "http:"), "/"))
			if err != nil {
				t.Fatal(err)
			}
			for _, base := range []string{r.HTTP[0], r.HTTPS[0], "https://localhost:" + port + "/"} {
				if status, body := get(t, client, base+"healthz"); status != 200 || !strings.Contains(body, "ok") {
					t.Errorf("%s: %d %s", base, status, body)
				}
				if status, body := get(t, client, base+"metrics"); status != 200 || !strings.Contains(body, "# TYPE cleave_reads_total counter") {
					t.Errorf("%s metrics: %d %s", base, status, body[:min(len(body), 300)])
				}
				if status, body := get(t, client, base+"_explorer/emulator.pem"); status != 200 || body != string(text) {
					t.Errorf("%s certificate: %d", base, status)
				}
				if status, body := get(t, client, base+"dbs"); status != 401 || !strings.Contains(body, "Unauthorized") {
					t.Errorf("%s without a signature: %d %s", base, status, body)
				}
			}
			// Nor does a request for the server as a whole get an answer without a signature.
			if err = unfinished(t.Context(), "127.0.0.1:"+port, "OPTIONS * HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 401); err != nil {
				t.Errorf("OPTIONS *: %v", err)
			}
			// A client that also speaks HTTP/2 is told to speak HTTP/1.1, the only one that is served.
			secure, err := tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{RootCAs: roots, NextProtos: []string{"h2", "http/1.1"}})
			if err != nil {
				t.Fatal(err)
			}
			if got := secure.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
				t.Errorf("the protocol %q was agreed upon", got)
			}
			secure.Close()
			// A connection that says nothing holds up nobody.
			silent, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()
			if status, _ := get(t, client, r.HTTP[0]+"healthz"); status != 200 {
				t.Errorf("beside a silent connection: %d", status)
			}
		})
	}
}

// TestProgram: the commands of the documentation build the program and run it; an interrupt
// ends it.
func TestProgram(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "pserve")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	if out, err := exec.Command("go", "-C", "../..", "build", "-o", program, "./cmd/pserve").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program, "--db", filepath.Join(dir, "db"), "--listen", "127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var messages bytes.Buffer
	cmd.Stderr = &messages
	if err = cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill() // if the test fails
	lines := bufio.NewReader(out)
	line, err := lines.ReadBytes('\n')
	var r ready
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err != nil || !r.Ready || len(r.HTTP) != 1 {
		t.Fatalf("ready line %q: %v\n%s", line, err, &messages)
	}
	if status, _ := get(t, http.DefaultClient, r.HTTP[0]+"healthz"); status != 200 {
		t.Errorf("healthz: %d", status)
	}
	http.DefaultClient.CloseIdleConnections()
	if runtime.GOOS == "windows" { // has no interrupt for a process of no console
		return
	}
	if err = cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if more, err := io.ReadAll(lines); err != nil || len(more) > 0 {
		t.Errorf("after the ready line: %q, %v", more, err)
	}
	if err = cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &messages)
	}
}

// TestControlCommands: the commands of the documentation direct a running server.
func TestControlCommands(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl is installed")
	}
	page, err := doctest.Read("../../..", "docs/gateway.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks [][]doctest.Step
	for _, b := range page.Blocks {
		if strings.TrimSpace(b.Notes["run by"]) == "TestControlCommands" {
			blocks = append(blocks, b.Steps())
		}
	}
	if len(blocks) != 2 || len(blocks[1]) < 5 {
		t.Fatalf("the page has %d blocks", len(blocks))
	}
	args := strings.Fields(blocks[0][0].Command)
	if args[0] != "DIR/pserve" {
		t.Fatalf("%q", args)
	}
	for i := range args {
		args[i] = strings.ReplaceAll(strings.ReplaceAll(args[i], "DIR", t.TempDir()), ":8091", ":0")
	}
	r := serve(t, args[1:]...)
	post := func(path, body string) {
		q, failed := http.NewRequestWithContext(t.Context(), http.MethodPost, r.HTTP[0]+path, strings.NewReader(body))
		if failed == nil {
			failed = gatewaytest.Sign(q, gateway.EmulatorKey)
		}
		if failed != nil {
			t.Fatal(failed)
		}
		if strings.HasSuffix(path, "docs") {
			q.Header.Set("x-ms-documentdb-partitionkey", `["`+body[7:8]+`"]`)
		}
		answer, failed := http.DefaultClient.Do(q)
		if failed != nil {
			t.Fatal(failed)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusCreated {
			t.Fatalf("%s: %s", path, answer.Status)
		}
	}
	post("dbs", `{"id":"shop"}`)
	post("dbs/shop/colls", `{"id":"orders","partitionKey":{"paths":["/id"]}}`)
	post("dbs/shop/colls/orders/docs", `{"id":"1"}`)
	post("dbs/shop/colls/orders/docs", `{"id":"2"}`)
	wants := []string{`"partitions"`, `"ended":true`, `"status":429`, `"removed":1`, `"ahead_ms":3600000`, `"ms":`, `"ms":`}
	for i, step := range blocks[1] {
		command := strings.ReplaceAll(step.Command, "http://127.0.0.1:8091/", r.Control)
		out, failed := exec.Command("sh", "-c", command).CombinedOutput()
		if failed != nil || !strings.Contains(string(out), wants[i]) || strings.Contains(string(out), `"error"`) {
			t.Errorf("%s: %v: %s", command, failed, out)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestArguments: what cannot be served is refused, with a reason.
func TestArguments(t *testing.T) {
	own := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 64))
	t.Setenv("PSERVE_KEY", "")
	for want, args := range map[string][]string{
		"--db DIR is missing":      {},
		"reached from other hosts": {"--db", "x", "--listen", "0.0.0.0:8081"},
		"control.example":          {"--db", "x", "--control", "control.example:8091"},
		"give --key":               {"--db", "x", "--listen", ":8081"},
		"flags only":               {"--db", "x", "y"},
		"given together":           {"--db", "x", "--cert", "c"},
		"missing port":             {"--db", "x", "--listen", "localhost"},
	} {
		if _, err := parse(args, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
	if _, err := parse([]string{"--db", "x", "--listen", "0.0.0.0:8081", "--key", own}, io.Discard); err != nil {
		t.Error(err)
	}
	for _, args := range [][]string{{"--log", "loud"}, {"--durability", "never"}, {"--consistency", "x"}, {"--key", "short"}} {
		args = append([]string{"--db", filepath.Join(t.TempDir(), "db"), "--listen", "127.0.0.1:0"}, args...)
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}
