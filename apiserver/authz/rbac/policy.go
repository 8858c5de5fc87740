package rbac

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

//go:embed policy.txt
//upstream:plugin/pkg/auth/authorizer/rbac/bootstrappolicy/
var policyText string

const labelPrefix = "rbac.authorization.k8s.io/"

var parsePolicy = sync.OnceValue(func() []Object {
	objects, err := parse(policyText)
	if err != nil {
		panic(err) // a test parses it
	}
	return objects
})

// Object is a role or a binding.
type Object interface {
	metav1.Object
	runtime.Object
}

// Policy returns new copies of the roles and bindings that every cluster has. The roles come before the bindings.
func Policy() []Object {
	var roles, bindings []Object
	for _, obj := range parsePolicy() {
		switch o := obj.DeepCopyObject().(Object); o.(type) {
		case *rbacv1.Role, *rbacv1.ClusterRole:
			roles = append(roles, o)
		default:
			bindings = append(bindings, o)
		}
	}
	return append(roles, bindings...)
}

// parse parses the format that policy.txt describes.
func parse(text string) ([]Object, error) {
	var objects []Object
	for number, line := range strings.Split(text, "\n") {
		var err error
		switch {
		case line == "" || line[0] == '#':
		case line[0] == ' ' && len(objects) > 0:
			err = parseRule(objects[len(objects)-1], strings.TrimSpace(line))
		default:
			var obj Object
			if obj, err = parseObject(strings.Fields(line)); err == nil {
				objects = append(objects, obj)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number+1, err)
		}
	}
	return objects, nil
}

// parseObject parses the line of an object.
func parseObject(words []string) (Object, error) {
	if len(words) < 2 {
		return nil, fmt.Errorf("an object without a name")
	}
	m := metav1.ObjectMeta{
		Name:        words[1],
		Labels:      map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"},
		Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"},
	}
	if namespace, name, ok := strings.Cut(m.Name, "/"); ok {
		m.Namespace, m.Name = namespace, name
	}
	switch kind, rest := words[0], words[2:]; kind {
	case "Role":
		return &rbacv1.Role{ObjectMeta: m}, nil
	case "ClusterRole":
		return parseClusterRole(m, rest), nil
	case "RoleBinding":
		ref, subjects, err := parseBinding(rest)
		return &rbacv1.RoleBinding{ObjectMeta: m, RoleRef: ref, Subjects: subjects}, err
	case "ClusterRoleBinding":
		ref, subjects, err := parseBinding(rest)
		return &rbacv1.ClusterRoleBinding{ObjectMeta: m, RoleRef: ref, Subjects: subjects}, err
	default:
		return nil, fmt.Errorf("unknown kind %q", kind)
	}
}

func parseClusterRole(m metav1.ObjectMeta, words []string) *rbacv1.ClusterRole {
	role := &rbacv1.ClusterRole{ObjectMeta: m}
	for _, word := range words {
		label := labelPrefix + word[1:]
		if word[0] == '+' {
			role.Labels[label] = "true"
			continue
		}
		if role.AggregationRule == nil {
			role.AggregationRule = &rbacv1.AggregationRule{}
		}
		role.AggregationRule.ClusterRoleSelectors = append(role.AggregationRule.ClusterRoleSelectors,
			metav1.LabelSelector{MatchLabels: map[string]string{label: "true"}})
	}
	return role
}

func parseBinding(words []string) (ref rbacv1.RoleRef, subjects []rbacv1.Subject, err error) {
	if len(words) == 0 {
		return ref, nil, fmt.Errorf("a binding without a role")
	}
	ref.APIGroup = rbacv1.GroupName
	ref.Kind, ref.Name, _ = strings.Cut(words[0], "/")
	for _, word := range words[1:] {
		kind, name, _ := strings.Cut(word, ":")
		s := rbacv1.Subject{Kind: kind, APIGroup: rbacv1.GroupName, Name: name}
		if kind == rbacv1.ServiceAccountKind {
			s.APIGroup = ""
			s.Namespace, s.Name, _ = strings.Cut(name, "/")
		}
		subjects = append(subjects, s)
	}
	return ref, subjects, nil
}

