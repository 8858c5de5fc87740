package record_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/record"
	"flyball.dev/record/recordtest"
	"flyball.dev/record/restore"
	"flyball.dev/storage/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts a control plane without controllers.
func start(t testing.TB, o controlplane.Options) *controlplane.ControlPlane {
	t.Helper()
	o.WithoutControllers = true
	plane, err := controlplane.Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	return plane
}

// dynamicFor returns a client of a control plane.
func dynamicFor(t testing.TB, config *rest.Config) dynamic.Interface {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// entries returns the entries of a recording.
func entries(t testing.TB, path string) []record.Entry {
	t.Helper()
	f, err := record.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var entries []record.Entry
	for e, err := range f.All() {
		if errors.Is(err, record.ErrCut) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	return entries
}

// content decodes an object.
func content(t testing.TB, object []byte) map[string]any {
	t.Helper()
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON(object); err != nil {
		t.Fatalf("%v in %s", err, object)
	}
	return u.Object
}

var (
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
	secretGVR  = corev1.SchemeGroupVersion.WithResource("secrets")
	widgetGVR  = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

// widgetDefinition defines the kind Widget, with a version that is preferred and one that is stored.
func widgetDefinition() *apiextensionsv1.CustomResourceDefinition {
	any := &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget", Singular: "widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				{Name: "v2", Served: true, Schema: any}, {Name: "v1", Served: true, Storage: true, Schema: any},
			},
		},
	}
}

