package plans

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pmezard/go-difflib/difflib"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/controller/namespace/deletion"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/test/mirror/random"
)

// doomed is the name of the namespaces.
const doomed = "doomed"

// TestNamespaces compares the deletion of namespaces, attempt by attempt, while objects end or lose their finalizers, requests
// fail, and groups cannot be discovered. It compares the objects, the namespace, and the time of the next attempt.
//
// Kubernetes also sends deletions that change nothing, and ours does not. They do not fail in the worlds.
//
// Kubernetes deletes nothing more if a kind is no longer served when it lists the objects, and finalizes the namespace. Ours tries
// again, since the objects may be served in another version. No list of a world is answered so.
func TestNamespaces(t *testing.T) {
	seen := random.Seen{}
	synctest.Test(t, func(t *testing.T) {
		ours, server := newNamespaceController(t)
		deleter := newNamespaceDeleters(t)
		random.Compare(t, 800, func(s *random.Source) {
			nextSecond()
			a := newDoomed(s)
			b := a.copy()
			theirs := deleter(t, b)
			for range 2 + s.IntN(4) {
				faults := newFaults(s)
				a.attempt(faults)
				b.attempt(faults)
				server.doomed = a
				before := a.String()
				x, y := ours(t), theirs()
				if faults.errs["status"] != nil {
					x = y // only ours tries again soon
				}
				if x, y := a.String()+x, b.String()+y; x != y {
					t.Errorf("%v\nbefore\n%s\n-theirs +ours\n%s", faults, before, changedLines(y, x))
					return
				}
				seen[y]++
				b.count(seen)
				time.Sleep(random.Pick(s, 100*time.Millisecond, 5*time.Second, 20*time.Second, 40*time.Second))
				nextSecond()
				changes := s.Uint64()
				a.change(changes)
				b.change(changes)
			}
		})
	})
	seen.Require(t, "done", "error", "after 8s", "after 16s", "after 31s", "gone", "kept by another finalizer", "created again",
		"NamespaceDeletionDiscoveryFailure", "NamespaceDeletionGroupVersionParsingFailure", "NamespaceDeletionContentFailure", "NamespaceContentRemaining",
		"NamespaceFinalizersRemaining", "unexpected pods", "unexpected objects", "pods first")
}

// changedLines returns the lines that differ between two texts.
func changedLines(a, b string) string {
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: difflib.SplitLines(a), B: difflib.SplitLines(b), Context: 2})
	if err != nil {
		panic(err)
	}
	return text
}

// newNamespaceController returns our controller, and the server of its world. The function reconciles the namespace once, and returns
// when the next attempt is.
func newNamespaceController(t *testing.T) (func(t *testing.T) string, *doomedServer) {
	t.Helper()
	server := &doomedServer{}
	mgr := &namespaceManager{ours: &ours{}, config: server.config()}
	mgr.http = &http.Client{Transport: server}
	var err error
	mgr.client, err = client.New(mgr.config, client.Options{HTTPClient: mgr.http, Scheme: scheme.Scheme, Mapper: mgr.GetRESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	all := controllers.Names()
	o := controllers.Options{Without: slices.DeleteFunc(all, func(name string) bool { return name == "namespace-controller" })}
	if err := controllers.AddAll(mgr, o); err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T) string {
		result, err := mgr.controllers[0].Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: doomed}})
		switch {
		case err != nil:
			return "error"
		case result.RequeueAfter > 0:
			return fmt.Sprint("after ", result.RequeueAfter)
		}
		return "done"
	}, server
}

// namespaceManager is a manager of clients of a server.
type namespaceManager struct {
	*ours
	config *rest.Config
	http   *http.Client
	client client.Client
}

func (m *namespaceManager) GetConfig() *rest.Config     { return m.config }
func (m *namespaceManager) GetHTTPClient() *http.Client { return m.http }
func (m *namespaceManager) GetClient() client.Client    { return m.client }
func (m *namespaceManager) GetAPIReader() client.Reader { return m.client }
func (m *namespaceManager) GetRESTMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.AddSpecific(corev1.SchemeGroupVersion.WithKind("Namespace"), corev1.SchemeGroupVersion.WithResource("namespaces"), corev1.SchemeGroupVersion.WithResource("namespace"), meta.RESTScopeRoot)
	for _, r := range servedResources {
		for _, version := range r.versions {
			gv := schema.GroupVersion{Group: r.Group, Version: version}
			mapper.AddSpecific(gv.WithKind(r.kind), gv.WithResource(r.Resource), gv.WithResource(strings.ToLower(r.kind)), r.scope())
		}
	}
	return mapper
}

