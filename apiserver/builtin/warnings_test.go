package builtin_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// warnings collects the warnings of the server.
type warnings struct {
	mu   sync.Mutex
	seen []string
}

func (w *warnings) HandleWarningHeader(code int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if code == 299 {
		w.seen = append(w.seen, text)
	}
}

// take returns the warnings since the last call.
func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen
	w.seen = nil
	return seen
}

// serveWithWarnings is serve with a dynamic client that collects warnings.
func serveWithWarnings(t *testing.T) (context.Context, dynamic.Interface, *warnings) {
	t.Helper()
	w, cfg := &warnings{}, startServer(t)
	cfg.WarningHandler = w
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return t.Context(), client, w
}

func manifest(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestUnenforcedWarnings(t *testing.T) {
	ctx, client, seen := serveWithWarnings(t)
	for _, tc := range []struct {
		resource   schema.GroupVersionResource
		namespaced bool
		manifest   string
		want       string // empty for none
	}{
		{schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}, true,
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: x}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}}`,
			""},
		{schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}, false,
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: x}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}}`,
			""},
		{schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}, true,
			`{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: x}, spec: {podSelector: {}}}`,
			"this server stores networkpolicies but does not enforce them: there is no network"},
		{schema.GroupVersionResource{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Resource: "flowschemas"}, false,
			`{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: FlowSchema, metadata: {name: x}, spec: {priorityLevelConfiguration: {name: p}}}`,
			"this server stores flowschemas but does not enforce them: no request has to wait"},
		{schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "servicecidrs"}, false,
			`{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: x}, spec: {cidrs: [10.0.0.0/16]}}`,
			""},
		{schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "deviceclasses"}, false,
			`{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: x}, spec: {}}`,
			"this server stores deviceclasses but does not enforce them: no device is allocated"},
		{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, true, `{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}`, ""},
		{schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses"}, false,
			`{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: x}, value: 1}`, ""},
	} {
		t.Run(tc.resource.Resource, func(t *testing.T) {
			var objects dynamic.ResourceInterface = client.Resource(tc.resource)
			if tc.namespaced {
				objects = client.Resource(tc.resource).Namespace("default")
			}
			var want []string
			if tc.want != "" {
				want = []string{tc.want}
			}
			seen.take()
			check := func(what string, err error) {
				t.Helper()
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if got := seen.take(); !slices.Equal(got, want) {
					t.Errorf("%s: warned %q, want %q", what, got, want)
				}
			}
			obj, err := objects.Create(ctx, manifest(t, tc.manifest), metav1.CreateOptions{})
			check("create", err)
			obj.SetAnnotations(map[string]string{"a": "b"})
			_, err = objects.Update(ctx, obj, metav1.UpdateOptions{})
			check("update", err)
			_, err = objects.Patch(ctx, "x", types.MergePatchType, []byte(`{"metadata":{"annotations":{"c":"d"}}}`), metav1.PatchOptions{})
			check("patch", err)
			want = nil
			_, err = objects.Get(ctx, "x", metav1.GetOptions{})
			check("get", err)
			check("delete", objects.Delete(ctx, "x", metav1.DeleteOptions{}))
		})
	}
}

func TestDeletedJobsOrphanTheirPods(t *testing.T) {
	ctx, client, seen := serveWithWarnings(t)
	jobs := client.Resource(schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}).Namespace("default")
	background, orphan := metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan
	for name, tc := range map[string]struct {
		options      metav1.DeleteOptions
		warns, stays bool // stays: with the finalizer that the garbage collector acts on
	}{
		"by-default": {metav1.DeleteOptions{}, true, true},
		"background": {metav1.DeleteOptions{PropagationPolicy: &background}, false, false},
		"orphan":     {metav1.DeleteOptions{PropagationPolicy: &orphan}, false, true},
	} {
		_, err := jobs.Create(ctx, manifest(t, `{apiVersion: batch/v1, kind: Job, metadata: {name: `+name+`}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}`), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		seen.take()
		if err := jobs.Delete(ctx, name, tc.options); err != nil {
			t.Fatal(err)
		}
		warned := seen.take()
		if tc.warns != (len(warned) == 1 && strings.HasPrefix(warned[0], "child pods are preserved by default when jobs are deleted")) {
			t.Errorf("%s: warned %q", name, warned)
		}
		left, err := jobs.Get(ctx, name, metav1.GetOptions{})
		if tc.stays != (err == nil && slices.Equal(left.GetFinalizers(), []string{metav1.FinalizerOrphanDependents})) {
			t.Errorf("%s: %v, %v", name, left, err)
		}
	}
}

