package rbac

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	internal "k8s.io/kubernetes/pkg/apis/rbac"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	clusterrole "k8s.io/kubernetes/pkg/registry/rbac/clusterrole/policybased"
	clusterrolebinding "k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding/policybased"
	role "k8s.io/kubernetes/pkg/registry/rbac/role/policybased"
	rolebinding "k8s.io/kubernetes/pkg/registry/rbac/rolebinding/policybased"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
	upstream "k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"flyball.dev/apiserver/authz/rbac"
	"flyball.dev/test/mirror/random"
)

// cluster has the roles and bindings of a cluster.
type cluster struct {
	roles               []*rbacv1.Role
	clusterRoles        []*rbacv1.ClusterRole
	roleBindings        []*rbacv1.RoleBinding
	clusterRoleBindings []*rbacv1.ClusterRoleBinding
}

var names = []string{"a", "b", "c"}

func newCluster(s *random.Source) *cluster {
	c := &cluster{}
	for _, name := range names {
		for _, namespace := range []string{"one", "two"} {
			if s.Chance(60) {
				c.roles = append(c.roles, newRole(s, namespace, name))
			}
			if s.Chance(60) {
				c.roleBindings = append(c.roleBindings, newRoleBinding(s, namespace, name))
			}
		}
		if s.Chance(60) {
			c.clusterRoles = append(c.clusterRoles, newClusterRole(s, name))
		}
		if s.Chance(30) {
			c.clusterRoleBindings = append(c.clusterRoleBindings, newClusterRoleBinding(s, name))
		}
	}
	return c
}

func newRole(s *random.Source, namespace, name string) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: newRules(s)}
}

func newClusterRole(s *random.Source, name string) *rbacv1.ClusterRole {
	r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: newRules(s)}
	if s.Chance(15) {
		r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: make([]metav1.LabelSelector, s.IntN(2))}
	}
	if s.Chance(5) {
		r.Rules = []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
			{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}}
	}
	return r
}

func newRoleBinding(s *random.Source, namespace, name string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Subjects: newSubjects(s),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: random.Pick(s, "Role", "ClusterRole", "ClusterRole", "Else"), Name: random.Pick(s, names...)}}
}

func newClusterRoleBinding(s *random.Source, name string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: newSubjects(s),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: random.Pick(s, "ClusterRole", "ClusterRole", "ClusterRole", "Role"), Name: random.Pick(s, names...)}}
}

var (
	verbs     = []string{"get", "list", "create", "update", "escalate", "bind", "*"}
	groups    = []string{"", "apps", rbacv1.GroupName, "*"}
	resources = []string{"pods", "pods/log", "roles", "clusterroles", "*", "*/log", "pods/*", "*/", "/log", "pods/"}
	paths     = []string{"/healthz", "/healthz/*", "/metrics", "/met*", "/*", "*", "/a/**", "/a/*/b"}
)

func newRules(s *random.Source) []rbacv1.PolicyRule {
	var list []rbacv1.PolicyRule
	for range s.IntN(4) {
		r := rbacv1.PolicyRule{Verbs: random.Some(s, 3, verbs...)}
		if s.Chance(25) {
			r.NonResourceURLs = random.Some(s, 2, paths...)
		}
		if s.Chance(85) {
			r.APIGroups, r.Resources = random.Some(s, 2, groups...), random.Some(s, 3, resources...)
		}
		if s.Chance(25) {
			r.ResourceNames = random.Some(s, 2, names...)
		}
		list = append(list, r)
	}
	return list
}

func newSubjects(s *random.Source) []rbacv1.Subject {
	var list []rbacv1.Subject
	for range s.IntN(3) {
		kind := random.Pick(s, rbacv1.UserKind, rbacv1.GroupKind, rbacv1.ServiceAccountKind, "Else")
		subject := rbacv1.Subject{Kind: kind, Name: random.Pick(s, "jane", "x", "default", "system:serviceaccount:one:default")}
		if s.Chance(50) {
			subject.Namespace = random.Pick(s, "one", "two")
		}
		list = append(list, subject)
	}
	return list
}