// newNamespaceDeleters returns a function that returns Kubernetes' deleter for a world. The deleter is called once, and returns when
// the next attempt is.
func newNamespaceDeleters(t *testing.T) func(t *testing.T, w *doomedWorld) func() string {
	t.Helper()
	server := &doomedServer{}
	config := server.config()
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T, w *doomedWorld) func() string {
		server.doomed = w
		d := deletion.NewNamespacedResourcesDeleter(t.Context(), clients.CoreV1().Namespaces(), objects, clients.CoreV1(),
			clients.Discovery().ServerPreferredNamespacedResources, corev1.FinalizerKubernetes)
		return func() string {
			err := d.Delete(t.Context(), doomed)
			var remaining *deletion.ResourcesRemainingError
			switch {
			case errors.As(err, &remaining):
				return fmt.Sprint("after ", time.Duration(remaining.Estimate/2+1)*time.Second)
			case err != nil:
				return "error"
			}
			return "done"
		}
	}
}

// servedResource is a resource of the worlds.
type servedResource struct {
	schema.GroupResource
	kind     string
	versions []string // the preferred one is the last
	cluster  bool
}

func (r servedResource) scope() meta.RESTScope {
	if r.cluster {
		return meta.RESTScopeRoot
	}
	return meta.RESTScopeNamespace
}

// extension is the group of an extension API server.
const extension = "extension.example.com"

var servedResources = []servedResource{
	{corev1.Resource("pods"), "Pod", []string{"v1"}, false},
	{corev1.Resource("configmaps"), "ConfigMap", []string{"v1"}, false},
	{corev1.Resource("services"), "Service", []string{"v1"}, false},
	{corev1.Resource("nodes"), "Node", []string{"v1"}, true},
	{schema.GroupResource{Group: "apps", Resource: "deployments"}, "Deployment", []string{"v1"}, false},
	{schema.GroupResource{Group: "example.com", Resource: "widgets"}, "Widget", []string{"v1", "v2"}, false},
	{schema.GroupResource{Group: "example.com", Resource: "gadgets"}, "Gadget", []string{"v1"}, false},
	{schema.GroupResource{Group: "metrics.example.com", Resource: "pods"}, "PodMetrics", []string{"v1beta1"}, false},
	{schema.GroupResource{Group: extension, Resource: "things"}, "Thing", []string{"v1"}, false},
}

// doomedObject is an object in a namespace.
type doomedObject struct {
	corev1.Pod // with the metadata of any kind
	sticky     bool
}

// doomedWorld is a namespace with its objects.
type doomedWorld struct {
	namespace *corev1.Namespace // nil if it is gone
	objects   map[schema.GroupResource]map[string]*doomedObject
	verbs     map[schema.GroupResource][]string
	version   int

	faults  doomedFaults
	touched bool // in this attempt
}

func newDoomed(s *random.Source) *doomedWorld {
	w := &doomedWorld{objects: map[schema.GroupResource]map[string]*doomedObject{}, verbs: map[schema.GroupResource][]string{}, version: 1}
	w.namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: doomed, UID: "1", ResourceVersion: "1"},
		Spec: corev1.NamespaceSpec{Finalizers: random.Some(s, 2, corev1.FinalizerName("example.com/b"), "example.com/a")}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}
	if s.Chance(95) {
		w.namespace.DeletionTimestamp = ptr.To(metav1.NewTime(time.Now().Add(-time.Duration(s.IntN(40)) * time.Second).Truncate(time.Second)))
		w.namespace.Status.Phase = corev1.NamespaceTerminating
	}
	if s.Chance(90) {
		at := s.IntN(len(w.namespace.Spec.Finalizers) + 1)
		w.namespace.Spec.Finalizers = slices.Insert(w.namespace.Spec.Finalizers, at, corev1.FinalizerKubernetes)
	}
	if s.Chance(15) {
		w.namespace.Finalizers = []string{"example.com/of-metadata"}
	}
	if s.Chance(20) {
		w.namespace.Status.Conditions = []corev1.NamespaceCondition{{Type: random.Pick(s, corev1.NamespaceContentRemaining, corev1.NamespaceDeletionContentFailure, "Other"),
			Status: random.Pick(s, corev1.ConditionTrue, corev1.ConditionFalse), Reason: "SomeResourcesRemain", Message: "m", LastTransitionTime: metav1.NewTime(time.Unix(1, 0))}}
	}
	for _, r := range servedResources {
		w.verbs[r.GroupResource] = random.Pick(s, []string{"create", "delete", "deletecollection", "list", "watch"}, []string{"create", "delete", "deletecollection", "list", "watch"},
			[]string{"delete", "list"}, []string{"delete", "deletecollection"}, []string{"delete"}, []string{"list", "deletecollection"}, []string{"create"})
		if r.GroupResource == corev1.Resource("pods") || r.Group == extension {
			w.verbs[r.GroupResource] = []string{"create", "delete", "deletecollection", "list", "watch"}
		}
		w.objects[r.GroupResource] = map[string]*doomedObject{}
		if s.Chance(50) {
			continue
		}
		for i := range 1 + s.IntN(3) {
			o := newDoomedObject(s, fmt.Sprint("o", i), r.GroupResource == corev1.Resource("pods"))
			w.objects[r.GroupResource][o.Name] = o
		}
	}
	return w
}

