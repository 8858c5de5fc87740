package admission

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/admission/stored"
)

// fixture are stored objects by NAMESPACE/NAME, or NAME.
type fixture struct {
	rest.Storage
	objects map[string]runtime.Object
}

func (f fixture) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	if namespace := request.NamespaceValue(ctx); namespace != "" {
		name = namespace + "/" + name
	}
	if obj, ok := f.objects[name]; ok {
		return obj, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "objects"}, name)
}

func (f fixture) Create(_ context.Context, obj runtime.Object, _ rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	f.objects[obj.(metav1.Object).GetName()] = obj
	return obj, nil
}

func (f fixture) NewList() runtime.Object { return nil }

func (f fixture) List(context.Context, *internalversion.ListOptions) (runtime.Object, error) {
	return &corev1.NodeList{}, nil
}

func (f fixture) ConvertToTable(context.Context, runtime.Object, runtime.Object) (*metav1.Table, error) {
	return nil, nil
}

// environmentOf returns an environment with the objects. The authorizer allows the requests in allowed, each in the
// form "VERB RESOURCE".
func environmentOf(objects []runtime.Object, allowed ...string) Environment {
	f := fixture{objects: map[string]runtime.Object{}}
	for _, obj := range objects {
		m := obj.(metav1.Object)
		key := m.GetName()
		if m.GetNamespace() != "" {
			key = m.GetNamespace() + "/" + key
		}
		f.objects[key] = obj
	}
	return Environment{Objects: fixtureObjects{f}, Authorizer: authorizer.AuthorizerFunc(
		func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			resource := a.GetResource()
			if a.GetSubresource() != "" {
				resource += "/" + a.GetSubresource()
			}
			if slices.Contains(allowed, a.GetVerb()+" "+resource) {
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionNoOpinion, "no rule", nil
		})}
}

type fixtureObjects struct{ fixture }

func (o fixtureObjects) Storage(schema.GroupVersionResource) rest.Storage { return o.fixture }
func (o fixtureObjects) Status(schema.GroupVersionResource) rest.Storage  { return nil }
func (o fixtureObjects) Changed(schema.GroupResource) func() bool         { return func() bool { return true } }
func (o fixtureObjects) Kind(gvk schema.GroupVersionKind) (stored.Kind, bool) {
	return stored.Kind{Resource: gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s"), Namespaced: true}, gvk.Kind != "Unknown"
}

// write is a request that a plugin admits.
type write struct {
	operation admission.Operation
	resource  schema.GroupVersionResource // pods if empty
	sub       string
	name      string
	obj, old  runtime.Object
	user      user.Info
}

// admit passes a request to a plugin, first to Admit and then to Validate.
func admit(t *testing.T, plugin admission.Interface, w write) error {
	t.Helper()
	if w.operation == "" {
		w.operation = admission.Create
	}
	if w.resource.Empty() {
		w.resource = corev1.SchemeGroupVersion.WithResource("pods")
	}
	if !plugin.Handles(w.operation) {
		return nil
	}
	namespace, kind := "default", "Pod"
	for _, obj := range []runtime.Object{w.obj, w.old} {
		if m, ok := obj.(metav1.Object); ok && w.name == "" {
			w.name = m.GetName()
		}
	}
	switch w.resource.Resource {
	case "nodes":
		namespace, kind = "", "Node"
	case "leases":
		namespace, kind = w.obj.(metav1.Object).GetNamespace(), "Lease"
	}
	a := admission.NewAttributesRecord(w.obj, w.old, w.resource.GroupVersion().WithKind(kind), namespace, w.name, w.resource, w.sub,
		w.operation, nil, false, w.user)
	if m, ok := plugin.(admission.MutationInterface); ok {
		if err := m.Admit(t.Context(), a, nil); err != nil {
			return err
		}
	}
	if v, ok := plugin.(admission.ValidationInterface); ok {
		return v.Validate(t.Context(), a, nil)
	}
	return nil
}

// expect checks that an error contains a text, or that there is none for "".
func expect(t *testing.T, name string, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: got %v, want %q", name, err, want)
	}
}

func podWith(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if change != nil {
		change(pod)
	}
	return pod
}

