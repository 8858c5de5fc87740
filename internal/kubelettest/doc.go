// Package kubelettest has pods, what their containers do, and the statuses and events that a kubelet wrote for them. A test of
// package flyball.dev/test/mirror/kubelet records them; a test of package pods replays them.
//
// cases.yaml has the pods. The command of a container says what it does: see [Program], [Probe] and [Hook]. recorded.txt has a
// [History] for each pod:
//
//	=== never-succeeds
//	1 phase = Pending
//	1 container a = waiting ContainerCreating, not started
//	2 phase = Running
//	event container a = Normal Pulled: ...
//
// The number counts the statuses of the pod. A line is a track, a part of the status, with its value in this status and the
// following ones, until the track has another line.
//
// How kubelet divides changes among statuses depends on chance: it looks at the containers once a second, and all that has
// happened since is in one status. So [Compare] does not compare the numbers. It leaves out the statuses of a kubelet that is about to
// do something: the pod has no sandbox yet, a container waits for its first start, or a container has terminated and restarts. In
// each track the remaining values must be the same in the same order, so the last status must be the same as a whole. Events are
// compared by container, in their order; one or two events that occur several times in a row count once, since a count depends on
// chance too.
package kubelettest