func newDoomedObject(s *random.Source, name string, pod bool) *doomedObject {
	o := &doomedObject{sticky: s.Chance(7)}
	o.Name, o.Namespace, o.UID, o.ResourceVersion = name, doomed, types.UID(name), "1"
	if s.Chance(25) {
		o.Finalizers = random.Some(s, 2, "example.com/a", "example.com/b", metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents)
	}
	if pod {
		o.Spec.NodeName = random.Pick(s, "", "n", "n")
		o.Spec.TerminationGracePeriodSeconds = random.Pick[*int64](s, nil, ptr.To[int64](0), ptr.To[int64](5), ptr.To[int64](30), ptr.To[int64](31), ptr.To[int64](61))
		o.Status.Phase = random.Pick(s, corev1.PodPending, corev1.PodRunning, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed)
	}
	if s.Chance(30) {
		o.DeletionTimestamp = ptr.To(metav1.NewTime(time.Now().Truncate(time.Second)))
		o.DeletionGracePeriodSeconds = ptr.To(o.grace())
	}
	return o
}

// grace returns the seconds that an object has to end.
func (o *doomedObject) grace() int64 {
	if o.Spec.NodeName == "" || o.Status.Phase == corev1.PodSucceeded || o.Status.Phase == corev1.PodFailed {
		return 0
	}
	return ptr.Deref(o.Spec.TerminationGracePeriodSeconds, 0)
}

// copy returns a world with the same objects.
func (w *doomedWorld) copy() *doomedWorld {
	c := *w
	c.namespace = w.namespace.DeepCopy()
	c.objects = map[schema.GroupResource]map[string]*doomedObject{}
	for r, objects := range w.objects {
		c.objects[r] = map[string]*doomedObject{}
		for name, o := range objects {
			c.objects[r][name] = &doomedObject{*o.Pod.DeepCopy(), o.sticky}
		}
	}
	return &c
}

// String returns the namespace, without its resource version, and the objects.
func (w *doomedWorld) String() string {
	var lines []string
	for r, objects := range w.objects {
		for name, o := range objects {
			lines = append(lines, fmt.Sprintf("%s %s %q %v of %v s, sticky %v, node %q, phase %s, verbs %v\n", r, name, o.Finalizers, o.DeletionTimestamp, ptr.Deref(o.Spec.TerminationGracePeriodSeconds, -1),
				o.sticky, o.Spec.NodeName, o.Status.Phase, w.verbs[r]))
		}
	}
	slices.Sort(lines)
	if w.namespace == nil {
		return strings.Join(lines, "")
	}
	ns := w.namespace.DeepCopy()
	return text(ns) + "\n" + strings.Join(lines, "")
}

// count counts what has happened.
func (w *doomedWorld) count(seen random.Seen) {
	switch ns := w.namespace; {
	case ns == nil:
		seen["gone"]++
		return
	case ns.UID != "1":
		seen["created again"]++
	case ns.DeletionTimestamp != nil && len(ns.Spec.Finalizers) > 0 && !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes):
		seen["kept by another finalizer"]++
	}
	for _, c := range w.namespace.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		seen[string(c.Type)]++
		if strings.Contains(c.Message, "Resource=pods") {
			seen["unexpected pods"]++
		} else if strings.Contains(c.Message, "unexpected items") {
			seen["unexpected objects"]++
		}
	}
	others := w.objects[corev1.Resource("configmaps")]
	if len(w.objects[corev1.Resource("pods")]) > 0 && slices.ContainsFunc(slices.Collect(maps.Values(others)), func(o *doomedObject) bool { return o.DeletionTimestamp == nil }) {
		seen["pods first"]++
	}
}

