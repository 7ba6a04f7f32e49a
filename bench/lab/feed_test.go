package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
)

// programEnv makes the program of the tests be the laboratory.
const programEnv = "CLEAVE_TEST_LAB"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestFeed kills a process that puts and follows: what was acknowledged comes
// once behind a position, and is there.
func TestFeed(t *testing.T) {
	t.Setenv(programEnv, "yes")
	s := newSession(t)
	s.do(t, cli.ExitOK, "feed", "--rate", "5k", "--for", "800ms", "--splits", "12", "--kills", "3", "--json", "-")
	var r feedReport
	if err := json.Unmarshal(s.out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Kills != 3 || r.Asked != 12 || r.Splits != 12 || r.Puts == 0 || r.Changes < r.Puts || r.Duplicates+r.Missing+r.Invented+r.Lost != 0 {
		t.Errorf("%+v", r)
	}
	s.do(t, cli.ExitOK, "feed", "--rate", "1k", "--for", "10ms", "--splits", "0", "--kills", "0", "--alone")
	wants(t, s.out.String(), "splits 0 of 0, kills 0", "changes  0")
	s.do(t, harness.ExitFailed, "feed-life")
	wants(t, s.errOut.String(), "lab feed runs this command")
}

// TestFeedJudge counts what a bad store would show.
func TestFeedJudge(t *testing.T) {
	r := new(feedReport)
	j := feedJudge{r: r, lag: hdrhistogram.New(1, int64(time.Minute), 3)}
	j.take(&feedWord{Asked: 10, Put: 0})
	j.take(&feedWord{Shown: []feedShown{{N: 0, Lag: 5}, {N: 1}, {N: 2}, {N: 1}}, Position: "a"})
	j.take(&feedWord{Asked: 20, Put: 10})
	j.take(&feedWord{Shown: []feedShown{{N: 20}, {N: -1}, {N: 19}}, Position: "b"})
	j.first, j.put = 20, 20 // another process
	j.take(&feedWord{Asked: 30, Put: 20})
	j.take(&feedWord{Shown: []feedShown{{N: 19}, {N: 3}}, Position: "c"})
	j.take(&feedWord{Refused: "too many"})
	r.Asked, r.Splits = 2, 1
	var out strings.Builder
	r.print(&out)
	wants(t, out.String(), "splits 1 of 2", "a split was refused: too many")
	j.count()
	if r.Puts != 10 || r.Changes != 9 || r.Duplicates != 2 || r.Invented != 2 || r.Missing != 6 || r.Late != 2 || r.Lost != 11 || j.position != "c" {
		t.Errorf("%+v at %s", r, j.position)
	}
}
