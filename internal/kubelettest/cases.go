package kubelettest

import (
	"cmp"
	_ "embed"
	"fmt"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

//go:embed cases.yaml
var casesFile []byte

// Node is the name of the node of the pods.
const Node = "flyball"

// The images of containers. Others cannot be pulled.
const (
	// Present is an image that the node has.
	Present = "program:1"
	// Flaky is the name of images that cannot be pulled the first time.
	Flaky = "flaky"
	// Missing is an image that nobody has.
	Missing = "program:404"
)

// Case is a pod and what happens to it.
type Case struct {
	Name string         `json:"name"`
	Spec corev1.PodSpec `json:"spec"`
	// Lasts is how long the pod is watched after its creation, or after it was deleted. At that time it is about to do nothing for
	// some seconds.
	Lasts metav1.Duration `json:"lasts"`
	// Then are the acts of a client, in their order.
	Then []Act `json:"then,omitempty"`
}

// Act is what a client does with a pod: it sets one field besides At.
type Act struct {
	// At is the time since the creation of the pod.
	At metav1.Duration `json:"at"`
	// Delete is the grace period of a deletion, in seconds.
	Delete *int64 `json:"delete,omitempty"`
	// Touch changes a label, so that a kubelet looks at the pod again.
	Touch bool `json:"touch,omitempty"`
	// Ephemeral is an ephemeral container to add.
	Ephemeral *corev1.EphemeralContainer `json:"ephemeral,omitempty"`
}

// Cases returns the cases.
func Cases() ([]Case, error) {
	var all []Case
	if err := yaml.UnmarshalStrict(casesFile, &all); err != nil {
		return nil, err
	}
	for i := range all {
		c := &all[i]
		c.Lasts.Duration = cmp.Or(c.Lasts.Duration, defaultLasts)
		for _, act := range c.Then {
			if e := act.Ephemeral; e != nil {
				e.Image = cmp.Or(e.Image, Present)
			}
		}
	}
	return all, nil
}

// defaultLasts is the default of Lasts: a container that fails twice then waits for its first back-off.
const defaultLasts = 10 * time.Second

// Pod returns the pod of a case.
func (c *Case) Pod(namespace string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: c.Name}, Spec: *c.Spec.DeepCopy()}
	pod.Spec.NodeName = Node
	pod.Spec.AutomountServiceAccountToken = new(bool)
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			list[i].Image = cmp.Or(list[i].Image, Present)
		}
	}
	return pod
}

// failing matches the images that cannot be pulled at first.
var failing = regexp.MustCompile(`^` + Flaky + `\b`)

// PullFailures returns how many pulls of an image fail: all if the number is negative.
func PullFailures(image string) int {
	switch {
	case image == Missing:
		return -1
	case failing.MatchString(image):
		return 1
	}
	return 0
}

// PullError returns the error of containerd for an image that cannot be pulled, without its code, which is NotFound.
func PullError(image string) string {
	ref := "docker.io/library/" + image
	return fmt.Sprintf("failed to pull and unpack image %q: failed to resolve reference %q: %s: not found", ref, ref, ref)
}
