package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"flyball.dev/controlplane"
)

// serve starts a server without controllers, which is stopped when the test ends, and returns a
// client of it.
func serve(t *testing.T) (context.Context, kubernetes.Interface) {
	t.Helper()
	client, err := kubernetes.NewForConfig(startServer(t))
	if err != nil {
		t.Fatal(err)
	}
	return t.Context(), client
}

// startServer starts a server without controllers, which is stopped when the test ends.
func startServer(t *testing.T) *rest.Config {
	t.Helper()
	plane, err := controlplane.Start(t.Context(), controlplane.Options{WithoutControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	return plane.Config()
}

func must[T any](t *testing.T) func(v T, err error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// wantError checks the reason of an error, and that its message contains all parts.
func wantError(t *testing.T, err error, reason metav1.StatusReason, parts ...string) {
	t.Helper()
	if apierrors.ReasonForError(err) != reason {
		t.Fatalf("got %v, want the reason %s", err, reason)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("the message %q does not contain %q", err, p)
		}
	}
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
	}
}

func TestNamespaceDeletion(t *testing.T) {
	ctx, client := serve(t)
	namespaces := client.CoreV1().Namespaces()
	ns := must[*corev1.Namespace](t)(namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, metav1.CreateOptions{}))
	if ns.Labels[corev1.LabelMetadataName] != "team" || ns.Status.Phase != corev1.NamespaceActive || len(ns.Spec.Finalizers) != 1 || ns.Spec.Finalizers[0] != corev1.FinalizerKubernetes {
		t.Errorf("created: %+v", ns)
	}

	if err := namespaces.Delete(ctx, "team", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ns = must[*corev1.Namespace](t)(namespaces.Get(ctx, "team", metav1.GetOptions{}))
	if ns.DeletionTimestamp == nil || ns.Status.Phase != corev1.NamespaceTerminating {
		t.Errorf("after its deletion: %+v", ns)
	}
	again := &corev1.Namespace{}
	status := 0
	err := client.CoreV1().RESTClient().Delete().Resource("namespaces").Name("team").Do(ctx).StatusCode(&status).Into(again)
	if err != nil || status != http.StatusOK || again.UID != ns.UID || again.ResourceVersion != ns.ResourceVersion {
		t.Errorf("deleted again: %d, %v, %+v", status, err, again)
	}
	wrong := types.UID("other")
	wantError(t, namespaces.Delete(ctx, "team", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}}), metav1.StatusReasonConflict)

	ns.Spec.Finalizers = nil
	if kept := must[*corev1.Namespace](t)(namespaces.Update(ctx, ns, metav1.UpdateOptions{})); len(kept.Spec.Finalizers) != 1 {
		t.Error("an ordinary update changed the finalizers")
	}
	ns.ResourceVersion = ""
	if _, err := namespaces.Finalize(ctx, ns, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = namespaces.Get(ctx, "team", metav1.GetOptions{})
	wantError(t, err, metav1.StatusReasonNotFound)
}