// TestWorkloadWarnings writes workloads with dots in their names and a fraction of a byte in a resource, then an annotation,
// then the template.
func TestWorkloadWarnings(t *testing.T) {
	const name = "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]"
	const template = `template: {metadata: {labels: {a: b}}, spec: {restartPolicy: %, containers: [{name: c, image: i, resources: {requests: {memory: 100m}}}]}}`
	const fraction = `template.spec.containers[0].resources.requests[memory]: fractional byte value "100m" is invalid, must be an integer`
	always, never := strings.Replace(template, "%", "Always", 1), strings.Replace(template, "%", "Never", 1)
	ctx, client, seen := serveWithWarnings(t)
	for _, tc := range []struct {
		resource                     schema.GroupVersionResource
		manifest, change             string
		created, annotated, modified []string
	}{
		{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: x.y}, spec: {selector: {matchLabels: {a: b}}, ` + always + `}}`,
			`{"spec":{"replicas":2}}`, []string{name, "spec." + fraction}, []string{"spec." + fraction}, []string{"spec." + fraction}},
		{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"},
			`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: x.y}, spec: {selector: {matchLabels: {a: b}}, ` + always + `}}`,
			`{"spec":{"replicas":2}}`, []string{name, "spec." + fraction}, nil, []string{"spec." + fraction}},
		{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"},
			`{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: x.y}, spec: {selector: {matchLabels: {a: b}}, ` + always + `}}`,
			`{"spec":{"minReadySeconds":2}}`, []string{"spec." + fraction}, nil, nil},
		{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"},
			`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: x}, spec: {selector: {matchLabels: {a: b}}, revisionHistoryLimit: -1, volumeClaimTemplates: [{metadata: {name: d}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 100m}}}}], ` + always + `}}`,
			`{"spec":{"replicas":2}}`,
			[]string{"spec." + fraction, `spec.volumeClaimTemplates[0].resources.requests[storage]: fractional byte value "100m" is invalid, must be an integer`, "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"},
			[]string{`spec.volumeClaimTemplates[0].Spec.resources.requests[storage]: fractional byte value "100m" is invalid, must be an integer`, "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"},
			[]string{"spec." + fraction, `spec.volumeClaimTemplates[0].Spec.resources.requests[storage]: fractional byte value "100m" is invalid, must be an integer`, "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"}},
		{schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"},
			`{apiVersion: batch/v1, kind: Job, metadata: {name: x.y}, spec: {` + never + `}}`,
			`{"spec":{"backoffLimit":2}}`, []string{name, "spec." + fraction}, nil, []string{"spec." + fraction}},
		{schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "cronjobs"},
			`{apiVersion: batch/v1, kind: CronJob, metadata: {name: x.y}, spec: {schedule: "@daily", jobTemplate: {spec: {` + never + `}}}}`,
			`{"spec":{"schedule":"@hourly"}}`, []string{name, "spec.jobTemplate.spec." + fraction}, nil, []string{"spec.jobTemplate.spec." + fraction}},
	} {
		t.Run(tc.resource.Resource, func(t *testing.T) {
			objects := client.Resource(tc.resource).Namespace("default")
			check := func(verb string, want []string, err error) {
				t.Helper()
				if err != nil {
					t.Fatalf("%s: %v", verb, err)
				}
				if got := seen.take(); !slices.Equal(got, want) {
					t.Errorf("%s: warned %q, want %q", verb, got, want)
				}
			}
			obj, err := objects.Create(ctx, manifest(t, tc.manifest), metav1.CreateOptions{})
			check("create", tc.created, err)
			_, err = objects.Patch(ctx, obj.GetName(), types.MergePatchType, []byte(`{"metadata":{"annotations":{"c":"d"}}}`), metav1.PatchOptions{})
			check("annotate", tc.annotated, err)
			_, err = objects.Patch(ctx, obj.GetName(), types.MergePatchType, []byte(tc.change), metav1.PatchOptions{})
			check("modify", tc.modified, err)
		})
	}
}

// TestFieldWarnings creates objects with valid fields that should be written otherwise, and updates an annotation of them.
func TestFieldWarnings(t *testing.T) {
	ctx, client, seen := serveWithWarnings(t)
	for _, tc := range []struct {
		resource   schema.GroupVersionResource
		namespaced bool
		manifest   string
		created    []string
		updated    []string
	}{
		{schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}, true,
			`{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: x}, spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8}}]}], egress: [{to: [{ipBlock: {cidr: "::/0", except: ["FD00::/64"]}}]}]}}`,
			[]string{`spec.egress[0].to[0].ipBlock.except[0]: IPv6 CIDR value "FD00::/64" should be in RFC 5952 canonical format ("fd00::/64")`}, nil},
		{schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}, true,
			`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: z}, addressType: FQDN, endpoints: [{addresses: [a.example.com], deprecatedTopology: {a: b}}]}`,
			[]string{"spec.addressType: FQDN endpoints are deprecated"}, []string{}},
		{schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "resourceslices"}, false,
			`{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: x}, spec: {driver: A.example.com, pool: {name: p, resourceSliceCount: 1}, allNodes: true}}`,
			[]string{`spec.driver: driver names should be lowercase; "A.example.com" contains uppercase characters`}, nil},
		{schema.GroupVersionResource{Group: "node.k8s.io", Version: "v1", Resource: "runtimeclasses"}, false,
			`{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: x}, handler: h, scheduling: {nodeSelector: {beta.kubernetes.io/os: linux}}}`,
			[]string{`scheduling.nodeSelector: deprecated since v1.14; use "kubernetes.io/os" instead`}, nil},
		{schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}, false,
			`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: x}, provisioner: p, allowedTopologies: [{matchLabelExpressions: [{key: beta.kubernetes.io/os, values: [linux]}]}]}`,
			[]string{`allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.14; use "kubernetes.io/os" instead`}, nil},
		{schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "csistoragecapacities"}, true,
			`{apiVersion: storage.k8s.io/v1, kind: CSIStorageCapacity, metadata: {name: x}, storageClassName: s, nodeTopology: {matchLabels: {beta.kubernetes.io/os: linux}, matchExpressions: [{key: beta.kubernetes.io/arch, operator: Exists}]}}`,
			[]string{`nodeTopology.matchExpressions[0].key: beta.kubernetes.io/arch is deprecated since v1.14; use "kubernetes.io/arch" instead`,
				`nodeTopology.matchLabels.beta.kubernetes.io/os: deprecated since v1.14; use "kubernetes.io/os" instead`}, nil},
		{schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}, false,
			`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: x}, webhooks: [{name: a.example.com, sideEffects: None, admissionReviewVersions: [v1], failurePolicy: Ignore, clientConfig: {url: "https://localhost:1"}, rules: [{apiGroups: ["*"], apiVersions: ["*"], resources: [tokenreviews], operations: [CREATE]}, {apiGroups: [authentication.k8s.io], apiVersions: ["*"], resources: [tokenreviews, tokenreviews], operations: [CREATE]}]}]}`,
			[]string{"webhooks[0].rules[1]: tokenreviews.authentication.k8s.io is excluded from admission webhooks; this rule will have no effect"}, nil},
	} {
		t.Run(tc.resource.Resource, func(t *testing.T) {
			var objects dynamic.ResourceInterface = client.Resource(tc.resource)
			if tc.namespaced {
				objects = client.Resource(tc.resource).Namespace("default")
			}
			if tc.updated == nil {
				tc.updated = tc.created
			}
			check := func(verb string, want []string, err error) {
				t.Helper()
				if err != nil {
					t.Fatalf("%s: %v", verb, err)
				}
				got := slices.DeleteFunc(seen.take(), func(w string) bool { return strings.HasPrefix(w, "this server stores") })
				if !slices.Equal(got, want) {
					t.Errorf("%s: warned %q, want %q", verb, got, want)
				}
			}
			obj, err := objects.Create(ctx, manifest(t, tc.manifest), metav1.CreateOptions{})
			check("create", tc.created, err)
			obj.SetAnnotations(map[string]string{"a": "b"})
			_, err = objects.Update(ctx, obj, metav1.UpdateOptions{})
			check("update", tc.updated, err)
			if endpoints, _, _ := unstructured.NestedSlice(obj.Object, "endpoints"); len(endpoints) > 0 && endpoints[0].(map[string]any)["deprecatedTopology"] != nil {
				t.Errorf("the deprecated topology is not dropped: %v", endpoints)
			}
		})
	}
}
