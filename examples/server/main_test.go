package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// start runs the program on a port of its own. It returns the address, and what
// ends it and says how it went.
func start(t *testing.T, args ...string) (url string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, append([]string{"-addr", "127.0.0.1:0"}, args...), w)
		w.CloseWithError(io.EOF)
		ended <- err
	}()
	first, err := bufio.NewReader(r).ReadString('\n')
	url = regexp.MustCompile(`http://[0-9.:]+`).FindString(first)
	if err != nil || url == "" {
		cancel()
		t.Fatalf("started with %q: %v, %v", first, err, <-ended)
	}
	go io.Copy(io.Discard, r)
	return url, func() error { cancel(); return <-ended }
}

// send sends a request and returns the answer, read to its end.
func send(t *testing.T, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(text)
}

// TestSession runs the commands of README.md and looks for each line that it
// shows in what they print.
func TestSession(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err == nil {
		_, err = exec.LookPath("curl")
	}
	if err != nil {
		t.Skip(err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	url, stop := start(t)
	address := strings.TrimPrefix(url, "http://")
	var command, output string
	commands := 0
	for _, block := range regexp.MustCompile("(?s)<!-- run by: TestSession -->\n```sh\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		for line := range strings.Lines(block[1]) {
			line = strings.TrimSpace(line)
			if c, is := strings.CutPrefix(line, "$ "); is {
				command = strings.ReplaceAll(c, "localhost:8080", address)
				out, err := exec.CommandContext(t.Context(), shell, "-c", strings.Replace(command, "curl", "curl -sS", 1)).CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v\n%s", command, err, out)
				}
				output = strings.ReplaceAll(string(out), "\r", "")
				commands++
			} else if !strings.Contains("\n"+output+"\n", "\n"+line+"\n") {
				t.Errorf("%s\nprints no line\n%s\nbut\n%s", command, line, output)
			}
		}
	}
	if commands < 12 {
		t.Errorf("README.md has %d commands", commands)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestRefusals asks for what is refused.
func TestRefusals(t *testing.T) {
	url, stop := start(t)
	notes := url + "/users/ada/notes"
	send(t, "PUT", notes+"/a", `{"title":"A"}`)
	send(t, "PUT", notes+"/b", `{"title":"B"}`)
	for _, test := range []struct {
		method, url, body string
		code              int
		text              string
	}{
		{"PUT", notes + "/a", `{"title":`, 400, "body: unexpected EOF"},
		{"PUT", notes + "/a", `{"titel":"A"}`, 400, `unknown field`},
		{"PUT", notes + "/a", `{"title":"` + strings.Repeat("A", maxBody) + `"}`, 413, "too large"},
		{"POST", notes + "?id=" + strings.Repeat("x", 1024), `{}`, 400, "id"},
		{"POST", notes + "/a/rename?to=b", "", 409, "already exists"},
		{"POST", notes + "/a/rename", "", 400, "id"},
		{"POST", notes + "/c/rename?to=d", "", 404, "not found"},
		{"DELETE", notes + "/c", "", 404, "not found"},
		{"PUT", url + "/users/%ff/notes/x", `{}`, 400, "UTF-8"},
		{"PUT", notes + "/%ff", `{}`, 400, "UTF-8"},
		{"POST", notes + "?id=%ff", `{}`, 400, "UTF-8"},
		{"POST", notes + "/a/rename?to=%ff", "", 400, "UTF-8"},
		{"GET", notes + "?limit=many", "", 400, "limit"},
		{"GET", notes + "?after=xyz", "", 400, "continuation"},
	} {
		answer, text := send(t, test.method, test.url, test.body)
		if answer.StatusCode != test.code || !strings.Contains(text, test.text) {
			t.Errorf("%s %.100s: %s %s, want %d and %q", test.method, test.url, answer.Status, text, test.code, test.text)
		}
	}
	for _, header := range []string{"1", `"x"`, `W/"1"`} {
		if answer, text := send(t, "PUT", notes+"/a", `{}`, "If-Match", header); answer.StatusCode != 400 {
			t.Errorf("If-Match %s: %s %s", header, answer.Status, text)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestPages goes through the pages of a list.
func TestPages(t *testing.T) {
	url, stop := start(t)
	for i := range 25 {
		send(t, "PUT", url+"/users/ada/notes/"+strconv.Itoa(100+i), `{"title":"T","tags":["t"]}`)
	}
	next := "/users/ada/notes?limit=10&tag=t"
	var got []string
	for pages := 0; next != ""; pages++ {
		if pages == 4 {
			t.Fatal("no end")
		}
		_, text := send(t, "GET", url+next, "")
		for _, m := range regexp.MustCompile(`"id":"(\d+)"`).FindAllStringSubmatch(text, -1) {
			got = append(got, m[1])
		}
		next = ""
		if m := regexp.MustCompile(`"next":"([^"]+)"`).FindStringSubmatch(text); m != nil {
			next = m[1]
		}
	}
	if len(got) != 25 || got[0] != "100" || got[24] != "124" {
		t.Errorf("pages have %v", got)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestThrottled writes until it is told to wait.
func TestThrottled(t *testing.T) {
	url, stop := start(t, "-throughput", "1")
	for range 1000 { // the second one, unless five seconds lie between them
		answer, text := send(t, "PUT", url+"/users/ada/notes/a", `{"title":"A"}`)
		if answer.StatusCode == http.StatusNoContent {
			continue
		}
		after, err := strconv.Atoi(answer.Header.Get("Retry-After"))
		if answer.StatusCode != http.StatusTooManyRequests || err != nil || after < 1 || after > 5 {
			t.Errorf("%s %s, Retry-After %q", answer.Status, text, answer.Header.Get("Retry-After"))
		}
		break
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestThrottledExport: a stream that is refused before it begins is answered as other requests are.
func TestThrottledExport(t *testing.T) {
	url, stop := start(t, "-throughput", "1")
	for n := 0; ; n++ { // the first time, unless five seconds lie between the two requests
		send(t, "PUT", url+"/users/ada/notes/a", `{"title":"A"}`)
		answer, text := send(t, "GET", url+"/notes.ndjson", "")
		if answer.StatusCode == http.StatusTooManyRequests && answer.Header.Get("Retry-After") != "" {
			break
		}
		if answer.StatusCode != http.StatusOK || n == 100 {
			t.Fatalf("%s %s, Retry-After %q", answer.Status, text, answer.Header.Get("Retry-After"))
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestUserLimits: a user who has reached a limit is refused, another one is not, and each
// learns what they have used.
func TestUserLimits(t *testing.T) {
	dir := t.TempDir()
	url, stop := start(t, "-dir", dir, "-user-throughput", "1", "-user-bytes", "100")
	type usage struct {
		Bytes, Refused int64
		MaxBytes       int64 `json:"max_bytes"`
		Units          float64
		PerSecond      float64 `json:"max_units_per_second"`
	}
	used := func(user string) (u usage) {
		answer, text := send(t, "GET", url+"/users/"+user+"/usage", "")
		if err := json.Unmarshal([]byte(text), &u); err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: %v", answer.Status, text, err)
		}
		return u
	}
	refused := int64(0)
	for range 1000 { // the second one, unless five seconds lie between them
		if answer, _ := send(t, "PUT", url+"/users/ada/notes/a", `{"title":"A"}`); answer.StatusCode == http.StatusTooManyRequests {
			refused++
			break
		}
	}
	if answer, text := send(t, "PUT", url+"/users/grace/notes/a", `{"title":"A"}`); answer.StatusCode != http.StatusNoContent {
		t.Errorf("another user: %s %s", answer.Status, text)
	}
	if u := used("ada"); refused != 1 || u.Refused != 1 || u.Units < 5 || u.PerSecond != 1 || u.Bytes == 0 || u.MaxBytes != 100 {
		t.Errorf("%+v", u)
	}
	if u := used("grace"); u.Refused != 0 || u.Units < 5 {
		t.Errorf("another user: %+v", u)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	url, stop = start(t, "-dir", dir, "-user-bytes", "100") // the limits are those of this start
	if answer, text := send(t, "PUT", url+"/users/ada/notes/b", `{"title":"`+strings.Repeat("long ", 100)+`"}`); answer.StatusCode != http.StatusForbidden {
		t.Errorf("over the bytes of a user: %s %s", answer.Status, text)
	}
	if u := used("ada"); u.PerSecond != 0 || u.MaxBytes != 100 {
		t.Errorf("after a restart: %+v", u)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestShutdown ends the server while it streams, and starts it again.
func TestShutdown(t *testing.T) {
	dir := t.TempDir()
	url, stop := start(t, "-dir", dir)
	const notes = 200
	body := `{"title":"` + strings.Repeat("long ", 10_000) + `"}`
	for i := range notes {
		send(t, "PUT", url+"/users/ada/notes/"+strconv.Itoa(i), body)
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", url+"/notes.ndjson", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req) // 10 MB, more than connections hold
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	in := bufio.NewReader(answer.Body)
	if _, err := in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	lines := 1
	for ; ; lines++ {
		if _, err := in.ReadString('\n'); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if lines != notes {
		t.Errorf("the stream had %d lines, want %d", lines, notes)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}

	url, stop = start(t, "-dir", dir)
	if answer, _ := send(t, "GET", url+"/users/ada/notes/7", ""); answer.StatusCode != http.StatusOK {
		t.Errorf("after a restart: %s", answer.Status)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestDebug: the address for operators has metrics and profiles, that for users has not.
func TestDebug(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	debug := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	url, stop := start(t, "-debug", debug)
	send(t, "PUT", url+"/users/ada/notes/a", `{"title":"A"}`)
	_, text := send(t, "GET", "http://"+debug+"/debug/vars", "")
	var vars struct {
		Cleave struct {
			Writes float64 `json:"cleave_writes_total"`
			Calls  []struct {
				Call  string
				Count int
				P99   float64
			} `json:"cleave_call_duration_seconds"`
		}
	}
	if err := json.Unmarshal([]byte(text), &vars); err != nil {
		t.Fatal(err)
	}
	written := 0
	for _, call := range vars.Cleave.Calls {
		if call.P99 > 0 {
			written += call.Count
		}
	}
	if vars.Cleave.Writes != 1 || written < 1 {
		t.Errorf("%s", text)
	}
	if answer, text := send(t, "GET", "http://"+debug+"/debug/pprof/goroutine?debug=1", ""); answer.StatusCode != http.StatusOK || !strings.Contains(text, "goroutine profile") {
		t.Errorf("%d %s", answer.StatusCode, text)
	}
	if answer, _ := send(t, "GET", url+"/debug/vars", ""); answer.StatusCode != http.StatusNotFound {
		t.Errorf("users see metrics: %d", answer.StatusCode)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// TestArguments: what is no flag is refused, since the flags behind it would not count.
func TestArguments(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, []string{"store", "-addr", "127.0.0.1:0"}, io.Discard); err == nil || !strings.Contains(err.Error(), `"store": flags only`) {
		t.Error(err)
	}
}
