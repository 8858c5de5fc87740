// Command mirror holds our code beside the Kubernetes code that it mirrors: each declaration with a directive //upstream: names the
// declaration that it follows.
//
//	go run -C test/mirror . diff v1.36.3    shows what changed in it since that release
//
// The tests check that all names are declared in the release that go.mod requires, and that no package of the mirrored trees
// goes without a reference; run them with -count=1, since the test cache does not see the sources. Only modules for tests may import k8s.io/kubernetes.
package main

func main() {}
