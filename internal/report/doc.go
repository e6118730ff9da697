// Package report tells what a run came to: to a person at a terminal, in a browser or
// in a ticket, and to the machines that gather such things.
//
// Read formats.go first: it lists the formats. Each is a function of a spec.Report in a
// file of its own, and none knows of another. build.go makes a Report of a run's record
// as it is read, in memory that grows with the run's seconds and its workers and not with
// its requests: of those it has four bytes each, until their episode is over. html.go is
// the page; what it is made from is in assets. Package layout, below, sets text for people.
//
// What is told was recorded or judged before: nothing here decides anything. Whatever
// comes from elsewhere (a model's name, a log line) may be hostile: it is shown, and
// does nothing.
package report
