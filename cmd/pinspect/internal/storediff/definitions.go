package storediff

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/command"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/jsondoc"
)

// uncompared are fields of engine.ContainerDef that say how a container is kept, and not what
// it does, and those that are compared in another way.
var uncompared = map[string]bool{
	"Kind": true, "PartitionKey": true, "Synthetic": true, "HashVersion": true,
	"Compression": true, "MinPartitions": true, "Index": true, "UniqueKeys": true,
}

// definitions says in what else than kind and partition key two containers are not the same.
func definitions(a, b *engine.Container) []string {
	defA, defB := a.Def(), b.Def()
	list := fields(nil, "", reflect.ValueOf(defA), reflect.ValueOf(defB))
	if !slices.EqualFunc(defA.UniqueKeys, defB.UniqueKeys, jsondoc.SamePaths) {
		list = append(list, unlike("UniqueKeys", keysText(defA.UniqueKeys), keysText(defB.UniqueKeys)))
	}
	if limitsA, limitsB := maps.Collect(a.LimitedKeys()), maps.Collect(b.LimitedKeys()); !maps.Equal(limitsA, limitsB) {
		list = append(list, "limits of single logical partitions")
	}
	return list
}

// fields adds to list the fields of two structs that are not equal.
func fields(list []string, prefix string, a, b reflect.Value) []string {
	for i := range a.NumField() {
		name, inA, inB := a.Type().Field(i).Name, a.Field(i), b.Field(i)
		switch {
		case prefix == "" && uncompared[name]:
		case inA.Kind() == reflect.Struct:
			list = fields(list, name+".", inA, inB)
		case !inA.Equal(inB):
			list = append(list, unlike(prefix+name, text(inA.Interface()), text(inB.Interface())))
		}
	}
	return list
}

func unlike(field, a, b string) string { return fmt.Sprintf("%s %s in A, %s in B", field, a, b) }

func text(v any) string {
	if v == time.Duration(engine.NoExpiry) {
		return "NoExpiry"
	}
	return fmt.Sprint(v)
}

func keysText(keys [][]string) string {
	if len(keys) == 0 {
		return "none"
	}
	var list []string
	for _, paths := range keys {
		list = append(list, command.Printable(jsondoc.JoinPaths(paths)))
	}
	return strings.Join(list, " and ")
}
