// Package kubelet runs Kubernetes's kubelet on our control plane, with a container runtime whose containers do as they are told, and
// records the statuses and events of the pods in internal/kubelettest. Package pods compares its own with the recording.
//
//	FLYBALL_TEST_LEVEL=full go test -C test/mirror ./kubelet            # a kubelet does the same again
//	FLYBALL_TEST_LEVEL=full go test -C test/mirror ./kubelet -record    # write the recording anew
//
// The kubelet is kubemark's hollow one with its own prober. Nothing is executed, mounted or pulled; its files are in a temporary
// directory.
package kubelet