func TestNamespaceFinalizers(t *testing.T) {
	ctx, client := serve(t)
	namespaces := client.CoreV1().Namespaces()
	held := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"example.com/hold"}}}
	must[*corev1.Namespace](t)(namespaces.Create(ctx, held, metav1.CreateOptions{}))
	dry := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	if err := namespaces.Delete(ctx, "held", dry); err != nil {
		t.Fatal(err)
	}
	ns := must[*corev1.Namespace](t)(namespaces.Get(ctx, "held", metav1.GetOptions{}))
	if ns.DeletionTimestamp != nil {
		t.Error("a dry run deleted the namespace")
	}
	wrong := types.UID("other")
	wantError(t, namespaces.Delete(ctx, "held", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}}), metav1.StatusReasonConflict)
	if err := namespaces.Delete(ctx, "held", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ns = must[*corev1.Namespace](t)(namespaces.Get(ctx, "held", metav1.GetOptions{}))
	ns.Spec.Finalizers = nil
	ns = must[*corev1.Namespace](t)(namespaces.Finalize(ctx, ns, metav1.UpdateOptions{}))
	ns.Finalizers = nil
	if _, err := namespaces.Update(ctx, ns, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := namespaces.Get(ctx, "held", metav1.GetOptions{})
	wantError(t, err, metav1.StatusReasonNotFound)
}

func TestPodIsBoundAndDeleted(t *testing.T) {
	ctx, client := serve(t)
	pods := client.CoreV1().Pods("default")
	made := pod("web")
	made.Status = corev1.PodStatus{Phase: corev1.PodRunning, Message: "set by the user"}
	p := must[*corev1.Pod](t)(pods.Create(ctx, made, metav1.CreateOptions{}))
	if p.Status.Phase != corev1.PodPending || p.Status.Message != "" || p.Status.QOSClass != corev1.PodQOSBestEffort || p.Generation != 1 {
		t.Errorf("created: generation %d, status %+v", p.Generation, p.Status)
	}

	bind := func(node string) error {
		return pods.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}, metav1.CreateOptions{})
	}
	if err := bind("node-a"); err != nil {
		t.Fatal(err)
	}
	wantError(t, bind("node-b"), metav1.StatusReasonConflict, `pod web is already assigned to node "node-a"`)
	p = must[*corev1.Pod](t)(pods.Get(ctx, "web", metav1.GetOptions{}))
	if p.Spec.NodeName != "node-a" || p.Generation != 1 || len(p.Status.Conditions) != 1 {
		t.Errorf("bound: generation %d, node %s, conditions %v", p.Generation, p.Spec.NodeName, p.Status.Conditions)
	}

	p.Status.Phase, p.Status.QOSClass = corev1.PodRunning, ""
	p.Spec.Containers[0].Command = []string{"ignored"}
	p = must[*corev1.Pod](t)(pods.UpdateStatus(ctx, p, metav1.UpdateOptions{}))
	if p.Status.Phase != corev1.PodRunning || p.Status.QOSClass != corev1.PodQOSBestEffort || p.Spec.Containers[0].Command != nil || p.Generation != 1 {
		t.Errorf("after an update of the status: %+v", p)
	}

	p.Spec.Containers[0].Command = []string{"other"}
	_, err := pods.Update(ctx, p, metav1.UpdateOptions{})
	wantError(t, err, metav1.StatusReasonInvalid, "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`")

	if err := pods.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p = must[*corev1.Pod](t)(pods.Get(ctx, "web", metav1.GetOptions{}))
	if p.DeletionGracePeriodSeconds == nil || *p.DeletionGracePeriodSeconds != 30 || time.Until(p.DeletionTimestamp.Time) <= 0 {
		t.Errorf("deleted: %v at %v", p.DeletionGracePeriodSeconds, p.DeletionTimestamp)
	}
	if err := pods.Delete(ctx, "web", *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	_, err = pods.Get(ctx, "web", metav1.GetOptions{})
	wantError(t, err, metav1.StatusReasonNotFound)
}

func TestUnscheduledPodsAreDeletedAtOnce(t *testing.T) {
	ctx, client := serve(t)
	pods := client.CoreV1().Pods("default")
	for _, name := range []string{"deleted", "evicted"} {
		must[*corev1.Pod](t)(pods.Create(ctx, pod(name), metav1.CreateOptions{}))
	}
	if err := pods.Delete(ctx, "deleted", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "evicted", Namespace: "default"}}
	eviction.DeleteOptions = &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	if err := pods.EvictV1(ctx, eviction); err != nil {
		t.Fatal(err)
	}
	must[*corev1.Pod](t)(pods.Get(ctx, "evicted", metav1.GetOptions{}))
	eviction.DeleteOptions = nil
	if err := pods.EvictV1(ctx, eviction); err != nil {
		t.Fatal(err)
	}
	if left := must[*corev1.PodList](t)(pods.List(ctx, metav1.ListOptions{})); len(left.Items) != 0 {
		t.Errorf("%d pods are left", len(left.Items))
	}
}

func TestFieldSelectors(t *testing.T) {
	ctx, client := serve(t)
	for i := range 3 {
		p := pod(fmt.Sprintf("p%d", i))
		p.Spec.NodeName = fmt.Sprintf("node-%d", i%2)
		must[*corev1.Pod](t)(client.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{}))
	}
	for selector, want := range map[string]int{"spec.nodeName=node-0": 2, "status.phase=Pending": 3, "metadata.name=p1": 1, "spec.nodeName!=node-0": 1} {
		list := must[*corev1.PodList](t)(client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: selector}))
		if len(list.Items) != want {
			t.Errorf("%s: %d pods, want %d", selector, len(list.Items), want)
		}
	}
	_, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.color=red"})
	wantError(t, err, metav1.StatusReasonBadRequest, "field label not supported: spec.color")
}

