// Package apiextensions runs the integration tests of k8s.io/apiextensions-apiserver against the
// control plane.
//
// The tests are data: they come from the module cache, and nothing of them is in this repository.
// They are written into a scratch module in a temporary directory, with their import paths
// rewritten and without the file that starts upstream's server. Folder fixtures takes its place: it
// starts a control plane in the process of the tests, reached over HTTPS, and serves its storage as
// etcd's key-value service, for tests that read and write what is stored.
//
// failing.txt lists each test that fails, below its reason, a line that begins with #. It may only
// shrink: the test fails when a test fails that is not listed, and when one that is listed passes.
// With -update the test rewrites the list, and new lines come below a reason that says so, which is
// to be replaced. A reason that begins with "# flaky" permits both results; tests below one
// that begins with "# not run" are not run.
package apiextensions
