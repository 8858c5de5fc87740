package controlplane_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"flyball.dev/controllers"
	podusage "flyball.dev/controllers/pods/usage"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controlplanetest"
)

// TestMetrics reads the metrics of pods and nodes.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := controlplanetest.Start(t, controlplane.Options{})
		c := controlplanetest.ClientFor(t, plane.Config())
		create := func(name, script, image string, containers ...string) {
			t.Helper()
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}, Annotations: map[string]string{podusage.Annotation: script}}}
			for _, container := range containers {
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: container, Image: image})
			}
			if _, err := c.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		create("web", "cpu=250m,memory=64Mi,proxy/cpu=5m", "i", "web", "proxy")
		create("db", "cpu=1", "i", "db")
		create("waits", "cpu=1", "i:404", "w")
		time.Sleep(10 * time.Second) // virtual
		read := func(path string, into any) error {
			body, err := c.CoreV1().RESTClient().Get().RequestURI("/apis/metrics.k8s.io/v1beta1/"+path).SetHeader("Accept", "application/json").Do(t.Context()).Raw()
			if err == nil {
				return json.Unmarshal(body, into)
			}
			status := &metav1.Status{}
			if json.Unmarshal(body, status) == nil {
				err = errors.New(status.Message)
			}
			return err
		}
		for path, want := range map[string]string{
			"namespaces/default/pods": "db: db 1 1Mi; web: web 250m 64Mi, proxy 5m 64Mi",
			"pods":                    "db: db 1 1Mi; web: web 250m 64Mi, proxy 5m 64Mi",
			"namespaces/default/pods?labelSelector=app%3Dweb":                       "web: web 250m 64Mi, proxy 5m 64Mi",
			"namespaces/default/pods?fieldSelector=metadata.name%3Ddb":              "db: db 1 1Mi",
			"namespaces/kube-system/pods":                                           "",
			"pods?limit=1":                                                          "db: db 1 1Mi; web: web 250m 64Mi, proxy 5m 64Mi",
			"pods?fieldSelector=metadata.namespace%3Ddefault,metadata.name%21%3Ddb": "web: web 250m 64Mi, proxy 5m 64Mi",
		} {
			list := &metricsv1beta1.PodMetricsList{}
			if err := read(path, list); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			if got := describeMetrics(list.Items...); got != want {
				t.Errorf("%s: %q, want %q", path, got, want)
			}
		}
		one := &metricsv1beta1.PodMetrics{}
		if err := read("namespaces/default/pods/web", one); err != nil || describeMetrics(*one) != "web: web 250m 64Mi, proxy 5m 64Mi" || one.Window.Duration != 15*time.Second ||
			one.Labels["app"] != "web" || !one.Timestamp.Equal(&metav1.Time{Time: time.Now().Truncate(time.Second)}) {
			t.Errorf("%+v, %v", one, err)
		}
		node := &metricsv1beta1.NodeMetrics{}
		if err := read("nodes/flyball", node); err != nil || node.Usage.Cpu().String() != "1255m" || node.Usage.Memory().String() != "129Mi" {
			t.Errorf("%+v, %v", node, err)
		}
		nodes := &metricsv1beta1.NodeMetricsList{}
		if err := read("nodes?labelSelector=kubernetes.io/hostname%3Dflyball", nodes); err != nil || len(nodes.Items) != 1 {
			t.Errorf("%+v, %v", nodes, err)
		}
		for path, want := range map[string]string{
			"namespaces/default/pods/waits":   `podmetrics.metrics.k8s.io "default/waits" not found`,
			"namespaces/default/pods/missing": `pods "missing" not found`,
			"nodes/missing":                   `nodes "missing" not found`,
			"others":                          "the server could not find the requested resource",
		} {
			if err := read(path, one); err == nil || err.Error() != want {
				t.Errorf("%s: %v, want %s", path, err, want)
			}
		}
		table := &metav1.Table{}
		body, err := c.Discovery().RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods").
			SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
		if err == nil {
			err = json.Unmarshal(body, table)
		}
		if err != nil || len(table.Rows) != 2 || fmt.Sprint(table.Rows[1].Cells) != "[web 255m 128Mi 15s]" {
			t.Errorf("table %s, %v", body, err)
		}
	})
}

// describeMetrics returns the usage of the containers of pods.
func describeMetrics(list ...metricsv1beta1.PodMetrics) string {
	var pods []string
	for _, m := range list {
		var containers []string
		for _, c := range m.Containers {
			containers = append(containers, fmt.Sprint(c.Name, " ", c.Usage.Cpu(), " ", c.Usage.Memory()))
		}
		pods = append(pods, m.Name+": "+strings.Join(containers, ", "))
	}
	return strings.Join(pods, "; ")
}

// TestMetricsOfUsers: a user with the role view in a namespace may read its metrics.
func TestMetricsOfUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := controlplanetest.Start(t, controlplane.Options{})
		c := controlplanetest.ClientFor(t, plane.Config())
		_, err := c.RbacV1().RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "ann"},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "ann"}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second) // virtual: the role view is aggregated
		ann := controlplanetest.As(t, plane, "ann")
		for path, want := range map[string]int{"namespaces/default/pods": http.StatusOK, "namespaces/kube-system/pods": http.StatusForbidden, "nodes": http.StatusForbidden} {
			code := 0
			ann.Discovery().RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1/" + path).Do(t.Context()).StatusCode(&code)
			if code != want {
				t.Errorf("%s: %d, want %d", path, code, want)
			}
		}
	})
}

// TestWithoutMetrics: metrics are not served if nothing measures containers.
func TestWithoutMetrics(t *testing.T) {
	for _, without := range []string{"metrics-server", "pods"} {
		plane := controlplanetest.Start(t, controlplane.Options{Controllers: controllers.Options{Without: []string{without}}})
		groups, err := controlplanetest.ClientFor(t, plane.Config()).Discovery().ServerGroups()
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range groups.Groups {
			if g.Name == "metrics.k8s.io" {
				t.Errorf("without %s, there are metrics", without)
			}
		}
		body, err := controlplanetest.ClientFor(t, plane.Config()).Discovery().RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1/nodes").DoRaw(t.Context())
		if err == nil || string(body) != "404 page not found\n" {
			t.Errorf("without %s: %q, %v", without, body, err)
		}
	}
}