// change changes some objects: pods end, finalizers are removed, and another namespace gets the name.
func (w *doomedWorld) change(seed uint64) {
	bit := func() bool {
		seed = seed*6364136223846793005 + 1442695040888963407
		return seed>>62 == 0
	}
	for _, r := range servedResources {
		for _, name := range slices.Sorted(maps.Keys(w.objects[r.GroupResource])) {
			o := w.objects[r.GroupResource][name]
			if bit() {
				o.Finalizers = nil
			}
			if bit() {
				o.sticky = false
			}
			if ended := bit(); o.DeletionTimestamp != nil && !o.sticky && len(o.Finalizers) == 0 && (ended || o.grace() == 0) {
				delete(w.objects[r.GroupResource], name)
			}
		}
	}
	if a, b := bit(), bit(); a && b && w.namespace != nil {
		w.namespace.Spec.Finalizers = slices.DeleteFunc(w.namespace.Spec.Finalizers, func(f corev1.FinalizerName) bool { return f == "example.com/a" })
	}
}

// doomedFaults are the faults of the requests of one attempt.
type doomedFaults struct {
	errs      map[string]*apierrors.StatusError // by verb, and resource if it has one
	discovery map[string]bool                   // paths that cannot be discovered
	garbage   bool                              // whether the version of the extension cannot be parsed
	touch     bool                              // whether the namespace changes before it is finalized
	replace   bool                              // whether there is another namespace then
}

func (f doomedFaults) String() string {
	return fmt.Sprintf("faults of %v, discovery %v, garbage %v, touch %v, replace %v", f.errs, f.discovery, f.garbage, f.touch, f.replace)
}

func newFaults(s *random.Source) doomedFaults {
	f := doomedFaults{errs: map[string]*apierrors.StatusError{}, discovery: map[string]bool{}, garbage: s.Chance(5), touch: s.Chance(20), replace: s.Chance(3)}
	if s.Chance(50) {
		return f
	}
	for range s.IntN(5) {
		r := random.Pick(s, servedResources...).GroupResource
		busy := apierrors.NewServiceUnavailable(fmt.Sprint("busy with ", r))
		refused := apierrors.NewForbidden(r, "", errors.New("refused"))
		unsupported := apierrors.NewMethodNotSupported(r, "it")
		switch s.IntN(6) {
		case 0:
			f.errs["deletecollection "+r.String()] = random.Pick(s, busy, refused, unsupported, apierrors.NewNotFound(r, ""))
		case 1:
			f.errs["list "+r.String()] = random.Pick(s, busy, refused, unsupported)
			if r == corev1.Resource("pods") { // which everybody lists
				f.errs["list "+r.String()] = busy
			}
		case 2:
			f.errs["delete "+r.String()+" "+random.Pick(s, "o0", "o1", "o2")] = random.Pick(s, busy, refused, unsupported, apierrors.NewNotFound(r, ""))
		case 3:
			f.errs[random.Pick(s, "status", "finalize", "list of pods", "get")] = random.Pick(s, busy, refused)
		case 4:
			f.discovery[random.Pick(s, "/api/v1", "/apis/apps/v1", "/apis/example.com/v1", "/apis/example.com/v2", "/apis/extension.example.com/v1", "/apis/extension.example.com/v1")] = true
		case 5:
			if s.Chance(20) {
				f.discovery["/apis"] = true
			}
		}
	}
	return f
}

// attempt begins an attempt with faults.
func (w *doomedWorld) attempt(f doomedFaults) { w.faults, w.touched = f, false }

// doomedServer is the API server of a world.
type doomedServer struct{ doomed *doomedWorld }

func (s *doomedServer) config() *rest.Config {
	return &rest.Config{Host: "http://doomed", Transport: s, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// RoundTrip answers a request.
func (s *doomedServer) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	code := http.StatusOK
	answer, err := s.doomed.serve(r, body)
	if err != nil {
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			return nil, err
		}
		body := status.Status()
		body.Kind, body.APIVersion = "Status", "v1"
		answer, code = body, int(body.Code)
	}
	data, err := json.Marshal(answer)
	return &http.Response{StatusCode: code, Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(data))}, err
}

