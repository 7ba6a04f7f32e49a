package faults

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNamespaces says that this process cannot make network namespaces: the text says why.
var ErrNamespaces = errors.New("network namespaces")

// isolated is set in the environment of a process that Isolate has started.
const isolated = "PFAULTS_ISOLATED"

const (
	namespaceDir = "/run/netns"
	bridge       = "br0"
	device       = "eth0" // of a node, in its namespace
	port         = "7100" // of each node
	hub          = 254    // number of the address of the clients
	// nowhere is a hardware address that no device has: what is sent to it is lost on the way, and
	// the node that sends it hears nothing of that.
	nowhere = "02:00:00:00:ff:ff"
	// lossEvery has the chance that a packet is lost: one of ten.
	lossEvery = 10
)

// namespaces is a network namespace for each node, and one of this process for the clients, with a
// bridge that connects them. All of it is private to this process, which Isolate has started: the
// system removes it when the last process in it has ended, however that ends.
type namespaces struct {
	nodes []uint64
	netem bool
	limit bool
	loss  bool
	cuts  map[[2]uint64]bool
}

// Namespaces reports whether this process may make network namespaces.
func Namespaces() error {
	switch {
	case !mayIsolate():
		return fmt.Errorf("%w: they need Linux and root", ErrNamespaces)
	default:
		for _, tool := range []string{"ip", "tc", "nsenter"} {
			if _, err := exec.LookPath(tool); err != nil {
				return fmt.Errorf("%w: they need the programs ip, tc and nsenter: %w", ErrNamespaces, err)
			}
		}
	}
	return nil
}

// Isolated reports whether Isolate has started this process.
func Isolated() bool { return os.Getenv(isolated) != "" }

// tool runs a program of the system.
func tool(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// ip runs lines of the program ip, in the namespace of a node; 0: in that of this process.
func ip(node uint64, lines ...string) error {
	args := []string{"-batch", "-"}
	if node != 0 {
		args = append([]string{"-netns", namespace(node)}, args...)
	}
	cmd := exec.Command("ip", args...)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(lines, "; "), err, bytes.TrimSpace(out))
	}
	return nil
}

func namespace(node uint64) string { return fmt.Sprint("n", node) }

// address returns the address of a node, in a range that these namespaces alone have.
func address(node uint64) string { return fmt.Sprint("10.99.0.", node) }

func hardware(node uint64) string { return fmt.Sprintf("02:00:00:00:01:%02x", node) }

// newNamespaces makes the network.
func newNamespaces(nodes []uint64) (*namespaces, error) {
	if !Isolated() {
		return nil, fmt.Errorf("%w: this process has those of the system; Isolate starts one that has its own", ErrNamespaces)
	}
	n := &namespaces{nodes: nodes, cuts: make(map[[2]uint64]bool)}
	err := ip(0, "link set lo up", "link add "+bridge+" address "+hardware(hub)+" type bridge", "addr add "+address(hub)+"/24 dev "+bridge, "link set "+bridge+" up")
	for _, id := range nodes {
		if err == nil {
			err = ip(0, "netns add "+namespace(id), fmt.Sprintf("link add v%d type veth peer name %s address %s netns %s", id, device, hardware(id), namespace(id)),
				fmt.Sprintf("link set v%d master %s up", id, bridge))
		}
		if err == nil {
			err = ip(id, "link set lo up", "addr add "+address(id)+"/24 dev "+device, "link set "+device+" up")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNamespaces, err)
	}
	// Which ways to disturb a link this system has shows when they are tried.
	n.netem = n.disturb(nodes[0], late, true) == nil && n.disturb(nodes[0], late, false) == nil
	n.loss = n.disturb(nodes[0], lossy, true) == nil && n.disturb(nodes[0], lossy, false) == nil
	n.limit = n.disturb(nodes[0], slow, true) == nil && n.disturb(nodes[0], slow, false) == nil
	return n, nil
}

// enter returns a program that runs in the namespace of a node.
func enter(node uint64, name string, args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--net=" + filepath.Join(namespaceDir, namespace(node)), name}, args...)...)
}

// cut has what one side says to another one get lost, or mends it. Sides are nodes, and hub.
func (n *namespaces) cut(from, to uint64, on bool) error {
	if from == to || n.cuts[[2]uint64{from, to}] == on {
		return nil
	}
	at, dev, where := from, device, hardware(to)
	if from == hub {
		at, dev = 0, bridge
	}
	if on {
		where = nowhere
	}
	err := ip(at, fmt.Sprintf("neigh replace %s lladdr %s dev %s nud permanent", address(to), where, dev))
	if err == nil {
		n.cuts[[2]uint64{from, to}] = on
	}
	return err
}

// blackhole has all that a node says and is told get lost, also what clients say.
func (n *namespaces) blackhole(node uint64, on bool) error {
	var errs []error
	for _, o := range append([]uint64{hub}, n.nodes...) {
		errs = append(errs, n.cut(node, o, on), n.cut(o, node, on))
	}
	return errors.Join(errs...)
}

func (n *namespaces) mend() error {
	var errs []error
	for k, on := range n.cuts {
		if on {
			errs = append(errs, n.cut(k[0], k[1], false))
		}
	}
	return errors.Join(errs...)
}

// disturbance is what may be wrong with the link of a node.
type disturbance int

const (
	lossy disturbance = iota // packets in both directions get lost
	late                     // packets that the node sends come later, some before others
	slow                     // the link carries little
)

// disturb disturbs the link of a node, or mends it.
func (n *namespaces) disturb(node uint64, d disturbance, on bool) error {
	tc := func(args ...string) error {
		cmd := enter(node, "tc", args...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("tc %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
		}
		return nil
	}
	switch {
	case d == lossy && on:
		// The program of four instructions loads a random number, and drops the packet if that is small.
		program := fmt.Sprintf("4,32 0 0 4294963256,53 1 0 %d,6 0 0 2,6 0 0 4294967295", uint32(1<<32/lossEvery))
		err := tc("qdisc", "add", "dev", device, "clsact")
		for _, direction := range []string{"egress", "ingress"} {
			if err == nil {
				err = tc("filter", "add", "dev", device, direction, "bpf", "bytecode", program, "direct-action")
			}
		}
		return err
	case d == lossy:
		return tc("qdisc", "del", "dev", device, "clsact")
	case d == late && on:
		return tc("qdisc", "add", "dev", device, "root", "netem", "delay", "40ms", "20ms", "reorder", "25%", "50%")
	case on:
		return tc("qdisc", "add", "dev", device, "root", "tbf", "rate", "2mbit", "burst", "64kb", "latency", "200ms")
	}
	return tc("qdisc", "del", "dev", device, "root")
}