// parseRule parses a rule, and adds it to a role.
func parseRule(to Object, line string) error {
	parts := strings.Split(line, " | ")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	list := func(i int) []string { return strings.Split(parts[i], ",") }
	rule := rbacv1.PolicyRule{Verbs: list(0)}
	switch len(parts) {
	case 2:
		rule.NonResourceURLs = list(1)
	case 3, 4:
		rule.APIGroups, rule.Resources = list(1), list(2)
		if i := slices.Index(rule.APIGroups, "core"); i >= 0 {
			rule.APIGroups[i] = ""
		}
		if len(parts) == 4 {
			rule.ResourceNames = list(3)
		}
	default:
		return fmt.Errorf("a rule has 2 to 4 parts, and not %d", len(parts))
	}
	switch o := to.(type) {
	case *rbacv1.Role:
		o.Rules = append(o.Rules, rule)
	case *rbacv1.ClusterRole:
		o.Rules = append(o.Rules, rule)
	default:
		return fmt.Errorf("a rule of a binding")
	}
	return nil
}

// Reconcile adds missing data to a stored role or binding: the labels, annotations, rules, aggregation selectors and
// subjects of expected. It reports whether it has changed the object, and whether the caller must replace the object,
// because the role of a binding is immutable. Objects with the annotation
// rbac.authorization.kubernetes.io/autoupdate=false are not changed.
//
//upstream:k8s.io/component-helpers/auth/rbac/reconciliation.computeReconciledRole
//upstream:k8s.io/component-helpers/auth/rbac/reconciliation.computeReconciledRoleBinding
func Reconcile(obj, expected runtime.Object) (changed, replace bool) {
	o, want := obj.(Object), expected.(Object)
	if o.GetAnnotations()[rbacv1.AutoUpdateAnnotationKey] == "false" {
		return false, false
	}
	labels, moreLabels := withMissing(o.GetLabels(), want.GetLabels())
	annotations, moreAnnotations := withMissing(o.GetAnnotations(), want.GetAnnotations())
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
	changed = moreLabels || moreAnnotations
	switch o := o.(type) {
	case *rbacv1.Role:
		lacking := missing(o.Rules, want.(*rbacv1.Role).Rules)
		o.Rules = append(o.Rules, lacking...)
		return changed || len(lacking) > 0, false
	case *rbacv1.ClusterRole:
		return reconcileClusterRole(o, want.(*rbacv1.ClusterRole)) || changed, false
	case *rbacv1.RoleBinding:
		w := want.(*rbacv1.RoleBinding)
		return addSubjects(&o.Subjects, w.Subjects) || changed, o.RoleRef != w.RoleRef
	case *rbacv1.ClusterRoleBinding:
		w := want.(*rbacv1.ClusterRoleBinding)
		return addSubjects(&o.Subjects, w.Subjects) || changed, o.RoleRef != w.RoleRef
	}
	return changed, false
}

func reconcileClusterRole(o, want *rbacv1.ClusterRole) (changed bool) {
	if want.AggregationRule == nil {
		lacking := missing(o.Rules, want.Rules)
		o.Rules = append(o.Rules, lacking...)
		return len(lacking) > 0
	}
	if o.AggregationRule == nil {
		o.AggregationRule = &rbacv1.AggregationRule{}
	}
	for _, selector := range want.AggregationRule.ClusterRoleSelectors {
		text := metav1.FormatLabelSelector(&selector)
		if !slices.ContainsFunc(o.AggregationRule.ClusterRoleSelectors, func(s metav1.LabelSelector) bool {
			return metav1.FormatLabelSelector(&s) == text
		}) {
			o.AggregationRule.ClusterRoleSelectors = append(o.AggregationRule.ClusterRoleSelectors, selector)
			changed = true
		}
	}
	return changed
}

func addSubjects(to *[]rbacv1.Subject, want []rbacv1.Subject) (changed bool) {
	for _, s := range want {
		if !slices.Contains(*to, s) {
			*to = append(*to, s)
			changed = true
		}
	}
	return changed
}

// withMissing returns have with the missing keys of want, and whether keys were missing. Existing values do not change.
func withMissing(have, want map[string]string) (map[string]string, bool) {
	changed := false
	for k, v := range want {
		if _, ok := have[k]; ok {
			continue
		}
		if have == nil {
			have = map[string]string{}
		}
		have[k], changed = v, true
	}
	return have, changed
}
