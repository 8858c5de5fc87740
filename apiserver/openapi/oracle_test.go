package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/openapi/openapitest"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"flyball.dev/apiserver/resource"
)

// The oracle is kube-apiserver's documents in client-go's test data. They are some releases older than our types; the
// test does not compare newer fields.

func oracle(t *testing.T, name string) *spec3.OpenAPI {
	t.Helper()
	paths, err := openapitest.NewEmbeddedFileClient().Paths()
	if err != nil {
		t.Fatal(err)
	}
	text, err := paths[name].Schema("application/json")
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, text)
}

func parse(t *testing.T, text []byte) *spec3.OpenAPI {
	t.Helper()
	doc := &spec3.OpenAPI{}
	if err := json.Unmarshal(text, doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

func ours(t *testing.T, name string) *spec3.OpenAPI {
	t.Helper()
	catalog := &resource.Catalog{}
	catalog.Set("built-in", builtInResources()...)
	for _, g := range catalog.Snapshot().Groups() {
		for _, v := range g.Versions {
			if versionPath(v.GroupVersion) == "/"+name {
				text, err := newModels(scheme.Scheme).v3(v)
				if err != nil {
					t.Fatal(err)
				}
				return parse(t, text)
			}
		}
	}
	t.Fatalf("no %s", name)
	return nil
}

var documented = []string{"api/v1", "apis/apps/v1", "apis/batch/v1", "apis/discovery.k8s.io/v1"}

func TestSchemasEqualUpstream(t *testing.T) {
	c := comparison{t, map[string]bool{}}
	for _, name := range documented {
		got, want := ours(t, name).Components.Schemas, oracle(t, name).Components.Schemas
		for _, model := range slices.Sorted(maps.Keys(got)) {
			if other, ok := want[model]; ok {
				c.schemas(model, got[model], other)
			}
		}
	}
	for what, places := range knownDifferences {
		for _, place := range places {
			if !c.used[what+place] {
				t.Errorf("%s of %s no longer differs", what, place)
			}
		}
	}
}

// TestOperationsEqualUpstream compares the operations that both have.
func TestOperationsEqualUpstream(t *testing.T) {
	for _, name := range documented {
		theirs := oracle(t, name).Paths.Paths
		for path, item := range ours(t, name).Paths.Paths {
			other, ok := theirs[path]
			if !ok {
				t.Errorf("%s: not in a real server", path)
				continue
			}
			operations(t, path, item, other)
		}
	}
}

// operations compares the operations of one path.
func operations(t *testing.T, path string, got, want *spec3.Path) {
	for _, methods := range []struct{ got, want *spec3.Operation }{
		{got.Get, want.Get}, {got.Put, want.Put}, {got.Post, want.Post}, {got.Delete, want.Delete}, {got.Patch, want.Patch},
	} {
		a, b := methods.got, methods.want
		if a == nil || b == nil {
			if a != b {
				t.Errorf("%s: %v, in a real server %v", path, a, b)
			}
			continue
		}
		same := func(what string, x, y any) {
			if !reflect.DeepEqual(x, y) {
				t.Errorf("%s: %s is %v, in a real server %v", b.OperationId, what, x, y)
			}
		}
		same("identifier", a.OperationId, b.OperationId)
		same("description", a.Description, b.Description)
		same("tags", a.Tags, b.Tags)
		same("extensions", a.Extensions, b.Extensions)
		same("responses", contents(a.Responses), contents(b.Responses))
		if a.RequestBody != nil && b.RequestBody != nil {
			same("body", bodies(a.RequestBody.Content), bodies(b.RequestBody.Content))
		} else {
			same("has a body", a.RequestBody != nil, b.RequestBody != nil)
		}
		mine := parameterTypes(got.Parameters, a.Parameters)
		for name, typ := range parameterTypes(want.Parameters, b.Parameters) {
			same("parameter "+name, mine[name], typ)
		}
	}
}

func contents(r *spec3.Responses) map[int]map[string]string {
	all := map[int]map[string]string{}
	for code, answer := range r.StatusCodeResponses {
		all[code] = bodies(answer.Content)
	}
	return all
}

func bodies(types map[string]*spec3.MediaType) map[string]string {
	refs := map[string]string{}
	for name, m := range types {
		refs[name] = m.Schema.Ref.String()
	}
	return refs
}

func parameterTypes(lists ...[]*spec3.Parameter) map[string]string {
	types := map[string]string{}
	for _, p := range slices.Concat(lists...) {
		types[p.Name] = fmt.Sprint(p.In, p.Required, p.Schema.Type, p.Schema.UniqueItems)
	}
	return types
}

// knownDifferences are the differences between the release of the oracle and ours.
var knownDifferences = map[string][]string{
	"default": {
		"autoscaling.v1.ScaleSpec.replicas", "core.v1.AzureDiskVolumeSource.cachingMode", "core.v1.AzureDiskVolumeSource.fsType",
		"core.v1.AzureDiskVolumeSource.kind", "core.v1.AzureDiskVolumeSource.readOnly", "core.v1.ConfigMapEnvSource.name",
		"core.v1.ConfigMapKeySelector.name", "core.v1.ConfigMapProjection.name", "core.v1.ConfigMapVolumeSource.name",
		"core.v1.HostAlias.ip", "core.v1.ISCSIVolumeSource.iscsiInterface", "core.v1.LocalObjectReference.name", "core.v1.PodIP.ip",
		"core.v1.RBDVolumeSource.keyring", "core.v1.RBDVolumeSource.pool", "core.v1.RBDVolumeSource.user",
		"core.v1.ReplicationControllerSpec.minReadySeconds", "core.v1.ReplicationControllerSpec.replicas",
		"core.v1.ScaleIOVolumeSource.fsType", "core.v1.ScaleIOVolumeSource.storageMode", "core.v1.SecretEnvSource.name",
		"core.v1.SecretKeySelector.name", "core.v1.SecretProjection.name",
	},
	"required": {
		"apps.v1.ControllerRevision", "apps.v1.DaemonSet", "apps.v1.DaemonSetCondition", "apps.v1.Deployment",
		"apps.v1.DeploymentCondition", "apps.v1.ReplicaSet", "apps.v1.ReplicaSetCondition", "apps.v1.StatefulSet",
		"apps.v1.StatefulSetCondition", "apps.v1.StatefulSetSpec", "batch.v1.CronJob", "batch.v1.PodFailurePolicyOnPodConditionsPattern",
		"batch.v1.PodFailurePolicyRule", "core.v1.HostAlias", "core.v1.PodIP", "discovery.v1.EndpointSlice",
	},
	"x-kubernetes-patch-merge-key": {"meta.v1.LabelSelectorRequirement.key"},
	"x-kubernetes-patch-strategy":  {"meta.v1.LabelSelectorRequirement.key"},
	"presence":                     {"core.v1.PersistentVolumeClaimStatus.resizeStatus", "core.v1.PodResourceClaim.source"},
	// A kind's names are those that the scheme has, which may be more groups than the oracle's
	// server had.
	"x-kubernetes-group-version-kind": {"meta.v1.DeleteOptions", "meta.v1.Status"},
	"reference":                       {"core.v1.PersistentVolumeClaimSpec.resources"},
	// An extension that no client reads.
	"x-kubernetes-unions": {},
}

// comparison compares documents, except for knownDifferences.
type comparison struct {
	*testing.T
	used map[string]bool
}

func (c comparison) differ(path, what string, got, want any) {
	if fmt.Sprint(got) == fmt.Sprint(want) {
		return
	}
	short := strings.TrimPrefix(strings.TrimPrefix(path, "io.k8s.api."), "io.k8s.apimachinery.pkg.apis.")
	if slices.Contains(knownDifferences[what], short) || what == "x-kubernetes-unions" {
		c.used[what+short] = true
		return
	}
	c.Errorf("%s: %s is %v, in a real server %v", path, what, got, want)
}

// schemas compares two schemas, including their properties and items.
func (c comparison) schemas(path string, got, want *spec.Schema) {
	c.differ(path, "type", got.Type, want.Type)
	c.differ(path, "format", got.Format, want.Format)
	c.differ(path, "reference", reference(got), reference(want))
	c.differ(path, "required", got.Required, want.Required)
	c.differ(path, "oneOf", len(got.OneOf), len(want.OneOf))
	if fmt.Sprint(want.Default) != "map[]" || got.Default != nil { // today a value that reads its own JSON has none
		c.differ(path, "default", got.Default, want.Default)
	}
	for key, value := range want.Extensions {
		c.differ(path, key, got.Extensions[key], value)
	}
	if got.Description == "" && want.Description != "" {
		c.Errorf("%s: has no description", path)
	}
	for name, p := range want.Properties {
		mine, ok := got.Properties[name]
		c.differ(path+"."+name, "presence", ok, true)
		if ok {
			c.schemas(path+"."+name, &mine, &p)
		}
	}
	c.differ(path, "items", got.Items != nil, want.Items != nil)
	if want.Items != nil && got.Items != nil {
		c.schemas(path+"[]", got.Items.Schema, want.Items.Schema)
	}
	c.differ(path, "additionalProperties", got.AdditionalProperties != nil, want.AdditionalProperties != nil)
	if want.AdditionalProperties != nil && got.AdditionalProperties != nil {
		c.schemas(path+"{}", got.AdditionalProperties.Schema, want.AdditionalProperties.Schema)
	}
}

// reference returns the reference in a schema, also if it is wrapped in allOf because of siblings.
func reference(s *spec.Schema) string {
	if len(s.AllOf) == 1 {
		return s.AllOf[0].Ref.String()
	}
	return s.Ref.String()
}
