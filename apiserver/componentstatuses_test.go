package apiserver_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"flyball.dev/controlplane"
)

func TestComponentStatuses(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{WithoutControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	client := dynamic.NewForConfigOrDie(plane.Config()).Resource(schema.GroupVersionResource{Version: "v1", Resource: "componentstatuses"})
	list, err := client.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 0 || list.GetKind() != "ComponentStatusList" {
		t.Errorf("listed %v, %v", list, err)
	}
	if _, err := client.Get(t.Context(), "etcd-0", metav1.GetOptions{}); err == nil || !strings.Contains(err.Error(), `componentstatus "etcd-0" not found`) {
		t.Errorf("got %v", err)
	}
}
