package builtin_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// Fields of the metadata.
var (
	labels      = []string{"labels"}
	pods        = []string{"ownerReferences"}
	status      = []string{"annotations", "finalizers", "labels", "ownerReferences"} // as metav1.ResetObjectMetaForStatus
	everything  = []string{"annotations", "finalizers", "generateName", "labels", "ownerReferences"}
	deployments = labels
)

// subresources are the subresources that update objects, but for scale, with an object, as in the
// strategies of kube-apiserver 1.37.2: in pkg/registry/GROUP/KIND/strategy.go, of k8s.io/kube-aggregator
// and of k8s.io/apiextensions-apiserver.
var subresources = []struct {
	group, resource, subresource string // the group with its version
	// kept are the fields of the metadata that stay as they are stored (PrepareForUpdate), and reset
	// those that get no manager (GetResetFields).
	kept, reset []string
	// forgives is set if a deletion timestamp is ignored (PrepareForUpdate). Others refuse it.
	forgives bool
	object   string // what it has besides metadata
}{
	{"admissionregistration.k8s.io/v1", "validatingadmissionpolicies", "status", status, everything, true, `spec: {validations: [{expression: "true"}], matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [nothing]}]}}`},
	{"apiextensions.k8s.io/v1", "customresourcedefinitions", "status", nil, nil, false, `spec: {group: example.com, scope: Cluster, names: {plural: gadgets, kind: Gadget}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}`},
	{"apiregistration.k8s.io/v1", "apiservices", "status", status, everything, false, `spec: {group: other.example.com, version: v1, groupPriorityMinimum: 1, versionPriority: 1, insecureSkipTLSVerify: true, service: {namespace: default, name: none}}`},
	{"apps/v1", "daemonsets", "status", nil, nil, false, `spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}`},
	{"apps/v1", "deployments", "status", deployments, deployments, false, `spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}`},
	{"apps/v1", "replicasets", "status", nil, nil, false, `spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}`},
	{"apps/v1", "statefulsets", "status", nil, nil, false, `spec: {serviceName: s, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}`},
	{"autoscaling/v1", "horizontalpodautoscalers", "status", nil, nil, false, `spec: {maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}}`},
	{"autoscaling/v2", "horizontalpodautoscalers", "status", nil, nil, false, `spec: {maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}}`},
	{"batch/v1", "cronjobs", "status", nil, nil, false, `spec: {schedule: "@daily", suspend: true, jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}`},
	{"batch/v1", "jobs", "status", nil, nil, false, `spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}`},
	{"certificates.k8s.io/v1", "certificatesigningrequests", "approval", nil, nil, false, `spec: {signerName: example.com/signer, usages: [client auth], request: PEM}`},
	{"certificates.k8s.io/v1", "certificatesigningrequests", "status", nil, nil, false, `spec: {signerName: example.com/signer, usages: [client auth], request: PEM}`},
	{"certificates.k8s.io/v1", "podcertificaterequests", "status", status, everything, true, `spec: {signerName: example.com/signer, podName: p, podUID: a, serviceAccountName: s, serviceAccountUID: b, nodeName: node, nodeUID: c, stubPKCS10Request: DER}`},
	{"flowcontrol.apiserver.k8s.io/v1", "flowschemas", "status", everything, everything, true, `spec: {priorityLevelConfiguration: {name: global-default}}`},
	{"flowcontrol.apiserver.k8s.io/v1", "prioritylevelconfigurations", "status", everything, everything, true, `spec: {type: Limited, limited: {limitResponse: {type: Reject}}}`},
	{"networking.k8s.io/v1", "ingresses", "status", nil, nil, false, `spec: {defaultBackend: {service: {name: s, port: {number: 80}}}}`},
	{"networking.k8s.io/v1", "servicecidrs", "status", status, everything, true, `spec: {cidrs: [10.9.0.0/24]}`},
	{"policy/v1", "poddisruptionbudgets", "status", nil, nil, false, `spec: {minAvailable: 1, selector: {matchLabels: {a: b}}}`},
	{"resource.k8s.io/v1", "devicetaintrules", "status", status, everything, true, `spec: {taint: {key: example.com/broken, effect: NoSchedule}}`},
	{"resource.k8s.io/v1", "resourceclaims", "status", status, everything, true, `spec: {}`},
	{"storage.k8s.io/v1", "csinodes", "status", status, everything, true, `spec: {drivers: []}`},
	{"storage.k8s.io/v1", "volumeattachments", "status", status, everything, true, `spec: {attacher: csi.example.com, nodeName: node, source: {persistentVolumeName: v}}`},
	{"storagemigration.k8s.io/v1", "storageversionmigrations", "status", status, everything, true, `spec: {resource: {group: apps, resource: deployments}}`},
	{"v1", "namespaces", "finalize", nil, nil, false, `{}`},
	{"v1", "namespaces", "status", nil, nil, false, `{}`},
	{"v1", "nodes", "status", nil, nil, false, `{}`},
	{"v1", "persistentvolumeclaims", "status", nil, nil, false, `spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}`},
	{"v1", "persistentvolumes", "status", nil, nil, false, `spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, hostPath: {path: /x}}`},
	{"v1", "pods", "ephemeralcontainers", status, nil, true, `spec: {containers: [{name: c, image: i}]}`},
	{"v1", "pods", "resize", status, nil, true, `spec: {containers: [{name: c, image: i}]}`},
	{"v1", "pods", "status", pods, pods, true, `spec: {containers: [{name: c, image: i}]}`},
	{"v1", "replicationcontrollers", "status", nil, nil, false, `spec: {selector: {a: b}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}`},
	{"v1", "resourcequotas", "status", nil, nil, false, `spec: {hard: {secrets: 99}}`},
	{"v1", "services", "status", nil, nil, false, `spec: {ports: [{port: 80}]}`},
}