// decode returns an object from JSON.
func decode[T any](t *testing.T, text string) *T {
	t.Helper()
	obj := new(T)
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestAlways(t *testing.T) {
	expect(t, "AlwaysAdmit", admit(t, newNothing(Environment{}), write{obj: podWith(nil)}), "")
	expect(t, "AlwaysDeny", admit(t, newAlwaysDeny(Environment{}), write{obj: podWith(nil)}), "admission control is denying all modifications")
}

func TestAlwaysPullImages(t *testing.T) {
	plugin := newAlwaysPullImages(Environment{})
	pod := decode[corev1.Pod](t, `{"spec":{"initContainers":[{"image":"a","imagePullPolicy":"Never"}],"containers":[{"image":"b"}],
		"volumes":[{"name":"v","image":{"reference":"c"}}]}}`)
	expect(t, "create", admit(t, plugin, write{obj: pod}), "")
	got := []corev1.PullPolicy{pod.Spec.InitContainers[0].ImagePullPolicy, pod.Spec.Containers[0].ImagePullPolicy, pod.Spec.Volumes[0].Image.PullPolicy}
	if !slices.Equal(got, []corev1.PullPolicy{"Always", "Always", "Always"}) {
		t.Errorf("the policies are %q", got)
	}
	old, same, other := podWith(nil), podWith(nil), podWith(func(p *corev1.Pod) { p.Spec.Containers[0].Image = "new" })
	expect(t, "update", admit(t, plugin, write{operation: admission.Update, obj: same, old: old}), "")
	expect(t, "new image", admit(t, plugin, write{operation: admission.Update, obj: other, old: old}), "")
	if same.Spec.Containers[0].ImagePullPolicy != "" || other.Spec.Containers[0].ImagePullPolicy != "Always" {
		t.Errorf("updated: %q, %q", same.Spec.Containers[0].ImagePullPolicy, other.Spec.Containers[0].ImagePullPolicy)
	}
	a := admission.NewAttributesRecord(podWith(nil), nil, corev1.SchemeGroupVersion.WithKind("Pod"), "default", "p",
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil)
	expect(t, "changed by a webhook", plugin.(admission.ValidationInterface).Validate(t.Context(), a, nil),
		`spec.containers[0].imagePullPolicy: Unsupported value: "": supported values: "Always"`)
}

func TestLimitAntiAffinity(t *testing.T) {
	for key, want := range map[string]string{
		corev1.LabelHostname:     "",
		corev1.LabelTopologyZone: "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey topology.kubernetes.io/zone but only key kubernetes.io/hostname is allowed",
	} {
		pod := podWith(func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: key}}}}
		})
		expect(t, key, admit(t, newLimitAntiAffinity(Environment{}), write{obj: pod}), want)
	}
}

func TestDenyExternalIPs(t *testing.T) {
	service := func(ips ...string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{ExternalIPs: ips}}
	}
	services := corev1.SchemeGroupVersion.WithResource("services")
	for name, tc := range map[string]struct {
		old, obj *corev1.Service
		want     string
	}{
		"none":    {nil, service(), ""},
		"new":     {nil, service("1.1.1.1"), "Use of external IPs is denied by admission control"},
		"kept":    {service("1.1.1.1", "2.2.2.2"), service("2.2.2.2"), ""},
		"another": {service("1.1.1.1"), service("1.1.1.1", "2.2.2.2"), "denied"},
	} {
		w := write{resource: services, obj: tc.obj}
		if tc.old != nil {
			w.operation, w.old = admission.Update, tc.old
		}
		expect(t, name, admit(t, newDenyExternalIPs(Environment{}), w), tc.want)
	}
}

func TestTaintNodes(t *testing.T) {
	for _, given := range []string{`{}`, `{"taints":[{"key":"a","effect":"NoSchedule"}]}`, `{"taints":[{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"}]}`} {
		node := &corev1.Node{Spec: *decode[corev1.NodeSpec](t, given)}
		expect(t, given, admit(t, newTaintNodes(Environment{}), write{resource: corev1.SchemeGroupVersion.WithResource("nodes"), obj: node}), "")
		if n := len(node.Spec.Taints); node.Spec.Taints[n-1].Key != corev1.TaintNodeNotReady || n > 2 {
			t.Errorf("%s: %v", given, node.Spec.Taints)
		}
	}
}

