package main

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/gateway/gatewaytest"
)

// build builds the program of gateway/Dockerfile by the command that stands there, for Linux, into a
// directory. It returns the program, and what the image starts.
func build(t *testing.T, dir string) (program string, entry []string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the commands of a Dockerfile want sh")
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "gateway", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`(?m)^RUN (sh gateway/image\.sh) /pserve && mkdir /data$`).FindSubmatch(text)
	start := regexp.MustCompile(`(?m)^ENTRYPOINT (\[.*\])$`).FindSubmatch(text)
	if command == nil || start == nil || !bytes.Contains(text, []byte("\nFROM scratch\nCOPY --from=build /pserve /pserve\n")) {
		t.Fatalf("the Dockerfile has another form:\n%s", text)
	}
	if err = json.Unmarshal(start[1], &entry); err != nil || len(entry) == 0 || entry[0] != "/pserve" {
		t.Fatalf("%s: %v", start[1], err)
	}
	program = filepath.Join(dir, "pserve")
	made := exec.Command("sh", "-c", string(command[1])+" "+program)
	made.Dir = root
	if out, failed := made.CombinedOutput(); failed != nil {
		t.Fatalf("%v\n%s", failed, out)
	}
	return program, entry
}

// TestDockerfile builds the binary that gateway/Dockerfile copies, by the command that stands
// there, and runs it as the image does: with no environment but the key, and no directory but
// that of the data. It answers a signed request and runs a script.
func TestDockerfile(t *testing.T) {
	image := t.TempDir()
	program, entry := build(t, image)
	binary, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	for _, p := range binary.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the program wants a dynamic linker, which the image does not have")
		}
	}
	if runtime.GOOS != "linux" {
		return
	}
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 64))
	args := strings.Split(strings.NewReplacer("/data", filepath.Join(image, "data"), ":8081", ":0").Replace(strings.Join(entry[1:], "\n")), "\n")
	if err = os.Mkdir(filepath.Join(image, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = image
	// The image has no /tmp.
	cmd.Env = []string{"PSERVE_KEY=" + key, "TMPDIR=" + filepath.Join(image, "tmp")}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var messages bytes.Buffer
	cmd.Stderr = &messages
	if err = cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		http.DefaultClient.CloseIdleConnections()
	}()
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var r ready
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err != nil || !r.Ready || r.Emulator {
		t.Fatalf("ready line %q: %v\n%s", line, err, &messages)
	}
	_, port, err := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(r.HTTP[0], "http://"), "/"))
	if err != nil {
		t.Fatal(err)
	}
	post := func(path, body string, want int, head ...string) string {
		q, failed := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:"+port+path, strings.NewReader(body))
		if failed == nil {
			failed = gatewaytest.Sign(q, key)
		}
		if failed != nil {
			t.Fatal(failed)
		}
		for i := 0; i < len(head); i += 2 {
			q.Header.Set(head[i], head[i+1])
		}
		answer, failed := http.DefaultClient.Do(q)
		if failed != nil {
			t.Fatal(failed)
		}
		defer answer.Body.Close()
		shown, failed := io.ReadAll(answer.Body)
		if failed != nil || answer.StatusCode != want {
			t.Fatalf("%s: %s %s %v\n%s", path, answer.Status, shown, failed, &messages)
		}
		return string(shown)
	}
	post("/dbs", `{"id":"d"}`, 201)
	post("/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]}}`, 201)
	post("/dbs/d/colls/c/sprocs", `{"id":"p","body":"function () { getContext().getResponse().setBody(6 * 7) }"}`, 201)
	if got := post("/dbs/d/colls/c/sprocs/p", `[]`, 200, "x-ms-documentdb-partitionkey", `["a"]`); got != "42" {
		t.Errorf("the script answers %s", got)
	}
}