// TestMetadataThroughSubresources updates all metadata of an object of each kind through each of its
// subresources.
func TestMetadataThroughSubresources(t *testing.T) {
	cfg := startServer(t)
	client := must[*dynamic.DynamicClient](t)(dynamic.NewForConfig(cfg))
	kinds := updatable(t, must[*discovery.DiscoveryClient](t)(discovery.NewDiscoveryClientForConfig(cfg)))
	key := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	der := must[[]byte](t)(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key))
	inPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	for i, s := range subresources {
		name := s.group + "/" + s.resource + "/" + s.subresource
		kind, ok := kinds[name]
		if !ok {
			t.Errorf("%s is not served", name)
			continue
		}
		delete(kinds, name)
		t.Run(name, func(t *testing.T) {
			manifest := strings.NewReplacer("PEM", base64.StdEncoding.EncodeToString(inPEM), "DER", base64.StdEncoding.EncodeToString(der)).Replace(s.object)
			obj := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(manifest), &obj.Object); err != nil {
				t.Fatal(err)
			}
			gv := must[schema.GroupVersion](t)(schema.ParseGroupVersion(s.group))
			obj.SetGroupVersionKind(gv.WithKind(kind.Kind))
			obj.SetName(map[string]string{"customresourcedefinitions": "gadgets.example.com", "apiservices": "v1.other.example.com"}[s.resource])
			if obj.GetName() == "" {
				obj.SetName(fmt.Sprintf("x-%d", i))
			}
			fields := everything
			if s.resource == "customresourcedefinitions" || s.resource == "apiservices" { // the names cannot be generated
				fields = without(everything, []string{"generateName"})
			}
			setMetadata(obj, fields, "one")
			var resources dynamic.ResourceInterface = client.Resource(gv.WithResource(s.resource))
			if kind.Namespaced {
				resources = client.Resource(gv.WithResource(s.resource)).Namespace("default")
			}
			created := must[*unstructured.Unstructured](t)(resources.Create(t.Context(), obj, metav1.CreateOptions{FieldManager: "creator"}))
			update := func(change func(*unstructured.Unstructured)) (u *unstructured.Unstructured, err error) {
				for { // the server writes the status of some kinds
					u = must[*unstructured.Unstructured](t)(resources.Get(t.Context(), obj.GetName(), metav1.GetOptions{}))
					change(u)
					u, err = resources.Update(t.Context(), u, metav1.UpdateOptions{FieldManager: "updater"}, s.subresource)
					if !apierrors.IsConflict(err) {
						return u, err
					}
				}
			}
			updated := must[*unstructured.Unstructured](t)(update(func(u *unstructured.Unstructured) { setMetadata(u, fields, "two") }))
			if d := cmp.Diff(s.kept, metadataWith(updated, "one")); d != "" {
				t.Errorf("kept (-upstream +ours):\n%s", d)
			}
			if d := cmp.Diff(without(fields, s.kept), metadataWith(updated, "two")); d != "" {
				t.Errorf("changed (-upstream +ours):\n%s", d)
			}
			if d := cmp.Diff(without(fields, s.reset), managedBy(t, updated, "updater")); d != "" {
				t.Errorf("managed (-upstream +ours):\n%s", d)
			}
			if got, want := updated.GetGeneration(), created.GetGeneration(); got != want {
				t.Errorf("the generation is %d, was %d", got, want)
			}
			now := metav1.Now()
			deleted, err := update(func(u *unstructured.Unstructured) { u.SetDeletionTimestamp(&now) })
			switch {
			case s.forgives && (err != nil || deleted.GetDeletionTimestamp() != nil):
				t.Errorf("with a deletion timestamp: %v, %v", deleted, err)
			case !s.forgives && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "metadata.deletionTimestamp")):
				t.Errorf("with a deletion timestamp: %v", err)
			}
		})
	}
	if len(kinds) > 0 {
		t.Errorf("not in the table: %q", slices.Sorted(maps.Keys(kinds)))
	}
}