// unsupported returns the error of a verb that a resource does not have.
func (w *doomedWorld) unsupported(verb string, r schema.GroupResource) error {
	if slices.Contains(w.verbs[r], verb) {
		return nil
	}
	return apierrors.NewMethodNotSupported(r, verb)
}

// fault returns the error of a request.
func (w *doomedWorld) fault(request string) error {
	if err := w.faults.errs[request]; err != nil {
		return err
	}
	return nil
}

func (w *doomedWorld) serve(r *http.Request, body []byte) (any, error) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if w.faults.discovery[r.URL.Path] {
		return nil, apierrors.NewServiceUnavailable(r.URL.Path + " is away")
	}
	if parts[0] == "api" {
		parts = slices.Insert(parts, 1, "")
	}
	switch {
	case r.URL.Path == "/api":
		return metav1.APIVersions{Versions: []string{"v1"}}, nil
	case r.URL.Path == "/apis":
		return w.groups(), nil
	case len(parts) == 3:
		return w.resources(schema.GroupVersion{Group: parts[1], Version: parts[2]}), nil
	case len(parts) == 5 && parts[3] == "namespaces", len(parts) == 6 && (parts[5] == "status" || parts[5] == "finalize"):
		return w.serveNamespace(r, parts, body)
	}
	resource, name := schema.GroupResource{Group: parts[1], Resource: parts[5]}, ""
	if len(parts) > 6 {
		name = parts[6]
	}
	o := metav1.DeleteOptions{}
	if err := json.Unmarshal(body, &o); len(body) > 0 && err != nil {
		return nil, err
	}
	switch {
	case r.Method == http.MethodGet && resource == corev1.Resource("pods") && !strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata"):
		return w.listPods()
	case r.Method == http.MethodGet:
		return w.list(resource)
	case name == "":
		return w.deleteCollection(resource, o)
	}
	return w.deleteOne(resource, name, o)
}

// groups returns the groups but the core.
func (w *doomedWorld) groups() *metav1.APIGroupList {
	list := &metav1.APIGroupList{}
	for _, r := range servedResources {
		if r.Group == "" || slices.ContainsFunc(list.Groups, func(g metav1.APIGroup) bool { return g.Name == r.Group }) {
			continue
		}
		g := metav1.APIGroup{Name: r.Group}
		for _, version := range r.versions {
			gv := schema.GroupVersion{Group: r.Group, Version: version}.String()
			if w.faults.garbage && r.Group == extension {
				gv += "/garbage"
			}
			g.PreferredVersion = metav1.GroupVersionForDiscovery{GroupVersion: gv, Version: version}
			g.Versions = append(g.Versions, g.PreferredVersion)
		}
		list.Groups = append(list.Groups, g)
	}
	return list
}

// resources returns the resources of a version.
func (w *doomedWorld) resources(gv schema.GroupVersion) *metav1.APIResourceList {
	list := &metav1.APIResourceList{GroupVersion: gv.String()}
	if w.faults.garbage && gv.Group == extension {
		list.GroupVersion += "/garbage"
	}
	for _, r := range servedResources {
		if r.Group == gv.Group && slices.Contains(r.versions, gv.Version) {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: r.Resource, Kind: r.kind, Namespaced: !r.cluster, Verbs: w.verbs[r.GroupResource]},
				metav1.APIResource{Name: r.Resource + "/status", Kind: r.kind, Namespaced: !r.cluster, Verbs: metav1.Verbs{"get", "delete"}})
		}
	}
	return list
}

// serveNamespace serves the namespace.
func (w *doomedWorld) serveNamespace(r *http.Request, parts []string, body []byte) (any, error) {
	if r.Method == http.MethodGet {
		if err := w.fault("get"); err != nil {
			return nil, err
		}
	}
	if w.namespace == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("namespaces"), doomed)
	}
	if r.Method == http.MethodGet {
		return w.answer(), nil
	}
	if err := w.fault(parts[5]); err != nil {
		return nil, err
	}
	ns := &corev1.Namespace{}
	if err := json.Unmarshal(body, ns); err != nil {
		return nil, err
	}
	if parts[5] == "finalize" && !w.touched {
		w.touch()
	}
	if ns.ResourceVersion != w.namespace.ResourceVersion || ns.UID != w.namespace.UID {
		return nil, apierrors.NewConflict(corev1.Resource("namespaces"), doomed, errors.New("the object has been modified"))
	}
	if parts[5] == "status" {
		w.namespace.Status = ns.Status
	} else {
		w.namespace.Spec.Finalizers = ns.Spec.Finalizers
	}
	w.written()
	answer := w.answer()
	if len(w.namespace.Spec.Finalizers)+len(w.namespace.Finalizers) == 0 && w.namespace.DeletionTimestamp != nil {
		w.namespace = nil
	}
	return answer, nil
}

