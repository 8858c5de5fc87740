package development

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/config"
)

const (
	// maxSelected is how many objects of one list are recorded.
	maxSelected = 256
	// readTime is how long after a read a write is because of it.
	readTime = time.Minute
)

// adoption has what reconciles have read and may adopt: objects that have a controller, and objects
// without one that were selected by labels.
type adoption struct {
	reads *bounded[types.UID, reading]
}

// reading is how an object was read.
type reading struct {
	by       string                 // the controller
	owner    *metav1.OwnerReference // the controlling one, or nil
	selector string                 // of the list; empty if the object was read otherwise
	at       time.Time
}

func newAdoption() adoption { return adoption{newBounded[types.UID, reading](maxTracked)} }

// Get implements client.Reader.
func (c *observedClient) Get(
	ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption,
) error {
	err := c.Client.Get(ctx, key, obj, opts...)
	if err == nil {
		c.monitor.contained.do(func() {
			if run := runOf(ctx); run != nil && metav1.GetControllerOfNoCopy(obj) != nil {
				c.monitor.readBy(run, "", obj)
			}
		})
	}
	return err
}

// List implements client.Reader.
func (c *observedClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := c.Client.List(ctx, list, opts...)
	if run := runOf(ctx); err == nil && run != nil {
		c.monitor.contained.do(func() { c.monitor.listedBy(run, list, opts) })
	}
	return err
}

// listedBy records what a reconcile has listed.
func (m *Monitor) listedBy(run Run, list client.ObjectList, opts []client.ListOption) {
	selector := ""
	if s := (&client.ListOptions{}).ApplyOptions(opts).LabelSelector; s != nil {
		selector = s.String()
	}
	var objects []metav1.Object
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		obj, err := meta.Accessor(item)
		if err == nil && len(objects) < maxSelected && (selector != "" || metav1.GetControllerOfNoCopy(obj) != nil) {
			objects = append(objects, obj)
		}
		return nil
	})
	m.readBy(run, selector, objects...)
}

// readBy records what a reconcile has read.
func (m *Monitor) readBy(run Run, selector string, objects ...metav1.Object) {
	if len(objects) == 0 {
		return
	}
	read := make(map[types.UID]reading, len(objects))
	for _, obj := range objects {
		read[obj.GetUID()] = reading{run.ControllerName(), metav1.GetControllerOf(obj), selector, time.Now()}
	}
	m.later(func() {
		for uid, r := range read {
			m.adoption.reads.put(uid, r)
		}
	})
}

// checkAdoption warns of an object that this process has put under another controlling owner, although
// it belonged to somebody else, or was made by somebody else and only selected by its labels.
func (m *Monitor) checkAdoption(w write) {
	r, ok := m.adoption.reads.get(w.uid)
	if !ok || r.by != w.by.controller || time.Since(r.at) > readTime {
		return
	}
	owner := metav1.GetControllerOfNoCopy(&metav1.ObjectMeta{OwnerReferences: w.references})
	if owner == nil || r.owner != nil && r.owner.UID == owner.UID {
		return
	}
	warning := config.Warning{
		Check: config.CheckAdoption, GVK: w.gvk, Object: w.NamespacedName,
		Field: "metadata.ownerReferences", Writer: w.by.String(),
	}
	if r.owner != nil {
		if !m.exists(*r.owner, w.Namespace) {
			return
		}
		warning.Message = fmt.Sprintf("The object was controlled by %s, which exists, and is now controlled by %s. Do not adopt "+
			"an object that has a controller: let controllerutil.SetControllerReference return its error",
			describe(*r.owner), describe(*owner))
		m.warn(warning)
		return
	}
	maker, foreign := m.makerOfLabels(w.managedFields)
	if !foreign {
		return
	}
	warning.Message = fmt.Sprintf("The selector %q has matched an object with labels of %s, and it was adopted: now it is "+
		"deleted with %s. Select by a label that only this operator sets, with the name or UID of the owner, or check who "+
		"made it", r.selector, writer{manager: maker}, describe(*owner))
	m.warn(warning)
}

// exists reports whether an owner certainly exists.
func (m *Monitor) exists(ref metav1.OwnerReference, namespace string) bool {
	if m.mapper == nil {
		return false
	}
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	mapping, err := m.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return false
	}
	key := types.NamespacedName{Name: ref.Name}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		key.Namespace = namespace
	}
	owner, known := m.read(gvk, key)
	return known && owner != nil && owner.UID == ref.UID
}

// makerOfLabels returns the field manager of an object's labels, and whether it is certainly not
// this process.
func (m *Monitor) makerOfLabels(entries []metav1.ManagedFieldsEntry) (maker string, foreign bool) {
	managers := managersOf(entries, fieldpath.MakePathOrDie("metadata", "labels"))
	for _, manager := range managers {
		if m.writes.uses(manager) {
			return "", false
		}
	}
	if len(managers) == 0 {
		return "", false
	}
	return managers[0], true
}
