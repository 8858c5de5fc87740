package controllers

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/controllers/pods/usage"
)

// metricsServer is the name under which metrics.k8s.io can be switched off. The API server serves it without a controller.
const metricsServer = "metrics-server"

// Usage returns the function for the usage of containers, for the API group metrics.k8s.io. It is nil if metrics-server
// or the pods are not selected, since nothing measures containers then.
func (o *Options) Usage() func(pod *corev1.Pod, container string, now time.Time) corev1.ResourceList {
	switch {
	case slices.Contains(o.Without, metricsServer) || slices.Contains(o.Without, "pods"):
		return nil
	case o.Pods.Usage != nil:
		return o.Pods.Usage
	}
	return o.Pods.UsageOf
}

// metricsReader returns the role by which the roles view, edit and admin include metrics, as in metrics-server's manifests.
func metricsReader() *rbacv1.ClusterRole {
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "system:aggregated-metrics-reader", Labels: map[string]string{}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"metrics.k8s.io"}, Resources: []string{"pods", "nodes"}, Verbs: []string{"get", "list", "watch"}}},
	}
	for _, to := range []string{"view", "edit", "admin"} {
		role.Labels["rbac.authorization.k8s.io/aggregate-to-"+to] = "true"
	}
	return role
}

// usageWarnings returns the warnings for a script of the usage that is not valid.
func usageWarnings(meta *metav1.ObjectMeta, path *field.Path) []string {
	text, ok := meta.Annotations[usage.Annotation]
	if !ok {
		return nil
	}
	if _, err := usage.Parse(text); err != nil {
		return []string{fmt.Sprintf("%s: the script has no effect: %v", path.Child("metadata", "annotations").Key(usage.Annotation), err)}
	}
	return nil
}
