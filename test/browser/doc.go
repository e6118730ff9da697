// Package browser holds the HTML report against a real browser, Debian's chromium.
// It is a module of its own, so that the product does not depend on the driver,
// and it imports nothing of the product: it runs the real program. All of it is
// tests. run.sh is how they are run, `make test-browser` from the top.
//
// Read page_test.go first: it lists the rules. checks_test.go says how each is
// looked for, and broken_test.go breaks a page once for each, so that a check
// that sees nothing is noticed. runs_test.go makes the pages, tab_test.go opens
// them. watch.js and canvas.js run in a page before its own scripts; look.js is
// asked from outside.
package browser