func newUser(s *random.Source) user.Info {
	u := &user.DefaultInfo{Name: random.Pick(s, "jane", "x", "system:serviceaccount:one:default", "system:serviceaccount:two:x"),
		Groups: random.Some(s, 3, "jane", "x", "system:authenticated")}
	if s.Chance(2) {
		u.Groups = append(u.Groups, user.SystemPrivilegedGroup)
	}
	return u
}

func newRequest(s *random.Source) authorizer.AttributesRecord {
	a := authorizer.AttributesRecord{User: newUser(s), Verb: random.Pick(s, verbs...), Namespace: random.Pick(s, "", "one", "two")}
	if s.Chance(25) {
		a.Namespace = ""
		a.Path = random.Pick(s, "/healthz", "/healthz/a", "/metrics", "/a/b", "/a/c/b", "*", "/")
		return a
	}
	a.ResourceRequest = true
	a.APIGroup, a.Resource = random.Pick(s, groups...), random.Pick(s, "pods", "roles", "*", "log")
	a.Subresource, a.Name = random.Pick(s, "", "", "log", "*"), random.Pick(s, "", "a", "b", "c")
	return a
}

// Storage and Changed give our evaluator access to the objects.
func (c *cluster) Storage(gvr schema.GroupVersionResource) rest.Storage {
	var list []runtime.Object
	for _, all := range []any{c.roles, c.clusterRoles, c.roleBindings, c.clusterRoleBindings} {
		v := reflect.ValueOf(all)
		for i := range v.Len() {
			obj := v.Index(i).Interface().(runtime.Object)
			if resourceOf(obj) == gvr.Resource {
				list = append(list, obj)
			}
		}
	}
	return lister{items: list}
}

func (c *cluster) Observe(schema.GroupResource) (changed, unchanged func() bool) {
	return func() bool { return true }, func() bool { return false }
}

// registries are the objects as Kubernetes reads them.
type registries struct {
	*validation.StaticRoles
	resource func(singular string) string // the resource in errors
}

func (c *cluster) registries(resource func(singular string) string) registries {
	_, static := validation.NewTestRuleResolver(c.roles, c.roleBindings, c.clusterRoles, c.clusterRoleBindings)
	return registries{static, resource}
}

// authorizer returns Kubernetes's authorizer, which reads the objects from listers.
func (c *cluster) authorizer() *upstream.RBACAuthorizer {
	r := c.registries(func(singular string) string { return singular })
	return upstream.New(r, r, r, r)
}

func (r registries) GetRole(ctx context.Context, namespace, name string) (*rbacv1.Role, error) {
	if role, err := r.StaticRoles.GetRole(ctx, namespace, name); err == nil {
		return role, nil
	}
	return nil, apierrors.NewNotFound(rbacv1.Resource(r.resource("role")), name)
}

func (r registries) GetClusterRole(ctx context.Context, name string) (*rbacv1.ClusterRole, error) {
	if role, err := r.StaticRoles.GetClusterRole(ctx, name); err == nil {
		return role, nil
	}
	return nil, apierrors.NewNotFound(rbacv1.Resource(r.resource("clusterrole")), name)
}

func resourceOf(obj runtime.Object) string {
	switch obj.(type) {
	case *rbacv1.Role:
		return "roles"
	case *rbacv1.ClusterRole:
		return "clusterroles"
	case *rbacv1.RoleBinding:
		return "rolebindings"
	}
	return "clusterrolebindings"
}

// lister lists objects.
type lister struct {
	rest.StandardStorage
	items []runtime.Object
}

func (l lister) List(context.Context, *internalversion.ListOptions) (runtime.Object, error) {
	list := &internalversion.List{}
	list.Items = append(list.Items, l.items...)
	return list, nil
}

