package listtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/apiserver"
	"flyball.dev/apiserver/builtin"
	"flyball.dev/apiserver/store"
	"flyball.dev/storage"
)

// names is the number of names of objects.
const names = 40

// namespaces are the namespaces of the objects.
var namespaces = []string{"default", "default", "a", "b"}

// labelValues are the labels of the objects, with their values.
var labelValues = map[string][]string{"n": {"0", "1", "2"}, "app": {"web", "db"}, "example.com/empty": {""}, "absent": nil}

// object is an object of an API.
type object interface {
	metav1.Object
	runtime.Object
}

// kind is a kind of objects.
type kind struct {
	versions   []string // with their group, the stored one first
	resource   string
	folder     string // of the keys
	namespaced bool
	fields     [][]string            // selectable fields, each with values
	new        func(w *world) object // nil if no objects are written
}

var kinds = []kind{
	{[]string{"v1"}, "pods", "pods", true, [][]string{{"spec.nodeName", "n0", "n1", ""}, {"spec.nodeName", "n0", "n1", "n2"},
		{"status.phase", "Running", "Pending"}, {"spec.restartPolicy", "Always", "Never"}}, newPod},
	{[]string{"v1"}, "configmaps", "configmaps", true, [][]string{{"metadata.name", "o-1"}}, newConfigMap},
	{[]string{"v1"}, "secrets", "secrets", true, [][]string{{"type", "Opaque", "example.com/x"}}, newSecret},
	{[]string{"apps/v1"}, "deployments", "deployments", true, [][]string{{"metadata.name", "o-1"}}, newDeployment},
	{[]string{"v1", "events.k8s.io/v1"}, "events", "events", true, [][]string{{"reason", "Started", "Killed"},
		{"involvedObject.name", "x", "y"}, {"type", "Normal"}}, newEvent},
	{[]string{"coordination.k8s.io/v1"}, "leases", "leases", true, [][]string{{"metadata.name", "o-1"}}, newLease},
	{[]string{"v1"}, "nodes", "minions", false, [][]string{{"spec.unschedulable", "true", "false"}}, newNode},
	{[]string{"example.com/v1", "example.com/v2"}, "widgets", "example.com/widgets", true, [][]string{{"spec.color", "red", "blue", ""}}, newWidget},
	{[]string{"v1"}, "namespaces", "", false, [][]string{{"status.phase", "Active", "Terminating"}}, nil},
	{[]string{"apiextensions.k8s.io/v1"}, "customresourcedefinitions", "", false, [][]string{{"metadata.name", "widgets.example.com"}}, nil},
}

// path returns the path of the objects of a version, in a namespace if it is not empty.
func (k kind) path(version, namespace string) string {
	root := "/apis"
	if version == "v1" {
		root = "/api"
	}
	if namespace != "" {
		namespace = "namespaces/" + namespace
	}
	return path.Join(root, version, namespace, k.resource)
}

func name(i int) string { return fmt.Sprint("o-", i) }

func newPod(w *world) object {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}, NodeName: pick(w, "", "n0", "n1", "n2")},
		Status: corev1.PodStatus{Phase: pick(w, "", corev1.PodPending, corev1.PodRunning)}}
	if w.chance(50) {
		pod.Spec.RestartPolicy, pod.Spec.Containers[0].Resources.Requests = corev1.RestartPolicyNever, quantities
	}
	return pod
}

func newConfigMap(w *world) object {
	m := &corev1.ConfigMap{Data: map[string]string{"a": pick(w, "", "<&>\u2028\"\\\x00é", "x")}}
	if w.chance(10) {
		m.Data["large"] = strings.Repeat("<", 1000<<w.IntN(7))
	}
	if w.chance(20) {
		m.BinaryData = map[string][]byte{"b": {0, 0xff}}
	}
	return m
}

func newSecret(w *world) object {
	return &corev1.Secret{Type: pick(w, "", corev1.SecretTypeOpaque, "example.com/x"), Data: map[string][]byte{"key": []byte("value")}}
}

func newDeployment(w *world) object {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{
		Replicas: pick(w, nil, new(int32(0)), new(int32(3))), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}}
}

func newEvent(w *world) object {
	return &corev1.Event{Reason: pick(w, "Started", "Killed"), Type: pick(w, "Normal", "Warning"), Message: "a\tb\n",
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: pick(w, "x", "y")}}
}

func newLease(w *world) object {
	return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: pick(w, nil, new("x"), new("y")),
		LeaseDurationSeconds: new(int32(1 + w.IntN(3)))}}
}

func newNode(w *world) object {
	return &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: w.chance(50)}, Status: corev1.NodeStatus{Capacity: quantities}}
}

func newWidget(w *world) object {
	spec := map[string]any{"color": pick(w, "red", "blue"), "free": map[string]any{"<&>": []any{1.5, nil, "\u2028", int64(1) << 53}}}
	if w.chance(50) {
		spec["size"] = w.Int64N(3)
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "spec": spec}}
}

