// Package script runs the JavaScript of stored procedures, triggers and user-defined
// functions.
//
//	gateway ──► Session ──── pipes ────► child process
//	               │  Job, Call            prelude.js  getContext(), console, the queue of operations
//	               │  ◄── operations ──    goja        the script
//	               └── answers, one for each operation ──►
//
// A script runs in a child process, which is the same program: init sees by the name of the
// process that it is to be one. The child has no arguments, no environment, no files but its
// two pipes, and no secrets. It can do nothing but compute and ask the parent for operations,
// which the parent carries out in the transaction of the request. A child serves one request
// and ends with it, so no request sees anything of another.
//
// Frames on the pipes are a length (u32, little-endian) and as many bytes of JSON. The parent
// sends a message; the child sends any number of operations, each of which is answered, and
// then its result.
//
// # Bounds
//
//	time      Limits.Time for all that a session computes, operations included: then the parent
//	          kills the child. The child ends by itself a second later if its parent is gone.
//	memory    Limits.Memory of heap and stacks, which the child looks at every two milliseconds;
//	          on Linux a limit of the kernel, four times that, holds in between
//	stack     maxCalls calls in JavaScript, which throw a RangeError; maxStack bytes in Go, for
//	          recursion inside of the interpreter, beyond which the child dies
//	frames    maxFrame bytes: an operation, an answer, a result
//	log       maxLog bytes, the rest is left out
//	children  Pool: as many as there are places; who finds none waits
//
// Nothing in the interpreter must hold for these bounds: a loop in native code, a regular
// expression that never ends or an allocation of gigabytes meets the same limits.
//
// # Invariants
//
//  1. Run and Call return an error unless the child has told a result.
//  2. A child never outlives its session, but for the second after the death of its parent.
//  3. Operations arrive in the order in which the script has asked for them, one at a time.
package script
