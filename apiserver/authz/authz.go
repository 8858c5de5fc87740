// Package authz authorizes requests.
//
// An authorizer allows a request or has no opinion. A request that none allows is forbidden. Other
// authorizers, such as RBAC, are arguments of [New].
package authz

import (
	"context"
	"errors"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Authorizer decides about requests.
type Authorizer = authorizer.UnconditionalAuthorizer

// New returns an authorizer that allows all requests of members of system:masters, those for public
// paths, those of authenticated users for discovery and for reviews of themselves, and what any of
// more allows.
func New(more ...Authorizer) Authorizer {
	return chain(append([]Authorizer{
		authorizer.AuthorizerFunc(administrators),
		authorizer.AuthorizerFunc(publicPaths),
		authorizer.AuthorizerFunc(authenticated),
	}, more...))
}

// chain allows a request that one of its members allows. Otherwise it joins their reasons and
// errors.
type chain []Authorizer

func (c chain) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	var reasons []string
	var errs []error
	for _, member := range c {
		decision, reason, err := member.Authorize(ctx, a)
		if decision != authorizer.DecisionNoOpinion {
			return decision, reason, err
		}
		if reason != "" {
			reasons = append(reasons, reason)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return authorizer.DecisionNoOpinion, strings.Join(reasons, "; "), errors.Join(errs...)
}

// administrators allows all requests of members of system:masters.
func administrators(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetUser() != nil && slices.Contains(a.GetUser().GetGroups(), user.SystemPrivilegedGroup) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// public are the paths that anonymous users may read.
var public = []string{"/healthz", "/livez", "/readyz", "/version", "/version/"}

// publicPaths allows anybody to read the public paths.
func publicPaths(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if !a.IsResourceRequest() && a.IsReadOnly() && slices.Contains(public, a.GetPath()) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// selfReviews are the resources by which users ask about themselves, by API group.
var selfReviews = map[string][]string{
	"authentication.k8s.io": {"selfsubjectreviews"},
	"authorization.k8s.io":  {"selfsubjectaccessreviews", "selfsubjectrulesreviews"},
}

// discovery are the roots of the paths of discovery and OpenAPI.
var discovery = []string{"/api", "/apis", "/openapi"}

// authenticated allows authenticated users discovery and reviews of themselves.
func authenticated(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetUser() == nil || !slices.Contains(a.GetUser().GetGroups(), user.AllAuthenticated) {
		return authorizer.DecisionNoOpinion, "", nil
	}
	if a.IsResourceRequest() {
		if a.GetVerb() == "create" && slices.Contains(selfReviews[a.GetAPIGroup()], a.GetResource()) {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	}
	for _, path := range discovery {
		if a.IsReadOnly() && (a.GetPath() == path || strings.HasPrefix(a.GetPath(), path+"/")) {
			return authorizer.DecisionAllow, "", nil
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}
