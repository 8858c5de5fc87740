package controlplane_test

import (
	"bufio"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"flyball.dev/apiserver/store"
	"flyball.dev/controllers"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controlplanetest"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// acting lists all served resources by the actor on their objects: the name of a controller; the server itself;
// readers, for resources that are only data in any cluster; or nothing, in which case a write returns a warning.
const acting = `
controller namespace-controller: namespaces
controller node-lifecycle-controller: nodes
controller pods: pods
controller endpointslice-controller: services
controller endpointslice-mirroring-controller: endpoints
controller serviceaccount-token-controller: secrets serviceaccounts
controller persistentvolume-binder-controller: persistentvolumes persistentvolumeclaims storageclasses.storage.k8s.io
controller resourcequota-controller: resourcequotas
controller deployment-controller: deployments.apps
controller replicaset-controller: replicasets.apps
controller statefulset-controller: statefulsets.apps
controller daemonset-controller: daemonsets.apps
controller replicationcontroller-controller: replicationcontrollers
controller horizontal-pod-autoscaler-controller: horizontalpodautoscalers.autoscaling
controller job-controller: jobs.batch
controller cronjob-controller: cronjobs.batch
controller ingress-controller: ingresses.networking.k8s.io ingressclasses.networking.k8s.io
controller certificatesigningrequest-approving-controller: certificatesigningrequests.certificates.k8s.io
controller podcertificaterequest-cleaner-controller: podcertificaterequests.certificates.k8s.io
controller storage-version-migrator-controller: storageversionmigrations.storagemigration.k8s.io
controller disruption-controller: poddisruptionbudgets.policy
controller service-cidr-controller: servicecidrs.networking.k8s.io ipaddresses.networking.k8s.io
controller clusterrole-aggregation-controller: clusterroles.rbac.authorization.k8s.io
controller validatingadmissionpolicy-status-controller: validatingadmissionpolicies.admissionregistration.k8s.io
controller scheduler: csinodes.storage.k8s.io csistoragecapacities.storage.k8s.io
controller volumeattributesclass-protection-controller: volumeattributesclasses.storage.k8s.io

server: bindings componentstatuses limitranges apiservices.apiregistration.k8s.io
server: pods.metrics.k8s.io nodes.metrics.k8s.io
server: endpointslices.discovery.k8s.io
server: priorityclasses.scheduling.k8s.io runtimeclasses.node.k8s.io
server: roles.rbac.authorization.k8s.io rolebindings.rbac.authorization.k8s.io clusterrolebindings.rbac.authorization.k8s.io
server: validatingwebhookconfigurations.admissionregistration.k8s.io mutatingwebhookconfigurations.admissionregistration.k8s.io
server: validatingadmissionpolicybindings.admissionregistration.k8s.io
server: mutatingadmissionpolicies.admissionregistration.k8s.io mutatingadmissionpolicybindings.admissionregistration.k8s.io
server: customresourcedefinitions.apiextensions.k8s.io
server: tokenreviews.authentication.k8s.io selfsubjectreviews.authentication.k8s.io
server: subjectaccessreviews.authorization.k8s.io localsubjectaccessreviews.authorization.k8s.io
server: selfsubjectaccessreviews.authorization.k8s.io selfsubjectrulesreviews.authorization.k8s.io

data: configmaps events events.events.k8s.io podtemplates controllerrevisions.apps leases.coordination.k8s.io
data: clustertrustbundles.certificates.k8s.io

nothing: networkpolicies.networking.k8s.io
nothing: flowschemas.flowcontrol.apiserver.k8s.io prioritylevelconfigurations.flowcontrol.apiserver.k8s.io
nothing: resourceclaims.resource.k8s.io resourceclaimtemplates.resource.k8s.io resourceslices.resource.k8s.io
nothing: deviceclasses.resource.k8s.io devicetaintrules.resource.k8s.io
nothing: csidrivers.storage.k8s.io volumeattachments.storage.k8s.io
`

// actors returns the actor on each resource.
func actors(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(acting))
	for lines.Scan() {
		actor, resources, _ := strings.Cut(lines.Text(), ":")
		for _, resource := range strings.Fields(resources) {
			if all[resource] != "" {
				t.Errorf("%s is in the table twice", resource)
			}
			all[resource] = actor
		}
	}
	return all
}

