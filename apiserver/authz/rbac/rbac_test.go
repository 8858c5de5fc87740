package rbac

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
)

func rule(verbs, groups, resources []string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs, APIGroups: groups, Resources: resources, ResourceNames: names}
}

func s(list ...string) []string { return list }

func TestAllows(t *testing.T) {
	paths := rbacv1.PolicyRule{Verbs: s("get"), NonResourceURLs: s("/healthz", "/api/*")}
	for _, tc := range []struct {
		name                              string
		rule                              rbacv1.PolicyRule
		verb, group, resource, sub, named string
		path                              string
		want                              bool
	}{
		{"exact", rule(s("get"), s(""), s("pods")), "get", "", "pods", "", "x", "", true},
		{"verb", rule(s("get"), s(""), s("pods")), "list", "", "pods", "", "", "", false},
		{"group", rule(s("get"), s(""), s("pods")), "get", "apps", "pods", "", "x", "", false},
		{"subresource of a resource", rule(s("*"), s("*"), s("pods")), "get", "", "pods", "log", "x", "", false},
		{"subresource", rule(s("get"), s(""), s("pods/log")), "get", "", "pods", "log", "x", "", true},
		{"pods/* is no wildcard", rule(s("get"), s(""), s("pods/*")), "get", "", "pods", "log", "x", "", false},
		{"*/log", rule(s("get"), s(""), s("*/log")), "get", "", "pods", "log", "x", "", true},
		{"*/log is not the resource", rule(s("get"), s(""), s("*/log")), "get", "", "pods", "", "x", "", false},
		{"all resources", rule(s("get"), s(""), s("*")), "get", "", "pods", "log", "x", "", true},
		{"name", rule(s("get"), s(""), s("pods"), "a"), "get", "", "pods", "", "a", "", true},
		{"another name", rule(s("get"), s(""), s("pods"), "a"), "get", "", "pods", "", "b", "", false},
		{"create has no name", rule(s("create"), s(""), s("pods"), "a"), "create", "", "pods", "", "", "", false},
		{"list has no name", rule(s("list"), s(""), s("pods"), "a"), "list", "", "pods", "", "", "", false},
		{"path", paths, "get", "", "", "", "", "/healthz", true},
		{"path below", paths, "get", "", "", "", "", "/healthz/ping", false},
		{"path by wildcard", paths, "get", "", "", "", "", "/api/v1", true},
		{"path without the slash", paths, "get", "", "", "", "", "/api", false},
		{"verb of a path", paths, "post", "", "", "", "", "/healthz", false},
		{"a resource rule does not allow paths", rule(s("*"), s("*"), s("*")), "get", "", "", "", "", "/metrics", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := authorizer.AttributesRecord{Verb: tc.verb, APIGroup: tc.group, Resource: tc.resource, Subresource: tc.sub,
				Name: tc.named, Path: tc.path, ResourceRequest: tc.path == ""}
			if got := allows(&tc.rule, a); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestMissing(t *testing.T) {
	for _, tc := range []struct {
		name         string
		held, wanted rbacv1.PolicyRule
		want         []string
	}{
		{"equal", rule(s("get"), s(""), s("pods")), rule(s("get"), s(""), s("pods")), nil},
		{"verbs", rule(s("get"), s(""), s("pods")), rule(s("get", "list", "delete"), s(""), s("pods")),
			s(`{APIGroups:[""], Resources:["pods"], Verbs:["list" "delete"]}`)},
		{"names", rule(s("get"), s(""), s("pods"), "a"), rule(s("get"), s(""), s("pods"), "a", "b"),
			s(`{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}`)},
		{"all names", rule(s("get"), s(""), s("pods"), "a"), rule(s("get"), s(""), s("pods")),
			s(`{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`)},
		{"wildcard", rule(s("get", "list"), s("", "apps"), s("pods")), rule(s("*"), s(""), s("pods")),
			s(`{APIGroups:[""], Resources:["pods"], Verbs:["*"]}`)},
		{"covered by wildcards", rule(s("*"), s("*"), s("*")), rule(s("*"), s("x"), s("pods/log", "*"), "a"), nil},
		{"subresources", rule(s("get"), s(""), s("*/scale")), rule(s("get"), s(""), s("pods", "pods/scale")),
			s(`{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`)},
		{"paths", rbacv1.PolicyRule{Verbs: s("get"), NonResourceURLs: s("/a/*")},
			rbacv1.PolicyRule{Verbs: s("get", "put"), NonResourceURLs: s("/a/b", "/a")},
			s(`{NonResourceURLs:["/a"], Verbs:["get"]}`, `{NonResourceURLs:["/a"], Verbs:["put"]}`,
				`{NonResourceURLs:["/a/b"], Verbs:["put"]}`)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, r := range compact(missing([]rbacv1.PolicyRule{tc.held}, []rbacv1.PolicyRule{tc.wanted})) {
				got = append(got, describe(r))
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestPolicy(t *testing.T) {
	roles, bound := map[string]bool{}, 0
	for _, obj := range Policy() {
		switch o := obj.(type) {
		case *rbacv1.Role:
			roles["Role"+o.Namespace+o.Name] = len(o.Rules) > 0
		case *rbacv1.ClusterRole:
			roles["ClusterRole"+o.Name] = len(o.Rules) > 0 || o.AggregationRule != nil
		case *rbacv1.RoleBinding:
			bound++
			if !roles[o.RoleRef.Kind+o.Namespace+o.RoleRef.Name] {
				t.Errorf("%s/%s: no role %s", o.Namespace, o.Name, o.RoleRef.Name)
			}
		case *rbacv1.ClusterRoleBinding:
			bound++
			if !roles[o.RoleRef.Kind+o.RoleRef.Name] {
				t.Errorf("%s: no role %s", o.Name, o.RoleRef.Name)
			}
		}
	}
	for _, name := range []string{"cluster-admin", "admin", "edit", "view", "system:discovery", "system:basic-user",
		"system:public-info-viewer", "system:kube-scheduler", "system:controller:generic-garbage-collector"} {
		if !roles["ClusterRole"+name] {
			t.Errorf("no ClusterRole %s", name)
		}
	}
	if bound < 30 {
		t.Errorf("%d bindings", bound)
	}
	for _, bad := range []string{"Pod x", "ClusterRole", "ClusterRole x\n  get", "ClusterRoleBinding x",
		"ClusterRoleBinding x ClusterRole/y\n  get | /x"} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%q was parsed", bad)
		}
	}
}

// TestPermissionsAreCounted: a rule of few long lists has more permissions than memory has room for. They are counted
// before they are compared.
func TestPermissionsAreCounted(t *testing.T) {
	names := strings.Split(strings.Repeat("x,", 100_000), ",")
	huge := rbacv1.PolicyRule{Verbs: names, APIGroups: names, Resources: names, ResourceNames: names}
	if n := permissions([]rbacv1.PolicyRule{huge, huge}); n <= maxPermissions {
		t.Errorf("%g permissions", n)
	}
	few := rbacv1.PolicyRule{Verbs: names[:3], APIGroups: names[:2], Resources: names[:5]}
	paths := rbacv1.PolicyRule{Verbs: names[:3], NonResourceURLs: names[:4]}
	if n := permissions([]rbacv1.PolicyRule{few, paths}); n != 3*2*5+3*4 {
		t.Errorf("%g permissions", n)
	}
	ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: "eve"})
	if err := (guards{}).confirmNoEscalation(ctx, "roles", []rbacv1.PolicyRule{huge}); err == nil || !strings.Contains(err.Error(), "at most 100000") {
		t.Errorf("a rule with too many permissions: %v", err)
	}
}
