package main

import "syscall"

// tied has a process end with this one, however that ends.
func tied() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// volatile says in which memory a directory is; empty: in none that is known.
func volatile(dir string) string {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return "" // making the store says what is wrong
	}
	switch uint32(s.Type) {
	case 0x01021994:
		return "tmpfs"
	case 0x858458f6:
		return "ramfs"
	}
	return ""
}