func TestPodTopologyLabels(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelTopologyZone: "z", "other": "x"}}}
	plugin := newPodTopologyLabels(environmentOf([]runtime.Object{node}))
	for name, tc := range map[string]struct {
		w    write
		want map[string]string
	}{
		"on a node":               {write{obj: podWith(func(p *corev1.Pod) { p.Spec.NodeName = "n"; p.Labels = map[string]string{"a": "b"} })}, map[string]string{"a": "b", corev1.LabelTopologyZone: "z"}},
		"unscheduled":             {write{obj: podWith(nil)}, nil},
		"no node":                 {write{obj: podWith(func(p *corev1.Pod) { p.Spec.NodeName = "absent" })}, nil},
		"bound":                   {write{sub: "binding", obj: &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}}, map[string]string{corev1.LabelTopologyZone: "z"}},
		"bound to something else": {write{sub: "binding", obj: &corev1.Binding{Target: corev1.ObjectReference{Kind: "Host", Name: "n"}}}, nil},
	} {
		expect(t, name, admit(t, plugin, tc.w), "")
		if diff := cmp.Diff(tc.want, tc.w.obj.(metav1.Object).GetLabels()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestNamespacePlugins(t *testing.T) {
	e := environmentOf([]runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}})
	expect(t, "NamespaceExists", admit(t, newNamespaceExists(e), write{operation: admission.Delete, old: podWith(nil)}), "not found")
	expect(t, "NamespaceAutoProvision", admit(t, newNamespaceAutoProvision(e), write{obj: podWith(nil)}), "")
	expect(t, "provisioned", admit(t, newNamespaceExists(e), write{obj: podWith(nil)}), "")
}

func TestPodNodeSelector(t *testing.T) {
	for name, tc := range map[string]struct {
		annotation, given string
		want              map[string]string
		fails             string
	}{
		"none":     {"", "a=1", map[string]string{"a": "1"}, ""},
		"merged":   {"env=test", "a=1", map[string]string{"a": "1", "env": "test"}, ""},
		"conflict": {"env=test", "env=prod", map[string]string{"env": "prod"}, "pod node label selector conflicts with its namespace node label selector"},
		"invalid":  {"env", "", nil, "invalid selector"},
	} {
		e := environmentOf([]runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Annotations: map[string]string{nodeSelectorAnnotation: tc.annotation}}}})
		pod := podWith(func(p *corev1.Pod) {
			if key, value, ok := strings.Cut(tc.given, "="); ok {
				p.Spec.NodeSelector = map[string]string{key: value}
			}
		})
		expect(t, name, admit(t, newPodNodeSelector(e), write{obj: pod}), tc.fails)
		if diff := cmp.Diff(tc.want, pod.Spec.NodeSelector); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestOwnerReferences(t *testing.T) {
	owned := func(blocks bool, kind string) *corev1.Pod {
		return podWith(func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: "o", UID: "1", BlockOwnerDeletion: &blocks}}
		})
	}
	for name, tc := range map[string]struct {
		w       write
		allowed []string
		want    string
	}{
		"none":               {write{obj: podWith(nil)}, nil, ""},
		"create":             {write{obj: owned(false, "ConfigMap")}, nil, ""},
		"update":             {write{operation: admission.Update, obj: owned(false, "ConfigMap"), old: podWith(nil)}, nil, "cannot set an ownerRef on a resource you can't delete: no rule, <nil>"},
		"update, may delete": {write{operation: admission.Update, obj: owned(false, "ConfigMap"), old: podWith(nil)}, []string{"delete pods"}, ""},
		"unchanged":          {write{operation: admission.Update, obj: owned(true, "ConfigMap"), old: owned(true, "ConfigMap")}, nil, ""},
		"status":             {write{operation: admission.Update, sub: "status", obj: owned(true, "ConfigMap"), old: podWith(nil)}, nil, ""},
		"blocks":             {write{obj: owned(true, "ConfigMap")}, nil, "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: no rule, <nil>"},
		"blocks, may":        {write{obj: owned(true, "ConfigMap")}, []string{"update configmaps/finalizers"}, ""},
		"blocks, may all":    {write{obj: owned(true, "Unknown")}, []string{"update */finalizers"}, ""},
		"unknown kind":       {write{obj: owned(true, "Unknown")}, nil, `cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion v1 Kind Unknown: no matches for kind "Unknown" in version "v1"`},
	} {
		expect(t, name, admit(t, newOwnerReferences(environmentOf(nil, tc.allowed...)), tc.w), tc.want)
	}
}

