package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/controller-manager/pkg/informerfactory"
	upstream "k8s.io/kubernetes/pkg/controller/garbagecollector"

	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
	"flyball.dev/test/mirror/random"
)

// TestGarbageCollection compares which objects are left, with which owners and finalizers, and the events about their owners.
//
// No reference has an unserved version of a served kind. Kubernetes keeps such a dependent for ever. Ours looks for the owner in
// another version, since all versions have the same objects.
//
// In one of some hundred scenarios Kubernetes leaves out the event about an owner in another namespace, because an earlier reference of
// the dependent, or another one to the same UID, has a version that its informers do not watch. Ours records the event.
func TestGarbageCollection(t *testing.T) {
	comparison{
		name:      "garbage-collector-controller",
		scenarios: 80,
		newRun:    newGarbageCollector,
		kinds: []client.ObjectList{&corev1.SecretList{}, &appsv1.ControllerRevisionList{}, &nodev1.RuntimeClassList{},
			listOf("Widget"), listOf("Gadget")},
		periodic: true,
		generate: generateOwners,
		require: []string{"metadata.ownerReferences[0].uid uid of", "metadata.ownerReferences[1].uid uid of", "metadata.finalizers[0] foregroundDeletion", "metadata.finalizers[1] foregroundDeletion",
			"metadata.finalizers[0] orphan", "OwnerRefInvalidNamespace"},
	}.compare(t)
}

// listOf returns a list of custom resources.
func listOf(kind string) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("example.com/v1")
	list.SetKind(kind + "List")
	return list
}

// newGarbageCollector returns the function that makes Kubernetes' garbage collector as kube-controller-manager does.
func newGarbageCollector(config *rest.Config) runFunc {
	return func(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) (func(context.Context), error) {
		objects, err := metadata.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		kinds, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			return nil, err
		}
		mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kinds))
		others := metadatainformer.NewSharedInformerFactory(objects, 0)
		started := make(chan struct{})
		close(started)
		gc, err := upstream.NewGarbageCollector(ctx, c, objects, mapper, upstream.DefaultIgnoredResources(), informerfactory.NewInformerFactory(f, others), started)
		return func(ctx context.Context) {
			const period = 30 * time.Second
			var group wait.Group
			group.StartWithContext(ctx, func(ctx context.Context) { gc.Run(ctx, 20, period) })
			group.StartWithContext(ctx, func(ctx context.Context) { gc.Sync(ctx, kinds, period) })
			group.StartWithContext(ctx, func(ctx context.Context) {
				wait.UntilWithContext(ctx, func(context.Context) { mapper.Reset() }, period)
			})
			group.Wait()
			others.Shutdown()
		}, err
	}
}

// owned is an object of a scenario.
type owned struct {
	kind            schema.GroupVersionKind
	namespace, name string
}

// ownedKinds are the kinds of the objects, with the fields that they need. The kinds of the group example.com are custom resources.
var ownedKinds = []struct {
	schema.GroupVersionKind
	cluster bool
	fields  map[string]any
}{
	{corev1.SchemeGroupVersion.WithKind("Secret"), false, nil},
	{appsv1.SchemeGroupVersion.WithKind("ControllerRevision"), false, map[string]any{"revision": int64(1)}},
	{nodev1.SchemeGroupVersion.WithKind("RuntimeClass"), true, map[string]any{"handler": "runc"}},
	{widgets.WithKind("Widget"), false, nil},
	{widgets.WithKind("Gadget"), true, nil},
}

var widgets = schema.GroupVersion{Group: "example.com", Version: "v1"}

// define returns the step that defines a kind of custom resources with two versions. Kubernetes' collector tries again up to a quarter
// of an hour later.
func define(kind, resource, scope string) step {
	crd := controllerstest.WidgetDefinition()
	crd.SetName(resource + ".example.com")
	spec := crd.Object["spec"].(map[string]any)
	spec["scope"], spec["names"], spec["versions"] = scope, map[string]any{"plural": resource, "kind": kind}, controllerstest.Versions("v1", "v2")
	return step{text: "define " + resource, wait: 20 * time.Minute, do: func(ctx context.Context, c client.Client) error { return c.Create(ctx, crd.DeepCopy()) }}
}

