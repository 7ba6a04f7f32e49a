// Command mutants shows that the tests of the repository notice what keeps data
// safe. It removes one sync, checksum test, order, lock or bound from the source
// at a time and runs the tests, which must fail.
//
//	go run ./bench/mutants            every mutant, with the tests that are named to catch it
//	go run ./bench/mutants -run wal   mutants whose names match
//	go run ./bench/mutants -named     only the tests that are named, not the quick suite after them
//	go run ./bench/mutants -check     only whether every mutant applies and compiles
//
// The source is never changed: the compiler reads the mutated file in place of
// the original one (the -overlay flag of the go command).
//
// # The list
//
// list.txt has one mutant a paragraph:
//
//	== name
//	why: what a mutant without it would do
//	file: wal/group.go
//	caught by: ./wal TestGroup ./engine TestCrashImages|TestModel
//	-	text as it stands in the file
//	+	text that replaces it
//
// Lines that begin with - are the original, together; it occurs once in the
// file. Lines that begin with + replace it; there may be none. TestList fails
// when the source has moved on and the list has not.
//
// # Verdicts
//
//   - caught: a test that is named fails.
//   - caught elsewhere: the tests that are named pass, the quick suite fails.
//   - not caught: with -named, the tests that are named pass.
//   - hangs: no test failed before the time was up. A test that does not hang is missing.
//   - survived: the quick suite passes. The suite has a hole.
//   - does not compile: the mutant tests the compiler, not the suite.
//
// All tests run with -short. First those that are named run without a mutant: they must
// pass, since what fails by itself catches nothing.
//
// The command exits with 1 when a mutant was not caught, hangs, survived or does not
// compile, and with 2 where the tests themselves do not compile or pass.
package main
