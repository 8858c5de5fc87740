// Package assets runs controller-runtime's own tests on envtest, unmodified and from the module
// cache, on the stand-ins for kube-apiserver and etcd that "flyball assets" writes.
//
// failing.txt lists each spec that fails, below its reason, a line that begins with #. It may only
// shrink: the test fails when a spec fails that is not listed, and when one that is listed passes.
// With -update the test rewrites the list. With -assets it runs on the programs of another
// directory, such as the real ones, and reports without comparing.
package assets
