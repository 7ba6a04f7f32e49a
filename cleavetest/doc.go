// Package cleavetest is for tests of programs that keep their data in Cleave. It gives a
// test a store in memory, with a clock that the test turns and a disk that it breaks, so
// that what the program does about a full disk, a failed store, a refused request or a
// crash is tested like anything else:
//
//	func TestOrdersOnAFullDisk(t *testing.T) {
//		s := cleavetest.New(t)
//		service := orders.New(s.DB())
//
//		s.FillDisk()
//		if code := post(service, order); code != http.StatusServiceUnavailable {
//			t.Errorf("on a full disk the service answers %d", code)
//		}
//		s.FreeDisk()
//		if code := post(service, order); code != http.StatusCreated {
//			t.Errorf("with room again it answers %d", code)
//		}
//	}
//
// The store is that of package engine, with all its code; only the file system and the
// clock below it are others. The file system knows what was synced and what was not, and
// a crash takes from it what a real one would take.
//
// # What a test can do
//
//	DB, Open, Close           open the store, again after each crash; close it
//	Options                   for a program that opens its store by itself
//	Now, Advance, SetClock    the clock: items expire, budgets of request units refill
//	Kill                      the process dies; what it has written stays
//	CutPower                  the machine dies; what was not synced may be gone
//	CrashAt                   the process dies before its nth change of the disk
//	FillDisk, LeaveSpace, FreeDisk
//	Fail                      a read, write, sync, rename, … fails, once or for ever
//	SlowSyncs                 syncs take time
//	Damage                    bytes of files change
//
// Kill and CutPower leave a store that is not open. The next DB opens it as the next
// start of the program does. What the program kept in memory, DB and Container handles
// too, belongs to the process that died: calls on them fail.
//
// # What is checked at the end of the test
//
// The test fails if it has left open a snapshot, a loop over a scan, query or change feed
// (by iter.Pull, or in a goroutine that goes on), a job that was neither waited for nor
// cancelled, or a store that the program opened by itself; the message names the line that
// opened it. It fails, too, if a fault that Fail has planted was never met, if a listener
// has panicked, or if the store cannot be closed because a call does not return. What
// ends within some seconds, by itself or by the context of the test, is no leak. The
// store that DB has opened is closed by the package.
//
// # Time
//
// The clock of a store goes like the system's, ahead by what Advance has added. Inside of
// testing/synctest.Test it goes like that of the bubble: there, time.Sleep turns the clock
// of the store and wakes its background work as well, and nothing waits in earnest. New is
// then called in the bubble with the bubble's t. With the option At, the clock stands
// still until it is turned: documents get the same times in each run. Waiting for
// request units turns it.
//
// Advance turns the clock by which items expire, writes are stamped, throughput refills
// and changes are kept. It does not wake background work, whose timers are Go's; what that
// does with expired items, no reader sees.
//
// # Invariants
//
//  1. Stores of different New calls share nothing: tests may run in parallel.
//  2. A change of the disk is whole before or after a crash, as far as the disk promises
//     it: no call that has returned nil before Kill is undone by it, and no call that
//     returns nil after it was begun on the dead process.
//  3. CutPower keeps what was synced. Without a Seed it keeps nothing else; with one it
//     keeps, of the rest, what the seed chooses: whole sectors, names in any order that a
//     file system allows, a torn last write. One seed and one history give one outcome.
//  4. The package writes no file and uses no network.
package cleavetest
