package benchmarks

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/bench/runtimes"
	_ "flyball.dev/internal/orphans"
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
		for i, want := range histories[1] {
			if got := histories[0][i]; got != want { // what follows differs for the same reason
				t.Errorf("seed %d, operation %d: %s (-), %s (+):\n%s", seed, i, both[1].Name(), both[0].Name(),
					cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
				break
			}
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
	switch o.r.IntN(14) {
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
	default:
		what, obj, err = o.operateOtherwise(obj)
	}
	result := fmt.Sprintf("%s %T %s: %s", what, obj, key, apierrors.ReasonForError(err))
	if err == nil {
		result += asText(obj)
	}
	return result + "\n" + o.lists()
}

// operateOtherwise does an operation that is less usual, and returns what it was and the object it
// was done with.
func (o *fakeOperator) operateOtherwise(obj runtimes.Object) (string, runtimes.Object, error) {
	key := runtimes.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	n := o.r.IntN(4)
	version := []string{"1", "2", "999", "1000"}[n]
	switch o.r.IntN(14) {
	case 0:
		other := o.otherwise(obj)
		return "get", other, o.c.Get(o.ctx, key, other)
	case 1:
		other := o.otherwise(obj)
		patch := fmt.Sprintf(`{"metadata":{"labels":{"o":"%d"},"finalizers":null}}`, n)
		return "merge", other, o.c.Patch(o.ctx, other, types.MergePatchType, []byte(patch), "o")
	case 2:
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(kindOf(obj))
		err := o.c.Get(o.ctx, key, u)
		if err == nil {
			u.SetAnnotations(map[string]string{"u": version})
			u.SetUID(types.UID(version))
			u.SetGeneration(int64(n))
			err = o.c.Update(o.ctx, u)
			u.SetManagedFields(nil) // the peer returns those from before the update
		}
		return "unstructured update", u, err
	case 3:
		patch := fmt.Sprintf(`{"metadata":{"resourceVersion":"%s","labels":{"l":"1"}}}`, version)
		return "locked merge", obj, o.c.Patch(o.ctx, obj, types.MergePatchType, []byte(patch), "m")
	case 4:
		patch := fmt.Sprintf(`[{"op":"test","path":"/metadata/resourceVersion","value":"%s"},{"op":"add","path":"/metadata/labels","value":{"t":"1"}}]`, version)
		return "tested json patch", obj, o.c.Patch(o.ctx, obj, types.JSONPatchType, []byte(patch), "j")
	case 5:
		patch := []string{`[{"op":"remove","path":"/metadata/none"}]`, `[{"op":"replace","path":"/spec/none/x","value":1}]`, `{`, `[]`}[n]
		return "wrong json patch", obj, o.c.Patch(o.ctx, obj, types.JSONPatchType, []byte(patch), "")
	case 6:
		err := o.c.Get(o.ctx, key, obj)
		if err == nil {
			obj.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1e9, 0)})
			err = o.c.Update(o.ctx, obj)
		}
		return "set deletion", obj, err
	case 7:
		patch := `{"metadata":{"deletionTimestamp":"2001-09-09T01:46:40Z"}}`
		return "patch deletion", obj, o.c.Patch(o.ctx, obj, types.MergePatchType, []byte(patch), "")
	case 8:
		obj.SetResourceVersion([]string{"", version}[n%2])
		obj.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1e9, 0)})
		return "create as it was", obj, o.c.Create(o.ctx, obj)
	case 9:
		obj.SetName("")
		obj.SetGenerateName("generated-")
		err := o.c.Create(o.ctx, obj)
		result := fmt.Sprintf("generate %d", len(obj.GetName()))
		if err == nil {
			err = o.c.Delete(o.ctx, obj)
		}
		obj.SetName("")
		return result, obj, err
	case 10:
		return "delete all", obj, o.deleteAll(obj)
	case 11, 12:
		patch := fmt.Sprintf(`{"metadata":{"labels":{"ignored":"yes"}},"status":{"replicas":%d,"phase":"%d"}}`, n, n)
		return "status merge", obj, o.c.PatchStatus(o.ctx, obj, types.MergePatchType, []byte(patch))
	default:
		patch := `[{"op":"add","path":"/status","value":{"replicas":7}},{"op":"test","path":"/metadata/name","value":"a"}]`
		return "status json patch", obj, o.c.PatchStatus(o.ctx, obj, types.JSONPatchType, []byte(patch))
	}
}

// kindOf returns the kind of an object that [fakeOperator.object] made.
func kindOf(obj runtimes.Object) schema.GroupVersionKind {
	kinds, _, err := clientgoscheme.Scheme.ObjectKinds(obj)
	if err != nil {
		return obj.GetObjectKind().GroupVersionKind()
	}
	return kinds[0]
}

// otherwise returns an object of the same kind and name, unstructured or of metadata alone.
func (o *fakeOperator) otherwise(obj runtimes.Object) runtimes.Object {
	var other runtimes.Object = &unstructured.Unstructured{}
	if o.r.IntN(2) == 0 {
		other = &metav1.PartialObjectMetadata{}
	}
	other.GetObjectKind().SetGroupVersionKind(kindOf(obj))
	other.SetNamespace(obj.GetNamespace())
	other.SetName(obj.GetName())
	return other
}

// deleteAll deletes objects of a kind by namespace and label, unless one is being deleted already:
// the peer sets the time of a deletion again, and raises the resource version.
func (o *fakeOperator) deleteAll(obj runtimes.Object) error {
	list := &unstructured.UnstructuredList{}
	gvk := kindOf(obj)
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	s := runtimes.Selection{Namespace: obj.GetNamespace(), Labels: labels.SelectorFromSet(labels.Set{"n": "1"})}
	if err := o.c.List(o.ctx, list, s); err != nil {
		return err
	}
	for i := range list.Items {
		if list.Items[i].GetDeletionTimestamp() != nil {
			return nil
		}
	}
	return o.c.DeleteAllOf(o.ctx, obj, s)
}

// lists returns the objects of each kind.
func (o *fakeOperator) lists() (all string) {
	things := &unstructured.UnstructuredList{}
	things.SetAPIVersion("example.com/v1")
	things.SetKind("ThingList")
	metadata := &metav1.PartialObjectMetadataList{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	var maps corev1.ConfigMapList
	var services corev1.ServiceList
	var deployments appsv1.DeploymentList
	for _, list := range []runtimes.ObjectList{things, metadata, &maps, &services, &deployments} {
		if err := o.c.List(o.ctx, list, runtimes.Selection{Labels: labels.Everything()}); err != nil {
			all += err.Error() + "\n"
		}
	}
	for i := range things.Items {
		all += asText(&things.Items[i])
	}
	for i := range metadata.Items {
		all += asText(&metadata.Items[i])
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

// union returns the union of two sets of fields. It drops a field with parts, and keeps the parts.
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
