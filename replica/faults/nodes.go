package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/transport"
)

const container = "items"

// nodeSet is a cluster of processes.
type nodeSet struct {
	dir   string
	pnode string // program
	d     *cluster.Cluster
	creds *transport.Credentials
	ids   []uint64
	links map[[2]uint64]*link // by who dials and whom; empty with namespaces
	net   *namespaces         // nil: none
	procs map[uint64]*process
	small uint64               // node whose directory is a file system of its own; 0: none
	disk  *disk                // of the node that may stall; nil: none
	clock func() time.Duration // by how much that of a node that starts is wrong; nil: by nothing
	move  *move                // that is under way; nil: none
}

type process struct {
	cmd  *exec.Cmd
	log  bytes.Buffer // what it has said, read after its end
	done chan struct{}
}

// newNodes makes a cluster of three nodes, or in namespaces one of four.
func newNodes(ctx context.Context, cfg *Config) (_ *nodeSet, err error) {
	dir := cfg.Dir
	s := &nodeSet{dir: dir, pnode: cfg.Pnode, ids: []uint64{1, 2, 3}, links: make(map[[2]uint64]*link), procs: make(map[uint64]*process)}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	var addresses []string
	if cfg.Namespaces {
		s.ids = append(s.ids, 4)
		if s.net, err = newNamespaces(s.ids); err != nil {
			return nil, err
		}
	}
	for _, id := range s.ids {
		if s.net != nil {
			addresses = append(addresses, net.JoinHostPort(address(id), port))
			continue
		}
		l, failed := net.Listen("tcp", "127.0.0.1:0")
		if failed != nil {
			return nil, failed
		}
		defer l.Close() // until all have one
		addresses = append(addresses, l.Addr().String())
	}
	out, err := exec.CommandContext(ctx, s.pnode, "init", dir, "--addresses", strings.Join(addresses, ","), "--container", fmt.Sprintf("%s:/k:%d", container, cfg.Partitions), "--etcd", "none").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("pnode init: %w: %s", err, out)
	}
	if s.d, err = cluster.Load(filepath.Join(dir, "cluster.json")); err != nil {
		return nil, err
	}
	if s.creds, err = transport.LoadCredentials(filepath.Join(dir, "client")); err != nil {
		return nil, err
	}
	if s.net != nil {
		if s.disk, err = newDisk(s.nodeDir(2), filepath.Join(dir, "disk2")); err != nil {
			fmt.Fprintln(cfg.Log, "no disk stalls here:", err)
		}
		s.shrink(3)
		return s, nil
	}
	for _, n := range s.d.Nodes {
		its := *s.d
		its.Nodes = nil
		for _, o := range s.d.Nodes {
			if o.ID != n.ID {
				k, err := newLink(o.Address)
				if err != nil {
					return nil, err
				}
				s.links[[2]uint64{n.ID, o.ID}] = k
				o.Address = k.address()
			}
			its.Nodes = append(its.Nodes, o)
		}
		b, err := json.Marshal(&its)
		if err == nil {
			err = os.WriteFile(s.description(n.ID), b, 0o600)
		}
		if err != nil {
			return nil, err
		}
	}
	s.shrink(3)
	return s, nil
}

func (s *nodeSet) description(node uint64) string {
	if s.net != nil {
		return filepath.Join(s.dir, "cluster.json")
	}
	return filepath.Join(s.dir, fmt.Sprintf("cluster%d.json", node))
}

func (s *nodeSet) nodeDir(node uint64) string {
	return filepath.Join(s.dir, fmt.Sprintf("node%d", node))
}

// startAll starts all nodes that do not run.
func (s *nodeSet) startAll() error {
	var errs []error
	for _, id := range s.ids {
		if !s.runs(id) {
			errs = append(errs, s.start(id))
		}
	}
	return errors.Join(errs...)
}

