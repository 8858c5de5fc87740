package controlplane_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"flyball.dev/controlplane"
)

// as returns a client that impersonates a user.
func as(t testing.TB, plane *controlplane.ControlPlane, name string, groups ...string) *kubernetes.Clientset {
	cfg := plane.Config()
	cfg.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
	return clientFor(t, cfg)
}

// must fails the test if a call failed.
func must[T any](t testing.TB) func(T, error) T {
	return func(result T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
}

func policyRule(verbs, group, resources string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Split(verbs, ","), APIGroups: []string{group},
		Resources: strings.Split(resources, ","), ResourceNames: names}
}

// grantCluster creates a ClusterRole with the rules, and binds a user to it.
func grantCluster(t testing.TB, admin *kubernetes.Clientset, name, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	access := admin.RbacV1()
	must[*rbacv1.ClusterRole](t)(access.ClusterRoles().Create(t.Context(),
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{}))
	must[*rbacv1.ClusterRoleBinding](t)(access.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: user}},
	}, metav1.CreateOptions{}))
}

func refused(t testing.TB, err error, want string) {
	t.Helper()
	if !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestRBAC(t *testing.T) {
	plane := start(t, controlplane.Options{WithoutControllers: true})
	admin, ann, ctx := clientFor(t, plane.Config()), as(t, plane, "ann", "staff"), t.Context()
	list := func(namespace string) error {
		_, err := ann.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		return err
	}
	refused(t, list("default"), `pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "default"`)
	refused(t, list(""), `pods is forbidden: User "ann" cannot list resource "pods" in API group "" at the cluster scope`)

	access := admin.RbacV1()
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "read"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects: []rbacv1.Subject{{Kind: "Group", Name: "staff"}, {Kind: "ServiceAccount", Name: "robot"}}}
	must[*rbacv1.RoleBinding](t)(access.RoleBindings("default").Create(ctx, binding, metav1.CreateOptions{}))
	refused(t, list("default"), `pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "default": `+
		`RBAC: role.rbac.authorization.k8s.io "reader" not found`)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{policyRule("get,list", "", "pods")}}
	must[*rbacv1.Role](t)(access.Roles("default").Create(ctx, role, metav1.CreateOptions{}))
	for i := range 3 { // each change takes effect at once
		if err := list("default"); err != nil {
			t.Fatal(err)
		}
		if err := list("kube-system"); !apierrors.IsForbidden(err) {
			t.Errorf("another namespace: %v", err)
		}
		if i == 0 {
			robot := as(t, plane, "system:serviceaccount:default:robot")
			must[*corev1.PodList](t)(robot.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}))
		}
		if err := access.RoleBindings("default").Delete(ctx, "read", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := list("default"); !apierrors.IsForbidden(err) {
			t.Fatalf("without the binding: %v", err)
		}
		must[*rbacv1.RoleBinding](t)(access.RoleBindings("default").Create(ctx, binding, metav1.CreateOptions{}))
	}

	t.Run("reviews", func(t *testing.T) {
		attributes := &authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", Namespace: "default"}
		for _, tc := range []struct {
			spec    authorizationv1.SubjectAccessReviewSpec
			allowed bool
			reason  string
		}{
			{authorizationv1.SubjectAccessReviewSpec{User: "x", Groups: []string{"staff"}, ResourceAttributes: attributes}, true,
				`RBAC: allowed by RoleBinding "read/default" of Role "reader" to Group "staff"`},
			{authorizationv1.SubjectAccessReviewSpec{User: "system:serviceaccount:default:robot", ResourceAttributes: attributes}, true,
				`RBAC: allowed by RoleBinding "read/default" of Role "reader" to ServiceAccount "robot/default"`},
			{authorizationv1.SubjectAccessReviewSpec{User: "ann", ResourceAttributes: attributes}, false, ""},
			{authorizationv1.SubjectAccessReviewSpec{User: "x", Groups: []string{"system:unauthenticated"},
				NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/livez"}}, true,
				`RBAC: allowed by ClusterRoleBinding "system:public-info-viewer" of ClusterRole "system:public-info-viewer" to Group "system:unauthenticated"`},
			{authorizationv1.SubjectAccessReviewSpec{User: "x", Groups: []string{"system:unauthenticated"},
				NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/metrics"}}, false, ""},
		} {
			got := must[*authorizationv1.SubjectAccessReview](t)(admin.AuthorizationV1().SubjectAccessReviews().Create(ctx,
				&authorizationv1.SubjectAccessReview{Spec: tc.spec}, metav1.CreateOptions{}))
			if got.Status.Allowed != tc.allowed || got.Status.Reason != tc.reason || got.Status.Denied {
				t.Errorf("%+v: got %+v", tc.spec, got.Status)
			}
		}
		rules := must[*authorizationv1.SelfSubjectRulesReview](t)(ann.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx,
			&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"}}, metav1.CreateOptions{}))
		if rules.Status.Incomplete || !slices.ContainsFunc(rules.Status.ResourceRules, func(r authorizationv1.ResourceRule) bool {
			return slices.Equal(r.Resources, []string{"pods"}) && slices.Equal(r.Verbs, []string{"get", "list"})
		}) || len(rules.Status.NonResourceRules) == 0 {
			t.Errorf("rules: %+v", rules.Status)
		}
	})
}

// TestResourceNames: a rule with names allows lists and watches only with a field selector of that
// name, and neither creates nor deletions of collections.
func TestResourceNames(t *testing.T) {
	plane := start(t, controlplane.Options{WithoutControllers: true})
	admin, ctx := clientFor(t, plane.Config()), t.Context()
	grantCluster(t, admin, "one", "ann", policyRule("get,list,watch,delete,deletecollection,create", "", "configmaps", "one"))
	maps := as(t, plane, "ann").CoreV1().ConfigMaps("default")
	for name, want := range map[string]bool{"": false, "metadata.name=one": true, "metadata.name=two": false, "metadata.name!=one": false} {
		options := metav1.ListOptions{FieldSelector: name}
		_, err := maps.List(ctx, options)
		if (err == nil) != want || err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("list %q: %v", name, err)
		}
		w, err := maps.Watch(ctx, options)
		if (err == nil) != want {
			t.Errorf("watch %q: %v", name, err)
		}
		if err == nil {
			w.Stop()
		}
		// kube-apiserver takes no name from the selector of a deletion.
		if err = maps.DeleteCollection(ctx, metav1.DeleteOptions{}, options); !apierrors.IsForbidden(err) {
			t.Errorf("deletecollection %q: %v", name, err)
		}
	}
	if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("create: %v", err)
	}
}

func TestEscalation(t *testing.T) {
	plane := start(t, controlplane.Options{WithoutControllers: true})
	admin, ctx := clientFor(t, plane.Config()), t.Context()
	all := policyRule("get,list,create,update,patch,delete", rbacv1.GroupName, "roles,rolebindings,clusterroles,clusterrolebindings")
	grantCluster(t, admin, "eve", "eve", all, policyRule("get", "", "pods"))
	eve := as(t, plane, "eve").RbacV1()
	const who = `user "eve" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:` + "\n"
	rolesIn := func(rules ...rbacv1.PolicyRule) *rbacv1.Role {
		return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: rules}
	}
	_, err := eve.Roles("default").Create(ctx, rolesIn(policyRule("get,delete", "", "pods"), policyRule("get", "", "secrets")), metav1.CreateOptions{})
	refused(t, err, `roles.rbac.authorization.k8s.io "r" is forbidden: `+who+
		`{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}`+"\n"+`{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`)
	held := must[*rbacv1.Role](t)(eve.Roles("default").Create(ctx, rolesIn(policyRule("get", "", "pods")), metav1.CreateOptions{}))
	held.Rules = append(held.Rules, policyRule("*", "*", "*"))
	_, err = eve.Roles("default").Update(ctx, held, metav1.UpdateOptions{})
	refused(t, err, `roles.rbac.authorization.k8s.io "r" is forbidden: `+who+`{APIGroups:["*"], Resources:["*"], Verbs:["*"]}`)
	const patch = `{"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods/*"]}]}`
	for _, kind := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType} {
		if _, err = eve.Roles("default").Patch(ctx, "r", kind, []byte(patch), metav1.PatchOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	apply := []byte(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"%s"},` + patch[1:])
	for _, name := range []string{"r", "new"} {
		body := strings.Replace(string(apply), "%s", name, 1)
		if _, err = eve.Roles("default").Patch(ctx, name, types.ApplyPatchType, []byte(body), metav1.PatchOptions{FieldManager: "eve", Force: new(true)}); !apierrors.IsForbidden(err) {
			t.Errorf("apply to %s: %v", name, err)
		}
	}
	if got := must[*rbacv1.Role](t)(admin.RbacV1().Roles("default").Get(ctx, "r", metav1.GetOptions{})); len(got.Rules) != 1 {
		t.Errorf("the role has %v", got.Rules)
	}
	if _, err = eve.Roles("default").Update(ctx, rolesIn(policyRule("get", "", "nodes")), metav1.UpdateOptions{DryRun: []string{"All"}}); !apierrors.IsForbidden(err) {
		t.Errorf("dry run: %v", err)
	}

	_, err = eve.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "c"},
		AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{}}}}, metav1.CreateOptions{})
	refused(t, err, `clusterroles.rbac.authorization.k8s.io "c" is forbidden: must have cluster-admin privileges to use the aggregationRule`)
	bind := func(ctx context.Context, kind, name string) error {
		_, err := eve.RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{GenerateName: "b-"},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "eve"}}}, metav1.CreateOptions{})
		return err
	}
	if err := bind(ctx, "Role", "r"); err != nil {
		t.Errorf("a role that eve has: %v", err)
	}
	if err := bind(ctx, "Role", "none"); !apierrors.IsNotFound(err) || err.Error() != `rolebindings.rbac.authorization.k8s.io "none" not found` {
		t.Errorf("no role: %v", err)
	}
	if err := bind(ctx, "ClusterRole", "cluster-admin"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(),
		"not currently held:\n{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}\n{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}") {
		t.Errorf("cluster-admin: %v", err)
	}
	grantCluster(t, admin, "binder", "eve", policyRule("bind", rbacv1.GroupName, "clusterroles", "edit"), policyRule("escalate", rbacv1.GroupName, "roles"))
	if err := bind(ctx, "ClusterRole", "edit"); err != nil {
		t.Errorf("bind: %v", err)
	}
	held.ResourceVersion = ""
	must[*rbacv1.Role](t)(eve.Roles("default").Update(ctx, held, metav1.UpdateOptions{}))
}

func TestImpersonation(t *testing.T) {
	plane := start(t, controlplane.Options{WithoutControllers: true,
		Tokens: map[string]*user.DefaultInfo{"secret": {Name: "imp"}}})
	admin, ctx := clientFor(t, plane.Config()), t.Context()
	grantCluster(t, admin, "imp", "imp", policyRule("impersonate", "", "users", "ann"), policyRule("impersonate", "", "groups", "staff"),
		policyRule("impersonate", "authentication.k8s.io", "userextras/scopes", "read"), policyRule("impersonate", "authentication.k8s.io", "uids", "7"))
	grantCluster(t, admin, "ann", "ann", policyRule("list", "", "pods"))
	for _, tc := range []struct {
		name string
		to   rest.ImpersonationConfig
		ok   bool
	}{
		{"user", rest.ImpersonationConfig{UserName: "ann"}, true},
		{"other user", rest.ImpersonationConfig{UserName: "bob"}, false},
		{"group", rest.ImpersonationConfig{UserName: "ann", Groups: []string{"staff"}}, true},
		{"forged group", rest.ImpersonationConfig{UserName: "ann", Groups: []string{"staff", "system:masters"}}, false},
		{"extra", rest.ImpersonationConfig{UserName: "ann", Extra: map[string][]string{"scopes": {"read"}}}, true},
		{"other extra", rest.ImpersonationConfig{UserName: "ann", Extra: map[string][]string{"scopes": {"read", "write"}}}, false},
		{"uid", rest.ImpersonationConfig{UserName: "ann", UID: "7"}, true},
		{"other uid", rest.ImpersonationConfig{UserName: "ann", UID: "8"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := plane.Config()
			cfg.BearerToken = "secret"
			cfg.Impersonate = tc.to
			_, err := clientFor(t, cfg).CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			if (err == nil) != tc.ok || err != nil && !apierrors.IsForbidden(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAlwaysAllow(t *testing.T) {
	plane := start(t, controlplane.Options{WithoutControllers: true, AuthorizationMode: "AlwaysAllow"})
	must[*corev1.NodeList](t)(as(t, plane, "nobody").CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}))
	if _, err := controlplane.Start(t.Context(), controlplane.Options{AuthorizationMode: "Webhook"}); err == nil ||
		!strings.Contains(err.Error(), `"Webhook" is not a valid mode`) {
		t.Errorf("unknown mode: %v", err)
	}
}
