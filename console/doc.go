// Package console serves a live page about a store that is open in the same process: an
// http.Handler that a program mounts where it likes.
//
//	http.Handle("/debug/cleave/", http.StripPrefix("/debug/cleave", console.Handler(db, nil)))
//
// The page shows the key space of each container with its physical partitions, their sizes
// and load, the splits as they happen, hot and large logical partitions and those with
// refused calls, how long calls take, stalls, jobs, feeds, what holds overwritten versions, memory and disk. It answers
// queries with their plans, lists documents, and weighs a cut before it is made.
// docs/console.md describes the page and the JSON that it is made of.
//
// Invariants:
//
//  1. Nothing runs between requests: no goroutine, no timer. Nobody looks: nothing is
//     paid.
//  2. However many look, DB.Stats and DB.Metrics are called once a second at most, and less
//     often where the calls take longer than a twentieth of that.
//  3. What an answer holds is bounded, whatever the store holds: partitions are added up to
//     what a screen can show, lists come in pages, scans and queries end at a time limit.
//  4. The store is only read, unless Options allow a change; then by POST from the page's
//     own origin only.
//  5. No answer with data may be kept by a cache. The page loads nothing from elsewhere, and
//     no document is ever read as HTML.
package console