func (s *nodeSet) start(node uint64) error {
	args := []string{"serve", s.nodeDir(node), "--cluster", s.description(node)}
	if s.clock != nil {
		args = append(args, "--clock-offset="+s.clock().String())
	}
	p := &process{cmd: exec.Command(s.pnode, args...), done: make(chan struct{})}
	if s.net != nil {
		p.cmd = enter(node, s.pnode, args...)
	}
	p.cmd.Stderr = &p.log
	p.cmd.SysProcAttr = tied()
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in its state
		close(p.done)
	}()
	s.procs[node] = p
	return nil
}

// runs reports whether a node runs.
func (s *nodeSet) runs(node uint64) bool {
	p := s.procs[node]
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// signal sends a signal to a node that runs, and waits for its end if it ends it.
func (s *nodeSet) signal(node uint64, sig syscall.Signal) {
	p := s.procs[node]
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(sig) // it may have ended
	if sig == syscall.SIGKILL || sig == syscall.SIGTERM {
		select {
		case <-p.done:
		case <-time.After(20 * time.Second):
			_ = p.cmd.Process.Kill()
			<-p.done
		}
	}
}

// cut cuts what one node says to another one, or mends it.
func (s *nodeSet) cut(from, to uint64, on bool) error {
	if s.net != nil {
		return s.net.cut(from, to, on)
	}
	s.links[[2]uint64{from, to}].cut[0].Store(on)
	s.links[[2]uint64{to, from}].cut[1].Store(on)
	return nil
}

// deaf has nothing come to a node of what others say, and if it is dumb too, nothing that it says to them; or
// mends that.
func (s *nodeSet) deaf(node uint64, dumb, on bool) error {
	var errs []error
	for _, o := range s.ids {
		if o != node {
			errs = append(errs, s.cut(o, node, on))
			if dumb {
				errs = append(errs, s.cut(node, o, on))
			}
		}
	}
	return errors.Join(errs...)
}

func (s *nodeSet) mend() error {
	if s.net != nil {
		return s.net.mend()
	}
	for _, k := range s.links {
		k.cut[0].Store(false)
		k.cut[1].Store(false)
	}
	return nil
}

// client returns a client that asks a node first, 0: all in turn.
func (s *nodeSet) client(near uint64) *client.Client {
	return client.New(client.Config{Cluster: s.d, Credentials: s.creds, Near: near})
}

// flip flips bits in the files of a node that does not run, and names the files.
func (s *nodeSet) flip(node uint64, rng *rand.Rand, bits int) (string, error) {
	var files []string
	err := filepath.WalkDir(s.nodeDir(node), func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && filepath.Dir(name) != s.nodeDir(node) {
			if info, failed := e.Info(); failed == nil && info.Size() > 0 {
				files = append(files, name)
			}
		}
		return err
	})
	if err != nil || len(files) == 0 {
		return "", errors.Join(err, errors.New("the node has no files"))
	}
	var names []string
	for range bits {
		name := files[rng.IntN(len(files))]
		b, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		at := rng.IntN(len(b))
		b[at] ^= 1 << rng.IntN(8)
		if err = os.WriteFile(name, b, 0o600); err != nil {
			return "", err
		}
		short, _ := filepath.Rel(s.nodeDir(node), name)
		names = append(names, fmt.Sprintf("%s at %d of %d", short, at, len(b)))
	}
	return strings.Join(names, ", "), nil
}

// fill fills the file system of the small node, or empties it again.
func (s *nodeSet) fill(on bool) error {
	name := filepath.Join(s.nodeDir(s.small), "ballast")
	if !on {
		return os.Remove(name)
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for size := 1 << 20; size >= 1<<10; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2 // until nothing is left
		}
	}
	return nil
}

func (s *nodeSet) close() {
	_ = s.mend() // all ends
	if s.disk != nil {
		_ = s.disk.stall(false)
	}
	if s.move != nil {
		s.move.cancel()
		<-s.move.done
	}
	for id := range s.procs {
		s.signal(id, sigCont)
		s.signal(id, syscall.SIGKILL)
	}
	for _, k := range s.links {
		k.close()
	}
	s.unshrink()
	if s.disk != nil {
		s.disk.close()
	}
}
