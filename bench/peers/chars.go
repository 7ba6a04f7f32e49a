//go:build rocksdb || wiredtiger

package main

import "C"

import "unsafe"

// chars returns the address of bytes for C.
func chars(b []byte) *C.char { return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))) }
