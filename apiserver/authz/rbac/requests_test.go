package rbac_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"flyball.dev/controlplane/controlplanetest"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"flyball.dev/controlplane"
)

func TestRBAC(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true})
	admin, ann, ctx := controlplanetest.ClientFor(t, plane.Config()), controlplanetest.As(t, plane, "ann", "staff"), t.Context()
	list := func(namespace string) error {
		_, err := ann.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		return err
	}
	controlplanetest.Refused(t, list("default"), `pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "default"`)
	controlplanetest.Refused(t, list(""), `pods is forbidden: User "ann" cannot list resource "pods" in API group "" at the cluster scope`)

	access := admin.RbacV1()
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "read"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects: []rbacv1.Subject{{Kind: "Group", Name: "staff"}, {Kind: "ServiceAccount", Name: "robot"}}}
	controlplanetest.Must[*rbacv1.RoleBinding](t)(access.RoleBindings("default").Create(ctx, binding, metav1.CreateOptions{}))
	controlplanetest.Refused(t, list("default"), `pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "default": `+
		`RBAC: role.rbac.authorization.k8s.io "reader" not found`)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{controlplanetest.PolicyRule("get,list", "", "pods")}}
	controlplanetest.Must[*rbacv1.Role](t)(access.Roles("default").Create(ctx, role, metav1.CreateOptions{}))
	for i := range 3 { // each change takes effect at once
		if err := list("default"); err != nil {
			t.Fatal(err)
		}
		if err := list("kube-system"); !apierrors.IsForbidden(err) {
			t.Errorf("another namespace: %v", err)
		}
		if i == 0 {
			robot := controlplanetest.As(t, plane, "system:serviceaccount:default:robot")
			controlplanetest.Must[*corev1.PodList](t)(robot.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}))
		}
		if err := access.RoleBindings("default").Delete(ctx, "read", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := list("default"); !apierrors.IsForbidden(err) {
			t.Fatalf("without the binding: %v", err)
		}
		controlplanetest.Must[*rbacv1.RoleBinding](t)(access.RoleBindings("default").Create(ctx, binding, metav1.CreateOptions{}))
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
			got := controlplanetest.Must[*authorizationv1.SubjectAccessReview](t)(admin.AuthorizationV1().SubjectAccessReviews().Create(ctx,
				&authorizationv1.SubjectAccessReview{Spec: tc.spec}, metav1.CreateOptions{}))
			if got.Status.Allowed != tc.allowed || got.Status.Reason != tc.reason || got.Status.Denied {
				t.Errorf("%+v: got %+v", tc.spec, got.Status)
			}
		}
		rules := controlplanetest.Must[*authorizationv1.SelfSubjectRulesReview](t)(ann.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx,
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
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true})
	admin, ctx := controlplanetest.ClientFor(t, plane.Config()), t.Context()
	controlplanetest.GrantCluster(t, admin, "one", "ann", controlplanetest.PolicyRule("get,list,watch,delete,deletecollection,create", "", "configmaps", "one"))
	maps := controlplanetest.As(t, plane, "ann").CoreV1().ConfigMaps("default")
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
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true})
	admin, ctx := controlplanetest.ClientFor(t, plane.Config()), t.Context()
	all := controlplanetest.PolicyRule("get,list,create,update,patch,delete", rbacv1.GroupName, "roles,rolebindings,clusterroles,clusterrolebindings")
	controlplanetest.GrantCluster(t, admin, "eve", "eve", all, controlplanetest.PolicyRule("get", "", "pods"))
	eve := controlplanetest.As(t, plane, "eve").RbacV1()
	const who = `user "eve" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:` + "\n"
	rolesIn := func(rules ...rbacv1.PolicyRule) *rbacv1.Role {
		return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: rules}
	}
	_, err := eve.Roles("default").Create(ctx, rolesIn(controlplanetest.PolicyRule("get,delete", "", "pods"), controlplanetest.PolicyRule("get", "", "secrets")), metav1.CreateOptions{})
	controlplanetest.Refused(t, err, `roles.rbac.authorization.k8s.io "r" is forbidden: `+who+
		`{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}`+"\n"+`{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`)
	held := controlplanetest.Must[*rbacv1.Role](t)(eve.Roles("default").Create(ctx, rolesIn(controlplanetest.PolicyRule("get", "", "pods")), metav1.CreateOptions{}))
	held.Rules = append(held.Rules, controlplanetest.PolicyRule("*", "*", "*"))
	_, err = eve.Roles("default").Update(ctx, held, metav1.UpdateOptions{})
	controlplanetest.Refused(t, err, `roles.rbac.authorization.k8s.io "r" is forbidden: `+who+`{APIGroups:["*"], Resources:["*"], Verbs:["*"]}`)
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
	if got := controlplanetest.Must[*rbacv1.Role](t)(admin.RbacV1().Roles("default").Get(ctx, "r", metav1.GetOptions{})); len(got.Rules) != 1 {
		t.Errorf("the role has %v", got.Rules)
	}
	if _, err = eve.Roles("default").Update(ctx, rolesIn(controlplanetest.PolicyRule("get", "", "nodes")), metav1.UpdateOptions{DryRun: []string{"All"}}); !apierrors.IsForbidden(err) {
		t.Errorf("dry run: %v", err)
	}

	_, err = eve.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "c"},
		AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{}}}}, metav1.CreateOptions{})
	controlplanetest.Refused(t, err, `clusterroles.rbac.authorization.k8s.io "c" is forbidden: must have cluster-admin privileges to use the aggregationRule`)
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
	controlplanetest.GrantCluster(t, admin, "binder", "eve", controlplanetest.PolicyRule("bind", rbacv1.GroupName, "clusterroles", "edit"), controlplanetest.PolicyRule("escalate", rbacv1.GroupName, "roles"))
	if err := bind(ctx, "ClusterRole", "edit"); err != nil {
		t.Errorf("bind: %v", err)
	}
	held.ResourceVersion = ""
	controlplanetest.Must[*rbacv1.Role](t)(eve.Roles("default").Update(ctx, held, metav1.UpdateOptions{}))
}

func TestImpersonation(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true,
		Tokens: map[string]*user.DefaultInfo{"secret": {Name: "imp"}}})
	admin, ctx := controlplanetest.ClientFor(t, plane.Config()), t.Context()
	controlplanetest.GrantCluster(t, admin, "imp", "imp", controlplanetest.PolicyRule("impersonate", "", "users", "ann"), controlplanetest.PolicyRule("impersonate", "", "groups", "staff"),
		controlplanetest.PolicyRule("impersonate", "authentication.k8s.io", "userextras/scopes", "read"), controlplanetest.PolicyRule("impersonate", "authentication.k8s.io", "uids", "7"))
	controlplanetest.GrantCluster(t, admin, "ann", "ann", controlplanetest.PolicyRule("list", "", "pods"))
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
			_, err := controlplanetest.ClientFor(t, cfg).CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			if (err == nil) != tc.ok || err != nil && !apierrors.IsForbidden(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAlwaysAllow(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true, AuthorizationMode: "AlwaysAllow"})
	controlplanetest.Must[*corev1.NodeList](t)(controlplanetest.As(t, plane, "nobody").CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}))
	if _, err := controlplane.Start(t.Context(), controlplane.Options{AuthorizationMode: "Webhook"}); err == nil ||
		!strings.Contains(err.Error(), `"Webhook" is not a valid mode`) {
		t.Errorf("unknown mode: %v", err)
	}
}