// TestRequests compares decisions about requests, and the rules of users.
func TestRequests(t *testing.T) {
	seen := random.Seen{}
	random.Compare(t, 4000, func(s *random.Source) {
		c := newCluster(s)
		ours := rbac.New(c)
		theirs := c.authorizer()
		for range 10 {
			a := newRequest(s)
			decision, reason, err := ours.Authorize(t.Context(), a)
			want, wantReason, wantErr := theirs.Authorize(t.Context(), a)
			if decision != want || fmt.Sprint(err) != fmt.Sprint(wantErr) || decision == authorizer.DecisionAllow && !c.reasons(a)[reason] {
				t.Errorf("%+v:\nours   %v %q %v\ntheirs %v %q %v", a, decision, reason, err, want, wantReason, wantErr)
			}
			seen[fmt.Sprint("decision ", want)]++
		}
		u, namespace := newUser(s), random.Pick(s, "", "one", "two")
		got, gotPaths, _, err := ours.RulesFor(t.Context(), u, namespace)
		want, wantPaths, _, wantErr := theirs.RulesFor(t.Context(), u, namespace)
		if a, b := sorted(got, gotPaths), sorted(want, wantPaths); !slices.Equal(a, b) || message(err) != message(wantErr) {
			t.Errorf("the rules of %v in %q:\nours   %v %v\ntheirs %v %v", u, namespace, a, err, b, wantErr)
		}
		seen[fmt.Sprint("rules ", len(want) > 0)]++
	})
	seen.Require(t, fmt.Sprint("decision ", authorizer.DecisionAllow), fmt.Sprint("decision ", authorizer.DecisionNoOpinion), "rules true", "rules false")
}

// reasons returns Kubernetes's reasons to allow a request, one for each subject of a binding. Which of them it gives depends on the order of
// the bindings, and ours looks for the user first.
func (c *cluster) reasons(a authorizer.Attributes) map[string]bool {
	all := map[string]bool{}
	ask := func(one cluster) {
		one.roles, one.clusterRoles = c.roles, c.clusterRoles
		if decision, reason, _ := one.authorizer().Authorize(context.Background(), a); decision == authorizer.DecisionAllow {
			all[reason] = true
		}
	}
	for _, b := range c.clusterRoleBindings {
		for _, s := range b.Subjects {
			one := b.DeepCopy()
			one.Subjects = []rbacv1.Subject{s}
			ask(cluster{clusterRoleBindings: []*rbacv1.ClusterRoleBinding{one}})
		}
	}
	for _, b := range c.roleBindings {
		for _, s := range b.Subjects {
			one := b.DeepCopy()
			one.Subjects = []rbacv1.Subject{s}
			ask(cluster{roleBindings: []*rbacv1.RoleBinding{one}})
		}
	}
	return all
}

// sorted returns rules as text in a fixed order.
func sorted(resources []authorizer.ResourceRuleInfo, paths []authorizer.NonResourceRuleInfo) []string {
	var list []string
	for _, r := range resources {
		list = append(list, fmt.Sprintf("%q %q %q %q", r.GetVerbs(), r.GetAPIGroups(), r.GetResources(), r.GetResourceNames()))
	}
	for _, p := range paths {
		list = append(list, fmt.Sprintf("%q %q", p.GetVerbs(), p.GetNonResourceURLs()))
	}
	slices.Sort(list)
	return list
}

// message returns the text of an error with the errors that it lists in a fixed order: the order of bindings is without meaning.
func message(err error) string {
	parts := strings.FieldsFunc(strings.ReplaceAll(fmt.Sprint(err), ", ", "]"), func(r rune) bool { return r == '[' || r == ']' })
	slices.Sort(parts)
	return strings.Join(parts, "\n")
}

