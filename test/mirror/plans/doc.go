// Package plans holds our controllers against Kubernetes's, on generated worlds. A world has the object that a controller
// reconciles and the objects around it. Our controller and Kubernetes's each have a copy of the world. Each of them writes
// and sees what it has written, until nothing changes. Then the two worlds, and the events, must be equal.
//
// Kubernetes's controllers run as they are, with informers that a test fills and a client that writes to the world, in a
// synctest bubble. A world takes less than a second, the time for retries. differences.txt lists the fields and events that
// may differ, with the reasons. Package scheduling compares the
// scheduler; here are only the filters with resources that are resized.
//
//	go test ./plans -run TestJobs -objects 100000 -seed 7
package plans
