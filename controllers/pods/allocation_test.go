package pods

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestAllocationOfStatus: after a restart of the controller, which forgets the allocations, a pod has the resources in its status: the
// new ones of a resize in progress, and the old ones of a resize that waits.
func TestAllocationOfStatus(t *testing.T) {
	requests := func(amount string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: cpu(amount)}
	}
	crashed := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: crashLoopBackOffReason}}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	progress := []corev1.PodCondition{{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue}}
	for name, tt := range map[string]struct {
		spec, has, allocated string
		state                corev1.ContainerState
		conditions           []corev1.PodCondition
		want                 string
	}{
		"no resize":                           {"1", "1", "1", runs, nil, "1"},
		"not started":                         {"1", "", "", corev1.ContainerState{}, nil, "1"},
		"a new resize":                        {"3", "1", "1", runs, nil, "1"},
		"a new resize of a crashed container": {"3", "1", "1", crashed, nil, "1"},
		"in progress":                         {"3", "1", "3", runs, progress, "3"},
		"another resize while the first is in progress": {"3", "1", "2", runs, progress, "2"},
	} {
		p := pod(func(p *corev1.Pod) {
			p.Spec.InitContainers = nil
			p.Spec.Containers[0].Resources = requests(tt.spec)
			s := corev1.ContainerStatus{Name: "c", State: tt.state}
			if tt.has != "" {
				has := requests(tt.has)
				s.Resources, s.AllocatedResources = &has, cpu(tt.allocated)
			}
			p.Status.ContainerStatuses, p.Status.Conditions = []corev1.ContainerStatus{s}, tt.conditions
		})
		a := &allocations{}
		granted := a.of(p)
		if got := granted.Spec.Containers[0].Resources.Requests.Cpu().String(); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
		if (granted == p) != (tt.want == tt.spec) {
			t.Errorf("%s: the pod itself is returned: %t", name, granted == p)
		}
	}
}

// TestAllocationOfPodByStatus is TestAllocationOfStatus for the resources of a pod as a whole.
func TestAllocationOfPodByStatus(t *testing.T) {
	overhead := cpu("250m")
	for name, tt := range map[string]struct {
		spec, has, allocated, overhead string
		started, inProgress            bool
		want                           string // "" for none
	}{
		"no resize":        {"1", "1", "1", "", true, false, "1"},
		"with an overhead": {"1", "1250m", "1250m", "250m", true, false, "1"},
		"not started":      {"1", "", "", "", false, false, "1"},
		"a new resize":     {"3", "1", "1", "", true, false, "1"},
		"in progress":      {"3", "1", "3", "", true, true, "3"},
		"another one while the first is in progress": {"3", "1", "2", "", true, true, "2"},
		"the first resources":                        {"3", "", "", "", true, false, ""},
	} {
		p := pod(func(p *corev1.Pod) {
			p.Spec.InitContainers = nil
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: cpu(tt.spec)}
			if tt.overhead != "" {
				p.Spec.Overhead = overhead
			}
			if tt.has != "" {
				p.Status.Resources, p.Status.AllocatedResources = &corev1.ResourceRequirements{Requests: cpu(tt.has)}, cpu(tt.allocated)
			}
			if tt.started {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", Resources: &corev1.ResourceRequirements{}}}
			}
			if tt.inProgress {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue}}
			}
		})
		a := &allocations{}
		granted, got := a.of(p), ""
		if granted.Spec.Resources != nil {
			got = granted.Spec.Resources.Requests.Cpu().String()
		}
		if got != tt.want || (granted == p) != (tt.want == tt.spec) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