// TestEscalation compares which writes of roles and bindings the guards refuse, and the errors.
func TestEscalation(t *testing.T) {
	seen := random.Seen{}
	random.Compare(t, 20000, func(s *random.Source) {
		c := newCluster(s)
		obj, old := newWrite(s)
		ctx := writeContext(s, obj)
		r := c.registries(func(string) string { return resourceOf(obj) })
		resolver := validation.NewDefaultRuleResolver(r, r, r, r)
		ours, theirs := rbac.New(c), c.authorizer()
		err := ours.Guards(ours)[rbacv1.Resource(resourceOf(obj))](ctx, obj, old)
		want := write(ctx, resolver, theirs, obj, old)
		if message(err) != message(want) {
			t.Errorf("%T %+v instead of %+v:\nours   %v\ntheirs %v", obj, obj, old, err, want)
		}
		seen[fmt.Sprintf("%s %t", resourceOf(obj), want == nil)]++
	})
	for _, resource := range []string{"roles", "clusterroles", "rolebindings", "clusterrolebindings"} {
		seen.Require(t, resource+" true", resource+" false")
	}
}

// newWrite returns an object, and in half of the cases what it replaces.
func newWrite(s *random.Source) (obj, old runtime.Object) {
	object := func() runtime.Object {
		return newRole(s, "one", "new")
	}
	switch s.IntN(4) {
	case 0:
		object = func() runtime.Object { return newClusterRole(s, "new") }
	case 1:
		object = func() runtime.Object { return newRoleBinding(s, "one", "new") }
	case 2:
		object = func() runtime.Object { return newClusterRoleBinding(s, "new") }
	}
	obj = object()
	switch s.IntN(4) {
	case 0:
		return obj, object()
	case 1:
		old = obj.DeepCopyObject()
		old.(metav1.Object).SetFinalizers([]string{"example.com/a"})
		return obj, old
	}
	return obj, nil
}

func writeContext(s *random.Source, obj runtime.Object) context.Context {
	namespace := obj.(metav1.Object).GetNamespace()
	ctx := request.WithUser(request.WithNamespace(context.Background(), namespace), newUser(s))
	return request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: true, APIGroup: rbacv1.GroupName,
		Resource: resourceOf(obj), Name: "new", Namespace: namespace})
}

// write writes an object through Kubernetes's storage.
func write(ctx context.Context, resolver validation.AuthorizationRuleResolver, a authorizer.UnconditionalAuthorizer, obj, old runtime.Object) error {
	stored := stored{old: hub(old)}
	var storage rest.StandardStorage
	switch obj.(type) {
	case *rbacv1.Role:
		storage = role.NewStorage(stored, a, resolver)
	case *rbacv1.ClusterRole:
		storage = clusterrole.NewStorage(stored, a, resolver)
	case *rbacv1.RoleBinding:
		storage = rolebinding.NewStorage(stored, a, resolver)
	default:
		storage = clusterrolebinding.NewStorage(stored, a, resolver)
	}
	if old == nil {
		_, err := storage.Create(ctx, hub(obj), nil, nil)
		return err
	}
	_, _, err := storage.Update(ctx, "new", rest.DefaultUpdatedObjectInfo(hub(obj)), nil, nil, false, nil)
	return err
}

// hub returns an object in the internal version.
func hub(obj runtime.Object) runtime.Object {
	if obj == nil {
		return nil
	}
	to, err := legacyscheme.Scheme.ConvertToVersion(obj, internal.SchemeGroupVersion)
	if err != nil {
		panic(err)
	}
	return to
}

// stored is a storage that accepts each write.
type stored struct {
	rest.StandardStorage
	old runtime.Object
}

func (stored) Create(_ context.Context, obj runtime.Object, _ rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	return obj, nil
}

func (s stored) Update(ctx context.Context, _ string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc, _ rest.ValidateObjectUpdateFunc,
	_ bool, _ *metav1.UpdateOptions) (runtime.Object, bool, error) {
	obj, err := info.UpdatedObject(ctx, s.old)
	return obj, false, err
}
