package fake

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
)

// collectDependents deletes the objects that have no owner any more after one is removed, and the
// references to that owner from those which have others. The lock is held.
func (c *fakeClient) collectDependents(i id, owner client.Object) error {
	deleteOrphan := func(dependent id, obj client.Object, others []metav1.OwnerReference) error {
		exists := func(r metav1.OwnerReference) bool { return c.ownerExists(r, obj.GetNamespace()) }
		if slices.ContainsFunc(others, exists) {
			return c.setOwners(dependent, obj, others)
		}
		return client.IgnoreNotFound(c.delete(dependent, &client.DeleteOptions{}))
	}
	return c.eachDependent(i, owner, deleteOrphan)
}

// orphanDependents removes the references to an owner. The lock is held.
func (c *fakeClient) orphanDependents(i id, owner client.Object) error {
	return c.eachDependent(i, owner, c.setOwners)
}

// setOwners replaces the owner references of an object.
func (c *fakeClient) setOwners(i id, obj client.Object, owners []metav1.OwnerReference) error {
	next := copyOf(obj)
	next.SetOwnerReferences(owners)
	_, err := c.replace(i, obj, next, change{})
	return err
}

// eachDependent calls f for the objects with a reference to an owner, and with their references to
// others.
func (c *fakeClient) eachDependent(
	i id, owner client.Object, f func(id, client.Object, []metav1.OwnerReference) error,
) error {
	refers := func(r metav1.OwnerReference) bool {
		return isGroupKind(r, i.gvk) && r.Name == i.Name && r.UID == owner.GetUID()
	}
	for gvk := range c.objects.(*store).kinds {
		all, err := c.objects.list(gvk, i.Namespace)
		if err != nil {
			return err
		}
		for _, obj := range all {
			dependent := id{gvk, client.ObjectKeyFromObject(obj)}
			if !slices.ContainsFunc(obj.GetOwnerReferences(), refers) {
				continue
			}
			if obj, err = c.current(dependent); err != nil {
				continue // deleted meanwhile, because of the same owner
			}
			others := slices.DeleteFunc(slices.Clone(obj.GetOwnerReferences()), refers)
			if err := f(dependent, obj, others); err != nil {
				return err
			}
		}
	}
	return nil
}

// ownerExists reports whether there is the owner of an object in a namespace.
func (c *fakeClient) ownerExists(r metav1.OwnerReference, namespace string) bool {
	for gvk := range c.objects.(*store).kinds {
		if !isGroupKind(r, gvk) {
			continue
		}
		for _, ns := range []string{namespace, ""} {
			owner, err := c.objects.get(id{gvk, types.NamespacedName{Namespace: ns, Name: r.Name}})
			if err == nil && owner.GetUID() == r.UID {
				return true
			}
		}
	}
	return false
}

// isGroupKind reports whether a reference is to an object of a kind, in any version.
func isGroupKind(r metav1.OwnerReference, gvk schema.GroupVersionKind) bool {
	gv, err := schema.ParseGroupVersion(r.APIVersion)
	return err == nil && gv.Group == gvk.Group && r.Kind == gvk.Kind
}
