// Package framework decides where a pod runs, as kube-scheduler's default profile does: it filters the nodes, scores those
// that are left, and selects victims if the pod can have a node only instead of pods of a lower priority.
//
// A [Snapshot] has the nodes, the pods on them, and sums of both, which each change keeps up to date: what a node has left, how
// many pods of a node match a selector, which terms of affinity the pods have. So an attempt looks at nodes, and not at pods.
// [Snapshot.Schedule] is a function of a snapshot and a pod. It changes nothing but its own bookkeeping. The package makes no
// requests, reads no clock, and starts no goroutine. A snapshot is not safe for concurrent use.
//
// Each plugin of the default profile is a type in a file of its own, with the name, the weight and the words of its counterpart.
// The exceptions are plugins without an effect here: NodeDeclaredFeatures and DynamicResources, because kubelet's stand-in neither
// declares features nor allocates devices, and the translation of volumes of the time before CSI.
//
// To try a pod without its victims, or beside the pods that a node is reserved for, an attempt changes the snapshot and
// changes it back.
package framework
