package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/transport"
)

type renewCommand struct {
	Dir string `arg:"" help:"Directory that init has made, with the key of the authority and the directories of the nodes."`
}

// Run implements the command.
func (c *renewCommand) Run(e *environment) error {
	d, err := cluster.Load(filepath.Join(c.Dir, descriptionName))
	if err != nil {
		return err
	}
	now := time.Now()
	authority, err := transport.RenewAuthority(c.Dir, now)
	if err != nil {
		return err
	}
	dirs := []string{filepath.Join(c.Dir, clientDir)}
	for _, n := range d.All() {
		dirs = append(dirs, nodeDir(c.Dir, n.ID))
	}
	for _, dir := range dirs {
		if _, err = os.Stat(filepath.Join(dir, transport.CertificateFile)); errors.Is(err, os.ErrNotExist) {
			fmt.Fprintf(e.stdout, "%s is not here: copy its %s to it, and renew\n", dir, transport.CertificateFile)
			continue
		}
		if err = authority.Renew(dir, now); err != nil {
			return err
		}
		fmt.Fprintf(e.stdout, "%s has new %s and %s\n", dir, transport.AuthorityFile, transport.CertificateFile)
	}
	fmt.Fprintf(e.stdout, "Copy both files to each machine, and start the nodes again, one after the other: pnode status %s shows when a node serves. Old and new certificates are accepted beside each other until the old ones expire\n", c.Dir)
	return nil
}
