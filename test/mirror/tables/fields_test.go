package tables

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	csr "k8s.io/kubernetes/pkg/registry/certificates/certificates"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/event"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/replicationcontroller"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaimtemplate"
	"k8s.io/kubernetes/pkg/registry/resource/resourceslice"

	"flyball.dev/test/mirror/random"
)

type getAttrs = func(runtime.Object) (labels.Set, fields.Set, error)

// attributes are Kubernetes's functions of the kinds that have selectable fields besides the metadata.
var attributes = map[string]getAttrs{
	"certificatesigningrequests.certificates.k8s.io": csr.GetAttrs,
	"configmaps":                             configmap.GetAttrs,
	"events":                                 event.GetAttrs,
	"jobs.batch":                             job.GetAttrs,
	"namespaces":                             namespace.GetAttrs,
	"nodes":                                  node.GetAttrs,
	"persistentvolumeclaims":                 persistentvolumeclaim.GetAttrs,
	"persistentvolumes":                      persistentvolume.GetAttrs,
	"pods":                                   pod.GetAttrs,
	"replicasets.apps":                       replicaset.GetAttrs,
	"replicationcontrollers":                 replicationcontroller.GetAttrs,
	"resourceclaims.resource.k8s.io":         resourceclaim.GetAttrs,
	"resourceclaimtemplates.resource.k8s.io": resourceclaimtemplate.GetAttrs,
	"resourceslices.resource.k8s.io":         resourceslice.GetAttrs,
	"secrets":                                secret.GetAttrs,
	"services":                               service.GetAttrs,
}

// uncompared are kinds with selectable fields that Kubernetes keeps in unexported functions.
var uncompared = []string{"podcertificaterequests.certificates.k8s.io", "clustertrustbundles.certificates.k8s.io"}

// TestFields compares the selectable fields of objects.
func TestFields(t *testing.T) {
	compared := map[string]bool{}
	for _, r := range stored(t) {
		name := r.GroupVersionResource().GroupResource().String()
		if slices.Contains(uncompared, name) {
			continue
		}
		theirs := attributes[name]
		compared[name] = theirs != nil
		if theirs == nil {
			theirs = storage.DefaultClusterScopedAttr
			if r.Namespaced {
				theirs = storage.DefaultNamespaceScopedAttr
			}
		}
		t.Run(name, func(t *testing.T) {
			seen := random.Seen{}
			random.Compare(t, 200, func(s *random.Source) {
				mine, other := generate(s, r)
				if mine == nil {
					return
				}
				_, got, err := registryOf(r.Storage).PredicateFunc(labels.Everything(), fields.Everything()).GetAttrs(mine)
				_, want, wantErr := theirs(other)
				maps.DeleteFunc(want, func(label, _ string) bool { // no request can select by the others
					_, _, err := legacyscheme.Scheme.ConvertFieldLabel(r.Kind, label, "")
					return err != nil
				})
				if !maps.Equal(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
					t.Errorf("ours %v %v, theirs %v %v", got, err, want, wantErr)
				}
				seen["compared"]++
			})
			seen.Require(t, "compared")
		})
	}
	for name := range attributes {
		if !compared[name] {
			t.Errorf("%s is not stored", name)
		}
	}
}

// differentErrors are the kinds that differ only in the text of the error for an unknown label: Kubernetes has a sentence of its
// own for each of them. The value tells whether the test has seen the difference. The list only shrinks.
var differentErrors = map[schema.GroupVersionKind]bool{
	{Group: "batch", Version: "v1", Kind: "Job"}:                     false,
	{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceSlice"}: false,
}

// labelsOfFields are labels to convert: the selectable fields of all kinds, and others.
func labelsOfFields(t *testing.T) []string {
	all := map[string]bool{"": true, "metadata.uid": true, "metadata.labels": true, "spec": true, "name": true, "status": true, "a.b": true,
		"spec.host": true, "involvedObject.a": true, "regarding.kind": true, "regarding.uid": true, "reportingController": true, "source": true}
	for _, r := range stored(t) {
		random.Compare(t, 1, func(s *random.Source) {
			if mine, _ := generate(s, r); mine != nil {
				if _, set, err := registryOf(r.Storage).PredicateFunc(labels.Everything(), fields.Everything()).GetAttrs(mine); err == nil {
					for label := range set {
						all[label] = true
					}
				}
			}
		})
	}
	return slices.Sorted(maps.Keys(all))
}

// TestFieldLabels compares which labels of fields are known, what they become, and the errors.
func TestFieldLabels(t *testing.T) {
	list, err := ours()
	if err != nil {
		t.Fatal(err)
	}
	seen, all := random.Seen{}, labelsOfFields(t)
	for _, r := range list {
		if registryOf(r.Storage) == nil || r.Kind.Group == "apiregistration.k8s.io" {
			continue
		}
		for _, label := range all {
			for _, value := range []string{"", "a", "10.0.0.1", "true"} {
				got := converted(r.Scope.Convertor, r.Kind, label, value)
				want := converted(legacyscheme.Scheme, r.Kind, label, value)
				if _, ok := differentErrors[r.Kind]; ok && got != want && got[0] != '"' && want[0] != '"' {
					differentErrors[r.Kind] = true
					continue
				}
				if r.Kind.Kind == "PodCertificateRequest" && label == "metadata.namespace" && want[0] != '"' {
					continue // Kubernetes has left out the namespace, by which ours can be selected as all objects can
				}
				if got != want {
					t.Errorf("%s %s=%s: ours %s, theirs %s", r.Kind, label, value, got, want)
				}
				seen[fmt.Sprint("known ", want[0] == '"')]++
			}
		}
	}
	for kind, used := range differentErrors {
		if !used {
			t.Errorf("the errors of %s are the same: take it from the list", kind)
		}
	}
	seen.Require(t, "known true", "known false")
}

func converted(c runtime.ObjectConvertor, kind schema.GroupVersionKind, label, value string) string {
	label, value, err := c.ConvertFieldLabel(kind, label, value)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%q=%q", label, value)
}
