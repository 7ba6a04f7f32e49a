package scale

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/partmap"
)

func small() Config {
	cfg := Default()
	cfg.Nodes, cfg.Racks, cfg.Groups, cfg.NodeLoad = 50, 10, 2000, 100_000
	return cfg
}

// TestPhases: a small cluster takes a rise of load and the loss of a rack: each group splits
// that must, no group is without a majority, all get their replicas back, and in no more time
// than the copies need.
func TestPhases(t *testing.T) {
	cfg := small()
	c := New(cfg)
	rest := c.Settle()
	rise := c.RaiseLoad()
	rack := c.LoseRack()
	for _, p := range []Phase{rest, rise, rack} {
		t.Logf("%+v", p)
		if p.Settled == 0 {
			t.Errorf("%s: not settled", p.Name)
		}
		if p.Stuck != 0 {
			t.Errorf("%s: %d groups without a majority", p.Name, p.Stuck)
		}
	}
	if rest.Short != 0 || rise.Short != 0 || rack.Short == 0 || rack.Replicated == 0 {
		t.Errorf("groups that are short: %d, %d, %d; until replicated %v", rest.Short, rise.Short, rack.Short, rack.Replicated)
	}
	if rise.Splits == 0 || rise.Max > 0.9 {
		t.Errorf("%d splits, the fullest node at %.2f", rise.Splits, rise.Max)
	}
	for _, g := range c.groups {
		if g.LeaderLoad > 10_000 {
			t.Errorf("group %d has a load of %.0f", g.ID, g.LeaderLoad)
		}
		for _, r := range g.Replicas {
			if !c.live(r.Node) {
				t.Errorf("%+v has a replica on a node that is lost", g.Group)
			}
		}
		e := g.Range.Min
		if c.routes.Find(container, &e) != g.Group {
			t.Errorf("the map does not have %+v", g.Group)
		}
	}
	// The least time: the copies of the rack, 45 at once.
	least := time.Duration(float64(rack.CopyBytes)/45/cfg.CopyRate) * time.Second
	if rack.Replicated > 2*least+time.Minute {
		t.Errorf("replicated after %v; the copies alone take %v", rack.Replicated, least)
	}
	if n, bytes := c.Map(); n != len(c.groups) || bytes < int64(n)*40 || bytes > int64(n)*100 {
		t.Errorf("a map of %d groups in %d bytes", n, bytes)
	}
	row := c.routes.Groups(container)
	at := partmap.MinEPK()
	for _, g := range row {
		if g.Range.Min != at {
			t.Fatalf("a hole before %v", g.Range)
		}
		at = g.Range.Max
	}
}

// TestRepeatable: a seed repeats a run, but for the time of plans.
func TestRepeatable(t *testing.T) {
	run := func() Phase {
		c := New(small())
		c.RaiseLoad()
		p := c.LoseRack()
		p.PlanTime = 0
		return p
	}
	if a, b := run(), run(); a != b {
		t.Errorf("%+v\n%+v", a, b)
	}
}

// TestCheck: what cannot be simulated is refused with its name.
func TestCheck(t *testing.T) {
	if err := Default().Check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Config){
		"3 racks":      func(c *Config) { c.Racks = 3 },
		"5 nodes":      func(c *Config) { c.Nodes = 5 },
		"0 groups":     func(c *Config) { c.Groups = 0 },
		"above 0":      func(c *Config) { c.CopyRate = math.NaN() },
		"no room":      func(c *Config) { c.GroupBytes *= 3 },
		"share and":    func(c *Config) { c.Share = 0 },
		"bytes of a g": func(c *Config) { c.GroupBytes = 0 },
	} {
		c := Default()
		change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
