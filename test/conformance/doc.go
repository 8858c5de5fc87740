// Package conformance runs the conformance tests of Kubernetes on control planes of flyball up.
//
// The tests are the unmodified packages of k8s.io/kubernetes/test/e2e, of the version of the served API, with the provider
// skeleton. The images of the tests are data: testdata/images.yaml has what their programs do, as scripts for flyball up
// --script. The tests with pods that serve HTTPS have Kubernetes' own program agnhost, as a process of this machine.
//
// passing.txt has the specs that pass, with their duration in seconds. excluded.txt has the others, each under
// the reason why it does not pass.
//
//	go test .                      runs the quick specs of passing.txt, on two fresh control planes
//	go test . -all -timeout 3h     runs all of passing.txt
//	go test . -specs 'Garbage collector' -v
//	                               runs the specs with names that match, also excluded ones, and prints why they fail
//	go test . -all -update -timeout 3h
//	                               also writes passing.txt anew, and removes what passes from excluded.txt
//	go test . -server KUBECONFIG -all -limit 90s -results FILE -timeout 3h
//	                               runs the specs on a server that runs, which may have no nodes, and keeps the results
//	go test . -server KUBECONFIG -like FILE -limit 90s -timeout 3h
//	                               runs the specs of FILE on another server, and fails if other specs pass
//
// The first build takes some fifteen minutes of CPU time.
//
// 431 of 462 specs pass. kube-apiserver passes the same 143 specs, among the specs that need no node, over etcd and
// over the stand-in for etcd.
package conformance