// updatable returns all subresources that update an object, but for scale.
func updatable(t *testing.T, client discovery.DiscoveryInterface) map[string]metav1.APIResource {
	t.Helper()
	lists := must[[]*metav1.APIResourceList](t)(func() ([]*metav1.APIResourceList, error) {
		_, lists, err := client.ServerGroupsAndResources()
		return lists, err
	}())
	all := map[string]metav1.APIResource{}
	for _, list := range lists {
		for _, r := range list.APIResources {
			_, sub, _ := strings.Cut(r.Name, "/")
			if sub != "" && sub != "scale" && sub != "proxy" && slices.Contains(r.Verbs, "update") {
				all[list.GroupVersion+"/"+r.Name] = r
			}
		}
	}
	return all
}

// setMetadata sets fields of the metadata to one of two values.
func setMetadata(u *unstructured.Unstructured, fields []string, value string) {
	if slices.Contains(fields, "generateName") {
		u.SetGenerateName(value + "-")
	}
	u.SetLabels(map[string]string{"example.com/a": value})
	u.SetAnnotations(map[string]string{"example.com/a": value})
	u.SetFinalizers([]string{"example.com/" + value})
	u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: value, UID: "1"}})
}

// metadataWith returns the names of the fields that have the value of setMetadata.
func metadataWith(u *unstructured.Unstructured, value string) []string {
	var names []string
	for name, is := range map[string]bool{
		"annotations":     u.GetAnnotations()["example.com/a"] == value,
		"finalizers":      slices.Contains(u.GetFinalizers(), "example.com/"+value),
		"generateName":    u.GetGenerateName() == value+"-",
		"labels":          u.GetLabels()["example.com/a"] == value,
		"ownerReferences": len(u.GetOwnerReferences()) == 1 && u.GetOwnerReferences()[0].Name == value,
	} {
		if is {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// managedBy returns the names of the fields of the metadata that a manager has.
func managedBy(t *testing.T, u *unstructured.Unstructured, manager string) []string {
	t.Helper()
	var names []string
	for _, entry := range u.GetManagedFields() {
		if entry.Manager != manager {
			continue
		}
		var fields struct {
			Metadata map[string]any `json:"f:metadata"`
		}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			t.Fatal(err)
		}
		for name := range fields.Metadata {
			names = append(names, strings.TrimPrefix(name, "f:"))
		}
	}
	slices.Sort(names)
	return names
}

// without returns the names that are not in another list.
func without(names, other []string) []string {
	var rest []string
	for _, name := range names {
		if !slices.Contains(other, name) {
			rest = append(rest, name)
		}
	}
	return rest
}

// TestStatusOfOldClients checks that the server keeps fields that an old client drops, and drops fields of disabled
// features.
func TestStatusOfOldClients(t *testing.T) {
	ctx, client := serve(t)
	web := pod("web")
	web.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimTemplateName: new("c")}}
	p := must[*corev1.Pod](t)(client.CoreV1().Pods("default").Create(ctx, web, metav1.CreateOptions{}))
	ready := func(generation int64) corev1.PodCondition {
		return corev1.PodCondition{Type: "example.com/ready", Status: corev1.ConditionTrue, ObservedGeneration: generation}
	}
	p.Status.ObservedGeneration = 1
	p.Status.Conditions = []corev1.PodCondition{ready(1), {Type: "Other", Status: corev1.ConditionTrue}}
	p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "c", ResourceClaimName: new("c1")}}
	p = must[*corev1.Pod](t)(client.CoreV1().Pods("default").UpdateStatus(ctx, p, metav1.UpdateOptions{}))
	want := p.Status.DeepCopy()
	p.Status.ObservedGeneration, p.Status.ResourceClaimStatuses = 0, nil
	p.Status.Conditions[0].ObservedGeneration = 0
	p = must[*corev1.Pod](t)(client.CoreV1().Pods("default").UpdateStatus(ctx, p, metav1.UpdateOptions{}))
	if d := cmp.Diff(want, &p.Status); d != "" {
		t.Errorf("the status of the pod (-want +got):\n%s", d)
	}

	n := must[*corev1.Node](t)(client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Status: corev1.NodeStatus{Config: &corev1.NodeConfigStatus{Error: "x"}}}, metav1.CreateOptions{}))
	for range 2 {
		if n.Status.Config != nil {
			t.Errorf("the status of the node: %+v", n.Status)
		}
		n.Status.Config = &corev1.NodeConfigStatus{Error: "x"}
		n = must[*corev1.Node](t)(client.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{}))
	}
}

