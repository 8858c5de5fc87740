package rbac

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Allow reports whether one of the rules allows a request.
//
//upstream:plugin/pkg/auth/authorizer/rbac.RulesAllow
func Allow(rules []rbacv1.PolicyRule, a authorizer.Attributes) bool {
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return allows(&r, a) })
}

// allows reports whether a rule allows a request.
//
//upstream:plugin/pkg/auth/authorizer/rbac.RuleAllows
func allows(r *rbacv1.PolicyRule, a authorizer.Attributes) bool {
	if !hasOrAll(r.Verbs, a.GetVerb()) {
		return false
	}
	if !a.IsResourceRequest() {
		return slices.ContainsFunc(r.NonResourceURLs, func(pattern string) bool {
			return coversPath(pattern, a.GetPath())
		})
	}
	resource := a.GetResource()
	if sub := a.GetSubresource(); sub != "" {
		resource += "/" + sub
	}
	return hasOrAll(r.APIGroups, a.GetAPIGroup()) && coversResource(r.Resources, resource) &&
		(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, a.GetName()))
}

func hasOrAll(list []string, value string) bool {
	return slices.Contains(list, "*") || slices.Contains(list, value)
}

// coversResource reports whether a list of resources contains a resource or "RESOURCE/SUBRESOURCE". The list may
// contain "*" and "*/SUBRESOURCE".
//
//upstream:pkg/apis/rbac/v1.ResourceMatches
func coversResource(list []string, resource string) bool {
	if hasOrAll(list, resource) {
		return true
	}
	_, sub, ok := strings.Cut(resource, "/")
	return ok && slices.Contains(list, "*/"+sub)
}

// coversPath reports whether a pattern covers a path. The path may itself be a pattern that ends in "*".
//
//upstream:pkg/apis/rbac/v1.NonResourceURLMatches
func coversPath(pattern, path string) bool {
	if pattern == "*" || pattern == path {
		return true
	}
	return strings.HasSuffix(pattern, "*") && strings.HasPrefix(path, strings.TrimRight(pattern, "*"))
}

// missing returns the permissions of wanted that held does not cover, one permission per rule.
//
//upstream:k8s.io/component-helpers/auth/rbac/validation.Covers
func missing(held, wanted []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var uncovered []rbacv1.PolicyRule
	for i := range wanted {
		for _, single := range split(&wanted[i]) {
			if !slices.ContainsFunc(held, func(r rbacv1.PolicyRule) bool { return covers(&r, &single) }) {
				uncovered = append(uncovered, single)
			}
		}
	}
	return uncovered
}

// maxPermissions is the maximum number of permissions that are compared one by one. A rule with a few long lists has
// very many permissions.
const maxPermissions = 100_000

// permissions returns the number of permissions of the rules.
func permissions(rules []rbacv1.PolicyRule) (n float64) {
	count := func(list []string) float64 { return float64(len(list)) }
	for i := range rules {
		r := &rules[i]
		n += count(r.Verbs) * (count(r.APIGroups)*count(r.Resources)*max(count(r.ResourceNames), 1) + count(r.NonResourceURLs))
	}
	return n
}

// split splits a rule into rules with one permission each.
//
//upstream:k8s.io/component-helpers/auth/rbac/validation.BreakdownRule
func split(r *rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var single []rbacv1.PolicyRule
	for _, group := range r.APIGroups {
		for _, resource := range r.Resources {
			for _, verb := range r.Verbs {
				rule := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb}}
				if len(r.ResourceNames) == 0 {
					single = append(single, rule)
				}
				for _, name := range r.ResourceNames {
					rule.ResourceNames = []string{name}
					single = append(single, rule)
				}
			}
		}
	}
	for _, path := range r.NonResourceURLs {
		for _, verb := range r.Verbs {
			single = append(single, rbacv1.PolicyRule{NonResourceURLs: []string{path}, Verbs: []string{verb}})
		}
	}
	return single
}

// covers reports whether a rule covers a single permission. The permission may have wildcards.
//
//upstream:k8s.io/component-helpers/auth/rbac/validation.ruleCovers
func covers(r, single *rbacv1.PolicyRule) bool {
	if !hasOrAll(r.Verbs, single.Verbs[0]) {
		return false
	}
	if len(single.NonResourceURLs) > 0 {
		return len(r.ResourceNames) == 0 && slices.ContainsFunc(r.NonResourceURLs, func(pattern string) bool {
			return coversPath(pattern, single.NonResourceURLs[0])
		})
	}
	return hasOrAll(r.APIGroups, single.APIGroups[0]) && coversResource(r.Resources, single.Resources[0]) &&
		(len(r.ResourceNames) == 0 ||
			len(single.ResourceNames) > 0 && slices.Contains(r.ResourceNames, single.ResourceNames[0]))
}

// compact merges rules for the same resource of the same group and the same name into one rule with all their verbs. It
// does not change other rules.
//
//upstream:pkg/registry/rbac/validation.CompactRules
func compact(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	type key struct{ group, resource, name string }
	merged := map[key]int{}
	var out []rbacv1.PolicyRule
	for _, r := range rules {
		if len(r.APIGroups) != 1 || len(r.Resources) != 1 || len(r.ResourceNames) > 1 || len(r.NonResourceURLs) > 0 {
			out = append(out, r)
			continue
		}
		k := key{group: r.APIGroups[0], resource: r.Resources[0]}
		if len(r.ResourceNames) == 1 {
			k.name = "/" + r.ResourceNames[0]
		}
		if i, ok := merged[k]; ok {
			out[i].Verbs = append(slices.Clone(out[i].Verbs), r.Verbs...)
			continue
		}
		merged[k] = len(out)
		out = append(out, r)
	}
	return out
}
