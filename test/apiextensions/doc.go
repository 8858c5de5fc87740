// Package apiextensions runs the integration tests of k8s.io/apiextensions-apiserver against the control plane.
//
// The tests come from the module cache; this repository contains no copy. The package writes them into a scratch module
// in a temporary directory, with rewritten import paths and without the file that starts apiextensions-apiserver.
// Folder fixtures replaces that file: it starts a control plane in the process of the tests, reached over HTTPS, and
// serves its storage as etcd's key-value service, for tests that read and write stored objects.
//
// failing.txt lists each failing test below its reason, a line that begins with #. The list may only shrink: the test
// fails when an unlisted test fails, and when a listed test passes. With -update the test rewrites the list, and puts
// new failures below a placeholder reason, which a developer has to replace. A test with a reason that begins with "#
// flaky" may also pass, and tests with a reason that begins with "# not run" are not run.
package apiextensions
