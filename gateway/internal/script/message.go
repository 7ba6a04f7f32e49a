package script

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// Job is a script that runs once.
type Job struct {
	Name   string            `json:"name"`   // for stack traces
	Source string            `json:"source"` // a function
	Args   []json.RawMessage `json:"args,omitempty"`
	// Request is the document of the request, Response that of the answer: those of triggers.
	Request  json.RawMessage `json:"request,omitempty"`
	Response json.RawMessage `json:"response,omitempty"`
	// Operation is what the request does: Create, Replace, Upsert, Delete.
	Operation string            `json:"operation,omitempty"`
	Values    map[string]string `json:"values,omitempty"` // headers of the request
	Link      string            `json:"link"`             // of the container, by names
	Self      string            `json:"self"`             // the same, by resource ids
	// Writes and Bytes are how much may be written. Beyond them, and when AcceptMillis have
	// passed, operations are not accepted. Each is what a write has beside its document and its id.
	Writes       int `json:"writes"`
	Bytes        int `json:"bytes"`
	Each         int `json:"each,omitempty"`
	AcceptMillis int `json:"acceptMillis"`
}

// Operation is what a script asks for.
type Operation struct {
	Verb string `json:"verb"` // create, upsert, read, replace, delete, query
	// Link names a document: its _self, or its path by names.
	Link     string          `json:"link,omitempty"`
	Document json.RawMessage `json:"document,omitempty"`
	ETag     string          `json:"etag,omitempty"`
	// FixedID says that a document without an id gets none.
	FixedID bool `json:"fixedID,omitempty"`

	Query        string      `json:"query,omitempty"`
	Parameters   []Parameter `json:"parameters,omitempty"`
	PageSize     int         `json:"pageSize,omitempty"`
	Continuation string      `json:"continuation,omitempty"`
}

// Parameter is one of a query.
type Parameter struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
}

// Answer is what an operation has done.
type Answer struct {
	Resource     json.RawMessage `json:"resource,omitempty"`
	Continuation string          `json:"continuation,omitempty"`
	Failure      *Failure        `json:"failure,omitempty"`
}

// Failure is why an operation, or a script, has failed.
type Failure struct {
	// Number is the status, of an operation; of a script, the number of what it threw, or 0.
	Number  int    `json:"number"`
	Message string `json:"message"`
	// Compile says that the script could not be read.
	Compile bool `json:"compile,omitempty"`
}

// Error implements error.
func (f *Failure) Error() string { return f.Message }

// Result is what a script has done.
type Result struct {
	Response json.RawMessage `json:"response,omitempty"` // nil: none was set
	Request  json.RawMessage `json:"request,omitempty"`  // nil: it was not changed
	Log      string          `json:"log,omitempty"`
}

// call is a call of a user-defined function.
type call struct {
	Name string            `json:"name"`
	Args []json.RawMessage `json:"args"` // null where Undefined says so
	// Undefined are the arguments that are undefined.
	Undefined []int `json:"undefined,omitempty"`
}

// toChild is a message of the parent.
type toChild struct {
	Job       *Job              `json:"job,omitempty"`
	Functions map[string]string `json:"functions,omitempty"` // sources by name, for the calls that follow
	Call      *call             `json:"call,omitempty"`
	Answer    *Answer           `json:"answer,omitempty"`
}

// toParent is a message of the child.
type toParent struct {
	Operation *Operation      `json:"operation,omitempty"`
	Result    *Result         `json:"result,omitempty"`
	Value     json.RawMessage `json:"value,omitempty"` // of a call; nil: undefined
	Failure   *Failure        `json:"failure,omitempty"`
}

const (
	maxFrame = 16 << 20
	maxLog   = 6 << 10 // a header of an answer has to hold it, escaped
)

// wire is one end of the two pipes.
type wire struct {
	in  *bufio.Reader
	out io.Writer
}

func (w *wire) send(message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if len(text) > maxFrame {
		return fmt.Errorf("a message of %d bytes, at most %d are possible", len(text), maxFrame)
	}
	frame := binary.LittleEndian.AppendUint32(make([]byte, 0, len(text)+4), uint32(len(text)))
	_, err = w.out.Write(append(frame, text...))
	return err
}

func (w *wire) receive(message any) error {
	var size [4]byte
	if _, err := io.ReadFull(w.in, size[:]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint32(size[:])
	if n > maxFrame {
		return fmt.Errorf("a message of %d bytes, at most %d are possible", n, maxFrame)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(w.in, text); err != nil {
		return err
	}
	return json.Unmarshal(text, message)
}
