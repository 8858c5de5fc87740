package volumeexpansion

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestNext is the table of the steps of an expansion to 2Gi.
func TestNext(t *testing.T) {
	for _, test := range []struct {
		name, volume, allocated string
		state                   corev1.ClaimResourceStatus
		mode                    corev1.PersistentVolumeMode
		want                    string // the reason of the event, or "volume"
		wantState               corev1.ClaimResourceStatus
	}{
		{name: "at first", volume: "1Gi", want: "Resizing", wantState: "ControllerResizeInProgress"},
		{name: "it has begun", volume: "1Gi", allocated: "2Gi", state: "ControllerResizeInProgress", want: "volume"},
		{name: "it has begun, to another size", volume: "1Gi", allocated: "3Gi", state: "ControllerResizeInProgress", want: "Resizing", wantState: "ControllerResizeInProgress"},
		{name: "the volume has grown", volume: "2Gi", allocated: "2Gi", state: "ControllerResizeInProgress", want: "FileSystemResizeRequired", wantState: "NodeResizePending"},
		{name: "the volume is larger", volume: "5Gi", want: "FileSystemResizeRequired", wantState: "NodeResizePending"},
		{name: "the node is next", volume: "2Gi", allocated: "2Gi", state: "NodeResizePending"},
		{name: "the node is at it", volume: "2Gi", allocated: "2Gi", state: "NodeResizeInProgress"},
		{name: "the request grows while the node is next", volume: "1Gi", allocated: "1Gi", state: "NodeResizePending", want: "Resizing", wantState: "ControllerResizeInProgress"},
		{name: "the controller has failed", volume: "1Gi", allocated: "2Gi", state: "ControllerResizeInfeasible", want: "Resizing", wantState: "ControllerResizeInProgress"},
		{name: "a block device", volume: "2Gi", allocated: "2Gi", state: "ControllerResizeInProgress", mode: "Block", want: "VolumeResizeSuccessful"},
	} {
		claim, v := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
		size := func(s string) corev1.ResourceList {
			return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(s)}
		}
		claim.Spec.Resources.Requests, claim.Status.Capacity, v.Spec.Capacity = size("2Gi"), size("1Gi"), size(test.volume)
		if test.mode != "" {
			claim.Spec.VolumeMode = ptr.To(test.mode)
		}
		if test.state != "" {
			claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: test.state}
			claim.Status.AllocatedResources = size(test.allocated)
		}
		claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: "example.com/Other"}, {Type: corev1.PersistentVolumeClaimNodeResizeError}}
		s := next(claim, v, metav1.Now())
		got := s.reason
		if s.size != nil {
			got = "volume"
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
		if s.status == nil {
			continue
		}
		if state := s.status.AllocatedResourceStatuses[corev1.ResourceStorage]; state != test.wantState {
			t.Errorf("%s: the state is %q, want %q", test.name, state, test.wantState)
		}
		if c := s.status.Conditions; c[0].Type != "example.com/Other" || len(c) > 1 && c[1].Type == corev1.PersistentVolumeClaimNodeResizeError {
			t.Errorf("%s: the conditions are %v", test.name, c)
		}
	}
}
