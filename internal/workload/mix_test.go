package workload

import (
	"strings"
	"testing"
)

func TestMixText(t *testing.T) {
	for in, out := range map[string]string{
		"read=95,update=5": "read=95,update=5",
		"read=1":           "read=100",
		"scan=19,insert=1": "insert=5,scan=95",
		"rmw=0.5,read=0.5": "read=50,rmw=50",
		"read=1,update=0":  "read=100",
	} {
		m, err := ParseMix(in)
		if err != nil || m.String() != out {
			t.Errorf("%q reads as %q: %v", in, m, err)
		}
	}
	for _, bad := range []string{"", "read", "read=", "read=x", "read=-1", "read=NaN", "read=0", "write=1", "read=1,read=1", "read=1,"} {
		if m, err := ParseMix(bad); err == nil {
			t.Errorf("%q reads as %q", bad, m)
		}
	}
}

func TestPickerFollowsMix(t *testing.T) {
	for _, w := range Workloads() {
		picker := w.Mix.NewPicker(9, 3)
		counts := make([]float64, NumOps)
		for range 100_000 {
			counts[picker.Next()]++
		}
		checkShares(t, counts, w.Mix[:])
	}
}

func TestWorkloads(t *testing.T) {
	for _, name := range []string{"A", "b", "ycsb-c", "YCSB-D", "E", "f", "read", "put", "insert", "scan"} {
		w, err := FindWorkload(name)
		if err != nil || !strings.HasSuffix(w.Name, strings.ToLower(name)) {
			t.Errorf("%q finds %q: %v", name, w.Name, err)
		}
		sum := 0.0
		for _, share := range w.Mix {
			sum += share
		}
		if sum < 0.999 || sum > 1.001 || w.About == "" {
			t.Errorf("%s: shares add up to %v", w.Name, sum)
		}
	}
	if _, err := FindWorkload("g"); err == nil || !strings.Contains(err.Error(), "ycsb-a") {
		t.Errorf("an unknown workload: %v", err)
	}
	for name, writes := range map[string]bool{"a": true, "c": false, "read": false, "scan": false, "insert": true, "f": true} {
		if w, _ := FindWorkload(name); w.Mix.Writes() != writes {
			t.Errorf("%s: Writes is %v", name, !writes)
		}
	}
}
