package benchmarks

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/bench/runtimes"
)

// TestSameFake proves that random operations have the same results with both fake clients. What
// differs on purpose is avoided, with the reason where that is done.
func TestSameFake(t *testing.T) {
	for seed := range uint64(10) {
		histories := [2][]string{}
		for i, rt := range both {
			r := rand.New(rand.NewPCG(seed, 2))
			scheme := runtime.NewScheme()
			if err := clientgoscheme.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			initial := []runtimes.Object{
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "a"}, Data: map[string]string{"k": "initial"}},
				&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "b", ResourceVersion: "7"}},
			}
			o := &fakeOperator{ctx: t.Context(), r: r, c: rt.NewFake(scheme, initial, []runtimes.Object{custom("z")})}
			for range 60 {
				histories[i] = append(histories[i], o.operate())
			}
		}
		if diff := cmp.Diff(histories[1], histories[0]); diff != "" {
			t.Fatalf("seed %d: %s (-), %s (+):\n%s", seed, both[1].Name(), both[0].Name(), diff)
		}
	}
}

// fakeOperator does random operations with a fake client.
type fakeOperator struct {
	ctx context.Context
	r   *rand.Rand
	c   runtimes.Fake
}

func (o *fakeOperator) object() runtimes.Object {
	m := metav1.ObjectMeta{Namespace: []string{"x", "y"}[o.r.IntN(2)], Name: []string{"a", "b", "c"}[o.r.IntN(3)]}
	if o.r.IntN(10) == 0 {
		m.Name = ""
	}
	switch o.r.IntN(5) {
	case 0, 1:
		return &corev1.ConfigMap{ObjectMeta: m, Data: map[string]string{"k": fmt.Sprint(o.r.IntN(3))}}
	case 2:
		return &corev1.Service{ObjectMeta: m, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	case 3:
		u := custom(m.Name)
		u.SetNamespace(m.Namespace)
		return u
	default:
		replicas := int32(o.r.IntN(3))
		return &appsv1.Deployment{ObjectMeta: m, Spec: appsv1.DeploymentSpec{Replicas: &replicas}}
	}
}

// custom returns an object of a kind that is not in the scheme.
func custom(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Thing",
		"spec": map[string]any{"n": int64(1)}, "status": map[string]any{"phase": "New"},
	}}
	u.SetName(name)
	return u
}

// operate does an operation and returns what it was, with its result.
func (o *fakeOperator) operate() string {
	obj := o.object()
	key := runtimes.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	n := o.r.IntN(4)
	what, err := "", error(nil)
	switch o.r.IntN(12) {
	case 0, 1:
		what, err = "create", o.c.Create(o.ctx, obj)
	case 2:
		what = "update"
		obj.SetResourceVersion([]string{"", "1", "999"}[n%3])
		err = o.c.Update(o.ctx, obj)
	case 3, 4:
		what = "change"
		if err = o.c.Get(o.ctx, key, obj); err == nil {
			obj.SetLabels(map[string]string{"n": fmt.Sprint(n)})
			obj.SetFinalizers([]string{"example.com/f"}[:n%2])
			err = o.c.Update(o.ctx, obj)
		}
	case 5:
		what = "status"
		if err = o.c.Get(o.ctx, key, obj); err == nil {
			switch obj := obj.(type) {
			case *appsv1.Deployment:
				obj.Status.Replicas = int32(n)
			case *unstructured.Unstructured:
				obj.Object["status"] = map[string]any{"phase": fmt.Sprint(n)}
			}
			obj.SetLabels(map[string]string{"ignored": "yes"})
			err = o.c.UpdateStatus(o.ctx, obj)
		}
	case 6:
		what = "merge"
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d"},"resourceVersion":null}}`, n)
		err = o.c.Patch(o.ctx, obj, types.MergePatchType, []byte(patch), "m")
	case 7:
		what = "json patch"
		patch := `[{"op":"add","path":"/metadata/labels","value":{"j":"1"}},{"op":"test","path":"/metadata/name","value":"a"}]`
		err = o.c.Patch(o.ctx, obj, types.JSONPatchType, []byte(patch), "")
	case 8:
		what = "apply"
		// Applied to kinds with a status, the peer also applies the status that the object has.
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"data": map[string]any{"k": fmt.Sprint(n)}}}
		u.SetNamespace(obj.GetNamespace())
		u.SetName(key.Name)
		obj, err = u, o.c.Apply(o.ctx, u, []string{"p", "q", ""}[o.r.IntN(3)], o.r.IntN(2) == 0)
	case 9:
		what = "delete"
		// The peer sets the time of a deletion again, and raises the resource version.
		if err = o.c.Get(o.ctx, key, obj); err == nil && obj.GetDeletionTimestamp() == nil {
			err = o.c.Delete(o.ctx, obj)
		}
	case 10:
		what = "scale"
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: int32(n)}}
		d := &appsv1.Deployment{}
		if err = o.c.Get(o.ctx, key, d); err == nil {
			err = o.c.UpdateScale(o.ctx, d, scale)
		}
		obj = d
	case 11:
		what = "strategic"
		patch := fmt.Sprintf(`{"metadata":{"labels":{"s":"%d"},"$deleteFromPrimitiveList/finalizers":["example.com/f"]}}`, n)
		if _, ok := obj.(*unstructured.Unstructured); ok {
			obj = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace}}
		}
		err = o.c.Patch(o.ctx, obj, types.StrategicMergePatchType, []byte(patch), "s")
	}
	result := fmt.Sprintf("%s %T %s: %s", what, obj, key, apierrors.ReasonForError(err))
	if err == nil {
		result += asText(obj)
	}
	return result + "\n" + o.lists()
}

// lists returns the objects of each kind.
func (o *fakeOperator) lists() (all string) {
	things := &unstructured.UnstructuredList{}
	things.SetAPIVersion("example.com/v1")
	things.SetKind("ThingList")
	var maps corev1.ConfigMapList
	var services corev1.ServiceList
	var deployments appsv1.DeploymentList
	for _, list := range []runtimes.ObjectList{things, &maps, &services, &deployments} {
		if err := o.c.List(o.ctx, list, runtimes.Selection{Labels: labels.Everything()}); err != nil {
			all += err.Error() + "\n"
		}
	}
	for i := range things.Items {
		all += asText(&things.Items[i])
	}
	for i := range maps.Items {
		all += asText(&maps.Items[i])
	}
	for i := range services.Items {
		all += asText(&services.Items[i])
	}
	for i := range deployments.Items {
		all += asText(&deployments.Items[i])
	}
	return all
}

// asText returns an object without times. Managed fields are merged over subresources, which the peer
// does not tell apart.
func asText(obj runtimes.Object) string {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return err.Error()
	}
	u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(content)}
	if u.GetDeletionTimestamp() != nil {
		u.SetDeletionTimestamp(&metav1.Time{})
	}
	u.SetManagedFields(nil)
	managed := map[string]map[string]any{}
	for _, e := range obj.GetManagedFields() {
		var fields map[string]any
		if err := json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields); err != nil {
			return err.Error()
		}
		manager := e.Manager + " " + string(e.Operation)
		managed[manager] = union(managed[manager], fields)
	}
	return fmt.Sprintln(u.Object, managed)
}

// union returns the union of two sets of fields, without those whose parts it has.
func union(a, b map[string]any) map[string]any {
	if a == nil {
		a = map[string]any{}
	}
	for name, value := range b {
		if name == "." {
			continue // lost when the parts get another owner
		}
		part, _ := a[name].(map[string]any)
		a[name] = union(part, value.(map[string]any))
	}
	return a
}
