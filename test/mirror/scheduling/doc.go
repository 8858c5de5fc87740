// Package scheduling holds our scheduler against kube-scheduler, on generated worlds of nodes, pods, volumes and budgets.
//
// kube-scheduler runs as it is, with its default profile, over a snapshot and informers that a test fills. Both schedule the same
// pod. Equal must be which nodes are filtered out and why, the score of each other node from each plugin, and the message of a pod
// that fits nowhere. Our node must have the highest of kube-scheduler's scores, and if pods have to be evicted, kube-scheduler's node
// and victims must be among the choices that ours finds equally good: both choose one of them at random or by name.
//
//	go test ./scheduling -objects 2000 -seed 7
//	go test ./scheduling -seed 7 -case 6202
package scheduling