// TestEveryKindIsActedOn: each kind that is served has something that acts on it, is data, or returns
// a warning.
func TestEveryKindIsActedOn(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{})
	_, lists, err := controlplanetest.ClientFor(t, plane.Config()).Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	actors, served := actors(t), map[string]schema.GroupVersionResource{}
	namespaced := map[string]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if gvr := gv.WithResource(r.Name); !strings.Contains(r.Name, "/") {
				served[gvr.GroupResource().String()], namespaced[gvr.GroupResource().String()] = gvr, r.Namespaced
			}
		}
	}
	for _, resource := range slices.Sorted(maps.Keys(served)) {
		if actors[resource] == "" {
			t.Errorf("%s: is served, and the table does not say what acts on it", resource)
		}
	}
	cfg, seen := plane.Config(), &controlplanetest.Warnings{}
	cfg.WarningHandler = seen
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range slices.Sorted(maps.Keys(actors)) {
		gvr, ok := served[resource]
		if !ok {
			t.Errorf("%s: is in the table, and not served", resource)
		}
		if name, ok := strings.CutPrefix(actors[resource], "controller "); ok && !slices.Contains(controllers.Names(), name) {
			t.Errorf("%s: there is no controller %s", resource, name)
		}
		if actors[resource] != "nothing" {
			continue
		}
		object := inertObject(t, resource)
		gvr.Version = object.GroupVersionKind().Version
		objects := dynamic.ResourceInterface(client.Resource(gvr))
		if namespaced[resource] {
			objects = client.Resource(gvr).Namespace("default")
		}
		seen.Take()
		created, err := objects.Create(t.Context(), object, metav1.CreateOptions{})
		if err != nil {
			t.Errorf("%s: %v", resource, err)
			continue
		}
		if all := seen.Take(); len(all) != 1 || !strings.Contains(all[0], " "+gvr.Resource+" ") && !strings.Contains(all[0], " "+gvr.Resource+":") {
			t.Errorf("create %s: the warnings are %q", resource, all)
		}
		created.SetLabels(map[string]string{"a": "b"})
		if _, err := objects.Update(t.Context(), created, metav1.UpdateOptions{}); err != nil {
			t.Errorf("%s: %v", resource, err)
		}
		if all := seen.Take(); len(all) != 1 {
			t.Errorf("update %s: the warnings are %q", resource, all)
		}
	}
}

// inertObject returns an object of a kind on which nothing acts.
func inertObject(t *testing.T, resource string) *unstructured.Unstructured {
	t.Helper()
	manifest := map[string]string{
		"networkpolicies.networking.k8s.io":                        `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, spec: {podSelector: {}}}`,
		"storageversionmigrations.storagemigration.k8s.io":         `{apiVersion: storagemigration.k8s.io/v1, kind: StorageVersionMigration, spec: {resource: {group: apps, resource: deployments}}}`,
		"flowschemas.flowcontrol.apiserver.k8s.io":                 `{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: FlowSchema, spec: {priorityLevelConfiguration: {name: p}}}`,
		"prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": `{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: PriorityLevelConfiguration, spec: {type: Limited, limited: {limitResponse: {type: Reject}}}}`,
		"resourceclaims.resource.k8s.io":                           `{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, spec: {}}`,
		"resourceclaimtemplates.resource.k8s.io":                   `{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, spec: {spec: {}}}`,
		"resourceslices.resource.k8s.io":                           `{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, spec: {driver: d.example.com, nodeName: node1, pool: {name: p, generation: 1, resourceSliceCount: 1}}}`,
		"deviceclasses.resource.k8s.io":                            `{apiVersion: resource.k8s.io/v1, kind: DeviceClass, spec: {}}`,
		"devicetaintrules.resource.k8s.io":                         `{apiVersion: resource.k8s.io/v1, kind: DeviceTaintRule, spec: {deviceSelector: {driver: d.example.com}, taint: {key: k, effect: NoSchedule}}}`,
		"csidrivers.storage.k8s.io":                                `{apiVersion: storage.k8s.io/v1, kind: CSIDriver, spec: {}}`,
		"volumeattachments.storage.k8s.io":                         `{apiVersion: storage.k8s.io/v1, kind: VolumeAttachment, spec: {attacher: a.example.com, nodeName: node1, source: {persistentVolumeName: v}}}`,
	}[resource]
	if manifest == "" {
		t.Fatalf("there is no example of %s", resource)
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &object.Object); err != nil {
		t.Fatal(err)
	}
	object.SetName("inert")
	return object
}

