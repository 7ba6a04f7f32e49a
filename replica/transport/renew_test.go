package transport

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestRenew: an expired certificate is refused, at the start of its node and by others. Renewed, it is
// accepted by nodes whose certificates are old or new, and has the same key and names. So is a renewed authority.
func TestRenew(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	at := func(node string) string { return filepath.Join(dir, node) }
	for _, node := range []string{"1", "2"} {
		if err := os.Mkdir(at(node), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	old, err := NewAuthority(dir, now.Add(-lifetime/2))
	must(err)
	must(old.IssueNode(at("1"), 1, now.Add(-lifetime/2)))
	must(old.IssueNode(at("2"), 2, now.Add(-lifetime-time.Hour)))
	load := func(node string) *Credentials {
		t.Helper()
		c, err := LoadCredentials(at(node))
		must(err)
		return c
	}
	// meet returns what a node says of a handshake with node 2, and what node 2 says.
	meet := func(one, two *Credentials) (error, error) {
		a, b := net.Pipe()
		defer a.Close()
		server := make(chan error, 1)
		go func() {
			c := tls.Server(b, two.server())
			err := c.Handshake()
			b.Close()
			server <- err
		}()
		err := tls.Client(a, one.dialer(2)).Handshake()
		a.Close()
		return err, <-server
	}
	one, two := load("1"), load("2")
	if err := two.CheckNode(2, now); err == nil {
		t.Error("an expired certificate is accepted at the start")
	}
	if err, _ := meet(one, two); err == nil {
		t.Error("an expired certificate is accepted by another node")
	}
	key, err := os.ReadFile(filepath.Join(at("2"), KeyFile))
	must(err)
	renewed, err := RenewAuthority(dir, now)
	must(err)
	must(renewed.Renew(at("2"), now))
	again := load("2")
	must(again.CheckNode(2, now))
	must(again.CheckNode(2, now.Add(lifetime-time.Hour)))
	if same, err := os.ReadFile(filepath.Join(at("2"), KeyFile)); err != nil || string(same) != string(key) {
		t.Errorf("the key has changed: %v", err)
	}
	if err := again.CheckNode(1, now); err == nil {
		t.Error("it names node 1")
	}
	if c, s := meet(one, again); c != nil || s != nil {
		t.Errorf("old and renewed: %v, %v", c, s)
	}
	must(renewed.Renew(at("1"), now))
	if c, s := meet(load("1"), again); c != nil || s != nil {
		t.Errorf("both renewed: %v, %v", c, s)
	}
	stranger := t.TempDir()
	other, err := NewAuthority(stranger, now)
	must(err)
	if err := other.Renew(at("1"), now); err == nil {
		t.Error("another authority has renewed it")
	}
	if _, err = LoadAuthority(dir); err != nil {
		t.Error(err)
	}
}
