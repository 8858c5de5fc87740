// Package peer runs controller-runtime's own tests on flyball.dev/ctrl.
//
// The tests come from the module cache; this repository contains no copy. The package makes a scratch copy of module
// flyball.dev, without its own tests, in a temporary directory. It writes every _test.go file of controller-runtime
// over the copy, with its testdata and with rewritten import paths. A file of package x becomes a file of package
// x_test that imports x with a dot, so that only exported names are in scope. The package then type-checks the files
// and removes the smallest test that contains an error, until there is no error left, and runs the remaining tests.
//
// Folder testdata has our own functions for tests that call unexported functions of controller-runtime. They compile
// only in the scratch copy.
//
// The tests start an envtest.Environment; here this is ctrl/envtest, which starts our control plane in the process.
//
// failing.txt lists each spec that fails or does not compile, below its reason, a line that begins with #. The list may
// only shrink: the test fails when an unlisted spec fails, and when a listed spec passes. With -update the test
// rewrites the list, and puts new failures below a placeholder reason, which a developer has to replace. A spec with a
// reason that begins with "# flaky" may also pass.
package peer
