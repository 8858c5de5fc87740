package background_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"flyball.dev/controlplane"
)

// TestBootstrapObjects checks the objects of flow control and of the service network.
func TestBootstrapObjects(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{WithoutControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	client := dynamic.NewForConfigOrDie(plane.Config())
	for _, tc := range []struct {
		resource schema.GroupVersionResource
		names    []string
	}{
		{schema.GroupVersionResource{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Resource: "flowschemas"}, []string{"catch-all", "exempt", "global-default", "probes"}},
		{schema.GroupVersionResource{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Resource: "prioritylevelconfigurations"}, []string{"catch-all", "exempt", "leader-election", "system"}},
		{schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "servicecidrs"}, []string{"kubernetes"}},
	} {
		for _, name := range tc.names {
			obj, err := client.Resource(tc.resource).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Error(err)
				continue
			}
			obj.SetLabels(map[string]string{"a": "b"})
			if _, err := client.Resource(tc.resource).Update(t.Context(), obj, metav1.UpdateOptions{}); err != nil {
				t.Errorf("%s cannot be labeled: %v", name, err)
			}
		}
	}
}