// touch changes the namespace as another client.
func (w *doomedWorld) touch() {
	w.touched = true
	switch {
	case w.faults.replace:
		w.namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: doomed, UID: "2"}, Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}}}
		w.written()
	case w.faults.touch:
		w.namespace.Labels = map[string]string{"touched": "yes"}
		w.written()
	}
}

// written gives the namespace a resource version.
func (w *doomedWorld) written() {
	w.version++
	w.namespace.ResourceVersion = fmt.Sprint(w.version)
}

// answer returns the namespace as a response.
func (w *doomedWorld) answer() *corev1.Namespace {
	ns := w.namespace.DeepCopy()
	ns.Kind, ns.APIVersion = "Namespace", "v1"
	return ns
}

func (w *doomedWorld) listPods() (any, error) {
	if err := w.fault("list of pods"); err != nil {
		return nil, err
	}
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
	pods := w.objects[corev1.Resource("pods")]
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		list.Items = append(list.Items, pods[name].Pod)
	}
	return list, nil
}

func (w *doomedWorld) list(r schema.GroupResource) (any, error) {
	if err := w.unsupported("list", r); err != nil {
		return nil, err
	}
	if err := w.fault("list " + r.String()); err != nil {
		return nil, err
	}
	list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"}, Items: []metav1.PartialObjectMetadata{}}
	for _, name := range slices.Sorted(maps.Keys(w.objects[r])) {
		list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: w.objects[r][name].ObjectMeta})
	}
	return list, nil
}

func (w *doomedWorld) deleteCollection(r schema.GroupResource, options metav1.DeleteOptions) (any, error) {
	if err := w.unsupported("deletecollection", r); err != nil {
		return nil, err
	}
	objects := slices.Collect(maps.Values(w.objects[r]))
	if err := w.fault("deletecollection " + r.String()); err != nil && slices.ContainsFunc(objects, (*doomedObject).deletable) {
		return nil, err
	}
	for name := range w.objects[r] {
		w.delete(r, name, options)
	}
	return succeeded, nil
}

func (w *doomedWorld) deleteOne(r schema.GroupResource, name string, options metav1.DeleteOptions) (any, error) {
	if err := w.unsupported("delete", r); err != nil {
		return nil, err
	}
	o := w.objects[r][name]
	if o == nil {
		return nil, apierrors.NewNotFound(r, name)
	}
	if err := w.fault("delete " + r.String() + " " + name); err != nil && o.deletable() {
		return nil, err
	}
	w.delete(r, name, options)
	return succeeded, nil
}

// succeeded is the response to a deletion.
var succeeded = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess}

// deletable reports whether a deletion in the background changes the object.
func (o *doomedObject) deletable() bool {
	switch {
	case o.DeletionTimestamp == nil:
		return true
	case ptr.Deref(o.DeletionGracePeriodSeconds, 0) > 0:
		return false
	}
	return len(o.Finalizers) == 0 || slices.Contains(o.Finalizers, metav1.FinalizerDeleteDependents) || slices.Contains(o.Finalizers, metav1.FinalizerOrphanDependents)
}

// delete deletes an object as the API server does. Objects that are sticky stay.
func (w *doomedWorld) delete(r schema.GroupResource, name string, options metav1.DeleteOptions) {
	o := w.objects[r][name]
	if !o.deletable() {
		return
	}
	if ptr.Deref(options.PropagationPolicy, "") == metav1.DeletePropagationBackground {
		o.Finalizers = slices.DeleteFunc(o.Finalizers, func(f string) bool {
			return f == metav1.FinalizerDeleteDependents || f == metav1.FinalizerOrphanDependents
		})
	}
	if o.DeletionTimestamp == nil {
		o.DeletionTimestamp = ptr.To(metav1.NewTime(time.Now().Truncate(time.Second)))
		o.DeletionGracePeriodSeconds = ptr.To(o.grace())
	}
	if ptr.Deref(o.DeletionGracePeriodSeconds, 0) == 0 && len(o.Finalizers) == 0 && !o.sticky {
		delete(w.objects[r], name)
	}
}
