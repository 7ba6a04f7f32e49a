// Command mutants shows that the tests of the repository notice when code that keeps data
// safe is missing. It removes one sync, checksum test, order, lock or bound from the source
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
//	why: the harm that the mutant does
//	file: wal/group.go
//	caught by: ./wal TestGroup ./engine TestCrashImages|TestModel
//	-	text as it stands in the file
//	+	text that replaces it
//
// The lines that begin with - are the original text, all together; this text occurs once in
// the file. The lines that begin with + replace it; there may be none. TestList fails
// if the original text of a mutant is no longer in the source.
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
// All tests run with -short. First the tests that are named run without a mutant: they must
// pass, because a test that fails without a mutant catches nothing.
//
// The command exits with 1 if a mutant was not caught, hangs, survived or does not
// compile, and with 2 if the tests themselves do not compile or pass.
package main
