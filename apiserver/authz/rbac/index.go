package rbac

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Objects gives access to stored objects.
type Objects interface {
	// Storage returns the storage of a resource, or nil if the resource is not served.
	Storage(schema.GroupVersionResource) rest.Storage
	// Observe returns two functions, which are safe for concurrent use. The first one reports whether any object of a
	// resource may have been written since its last call; the first call returns true. The second one reports whether
	// there was certainly no write since the last call of the first one.
	Observe(schema.GroupResource) (changed, unchanged func() bool)
}

// index is an index of all objects of a resource. It is rebuilt after a write of one of them.
type index[I any] struct {
	objects  Objects
	resource schema.GroupVersionResource
	build    func([]runtime.Object) I
	// See [Objects].
	changed, unchanged func() bool

	mu       sync.Mutex
	current  I
	valid    bool
	revision uint64 // of the list that current was built from
}

func newIndex[I any](o Objects, resource string, build func([]runtime.Object) I) *index[I] {
	gvr := rbacv1.SchemeGroupVersion.WithResource(resource)
	x := &index[I]{objects: o, resource: gvr, build: build}
	x.changed, x.unchanged = o.Observe(gvr.GroupResource())
	return x
}

// revisionOf returns the revision of a list, or the last one of all if the list does not say.
func revisionOf(list runtime.Object) uint64 {
	m, err := meta.ListAccessor(list)
	if err != nil {
		return math.MaxUint64
	}
	revision, err := strconv.ParseUint(m.GetResourceVersion(), 10, 64)
	if err != nil {
		return math.MaxUint64
	}
	return revision
}

// inherit takes over the index of a store that the store of this one was forked from at a revision, if the other index was
// built before that, and no object was written since.
func (x *index[I]) inherit(from *index[I], revision uint64) {
	from.mu.Lock()
	current, valid := from.current, from.valid && from.revision <= revision && from.unchanged()
	from.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if valid {
		x.changed() // from now on
		x.current, x.valid = current, true
	}
}

// get returns the index. The index is shared and must not be modified.
func (x *index[I]) get() (I, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.changed() {
		x.valid = false
	}
	if x.valid {
		return x.current, nil
	}
	var none I
	storage, ok := x.objects.Storage(x.resource).(rest.Lister)
	if !ok {
		return none, fmt.Errorf("%s are not served", x.resource.GroupResource())
	}
	// The context of the request is unsuitable, because its namespace and name would restrict the list.
	ctx := request.WithNamespace(request.WithRequestInfo(context.Background(), &request.RequestInfo{
		IsResourceRequest: true, Verb: "list", APIGroup: x.resource.Group, APIVersion: x.resource.Version,
		Resource: x.resource.Resource}), "")
	list, err := storage.List(ctx, &internalversion.ListOptions{})
	if err != nil {
		return none, err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return none, err
	}
	x.current, x.valid, x.revision = x.build(items), true, revisionOf(list)
	return x.current, nil
}

// indexRules indexes the rules of roles or cluster roles.
func indexRules(roles []runtime.Object) map[types.NamespacedName][]rbacv1.PolicyRule {
	rules := make(map[types.NamespacedName][]rbacv1.PolicyRule, len(roles))
	for _, obj := range roles {
		switch r := obj.(type) {
		case *rbacv1.Role:
			rules[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}] = r.Rules
		case *rbacv1.ClusterRole:
			rules[types.NamespacedName{Name: r.Name}] = r.Rules
		}
	}
	return rules
}

// subject is a user or a group. A service account counts as a user.
type subject struct{ kind, name string }

// subjects are the grants of a namespace, or of the cluster, by subject.
type subjects map[subject][]*grant

// bindingKey identifies a binding. The namespace is empty for a ClusterRoleBinding.
type bindingKey struct{ namespace, name string }

// grant is the role that a binding grants one of its subjects.
type grant struct {
	bindingKey
	role   rbacv1.RoleRef
	reason string // for decisions to allow
}

func newGrant(key bindingKey, role rbacv1.RoleRef, s rbacv1.Subject) *grant {
	kind, binding, who := "ClusterRoleBinding", key.name, s.Name
	if key.namespace != "" {
		kind, binding = "RoleBinding", key.name+"/"+key.namespace
	}
	if s.Kind == rbacv1.ServiceAccountKind {
		who += "/" + s.Namespace
	}
	return &grant{key, role, fmt.Sprintf("RBAC: allowed by %s %q of %s %q to %s %q", kind, binding, role.Kind, role.Name,
		s.Kind, who)}
}

// indexBindings indexes bindings by namespace and subject.
func indexBindings(bindings []runtime.Object) map[string]subjects {
	all := map[string]subjects{}
	add := func(key bindingKey, role rbacv1.RoleRef, list []rbacv1.Subject) {
		granted := all[key.namespace]
		if granted == nil {
			granted = subjects{}
			all[key.namespace] = granted
		}
		for _, s := range list {
			who := subject{kind: s.Kind, name: s.Name}
			switch s.Kind {
			case rbacv1.UserKind, rbacv1.GroupKind:
			case rbacv1.ServiceAccountKind:
				if s.Namespace == "" {
					s.Namespace = key.namespace
				}
				if s.Namespace == "" {
					continue
				}
				who = subject{kind: rbacv1.UserKind, name: serviceaccount.MakeUsername(s.Namespace, s.Name)}
			default:
				continue
			}
			granted[who] = append(granted[who], newGrant(key, role, s))
		}
	}
	for _, obj := range bindings {
		switch b := obj.(type) {
		case *rbacv1.RoleBinding:
			add(bindingKey{b.Namespace, b.Name}, b.RoleRef, b.Subjects)
		case *rbacv1.ClusterRoleBinding:
			add(bindingKey{"", b.Name}, b.RoleRef, b.Subjects)
		}
	}
	return all
}
