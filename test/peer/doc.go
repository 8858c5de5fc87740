// Package peer runs controller-runtime's own tests on flyball.dev/ctrl.
//
// The tests are data: they come from the module cache, and nothing of them is in this repository. A
// scratch copy of module flyball.dev, without its own tests, is made in a temporary directory.
// Every _test.go file of controller-runtime is written over it, with its testdata and with the
// import paths rewritten. A file of package x becomes one of package x_test that imports x with a
// dot, so that only exported names are in scope. The files are type-checked, and the smallest test
// that contains an error is removed, until there is none. What is left runs.
//
// Folder testdata has functions of our own for tests that call unexported ones of
// controller-runtime. They compile in the scratch copy only.
//
// Where the tests start an envtest.Environment, they get ctrl/envtest: our control plane, in the
// process.
//
// failing.txt lists each spec that fails or does not compile, below its reason, a line that begins
// with #. It may only shrink: the test fails when a spec fails that is not listed, and when one
// that is listed passes. With -update the test rewrites the list, and new lines come below a reason
// that says so, which is to be replaced. A reason that begins with "# flaky" permits both results.
package peer