func TestExtendedResourceToleration(t *testing.T) {
	pod := decode[corev1.Pod](t, `{"spec":{"containers":[{"resources":{"requests":{"example.com/gpu":"1","cpu":"1"}}}],
		"tolerations":[{"key":"other","operator":"Exists"}]}}`)
	for range 2 { // the second time nothing changes
		expect(t, "create", admit(t, newExtendedResourceToleration(Environment{}), write{obj: pod}), "")
	}
	want := []corev1.Toleration{{Key: "other", Operator: "Exists"}, {Key: "example.com/gpu", Operator: "Exists", Effect: "NoSchedule"}}
	if diff := cmp.Diff(want, pod.Spec.Tolerations); diff != "" {
		t.Errorf("tolerations (-want +got):\n%s", diff)
	}
}

func TestPodResizeValidator(t *testing.T) {
	node := decode[corev1.Node](t, `{"metadata":{"name":"n"},"status":{"allocatable":{"cpu":"2","memory":"1Gi"}}}`)
	windows := decode[corev1.Node](t, `{"metadata":{"name":"w","labels":{"kubernetes.io/os":"windows"}},"status":{"allocatable":{"cpu":"2","memory":"1Gi"}}}`)
	plugin := newPodResizeValidator(environmentOf([]runtime.Object{node, windows}))
	for _, tc := range []struct{ node, cpu, sub, want string }{
		{"n", "2", "resize", ""},
		{"n", "3", "resize", "node didn't have enough allocatable resources: cpu, requested: 3000, allocatable: 2000"},
		{"n", "3", "", ""},
		{"", "3", "resize", ""},
		{"absent", "1", "resize", `node "absent" not found`},
		{"w", "1", "resize", `pod resize is only supported on linux nodes, node "w" is "windows"`},
	} {
		pod := decode[corev1.Pod](t, `{"metadata":{"generation":2},"spec":{"nodeName":"`+tc.node+`","containers":[{"resources":{"requests":{"cpu":"`+tc.cpu+`"}}}]}}`)
		expect(t, tc.node+tc.cpu, admit(t, plugin, write{operation: admission.Update, sub: tc.sub, obj: pod, old: podWith(nil)}), tc.want)
	}
}

