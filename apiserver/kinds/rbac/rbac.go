// Package rbac describes the kinds of the rbac.authorization.k8s.io API group.
package rbac

import (
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// Roles describes the kind Role.
//
//upstream:pkg/registry/rbac/role.strategy
//upstream:pkg/apis/rbac/validation.ValidateRole
func Roles() kinds.Kind {
	return kinds.Of[*rbacv1.Role]{
		Type: &rbacv1.Role{}, List: &rbacv1.RoleList{},
		Plural: "roles", Name: fieldrules.WholeNameIsPathSegment, CreateOnUpdate: true,
		Validate: func(r *rbacv1.Role) (errs field.ErrorList) {
			policyRules(check.Object(&errs).Child("rules"), r.Rules, true)
			return errs
		},
		Columns: columns.CreatedAt,
		Row:     func(r *rbacv1.Role) []any { return columns.CreatedRow(r) },
		Bare:    true,
	}
}

// ClusterRoles describes the kind ClusterRole.
//
//upstream:pkg/registry/rbac/clusterrole.strategy
func ClusterRoles() kinds.Kind {
	return kinds.Of[*rbacv1.ClusterRole]{
		Type: &rbacv1.ClusterRole{}, List: &rbacv1.ClusterRoleList{},
		Plural: "clusterroles", Cluster: true, Name: fieldrules.WholeNameIsPathSegment, CreateOnUpdate: true,
		Validate: validateClusterRole,
		Columns:  columns.CreatedAt,
		Row:      func(r *rbacv1.ClusterRole) []any { return columns.CreatedRow(r) },
		Bare:     true,
	}
}

//upstream:pkg/apis/rbac/validation.ValidateClusterRole
func validateClusterRole(r *rbacv1.ClusterRole) (errs field.ErrorList) {
	object := check.Object(&errs)
	policyRules(object.Child("rules"), r.Rules, false)
	if r.AggregationRule == nil {
		return errs
	}
	list, selectors := object.Child("aggregationRule").Child("clusterRoleSelectors"), r.AggregationRule.ClusterRoleSelectors
	if len(selectors) == 0 {
		list.Required("at least one clusterRoleSelector required if aggregationRule is non-nil")
	}
	for i := range selectors {
		if _, err := metav1.LabelSelectorAsSelector(&selectors[i]); err != nil {
			list.Index(i).Invalid(nil, "invalid label selector.")
		}
		check.LabelSelector(list.Index(i), &selectors[i])
	}
	return errs
}

// policyRules checks the rules of a role.
//
//upstream:pkg/apis/rbac/validation.ValidatePolicyRule
//upstream:pkg/apis/rbac/v1.Validate_PolicyRule
func policyRules(list check.Field, rules []rbacv1.PolicyRule, namespaced bool) {
	for i := range rules {
		r, at := &rules[i], list.Index(i)
		if len(r.Verbs) == 0 {
			at.Child("verbs").Required("")
		}
		if urls := at.Child("nonResourceURLs"); len(r.NonResourceURLs) > 0 {
			if namespaced {
				urls.Invalid(r.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs")
			}
			if len(r.APIGroups)+len(r.Resources)+len(r.ResourceNames) > 0 {
				urls.Invalid(r.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs")
			}
			continue
		}
		if len(r.APIGroups) == 0 {
			at.Child("apiGroups").Required("resource rules must supply at least one api group")
		}
		if len(r.Resources) == 0 {
			at.Child("resources").Required("resource rules must supply at least one resource")
		}
	}
}

var bindingColumns = []metav1.TableColumnDefinition{
	columns.Column("Role", "string", rbacv1.RoleBinding{}.SwaggerDoc()["roleRef"]),
	columns.Wide("Users", "string", "The users that are bound."),
	columns.Wide("Groups", "string", "The groups that are bound."),
	columns.Wide("ServiceAccounts", "string", "The service accounts that are bound."),
}

// RoleBindings describes the kind RoleBinding.
//
//upstream:pkg/registry/rbac/rolebinding.strategy
//upstream:pkg/apis/rbac/validation.ValidateRoleBinding
func RoleBindings() kinds.Kind {
	return kinds.Of[*rbacv1.RoleBinding]{
		Type: &rbacv1.RoleBinding{}, List: &rbacv1.RoleBindingList{},
		Plural: "rolebindings", Name: fieldrules.WholeNameIsPathSegment, CreateOnUpdate: true,
		Default: func(b *rbacv1.RoleBinding) { defaultRoleBinding(&b.RoleRef, b.Subjects) },
		Validate: func(b *rbacv1.RoleBinding) (errs field.ErrorList) {
			object := check.Object(&errs)
			roleRef(object.Child("roleRef"), &b.RoleRef, "Role", "ClusterRole")
			subjects(object.Child("subjects"), b.Subjects, true)
			return errs
		},
		ValidateUpdate: func(b, old *rbacv1.RoleBinding) field.ErrorList { return sameRoleRef(b.RoleRef, old.RoleRef) },
		Columns:        bindingColumns,
		Row:            func(b *rbacv1.RoleBinding) []any { return bindingRow(&b.RoleRef, b.Subjects) },
	}
}

// ClusterRoleBindings describes the kind ClusterRoleBinding.
//
//upstream:pkg/registry/rbac/clusterrolebinding.strategy
//upstream:pkg/apis/rbac/validation.ValidateClusterRoleBinding
func ClusterRoleBindings() kinds.Kind {
	return kinds.Of[*rbacv1.ClusterRoleBinding]{
		Type: &rbacv1.ClusterRoleBinding{}, List: &rbacv1.ClusterRoleBindingList{},
		Plural: "clusterrolebindings", Cluster: true, Name: fieldrules.WholeNameIsPathSegment, CreateOnUpdate: true,
		Default: func(b *rbacv1.ClusterRoleBinding) { defaultRoleBinding(&b.RoleRef, b.Subjects) },
		Validate: func(b *rbacv1.ClusterRoleBinding) (errs field.ErrorList) {
			object := check.Object(&errs)
			roleRef(object.Child("roleRef"), &b.RoleRef, "ClusterRole")
			subjects(object.Child("subjects"), b.Subjects, false)
			return errs
		},
		ValidateUpdate: func(b, old *rbacv1.ClusterRoleBinding) field.ErrorList {
			return sameRoleRef(b.RoleRef, old.RoleRef)
		},
		Columns: bindingColumns,
		Row:     func(b *rbacv1.ClusterRoleBinding) []any { return bindingRow(&b.RoleRef, b.Subjects) },
	}
}

//upstream:pkg/apis/rbac/v1.SetDefaults_RoleBinding
//upstream:pkg/apis/rbac/v1.SetDefaults_ClusterRoleBinding
//upstream:pkg/apis/rbac/v1.SetDefaults_Subject
func defaultRoleBinding(r *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	fieldrules.DefaultValue(&r.APIGroup, rbacv1.GroupName)
	for i := range subjects {
		if s := &subjects[i]; s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind {
			fieldrules.DefaultValue(&s.APIGroup, rbacv1.GroupName)
		}
	}
}

//upstream:pkg/apis/rbac/validation.ValidateRoleBinding
//upstream:pkg/apis/rbac/validation.ValidateClusterRoleBinding
func roleRef(at check.Field, r *rbacv1.RoleRef, kinds ...string) {
	check.Supported(at.Child("apiGroup"), r.APIGroup, rbacv1.GroupName)
	check.Supported(at.Child("kind"), r.Kind, kinds...)
	if r.Name == "" {
		at.Child("name").Required("")
	} else {
		check.Valid(at.Child("name"), r.Name, content.IsPathSegmentName)
	}
}

//upstream:pkg/apis/rbac/validation.ValidateRoleBindingUpdate
//upstream:pkg/apis/rbac/validation.ValidateClusterRoleBindingUpdate
func sameRoleRef(now, was rbacv1.RoleRef) (errs field.ErrorList) {
	if now != was {
		check.Object(&errs).Child("roleRef").Invalid(fieldrules.Internal(now), apivalidation.FieldImmutableErrorMsg)
	}
	return errs
}

// subjects checks the subjects of a binding.
//
//upstream:pkg/apis/rbac/validation.ValidateRoleBindingSubject
func subjects(list check.Field, subjects []rbacv1.Subject, namespaced bool) {
	for i := range subjects {
		s, at := &subjects[i], list.Index(i)
		check.Required(at.Child("name"), s.Name)
		group := rbacv1.GroupName
		switch s.Kind {
		case rbacv1.ServiceAccountKind:
			group = ""
			check.IfSet(at.Child("name"), s.Name, check.DNSName)
			if !namespaced {
				check.Required(at.Child("namespace"), s.Namespace)
			}
		case rbacv1.UserKind, rbacv1.GroupKind:
		default:
			at.Child("kind").NotSupported(s.Kind, rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind)
			continue
		}
		check.Supported(at.Child("apiGroup"), s.APIGroup, group)
	}
}

//upstream:pkg/printers/internalversion.printRoleBinding
//upstream:pkg/printers/internalversion.printClusterRoleBinding
func bindingRow(r *rbacv1.RoleRef, subjects []rbacv1.Subject) []any {
	var users, groups, accounts []string
	for _, s := range subjects {
		switch s.Kind {
		case rbacv1.ServiceAccountKind:
			accounts = append(accounts, s.Namespace+"/"+s.Name)
		case rbacv1.UserKind:
			users = append(users, s.Name)
		case rbacv1.GroupKind:
			groups = append(groups, s.Name)
		}
	}
	list := func(names []string) string { return strings.Join(names, ", ") }
	return []any{fmt.Sprintf("%s/%s", r.Kind, r.Name), list(users), list(groups), list(accounts)}
}
