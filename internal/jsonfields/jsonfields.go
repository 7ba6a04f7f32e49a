// Package jsonfields lists the fields of what commands print as JSON, for the
// tests that keep docs/json.md true.
package jsonfields

import (
	"encoding"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
)

// Object is what a command prints as an object of JSON.
type Object struct {
	Name  string // of the command and, where it prints several types, of the type
	Value any    // of the type that is printed
}

// Text lists the fields of objects in Markdown: those of each with a heading, and
// of the objects in it behind their path. Numbers go without their kind, optional
// fields have a question mark.
func Text(objects []Object) string {
	var b strings.Builder
	for _, o := range objects {
		fmt.Fprintf(&b, "\n### %s\n\n```\n", o.Name)
		var paths []string // of objects, as they come
		names := make(map[string][]string)
		for _, f := range Of(o.Value) {
			field, kind, _ := strings.Cut(f, " ")
			kind, optional := strings.CutSuffix(kind, ", optional")
			at := strings.LastIndexByte(field, '.') + 1
			path, name := field[:at], field[at:]
			if optional {
				name += "?"
			}
			if kind != "number" {
				name += " " + kind
			}
			if names[path] == nil {
				paths = append(paths, path)
			}
			names[path] = append(names[path], name)
		}
		for _, path := range paths {
			line := strings.Join(names[path], ", ")
			if path != "" {
				line = strings.TrimSuffix(path, ".") + ": " + line
			}
			for len(line) > lineColumns {
				end := strings.LastIndex(line[:lineColumns], ", ") + 1
				b.WriteString(line[:end] + "\n")
				line = "   " + line[end:]
			}
			b.WriteString(line + "\n")
		}
		b.WriteString("```\n")
	}
	return b.String()
}

// lineColumns is how long lines of Text may be.
const lineColumns = 140

// Of returns the fields that a value has as JSON: "path kind", and behind it
// ", optional" if the field may be absent.
func Of(v any) []string { return appendFields(nil, "", reflect.TypeOf(v)) }

func appendFields(list []string, path string, t reflect.Type) []string {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			list = appendFields(list, path, pointed(f.Type))
			continue
		}
		if name == "-" || !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		note := ""
		if strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero") {
			note = ", optional"
		}
		list = appendField(list, path+name, f.Type, note)
	}
	return list
}

func appendField(list []string, path string, t reflect.Type, note string) []string {
	t = pointed(t)
	kind := ""
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		kind = "any"
	case implements[json.Marshaler](t), implements[encoding.TextMarshaler](t):
		kind = marshalled(t)
	default:
		switch t.Kind() {
		case reflect.Struct:
			if note != "" {
				list = append(list, path+" object"+note)
			}
			return appendFields(list, path+".", t)
		case reflect.Map:
			kind = "object"
			if elem := pointed(t.Elem()); elem.Kind() == reflect.Struct {
				return appendFields(append(list, path+" object"+note), path+".*.", elem)
			}
		case reflect.Slice, reflect.Array:
			if t.Elem().Kind() == reflect.Uint8 {
				kind = "string" // in base64
				break
			}
			return appendField(list, path+"[]", t.Elem(), note)
		case reflect.String:
			kind = "string"
		case reflect.Bool:
			kind = "bool"
		default:
			kind = "number"
		}
	}
	return append(list, path+" "+kind+note)
}

// marshalled returns the kind of JSON that a type makes of its zero value.
func marshalled(t reflect.Type) string {
	text, err := json.Marshal(reflect.New(t).Interface())
	switch {
	case err != nil || text[0] == '"':
		return "string"
	case text[0] == '{':
		return "object"
	}
	return "number"
}

func implements[I any](t reflect.Type) bool {
	i := reflect.TypeFor[I]()
	return t.Implements(i) || reflect.PointerTo(t).Implements(i)
}

func pointed(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// Compare compares text with what a document has between the lines
// "<!-- fields of NAME -->" and "<!-- end of NAME -->", and with rewrite puts it
// there.
func Compare(document, name, text string, rewrite bool) error {
	is, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	before, rest, begun := strings.Cut(strings.ReplaceAll(string(is), "\r\n", "\n"), "<!-- fields of "+name+" -->\n")
	old, after, ended := strings.Cut(rest, "<!-- end of "+name+" -->\n")
	switch {
	case !begun || !ended:
		return fmt.Errorf("%s has no place for the fields of %s", document, name)
	case old == text:
		return nil
	case rewrite:
		return os.WriteFile(document, []byte(before+"<!-- fields of "+name+" -->\n"+text+"<!-- end of "+name+" -->\n"+after), 0o644)
	}
	return fmt.Errorf("the fields differ from those in %s (-rewrite accepts them):\n%s", document, text)
}