// TestBindingLabels: the annotations and labels of a binding become the pod's.
func TestBindingLabels(t *testing.T) {
	ctx, client := serve(t)
	pods := client.CoreV1().Pods("default")
	in := pod("web")
	in.Labels = map[string]string{"a": "pod", "b": "pod"}
	p := must[*corev1.Pod](t)(pods.Create(ctx, in, metav1.CreateOptions{}))
	p.Status.NominatedNodeName = "nominated"
	must[*corev1.Pod](t)(pods.UpdateStatus(ctx, p, metav1.UpdateOptions{}))
	err := pods.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"b": "binding", "c": "binding"},
		Annotations: map[string]string{"x": "y"}}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p = must[*corev1.Pod](t)(pods.Get(ctx, "web", metav1.GetOptions{}))
	if d := cmp.Diff(map[string]string{"a": "pod", "b": "binding", "c": "binding"}, p.Labels); d != "" {
		t.Errorf("labels (-want +got):\n%s", d)
	}
	if p.Annotations["x"] != "y" || p.Status.NominatedNodeName != "" {
		t.Errorf("annotations %v, nominated node %q", p.Annotations, p.Status.NominatedNodeName)
	}
}

// TestBindingPreconditions: a Binding that was decided for another pod of the same name is refused.
func TestBindingPreconditions(t *testing.T) {
	ctx, client := serve(t)
	pods := client.CoreV1().Pods("default")
	p := must[*corev1.Pod](t)(pods.Create(ctx, pod("web"), metav1.CreateOptions{}))
	bind := func(uid types.UID, version string) error {
		return pods.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: uid, ResourceVersion: version},
			Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}, metav1.CreateOptions{})
	}
	if err := bind("another", ""); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "Precondition failed: UID in precondition: another") {
		t.Errorf("another UID: %v", err)
	}
	if err := bind(p.UID, "1"); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "Precondition failed: ResourceVersion in precondition: 1") {
		t.Errorf("another resource version: %v", err)
	}
	if err := bind(p.UID, p.ResourceVersion); err != nil {
		t.Error(err)
	}
}

// TestFinalizeAnotherNamespace: the finalization of another namespace of the same name is a conflict.
func TestFinalizeAnotherNamespace(t *testing.T) {
	ctx, client := serve(t)
	n := must[*corev1.Namespace](t)(client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{}))
	n.UID, n.ResourceVersion = "another", ""
	if _, err := client.CoreV1().Namespaces().Finalize(ctx, n, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("error is %v", err)
	}
}