// uids has the UIDs of the last objects by their names, for each control plane.
type uids map[client.Client]map[string]types.UID

// ownerRef is a reference. Its UID is filled in when the object is written.
type ownerRef struct {
	metav1.OwnerReference
	to string // the name of the object with the UID, or "" if the reference has a UID
}

// refs returns references with UIDs. The owner may not exist yet.
func (u uids) refs(c client.Client, refs []ownerRef) []metav1.OwnerReference {
	var list []metav1.OwnerReference
	for _, ref := range refs {
		if ref.to != "" {
			ref.UID = u[c][ref.to]
		}
		if ref.UID == "" {
			ref.UID = types.UID(strings.Join([]string{"not-yet", ref.to, ref.Kind, ref.Name}, "-"))
		}
		list = append(list, ref.OwnerReference)
	}
	return list
}

func generateOwners(s *random.Source) []step {
	world := &owners{Source: s, uids: uids{}}
	for i := range 4 + s.IntN(5) {
		kind := ownedKinds[s.IntN(len(ownedKinds))]
		o := owned{kind: kind.GroupVersionKind, name: fmt.Sprint("o", i)}
		if !kind.cluster {
			o.namespace = random.Pick(s, "default", "default", "default", "kube-public")
		}
		world.objects = append(world.objects, o)
	}
	steps := []step{define("Widget", "widgets", "Namespaced"), define("Gadget", "gadgets", "Cluster")}
	steps[0].early, steps[1].early = true, true
	gizmos := s.Chance(15)
	early := s.Chance(20)
	for _, o := range world.objects {
		st := world.create(o)
		st.early = early
		steps = append(steps, st)
		if s.Chance(30) { // at the same time
			steps[len(steps)-1].wait = 0
		}
	}
	for range 2 + s.IntN(6) {
		steps = append(steps, world.change())
	}
	if gizmos {
		at := 2 + s.IntN(len(steps)-1)
		if d := define("Gizmo", "gizmos", "Namespaced"); !early || at >= 2+len(world.objects) {
			steps = slices.Insert(steps, at, d)
		}
	}
	return steps
}

// owners generates the steps of a scenario.
type owners struct {
	*random.Source
	uids    uids
	objects []owned
}

// settled is how long the collectors need.
const settled = 20 * time.Second

// change returns a step with up to three changes at once. Only the first may create an object or change owners: the name of an object that is
// being collected may be taken, and when Kubernetes orphans dependents it may miss a new one, which ours does not.
func (w *owners) change() step {
	all := w.changeOne(10)
	for range random.Pick(w.Source, 0, 0, 1, 2) {
		first, second := all, w.changeOne(7)
		all = step{text: first.text + "; " + second.text, do: func(ctx context.Context, c client.Client) error {
			err := first.do(ctx, c)
			_ = second.do(ctx, c) // the collector may have been faster
			return err
		}}
	}
	all.wait = settled
	return all
}

func (w *owners) changeOne(kinds int) step {
	o := random.Pick(w.Source, w.objects...)
	switch w.IntN(kinds) {
	case 0, 1, 2, 3:
		return w.delete(o)
	case 4, 5:
		return w.patch(o, "no finalizers", func(client.Client) map[string]any { return map[string]any{"finalizers": nil} })
	case 6:
		return w.patch(o, "a label", func(client.Client) map[string]any { return map[string]any{"labels": map[string]any{"a": "b"}} })
	case 7:
		refs := w.refs(o)
		return w.patch(o, "owners "+jsonOf(refs), func(c client.Client) map[string]any {
			return map[string]any{"ownerReferences": w.uids.refs(c, refs)}
		})
	default:
		return w.create(o)
	}
}

