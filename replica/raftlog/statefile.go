package raftlog

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

const (
	stateMagic   = "cleavRFB"
	stateVersion = 1
	stateSuffix  = ".base"
	stateTemp    = "BASE.tmp"

	// inlineBytes is the longest state that a manifest holds. It is written with each manifest, a file once, with two syncs.
	inlineBytes = 4 << 10
	// maxStateBytes bounds a state. No manifest before version 3 could hold a longer one.
	maxStateBytes = 1 << 30
)

// stateFile is what a manifest says of a file with the state of a base.
type stateFile struct{ length, sum uint32 }

// stateName returns the name of the file with the state of a base.
func (g *groupState) stateName() string {
	return fmt.Sprintf("%d-%d%s", g.stream, g.base.Index, stateSuffix)
}

// writeState writes the state of a group's base to a file, unless it is there or short.
func (s *Store) writeState(g *groupState) error {
	if len(g.base.State) <= inlineBytes {
		return nil
	} else if len(g.base.State) > maxStateBytes {
		return fmt.Errorf("group %d: state of %d bytes: %w", g.id, len(g.base.State), fault.ErrTooLarge)
	}
	name := g.stateName()
	f, there := s.states[name]
	if !there {
		b := seal(stateMagic, stateVersion, g.base.State)
		if err := vfs.WriteFileAtomic(s.fs, path.Join(s.dir, stateTemp), path.Join(s.dir, name), b); err != nil {
			return err
		}
		f = stateFile{uint32(len(g.base.State)), sealSum(b)}
		s.states[name] = f
	}
	g.file = f
	return nil
}

// readState reads the state of a group's base, if it is in a file.
func (s *Store) readState(g *groupState) error {
	if g.file.length == 0 {
		return nil
	}
	name := path.Join(s.dir, g.stateName())
	b, err := vfs.ReadFile(s.fs, name, sealBytes+int64(g.file.length))
	if errors.Is(err, vfs.ErrTooLarge) {
		return fault.Corrupt(s.fs.Path(name), 0, "state of a group: %w", err)
	} else if err != nil {
		return err
	}
	g.base.State, err = decodeState(s.fs.Path(name), b, g.file)
	s.states[g.stateName()] = g.file
	return err
}

// decodeState returns the state that a file has, which is a part of b.
func decodeState(name string, b []byte, f stateFile) ([]byte, error) {
	_, state, err := unseal(name, stateMagic, stateVersion, b)
	if err == nil && (uint64(len(state)) != uint64(f.length) || sealSum(b) != f.sum) {
		err = fault.Corrupt(name, 0, "it is not the state that the manifest names")
	}
	return state, err
}

// keepStates removes the files with states but for those of some groups, which the durable manifest names.
func (s *Store) keepStates(groups []groupState) error {
	kept := make(map[string]bool)
	for i := range groups {
		kept[groups[i].stateName()] = true
	}
	for name := range s.states {
		if kept[name] {
			continue
		}
		if err := s.fs.Remove(path.Join(s.dir, name)); err != nil && !errors.Is(err, fault.ErrMissing) {
			return err // it is removed after a later manifest, or by the next Open
		}
		delete(s.states, name)
	}
	return nil
}

// removeLeftovers removes files with states that the manifest does not name.
func (s *Store) removeLeftovers() error {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, named := s.states[name]; !named && (isState(name) || name == stateTemp) {
			if err := s.fs.Remove(path.Join(s.dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func isState(base string) bool { return strings.HasSuffix(base, stateSuffix) }