// definition is the definition of the widgets.
const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},"spec":{
	"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},"versions":[
	{"name":"v1","served":true,"storage":true,
		"additionalPrinterColumns":[{"name":"Size","type":"integer","jsonPath":".spec.size"}],"selectableFields":[{"jsonPath":".spec.color"}],
		"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"color":{"type":"string"},
			"size":{"type":"integer","default":1},"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}}},
	{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
		"color":{"type":"string","default":"green"}}}}}}}]}}`

// create creates the definition and the namespaces.
func (w *world) create() {
	w.tb.Helper()
	for _, o := range [][2]string{{"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition},
		{"/api/v1/namespaces", `{"metadata":{"name":"a"}}`}, {"/api/v1/namespaces", `{"metadata":{"name":"b"}}`}} {
		if code := w.send(w.server, http.MethodPost, o[0], "application/json", o[1]); code != http.StatusCreated {
			w.tb.Fatalf("%s: %d", o[0], code)
		}
	}
}

// write creates, changes or deletes an object, by one of the servers or as others do. It may find that it cannot, such as for an object
// that does not exist.
func (w *world) write() {
	w.tb.Helper()
	k := pick(w, slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return k.new == nil })...)
	obj := w.object(k)
	version, _ := schema.ParseGroupVersion(k.versions[0])
	root := k.path(k.versions[0], obj.GetNamespace())
	switch n, s := w.IntN(10), pick(w, w.server, w.reference); {
	case n < 4:
		w.send(s, http.MethodPost, root, "application/json", w.must(json.Marshal(obj)))
	case n < 6:
		metadata := map[string]any{"metadata": map[string]any{
			"labels": obj.GetLabels(), "annotations": obj.GetAnnotations(), "finalizers": obj.GetFinalizers()}}
		w.send(s, http.MethodPatch, path.Join(root, obj.GetName()), "application/merge-patch+json", w.must(json.Marshal(metadata)))
	case n < 8:
		w.send(s, http.MethodDelete, path.Join(root, obj.GetName()), "application/json", pick(w, "", `{"gracePeriodSeconds":0}`))
	default:
		w.store(path.Join("/registry", k.folder, obj.GetNamespace(), obj.GetName()), schema.GroupResource{Group: version.Group, Resource: k.resource}, obj)
	}
}

// send sends a write to a server, and returns the status of the response.
func (w *world) send(s *apiserver.Server, method, path, contentType, body string) int {
	w.tb.Helper()
	r := httptest.NewRequestWithContext(w.tb.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	response := serve(s, r)
	if response.Code >= http.StatusInternalServerError || response.Code == http.StatusBadRequest {
		w.tb.Fatalf("%s %s %s: %d %s", method, path, body, response.Code, response.Body)
	}
	return response.Code
}

// must returns an encoding, and fails the test if there is an error.
func (w *world) must(data []byte, err error) string {
	w.tb.Helper()
	if err != nil {
		w.tb.Fatal(err)
	}
	return string(data)
}

// object returns a random object of a kind.
func (w *world) object(k kind) object {
	obj := k.new(w)
	obj.SetName(name(w.IntN(names)))
	if k.namespaced {
		obj.SetNamespace(pick(w, namespaces...))
	}
	if e, ok := obj.(*corev1.Event); ok {
		e.InvolvedObject.Namespace = e.Namespace
	}
	labels := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(labelValues)) {
		if values := labelValues[key]; len(values) > 0 && w.chance(60) {
			labels[key] = pick(w, values...)
		}
	}
	if len(labels) > 0 {
		obj.SetLabels(labels)
	}
	if w.chance(30) {
		obj.SetAnnotations(map[string]string{"a": "\"{<&>\u2028}", "z": strings.Repeat("z", w.IntN(300))})
	}
	if w.chance(10) {
		obj.SetFinalizers([]string{"example.com/f"})
	}
	return obj
}

// store stores an object as others may do: also without defaults, in an encoding that is not the server's, or with fields that are
// not known.
func (w *world) store(key string, resource schema.GroupResource, obj object) {
	w.tb.Helper()
	obj.SetUID(types.UID(fmt.Sprintf("%016x", w.Uint64())))
	obj.SetCreationTimestamp(metav1.Unix(int64(w.IntN(1e9)), 0))
	if w.chance(20) {
		obj.SetResourceVersion("7")
	}
	if w.chance(30) {
		obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "m", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{}}`)}})
	}
	var data string
	if _, isCustom := obj.(*unstructured.Unstructured); isCustom {
		data = w.must(json.Marshal(obj))
		data = pick(w, data, data+"\n", strings.Replace(data, `,"kind"`, `, "kind"`, 1), strings.Replace(data, "example.com/v1", "example.com/v2", 1),
			strings.Replace(data, `"spec":{`, `"spec":{"unknown":1.0,`, 1))
	} else {
		kinds, _, err := builtin.Scheme().ObjectKinds(obj)
		if err != nil {
			w.tb.Fatal(err)
		}
		data = w.must(runtime.Encode(builtin.StorageCodec(resource), obj))
		obj.GetObjectKind().SetGroupVersionKind(kinds[0])
		data = pick(w, data, data, w.withUnknownField(data), w.must(json.Marshal(obj)))
	}
	sealed := w.must(store.Seal(w.tb.Context(), store.Transformer(w.Transformers, resource), key, []byte(data)))
	if _, err := w.Storage.Put(w.tb.Context(), storage.Write{Key: key, Value: []byte(sealed), If: storage.Any}); err != nil {
		w.tb.Fatal(err)
	}
}

// withUnknownField adds a field that no kind has to an object in protobuf.
func (w *world) withUnknownField(data string) string {
	w.tb.Helper()
	const prefix = "k8s\x00"
	var envelope runtime.Unknown
	if err := envelope.Unmarshal([]byte(strings.TrimPrefix(data, prefix))); err != nil {
		w.tb.Fatal(err)
	}
	envelope.Raw = append(envelope.Raw, 0xa2, 0x06, 1, 'x')
	return prefix + w.must(envelope.Marshal())
}

var quantities = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("1Gi")}