func TestDeploymentGeneration(t *testing.T) {
	ctx, client := serve(t)
	deployments := client.AppsV1().Deployments("default")
	labels := map[string]string{"app": "web"}
	d := must[*appsv1.Deployment](t)(deployments.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod("").Spec},
		},
		Status: appsv1.DeploymentStatus{Replicas: 7},
	}, metav1.CreateOptions{}))
	if d.Generation != 1 || d.Status.Replicas != 0 || *d.Spec.Replicas != 1 || d.Spec.Strategy.RollingUpdate.MaxSurge.String() != "25%" {
		t.Errorf("created: generation %d, %+v, status %+v", d.Generation, d.Spec, d.Status)
	}
	expect := func(what string, want int64) {
		t.Helper()
		if d.Generation != want {
			t.Errorf("%s: generation %d, want %d", what, d.Generation, want)
		}
	}
	d.Status.ObservedGeneration, d.Spec.Replicas = 1, new(int32(9))
	d = must[*appsv1.Deployment](t)(deployments.UpdateStatus(ctx, d, metav1.UpdateOptions{}))
	if expect("status", 1); *d.Spec.Replicas != 1 || d.Status.ObservedGeneration != 1 {
		t.Errorf("after an update of the status: %+v", d)
	}
	scale := must[any](t)(deployments.GetScale(ctx, "web", metav1.GetOptions{}))
	if s := fmt.Sprint(scale); !strings.Contains(s, "app=web") {
		t.Errorf("scale: %s", s)
	}
	patch := func(p string) {
		t.Helper()
		d = must[*appsv1.Deployment](t)(deployments.Patch(ctx, "web", types.StrategicMergePatchType, []byte(p), metav1.PatchOptions{}))
	}
	patch(`{"metadata": {"labels": {"a": "b"}}}`)
	expect("labels", 1)
	patch(`{"metadata": {"annotations": {"a": "b"}}}`)
	expect("annotations", 2)
	patch(`{"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "nginx:2"}]}}}}`)
	expect("image", 3)
	_, err := deployments.Patch(ctx, "web", types.MergePatchType, []byte(`{"spec": {"selector": {"matchLabels": {"tier": "x"}}, "template": {"metadata": {"labels": {"tier": "x"}}}}}`), metav1.PatchOptions{})
	wantError(t, err, metav1.StatusReasonInvalid, "spec.selector: Invalid value", "field is immutable")
	var status *apierrors.StatusError
	if !errors.As(err, &status) || len(status.ErrStatus.Details.Causes) != 1 || status.ErrStatus.Details.Causes[0].Field != "spec.selector" {
		t.Errorf("causes: %+v", status)
	}
}

func TestSecretStringData(t *testing.T) {
	ctx, client := serve(t)
	s := must[*corev1.Secret](t)(client.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "key"}, StringData: map[string]string{"a": "b"},
	}, metav1.CreateOptions{}))
	if string(s.Data["a"]) != "b" || s.StringData != nil || s.Type != corev1.SecretTypeOpaque {
		t.Errorf("created: %+v", s)
	}
	s = must[*corev1.Secret](t)(client.CoreV1().Secrets("default").Patch(ctx, "key", types.MergePatchType, []byte(`{"stringData": {"c": "d"}}`), metav1.PatchOptions{}))
	if string(s.Data["c"]) != "d" || string(s.Data["a"]) != "b" || s.StringData != nil {
		t.Errorf("patched: %+v", s)
	}
}

func TestTables(t *testing.T) {
	ctx, client := serve(t)
	must[*corev1.Pod](t)(client.CoreV1().Pods("default").Create(ctx, pod("web"), metav1.CreateOptions{}))
	must[*corev1.Service](t)(client.CoreV1().Services("default").Create(ctx, service("web", corev1.ServiceSpec{ClusterIP: "10.96.0.9", Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}}), metav1.CreateOptions{}))
	for path, want := range map[string]struct{ columns, row string }{
		"/api/v1/namespaces/default/pods":         {"Name Ready Status Restarts Age IP* Node* Nominated Node* Readiness Gates*", "web 0/1 Pending 0 AGE <none> <none> <none> <none>"},
		"/api/v1/namespaces/default/services/web": {"Name Type Cluster-IP External-IP Port(s) Age Selector*", "web ClusterIP 10.96.0.9 <none> 80/TCP AGE <none>"},
		"/api/v1/namespaces/default":              {"Name Status Age", "default Active AGE"},
	} {
		raw, err := client.CoreV1().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var table metav1.Table
		if err := json.Unmarshal(raw, &table); err != nil {
			t.Fatal(err)
		}
		var columns []string
		for _, c := range table.ColumnDefinitions {
			name := c.Name
			if c.Priority > 0 {
				name += "*"
			}
			columns = append(columns, name)
		}
		if got := strings.Join(columns, " "); got != want.columns {
			t.Errorf("%s: columns %q, want %q", path, got, want.columns)
		}
		if len(table.Rows) == 0 {
			t.Fatalf("%s: no rows", path)
		}
		var cells []string
		for i, c := range table.Rows[0].Cells {
			if columns[i] == "Age" {
				c = "AGE"
			}
			cells = append(cells, fmt.Sprint(c))
		}
		if row := strings.Join(cells, " "); row != want.row {
			t.Errorf("%s: row %q, want %q", path, row, want.row)
		}
	}
}
