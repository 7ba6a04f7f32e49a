package group

import (
	"fmt"

	"go.etcd.io/raft/v3/tracker"
)

type trackerProgress = tracker.Progress

// logger drops what raft has to say, but for what raft cannot go on after: a panic, which
// the group turns into its failure.
type logger struct{}

func (logger) Debug(...any)            {}
func (logger) Debugf(string, ...any)   {}
func (logger) Error(...any)            {}
func (logger) Errorf(string, ...any)   {}
func (logger) Info(...any)             {}
func (logger) Infof(string, ...any)    {}
func (logger) Warning(...any)          {}
func (logger) Warningf(string, ...any) {}

func (logger) Fatal(v ...any)                 { panic(fmt.Sprint(v...)) }
func (logger) Fatalf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }
func (logger) Panic(v ...any)                 { panic(fmt.Sprint(v...)) }
func (logger) Panicf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }
