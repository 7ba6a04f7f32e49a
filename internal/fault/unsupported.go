//go:build !(amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64 || s390x)

package fault

// This file is compiled only where Cleave cannot work, for the compiler to say so.
const _ int = "Cleave needs a 64-bit processor, and a system that maps files into memory: not 32-bit ones, and not WebAssembly"