func TestNodeRestriction(t *testing.T) {
	yes := true
	self := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1"}}
	bound := podWith(func(p *corev1.Pod) {
		p.Name, p.UID, p.Spec.NodeName = "bound", "p1", "n1"
		p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}}}}}}
	})
	elsewhere := podWith(func(p *corev1.Pod) { p.Name, p.UID, p.Spec.NodeName = "elsewhere", "p2", "n2" })
	plugin := newNodeRestriction(environmentOf([]runtime.Object{self, bound, elsewhere}))
	mirror := func(change func(*corev1.Pod)) *corev1.Pod {
		return podWith(func(p *corev1.Pod) {
			p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
			p.Spec.NodeName = "n1"
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "u1", Controller: &yes}}
			if change != nil {
				change(p)
			}
		})
	}
	nodes, core := corev1.SchemeGroupVersion.WithResource("nodes"), corev1.SchemeGroupVersion
	node := func(name string, labels map[string]string, taints ...corev1.Taint) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.NodeSpec{Taints: taints}}
	}
	token := func(ref *authenticationv1.BoundObjectReference) write {
		return write{resource: core.WithResource("serviceaccounts"), sub: "token", obj: &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: ref}}}
	}
	lease := func(namespace, name string) write {
		return write{resource: coordinationv1.SchemeGroupVersion.WithResource("leases"), obj: &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}}
	}
	csr := func(name string) write {
		return write{resource: certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests"), obj: &certificatesv1.CertificateSigningRequest{
			Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: certificatesv1.KubeletServingSignerName, Request: signingRequest(t, name)}}}
	}
	for name, tc := range map[string]struct {
		w    write
		want string
	}{
		"mirror":         {write{obj: mirror(nil)}, ""},
		"no mirror":      {write{obj: podWith(nil)}, `pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods`},
		"another node's": {write{obj: mirror(func(p *corev1.Pod) { p.Spec.NodeName = "n2" })}, `node "n1" can only create pods with spec.nodeName set to itself`},
		"no owner":       {write{obj: mirror(func(p *corev1.Pod) { p.OwnerReferences = nil })}, "with an owner reference set to itself"},
		"wrong UID":      {write{obj: mirror(func(p *corev1.Pod) { p.OwnerReferences[0].UID = "x" })}, "node n1 UID mismatch: expected x got u1"},
		"with a secret": {write{obj: mirror(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}}}
		})}, `node "n1" can not create pods that reference secrets`},
		"update a pod":     {write{operation: admission.Update, obj: bound, old: bound}, `unexpected operation "UPDATE", node "n1" can only create and delete mirror pods`},
		"delete":           {write{operation: admission.Delete, name: "bound"}, ""},
		"delete elsewhere": {write{operation: admission.Delete, name: "elsewhere"}, `node "n1" can only delete pods with spec.nodeName set to itself`},
		"status":           {write{operation: admission.Update, sub: "status", obj: bound, old: bound}, ""},
		"status elsewhere": {write{operation: admission.Update, sub: "status", obj: elsewhere, old: elsewhere}, "can only update pod status for pods with spec.nodeName set to itself"},
		"labels by status": {write{operation: admission.Update, sub: "status", obj: podWith(func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }), old: bound}, "cannot update labels through pod status"},
		"allocatable claims": {write{operation: admission.Update, sub: "status", old: bound, obj: podWith(func(p *corev1.Pod) {
			p.Status.NodeAllocatableResourceClaimStatuses = []corev1.NodeAllocatableResourceClaimStatus{{ResourceClaimName: "c"}}
		})}, "cannot update node allocatable resource claim statuses"},
		"CSINode status": {write{operation: admission.Update, resource: storagev1.SchemeGroupVersion.WithResource("csinodes"), sub: "status", name: "n1",
			obj: &storagev1.CSINode{}, old: &storagev1.CSINode{}}, "CSIVolumeHealth feature gate is disabled"},
		"evict":                   {write{sub: "eviction", obj: &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "bound"}}}, ""},
		"evict elsewhere":         {write{sub: "eviction", obj: &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}}}, "node n1 can only evict pods with spec.nodeName set to itself"},
		"bind":                    {write{sub: "binding", obj: &corev1.Binding{}}, `unexpected pod subresource "binding", only 'status' and 'eviction' are allowed`},
		"own node":                {write{resource: nodes, obj: node("n1", map[string]string{corev1.LabelHostname: "n1", "node.kubernetes.io/x": "y", "mine": "z"})}, ""},
		"another node":            {write{resource: nodes, obj: node("n2", nil)}, `node "n1" is not allowed to modify node "n2"`},
		"restricted label":        {write{resource: nodes, obj: node("n1", map[string]string{"a.node-restriction.kubernetes.io/b": "c", "kubernetes.io/x": "y"})}, `node "n1" is not allowed to set the following labels: a.node-restriction.kubernetes.io/b, kubernetes.io/x`},
		"label removed":           {write{operation: admission.Update, resource: nodes, obj: node("n1", nil), old: node("n1", map[string]string{"k8s.io/x": "y"})}, "is not allowed to modify labels: k8s.io/x"},
		"taints":                  {write{operation: admission.Update, resource: nodes, obj: node("n1", nil, corev1.Taint{Key: "a"}), old: node("n1", nil)}, `node "n1" is not allowed to modify taints`},
		"token":                   {token(&authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "bound", UID: "p1"}), ""},
		"token elsewhere":         {token(&authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "elsewhere", UID: "p2"}), "node requested token bound to a pod scheduled on a different node"},
		"token of nothing":        {token(nil), "node requested token not bound to a pod"},
		"token of a recreated":    {token(&authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "bound", UID: "old"}), "does not match the UID in record"},
		"lease":                   {lease(corev1.NamespaceNodeLease, "n1"), ""},
		"another's lease":         {lease(corev1.NamespaceNodeLease, "n2"), "can only access node lease with the same name as the requesting node"},
		"a lease elsewhere":       {lease("default", "n1"), `can only access leases in the "kube-node-lease" system namespace`},
		"signing request":         {csr("system:node:n1"), ""},
		"another signing request": {csr("system:node:n2"), "can only create a node CSR with CN=system:node:n1"},
	} {
		w := tc.w
		w.user = kubelet
		expect(t, name, admit(t, plugin, w), tc.want)
		w.user = &user.DefaultInfo{Name: "system:node:n1"}
		expect(t, name+", not in the group", admit(t, plugin, w), "")
	}
	expect(t, "no name", admit(t, plugin, write{obj: mirror(nil), user: &user.DefaultInfo{Name: "system:node:", Groups: []string{user.NodesGroup}}}),
		`could not determine node from user "system:node:"`)
}

// signingRequest returns a certificate request in PEM.
func signingRequest(t *testing.T, name string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}
