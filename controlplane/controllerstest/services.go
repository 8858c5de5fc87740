package controllerstest

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"flyball.dev/ctrl/client"
)

// Service returns the Service [Web], which selects the pods of the Deployment.
func Service() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: Web.Namespace, Name: Web.Name},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}
}

// slices returns, for each EndpointSlice of the Service, its ports and the numbers of endpoints that
// are ready and of all, sorted.
func (e Env) slices() []string {
	e.Helper()
	list := &discoveryv1.EndpointSliceList{}
	e.Must(e.List(e.Context(), list, client.InNamespace(Web.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: Web.Name}))
	var described []string
	for _, s := range list.Items {
		text, _, _ := strings.Cut(s.Labels[discoveryv1.LabelManagedBy], "-")
		for _, p := range s.Ports {
			text += fmt.Sprint(" ", *p.Port)
		}
		ready := 0
		for _, p := range s.Endpoints {
			if *p.Conditions.Ready {
				ready++
			}
		}
		described = append(described, fmt.Sprintf("%s %d/%d", text, ready, len(s.Endpoints)))
	}
	slices.Sort(described)
	return described
}

// WantSlices checks the manager of each EndpointSlice of the Service, its ports, and the numbers of ready and of all endpoints.
func (e Env) WantSlices(described ...string) {
	e.Helper()
	if got := e.slices(); !slices.Equal(got, described) {
		e.Errorf("the slices are %q, want %q", got, described)
	}
}
