// Package rbac describes the kinds of the rbac.authorization.k8s.io API group.
package rbac

import (
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
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
		Validate: func(r *rbacv1.Role) field.ErrorList { return policyRules(r.Rules, true) },
		Columns:  columns.CreatedAt,
		Row:      func(r *rbacv1.Role) []any { return columns.CreatedRow(r) },
		Bare:     true,
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
func validateClusterRole(r *rbacv1.ClusterRole) field.ErrorList {
	errs := policyRules(r.Rules, false)
	if r.AggregationRule == nil {
		return errs
	}
	at := fieldrules.Root.Child("aggregationRule")
	list := at.Child("clusterRoleSelectors")
	if len(r.AggregationRule.ClusterRoleSelectors) == 0 {
		return append(errs, field.Required(list.Field(),
			"at least one clusterRoleSelector required if aggregationRule is non-nil"))
	}
	for i := range r.AggregationRule.ClusterRoleSelectors {
		item := list.Index(i)
		if _, err := metav1.LabelSelectorAsSelector(&r.AggregationRule.ClusterRoleSelectors[i]); err != nil {
			errs = append(errs, field.Invalid(item.Field(), nil, "invalid label selector."))
		}
		errs = append(errs, fieldrules.LabelSelector(&r.AggregationRule.ClusterRoleSelectors[i], &item, "")...)
	}
	return errs
}

// policyRules checks the rules of a role.
//
//upstream:pkg/apis/rbac/validation.ValidatePolicyRule
//upstream:pkg/apis/rbac/v1.Validate_PolicyRule
func policyRules(rules []rbacv1.PolicyRule, namespaced bool) field.ErrorList {
	var errs field.ErrorList
	list := fieldrules.Root.Child("rules")
	for i := range rules {
		r, at := &rules[i], list.Index(i)
		if len(r.Verbs) == 0 {
			errs = append(errs, field.Required(at.ChildField("verbs"), ""))
		}
		if len(r.NonResourceURLs) > 0 {
			if namespaced {
				errs = append(errs, field.Invalid(at.ChildField("nonResourceURLs"), r.NonResourceURLs,
					"namespaced rules cannot apply to non-resource URLs"))
			}
			if len(r.APIGroups)+len(r.Resources)+len(r.ResourceNames) > 0 {
				errs = append(errs, field.Invalid(at.ChildField("nonResourceURLs"), r.NonResourceURLs,
					"rules cannot apply to both regular resources and non-resource URLs"))
			}
			continue
		}
		if len(r.APIGroups) == 0 {
			errs = append(errs, field.Required(at.ChildField("apiGroups"), "resource rules must supply at least one api group"))
		}
		if len(r.Resources) == 0 {
			errs = append(errs, field.Required(at.ChildField("resources"), "resource rules must supply at least one resource"))
		}
	}
	return errs
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
		Validate: func(b *rbacv1.RoleBinding) field.ErrorList {
			return append(roleRef(&b.RoleRef, "Role", "ClusterRole"), subjects(b.Subjects, true)...)
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
		Validate: func(b *rbacv1.ClusterRoleBinding) field.ErrorList {
			return append(roleRef(&b.RoleRef, "ClusterRole"), subjects(b.Subjects, false)...)
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
func roleRef(r *rbacv1.RoleRef, kinds ...string) field.ErrorList {
	at := fieldrules.Root.Child("roleRef")
	var errs field.ErrorList
	if r.APIGroup != rbacv1.GroupName {
		errs = append(errs, field.NotSupported(at.ChildField("apiGroup"), r.APIGroup, []string{rbacv1.GroupName}))
	}
	known := false
	for _, k := range kinds {
		known = known || k == r.Kind
	}
	if !known {
		errs = append(errs, field.NotSupported(at.ChildField("kind"), r.Kind, kinds))
	}
	if r.Name == "" {
		return append(errs, field.Required(at.ChildField("name"), ""))
	}
	return append(errs, fieldrules.Invalid(fieldrules.NameIsPathSegment(r.Name, false), r.Name, &at, "name")...)
}

//upstream:pkg/apis/rbac/validation.ValidateRoleBindingUpdate
//upstream:pkg/apis/rbac/validation.ValidateClusterRoleBindingUpdate
func sameRoleRef(now, was rbacv1.RoleRef) field.ErrorList {
	if now == was {
		return nil
	}
	return field.ErrorList{field.Invalid(fieldrules.Root.ChildField("roleRef"), fieldrules.Internal(now), apivalidation.FieldImmutableErrorMsg)}
}

// subjects checks the subjects of a binding.
//
//upstream:pkg/apis/rbac/validation.ValidateRoleBindingSubject
func subjects(list []rbacv1.Subject, namespaced bool) field.ErrorList {
	var errs field.ErrorList
	all := fieldrules.Root.Child("subjects")
	for i := range list {
		s, at := &list[i], all.Index(i)
		errs = append(errs, fieldrules.Required(s.Name, &at, "name")...)
		group := rbacv1.GroupName
		switch s.Kind {
		case rbacv1.ServiceAccountKind:
			group = ""
			if s.Name != "" {
				errs = append(errs, fieldrules.Invalid(fieldrules.NameIsSubdomain(s.Name, false), s.Name, &at, "name")...)
			}
			if !namespaced && s.Namespace == "" {
				errs = append(errs, field.Required(at.ChildField("namespace"), ""))
			}
		case rbacv1.UserKind, rbacv1.GroupKind:
		default:
			errs = append(errs, field.NotSupported(at.ChildField("kind"), s.Kind,
				[]string{rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind}))
			continue
		}
		if s.APIGroup != group {
			errs = append(errs, field.NotSupported(at.ChildField("apiGroup"), s.APIGroup, []string{group}))
		}
	}
	return errs
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
