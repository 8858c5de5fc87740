// Package scenarios compares controllers that have a state with Kubernetes', such as the two garbage collectors, the eviction by
// taints, and the binding of volumes. Package plans compares the controllers that reconcile one object.
//
// A scenario is a list of steps. A step writes an object, and some time passes. Each scenario runs on two control planes, in
// virtual time: on one with our controller, and on one with Kubernetes'. The results of the writes, and the objects and the
// events after the steps, must be equal. differences.txt lists the differences and their reasons.
//
//	go test ./scenarios -run TestTaintEviction -objects 10000 -seed 7
package scenarios