// watchedPaths is a storage that records the paths that are watched.
type watchedPaths struct {
	storage.Store
	mu    sync.Mutex
	paths []string
}

func (s *watchedPaths) Watch(ctx context.Context, path string, from uint64) (storage.Watcher, error) {
	s.mu.Lock()
	s.paths = append(s.paths, path)
	s.mu.Unlock()
	return s.Store.Watch(ctx, path, from)
}

// TestActingControllersWatch: a controller that the table names for a resource watches it, with all
// other controllers switched off.
func TestActingControllersWatch(t *testing.T) {
	resources := map[string][]string{}
	for resource, actor := range actors(t) {
		if name, ok := strings.CutPrefix(actor, "controller "); ok {
			resources[name] = append(resources[name], resource)
		}
	}
	for name, list := range resources {
		synctest.Test(t, func(t *testing.T) {
			watched := &watchedPaths{Store: memory.New(memory.Options{})}
			without := slices.DeleteFunc(controllers.Names(), func(other string) bool { return other == name })
			controlplanetest.Start(t, controlplane.Options{Storage: watched, Controllers: controllers.Options{Without: without}})
			synctest.Wait()
			watched.mu.Lock()
			defer watched.mu.Unlock()
			for _, resource := range list {
				if !slices.Contains(watched.paths, store.Path(schema.ParseGroupResource(resource))) {
					t.Errorf("the controller %s does not watch %s but %q", name, resource, watched.paths)
				}
			}
		})
	}
}

// TestUnenforcedFields: a write of a field that matters, and on which nothing acts, returns a warning.
func TestUnenforcedFields(t *testing.T) {
	const pod = `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}`
	const devices = `resourceClaims: [{name: r, resourceClaimName: c}]`
	const noDevice = ": no device is allocated, and the pod starts without it"
	with := func(spec string) string { return strings.Replace(pod, "spec: {", "spec: {"+spec+", ", 1) }
	deployment := `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {` +
		devices + `, containers: [{name: c, image: i}]}}}}`
	planes := map[string]*controlplane.ControlPlane{}
	for name, tc := range map[string]struct {
		path, object string
		without      []string
		want         string // empty for none
	}{
		"none":              {object: pod},
		"claims of devices": {object: with(devices), want: "spec.resourceClaims" + noDevice},
		"deployment":        {path: "/apis/apps/v1/namespaces/default/deployments", object: deployment, want: "spec.template.spec.resourceClaims" + noDevice},
		"without a cluster": {path: "/apis/apps/v1/namespaces/default/daemonsets", object: strings.Replace(deployment, "Deployment", "DaemonSet", 1), without: []string{"pods"}},
	} {
		without := strings.Join(tc.without, ",")
		if planes[without] == nil {
			planes[without] = controlplanetest.Start(t, controlplane.Options{Controllers: controllers.Options{Without: tc.without}})
		}
		t.Run(name, func(t *testing.T) {
			cfg, seen := planes[without].Config(), &controlplanetest.Warnings{}
			cfg.WarningHandler = seen
			if tc.path == "" {
				tc.path = "/api/v1/namespaces/default/pods"
			}
			object, err := yaml.YAMLToJSON([]byte(tc.object))
			if err == nil {
				client := controlplanetest.ClientFor(t, cfg).Discovery().RESTClient()
				err = client.Post().AbsPath(tc.path).Param("dryRun", "All").SetHeader("Content-Type", "application/json").Body(object).Do(t.Context()).Error()
			}
			if got := strings.Join(seen.Take(), "\n"); err != nil || got != tc.want {
				t.Errorf("warned %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}
