package engine

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// The names that Stats has in JSON are promised: they are added to, not changed.
const statsNames = `
background_errors buffer_bytes carried_bytes clock_set_back cold_reads cold_wait_ns compacted_bytes compactions conflicts containers damage deletes events_dropped failed feeds flushed_bytes
flushes future_stamp held_bytes holders hot_bytes index_bytes last_seq listener_panics log mapped_files max_mapped_files max_open_files memory_budget_bytes
obsolete_bytes oldest_snapshot_ns open_files read_errors reads reindexed_bytes reindexes remapped_files reopened_files snapshots stalled_ns stalls
trimmed_bytes trims writes written_bytes
containers. definition name partitions physical_partitions
containers.definition. change_retention_ns compression default_ttl_ns hash_version index kind limits min_partitions mutable_ttl no_burst partition_key replicated synthetic throughput_ru_per_s unique_keys
containers.definition.index. composite exclude include
containers.definition.index.composite. descending path
containers.definition.limits. batch_bytes batch_operations item_bytes logical_partition_bytes logical_partition_throughput_ru_per_s partition_throughput_ru_per_s
containers.definition.synthetic. join suffix_of suffixes
containers.partitions. absent consumed_ru dead documents exact file_bytes files flushed_seq foreign_bytes id inherits load_ru_per_s logical_partitions max memtable_bytes memtables
min parents raw_bytes runs throttled throughput_ru_per_s tombstones visible_seq
damage. container error file max min offset partition set_aside whole_partition
feeds. all_versions behind_sequences container follow lag_ns scope shown since
holders. container count seq since what
log. bytes dropped files made records recycled rotations spares syncs waited_ns waits writes written_bytes
log.dropped. bytes records
`

// TestStatsJSON fills each field and compares the names and the values in JSON.
func TestStatsJSON(t *testing.T) {
	var s Stats
	fill(t, reflect.ValueOf(&s).Elem())
	text, err := json.Marshal(s)
	must(t, err)
	var tree any
	must(t, json.Unmarshal(text, &tree))
	got := strings.Join(namesIn("", tree), " ")
	if want := strings.Join(strings.Fields(statsNames), " "); got != want {
		t.Errorf("names in JSON:\n%s\nwant\n%s", got, want)
	}
	top := tree.(map[string]any)
	if top["failed"] != "an error" || top["damage"].([]any)[0].(map[string]any)["error"] != "an error" {
		t.Errorf("errors: %v, %v", top["failed"], top["damage"])
	}
	def := top["containers"].([]any)[0].(map[string]any)["definition"].(map[string]any)
	if def["kind"] != "opaque" || def["compression"] != "small" || def["default_ttl_ns"] != 1e9 {
		t.Errorf("definition: %v", def)
	}

	// What is read back is what was written; of errors, the text.
	var again Stats
	must(t, json.Unmarshal(text, &again))
	if !reflect.DeepEqual(again, s) {
		t.Errorf("read back:\n%+v\nwant\n%+v", again, s)
	}
	var none Stats
	must(t, json.Unmarshal([]byte(`{"writes":1}`), &none))
	if none.Failed != nil || none.Writes != 1 {
		t.Errorf("read: %+v", none)
	}
	if err := json.Unmarshal([]byte(`{"containers":[{"definition":{"kind":"none"}}]}`), &none); !errors.Is(err, ErrInvalid) {
		t.Errorf("a kind that is none: %v", err)
	}
}

// TestStatsJSONNames judges every name in the JSON of a filled Stats, however deep: lower
// case, and durations with their unit. No value is an empty object, as an error or a
// struct without exported fields would be.
func TestStatsJSONNames(t *testing.T) {
	var s Stats
	fill(t, reflect.ValueOf(&s).Elem())
	text, err := json.Marshal(s)
	must(t, err)
	var tree any
	must(t, json.Unmarshal(text, &tree))
	name := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	seen := 0
	var judge func(path string, v any)
	judge = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if len(v) == 0 {
				t.Errorf("%s is an empty object", path)
			}
			for key, value := range v {
				seen++
				if !name.MatchString(key) {
					t.Errorf("%s.%s: the name is not in lower case", path, key)
				}
				if n, ok := value.(float64); ok && n == float64(time.Second) && !strings.HasSuffix(key, "_ns") {
					t.Errorf("%s.%s: the name of a duration ends with its unit", path, key)
				}
				judge(path+"."+key, value)
			}
		case []any:
			for _, value := range v {
				judge(path+"[]", value)
			}
		}
	}
	judge("stats", tree)
	if seen < 100 {
		t.Errorf("only %d names", seen)
	}
}

// TestStatsJSONOfAStore is what an exporter does.
func TestStatsJSONOfAStore(t *testing.T) {
	ctx := context.Background()
	db, c := openStore(t, testOptions(vfs.NewMem()))
	_, err := c.Upsert(ctx, []byte(`{"id":"a","k":"b"}`), nil)
	must(t, err)
	text, err := json.Marshal(db.Stats())
	must(t, err)
	var read struct {
		Writes     int64
		Failed     *string
		Containers []struct {
			Name       string
			Partitions []struct{ Documents int64 }
		}
	}
	must(t, json.Unmarshal(text, &read))
	if read.Writes != 1 || read.Failed != nil || len(read.Containers) != 1 || read.Containers[0].Name != "c" || read.Containers[0].Partitions[0].Documents != 1 {
		t.Errorf("%s", text)
	}
	db.fail(errors.New("the device is gone"))
	text, err = json.Marshal(db.Stats())
	must(t, err)
	if !strings.Contains(string(text), `"failed":"the device is gone"`) {
		t.Errorf("%s", text)
	}
}

// fill gives each field a value that is not zero.
func fill(t *testing.T, v reflect.Value) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Date(2024, 5, 6, 7, 8, 9, 10, time.UTC)))
		return
	case time.Duration:
		v.SetInt(int64(time.Second))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Interface:
		v.Set(reflect.ValueOf(errors.New("an error")))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("text")
	case reflect.Float64:
		v.SetFloat(1.5)
	default:
		if v.CanUint() {
			v.SetUint(1)
		} else {
			v.SetInt(1)
		}
	}
}

// namesIn lists the names of an object, then those of the objects in it.
func namesIn(path string, tree any) (names []string) {
	for list, ok := tree.([]any); ok; list, ok = tree.([]any) {
		if len(list) == 0 {
			return nil
		}
		tree = list[0]
	}
	object, ok := tree.(map[string]any)
	if !ok {
		return nil
	}
	here := slices.Sorted(maps.Keys(object))
	if path != "" {
		names = append(names, path)
	}
	names = append(names, here...)
	for _, name := range here {
		names = append(names, namesIn(path+name+".", object[name])...)
	}
	return names
}