// object returns an object to write.
func (o owned) object() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(o.kind)
	u.SetNamespace(o.namespace)
	u.SetName(o.name)
	return u
}

func (w *owners) create(o owned) step {
	refs := w.refs(o)
	var finalizers []string
	if w.Chance(30) {
		finalizers = random.Some(w.Source, 2, "example.com/hold", "example.com/hold", metav1.FinalizerOrphanDependents, metav1.FinalizerOrphanDependents,
			metav1.FinalizerDeleteDependents)
	}
	return step{text: fmt.Sprintf("create %s %s/%s, owners %s, finalizers %q", o.kind.Kind, o.namespace, o.name, jsonOf(refs), finalizers), wait: settled,
		do: func(ctx context.Context, c client.Client) error {
			u := o.object()
			for _, kind := range ownedKinds {
				if kind.GroupVersionKind == o.kind {
					for name, value := range kind.fields {
						u.Object[name] = value
					}
				}
			}
			u.SetOwnerReferences(w.uids.refs(c, refs))
			u.SetFinalizers(finalizers)
			if err := c.Create(ctx, u); err != nil {
				return err
			}
			if w.uids[c] == nil {
				w.uids[c] = map[string]types.UID{}
			}
			w.uids[c][o.name] = u.GetUID()
			return nil
		}}
}

// refs returns references to owners of an object: most are right.
func (w *owners) refs(o owned) []ownerRef {
	var refs []ownerRef
	for range random.Pick(w.Source, 0, 1, 1, 1, 2, 2, 3) {
		owner := random.Pick(w.Source, w.objects...)
		if !w.Chance(30) && (owner == o || owner.namespace != "" && owner.namespace != o.namespace) {
			continue
		}
		ref := ownerRef{to: owner.name, OwnerReference: metav1.OwnerReference{APIVersion: owner.kind.GroupVersion().String(), Kind: owner.kind.Kind, Name: owner.name}}
		switch w.IntN(16) {
		case 0:
			ref.Name = random.Pick(w.Source, w.objects...).name
		case 1:
			other := random.Pick(w.Source, w.objects...)
			ref.APIVersion, ref.Kind = other.kind.GroupVersion().String(), other.kind.Kind
		case 2, 3:
			ref.to, ref.UID = "", types.UID("earlier-"+owner.name)
		case 4:
			if owner.kind.Group == "example.com" {
				ref.APIVersion = "example.com/v2"
			}
		case 5:
			if w.Chance(50) {
				ref.APIVersion, ref.Kind, ref.to, ref.UID = "example.com/v1", "Gizmo", "", types.UID("gizmo-"+owner.name)
			}
		}
		if w.Chance(60) {
			yes := w.Chance(80)
			ref.BlockOwnerDeletion = &yes
		}
		refs = append(refs, ref)
	}
	return refs
}

func (w *owners) delete(o owned) step {
	how := random.Pick[metav1.DeletionPropagation](w.Source, "", metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationForeground,
		metav1.DeletePropagationOrphan, metav1.DeletePropagationOrphan)
	return step{text: fmt.Sprintf("delete %s %s/%s %s", o.kind.Kind, o.namespace, o.name, how), do: func(ctx context.Context, c client.Client) error {
		var opts []client.DeleteOption
		if how != "" {
			opts = append(opts, client.PropagationPolicy(how))
		}
		return c.Delete(ctx, o.object(), opts...)
	}}
}

// patch returns the step that changes the metadata of an object.
func (w *owners) patch(o owned, text string, change func(client.Client) map[string]any) step {
	return step{text: fmt.Sprintf("change %s %s/%s: %s", o.kind.Kind, o.namespace, o.name, text), do: func(ctx context.Context, c client.Client) error {
		patch, err := json.Marshal(map[string]any{"metadata": change(c)})
		if err != nil {
			return err
		}
		return c.Patch(ctx, o.object(), client.RawPatch(types.MergePatchType, patch))
	}}
}