// define creates the kind Widget.
func define(t testing.TB, plane *controlplane.ControlPlane) {
	t.Helper()
	c, err := client.New(plane.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := &unstructured.Unstructured{}
	if d.Object, err = toMap(widgetDefinition()); err != nil {
		t.Fatal(err)
	}
	d.SetAPIVersion("apiextensions.k8s.io/v1")
	d.SetKind("CustomResourceDefinition")
	if err := c.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

func toMap(v any) (map[string]any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var u map[string]any
	return u, json.Unmarshal(data, &u)
}

// object returns an object of a resource.
func object(gvr schema.GroupVersionResource, name string, n int) *unstructured.Unstructured {
	kinds := map[string]string{"configmaps": "ConfigMap", "secrets": "Secret", "widgets": "Widget"}
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": gvr.GroupVersion().String(), "kind": kinds[gvr.Resource],
		"metadata": map[string]any{"name": name, "namespace": "default"}}}
	switch gvr.Resource {
	case "widgets":
		u.Object["spec"] = map[string]any{"n": int64(n), "text": `"}]{[\`}
	case "secrets":
		u.Object["stringData"] = map[string]any{"n": fmt.Sprint(n)}
	default:
		u.Object["data"] = map[string]any{"n": fmt.Sprint(n), "text": "ü\u2028\n\"}]"}
	}
	return u
}

// storm writes at random, n times.
func storm(ctx context.Context, c dynamic.Interface, random *rand.Rand, n int) error {
	for i := range n {
		gvr := []schema.GroupVersionResource{configMaps, secretGVR, widgetGVR}[random.IntN(3)]
		name := fmt.Sprintf("o%d", random.IntN(12))
		objects := c.Resource(gvr).Namespace("default")
		var err error
		switch random.IntN(4) {
		case 0:
			_, err = objects.Create(ctx, object(gvr, name, i), metav1.CreateOptions{})
		case 1:
			err = objects.Delete(ctx, name, metav1.DeleteOptions{})
		default:
			_, err = objects.Apply(ctx, name, object(gvr, name, i), metav1.ApplyOptions{FieldManager: "storm", Force: true})
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

// TestStorm records a storm of writes. After each of 1,000 random changes, the recording has the objects that the server lists at the
// resource version of the change.
func TestStorm(t *testing.T) { synctest.Test(t, testStorm) }

func testStorm(t *testing.T) {
	plane := start(t, controlplane.Options{})
	define(t, plane)
	c := dynamicFor(t, plane.Config())
	if err := storm(t.Context(), c, rand.New(rand.NewPCG(1, 1)), 100); err != nil {
		t.Fatal(err)
	}
	recording, stop := recordtest.Start(t, plane.Config(), record.Options{})
	var writers sync.WaitGroup
	for i := range uint64(8) {
		writers.Go(func() {
			if err := storm(context.Background(), c, rand.New(rand.NewPCG(2, i)), 250); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	synctest.Wait() // until all changes are recorded
	stop()

	all := entries(t, recording)
	var changes []int
	for i, e := range all {
		if e.Type == record.Lost || e.Type == record.Missing {
			t.Errorf("%s of %s: %s", e.Type, e.Resource.GroupResource(), e.Text)
		}
		if e.Resource != nil && e.Resource.Name == "widgets" && e.Resource.Version != "v1" {
			t.Fatalf("widgets are recorded in %s, and stored in v1", e.Resource.Version)
		}
		storming := e.Type == record.Added || e.Type == record.Modified || e.Type == record.Deleted
		if storming && e.Namespace == "default" {
			changes = append(changes, i)
		}
	}
	if len(changes) < 1000 {
		t.Fatalf("only %d changes", len(changes))
	}
	random := rand.New(rand.NewPCG(3, 3))
	random.Shuffle(len(changes), func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
	chosen := map[int]bool{}
	for _, i := range changes[:1000] {
		chosen[i] = true
	}
	m := record.NewMoment(record.Header{})
	for i, e := range all {
		m.Apply(e)
		if chosen[i] {
			compareWithServer(t, c, m, e)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
}

// compareWithServer compares the objects of a moment with the ones that the server lists at the resource version of the last change.
func compareWithServer(t *testing.T, c dynamic.Interface, m *record.Moment, e record.Entry) {
	t.Helper()
	gvr := e.Resource.GroupVersion().WithResource(e.Resource.Name)
	changed := unstructured.Unstructured{Object: content(t, e.Object)}
	list, err := c.Resource(gvr).List(t.Context(), metav1.ListOptions{ResourceVersion: changed.GetResourceVersion(), ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]any{}
	for _, item := range list.Items {
		want[item.GetNamespace()+"/"+item.GetName()] = item.Object
	}
	got := map[string]map[string]any{}
	for key, object := range m.Objects {
		if key.Group == e.Resource.Group && key.Resource == e.Resource.Name {
			got[key.Namespace+"/"+key.Name] = content(t, object)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after %s of %s at %s: %s", e.Type, e.Key(), changed.GetResourceVersion(), diff)
	}
}

// objectsOf returns all objects of a control plane by their keys, without what the control plane itself writes at its start.
func objectsOf(t *testing.T, c dynamic.Interface, withVersions bool, resources ...schema.GroupVersionResource) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for _, gvr := range resources {
		list, err := c.Resource(gvr).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			if !withVersions {
				item.SetResourceVersion("")
			}
			if item.GetName() == "extension-apiserver-authentication" {
				continue // it has the certificates of the control plane itself
			}
			all[gvr.Resource+" "+item.GetNamespace()+"/"+item.GetName()] = item.Object
		}
	}
	return all
}

// awaitServed waits until a control plane serves a resource, as it does soon after the definition was written to its storage.
func awaitServed(t *testing.T, c dynamic.Interface, gvr schema.GroupVersionResource) {
	t.Helper()
	err := wait.PollUntilContextCancel(t.Context(), 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := c.Resource(gvr).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestReplay serves moments of a recording by control planes, and lets one go on to the end.
func TestReplay(t *testing.T) { synctest.Test(t, testReplay) }

func testReplay(t *testing.T) {
	plane := start(t, controlplane.Options{})
	c := dynamicFor(t, plane.Config())
	recording, stop := recordtest.Start(t, plane.Config(), record.Options{})
	define(t, plane)
	time.Sleep(time.Second) // until the widgets are recorded
	resources := []schema.GroupVersionResource{configMaps, secretGVR, widgetGVR, {Version: "v1", Resource: "namespaces"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}}
	type moment struct {
		at   time.Time
		want map[string]map[string]any
	}
	var moments []moment
	for i := range uint64(4) {
		if err := storm(t.Context(), c, rand.New(rand.NewPCG(4, i)), 100); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // until all changes are recorded
		moments = append(moments, moment{time.Now(), objectsOf(t, c, true, resources...)})
		time.Sleep(time.Second)
	}
	stop()
	for _, moment := range moments {
		m, f, err := record.ReadMoment(recording, moment.at.Format(time.RFC3339Nano))
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		s, err := restore.Storage(m, nil, memory.Options{})
		if err != nil {
			t.Fatal(err)
		}
		served := start(t, controlplane.Options{Storage: s})
		if diff := cmp.Diff(moment.want, objectsOf(t, dynamicFor(t, served.Config()), true, resources...)); diff != "" {
			t.Fatal(diff)
		}
	}

	m, f, err := record.ReadMoment(recording, "+0s")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := restore.Storage(m, nil, memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	played := start(t, controlplane.Options{Storage: s, Shared: true})
	p := &restore.Player{Storage: s}
	if err := p.Play(t.Context(), m.Time, f.Next); err != nil {
		t.Fatal(err)
	}
	want := moments[len(moments)-1].want
	for _, object := range want {
		unstructured.RemoveNestedField(object, "metadata", "resourceVersion")
	}
	c = dynamicFor(t, played.Config())
	awaitServed(t, c, widgetGVR)
	if diff := cmp.Diff(want, objectsOf(t, c, false, resources...)); diff != "" {
		t.Error(diff)
	}
}

// outage is a network that fails for a while for one resource.
type outage struct {
	http.RoundTripper
	mu      sync.Mutex
	down    bool
	watches []io.Closer
}

func (o *outage) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, "/configmaps") {
		return o.RoundTripper.RoundTrip(r)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down {
		return nil, errors.New("the network is down")
	}
	response, err := o.RoundTripper.RoundTrip(r)
	if err == nil && r.URL.Query().Has("watch") {
		o.watches = append(o.watches, response.Body)
	}
	return response, err
}

// set makes the network fail, or work again.
func (o *outage) set(down bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down = down
	for _, w := range o.watches {
		w.Close()
	}
	o.watches = nil
}

// TestOutage loses a watch. If the server still has the changes, nothing is missing; otherwise the recording says so, and has the
// objects as they are afterwards.
func TestOutage(t *testing.T) {
	for _, compacted := range []bool{false, true} {
		t.Run(fmt.Sprint("compacted ", compacted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testOutage(t, compacted) })
		})
	}
}

func testOutage(t *testing.T, compacted bool) {
	plane := start(t, controlplane.Options{})
	c := dynamicFor(t, plane.Config()).Resource(configMaps).Namespace("default")
	for _, name := range []string{"changed", "deleted", "replaced", "same"} {
		if _, err := c.Create(t.Context(), object(configMaps, name, 0), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	network := &outage{}
	config := rest.CopyConfig(plane.Config())
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		network.RoundTripper = rt
		return network
	})
	recording, stop := recordtest.Start(t, config, record.Options{Kinds: []string{"cm"}})
	network.set(true)
	time.Sleep(time.Second) // the recorder tries to watch again
	for _, name := range []string{"deleted", "replaced"} {
		if err := c.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"replaced", "new", "passing"} {
		if _, err := c.Create(t.Context(), object(configMaps, name, 1), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Apply(t.Context(), "changed", object(configMaps, "changed", 2), metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), "passing", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if compacted {
		latest, _, err := plane.Storage().Revisions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := plane.Storage().Compact(t.Context(), latest); err != nil {
			t.Fatal(err)
		}
	}
	network.set(false)
	if _, err := c.Create(t.Context(), object(configMaps, "end", 0), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute) // until the watch is back
	stop()
	m := record.NewMoment(record.Header{})
	var story []string
	for _, e := range entries(t, recording) {
		m.Apply(e)
		if e.Type == record.Lost || e.Type != record.Exists && e.Name != "" {
			story = append(story, strings.TrimSpace(e.Type.String()+" "+e.Name))
		}
	}
	_, gap := m.Incomplete[schema.GroupResource{Resource: "configmaps"}]
	if gap {
		t.Error("the recording is incomplete at its end")
	}
	lost := strings.Contains(strings.Join(story, ","), "lost")
	passing := strings.Contains(strings.Join(story, ","), "added passing,")
	if lost != compacted || passing == compacted {
		t.Errorf("the recording has %q", story)
	}
	list, err := c.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]any{}
	for _, item := range list.Items {
		want[item.GetName()] = item.Object
	}
	got := map[string]map[string]any{}
	for key, object := range m.Objects {
		if key.Namespace == "default" {
			got[key.Name] = content(t, object)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestKinds records a kind that is defined meanwhile, until its definition is deleted.
func TestKinds(t *testing.T) { synctest.Test(t, testKinds) }

func testKinds(t *testing.T) {
	plane := start(t, controlplane.Options{})
	c := dynamicFor(t, plane.Config())
	recording, stop := recordtest.Start(t, plane.Config(), record.Options{})
	define(t, plane)
	time.Sleep(time.Second) // until the new kind is recorded
	if _, err := c.Resource(widgetGVR).Namespace("default").Create(t.Context(), object(widgetGVR, "a", 1), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // until the object is recorded
	definitions := c.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if err := definitions.Delete(t.Context(), "widgets.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // until the end of the kind is recorded
	stop()
	m := record.NewMoment(record.Header{})
	var story []string
	for _, e := range entries(t, recording) {
		m.Apply(e)
		if e.Type == record.Ended || e.Resource.Name == "widgets" {
			story = append(story, strings.TrimSpace(e.Type.String()+" "+e.Name))
		}
	}
	if got, want := strings.Join(story, ", "), "served, listed, added a, deleted a, removed, ended"; got != want {
		t.Errorf("the recording has %s, want %s", got, want)
	}
	for key := range m.Objects {
		if key.Resource == "widgets" {
			t.Errorf("%s is still there", key)
		}
	}
}

// TestRights records as a user who may read ConfigMaps only, and as one who may read nothing.
func TestRights(t *testing.T) { synctest.Test(t, testRights) }

func testRights(t *testing.T) {
	plane := start(t, controlplane.Options{})
	admin, err := client.New(plane.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch"}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "ann"}},
			RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "reader"}},
	} {
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	config := rest.CopyConfig(plane.Config())
	config.Impersonate.UserName = "ann"
	var mu sync.Mutex
	notices := map[string]bool{}
	recording, stop := recordtest.Start(t, config, record.Options{Notice: func(text string) {
		mu.Lock()
		defer mu.Unlock()
		notices[text] = true
	}})
	stop()
	m := record.NewMoment(record.Header{})
	for _, e := range entries(t, recording) {
		m.Apply(e)
	}
	for key, reason := range m.Incomplete {
		if key.Resource == "configmaps" || !strings.Contains(reason, `User "ann" cannot list resource`) {
			t.Errorf("%s: %s", key, reason)
		}
	}
	mu.Lock()
	if len(m.Incomplete) < 20 || len(notices) < 20 {
		t.Errorf("%d resources are incomplete, with %d notices", len(m.Incomplete), len(notices))
	}
	mu.Unlock()

	config.Impersonate.UserName = "bob"
	for kinds, want := range map[string]string{"": "no kind can be read: ", "cm": "no kind can be read: ", "gnomes": "no kind that can be recorded with the name gnomes"} {
		cluster, header, err := record.NewCluster(t.Context(), config, record.Options{Kinds: strings.Fields(kinds)})
		if err != nil {
			t.Fatal(err)
		}
		w, err := record.NewWriter(&bytes.Buffer{}, header)
		if err != nil {
			t.Fatal(err)
		}
		if err := cluster.Record(t.Context(), w); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("kinds %q: the error %v, want %s", kinds, err, want)
		}
	}
}

// TestSecrets records no data of Secrets.
func TestSecrets(t *testing.T) { synctest.Test(t, testSecrets) }

func testSecrets(t *testing.T) {
	plane := start(t, controlplane.Options{})
	c := dynamicFor(t, plane.Config())
	redactor, err := record.NewRedactor(record.SecretFields)
	if err != nil {
		t.Fatal(err)
	}
	const data = "hunter2hunter2"
	secret := object(secretGVR, "before", 0)
	secret.Object["stringData"] = map[string]any{"password": data}
	secrets := c.Resource(secretGVR).Namespace("default")
	if _, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	recording, stop := recordtest.Start(t, plane.Config(), record.Options{Redactor: redactor})
	secret.SetName("after")
	if _, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // until the Secret is recorded
	stop()
	values := map[string]string{}
	for _, e := range entries(t, recording) {
		if bytes.Contains(e.Object, []byte(data)) || bytes.Contains(e.Object, []byte("aHVudGVyMmh1bnRlcjI")) {
			t.Errorf("%s has the data", e.Key())
		}
		if e.Name == "before" || e.Name == "after" {
			values[e.Name], _, _ = unstructured.NestedString(content(t, e.Object), "data", "password")
		}
	}
	if values["before"] == "" || values["before"] != values["after"] {
		t.Errorf("equal data has the codes %q", values)
	}
}
