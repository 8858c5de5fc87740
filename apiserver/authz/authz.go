// Package authz answers the second question about a request: may they?
//
// An authorizer allows or has no opinion; the first that allows wins, and a request that none allows
// is forbidden. Rules such as RBAC join the list of [New].
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

// New allows what administrators ask, what everybody may see, what whoever is known may ask about the API
// and about themselves, and what any of more allows.
func New(more ...Authorizer) Authorizer {
	return chain(append([]Authorizer{
		authorizer.AuthorizerFunc(administrators),
		authorizer.AuthorizerFunc(everybody),
		authorizer.AuthorizerFunc(whoeverIsKnown),
	}, more...))
}

// chain allows what one of its members allows and collects why the others did not.
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

func administrators(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetUser() != nil && slices.Contains(a.GetUser().GetGroups(), user.SystemPrivilegedGroup) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// public are the paths that anybody may read, known or not.
var public = []string{"/healthz", "/livez", "/readyz", "/version", "/version/"}

func everybody(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if !a.IsResourceRequest() && a.IsReadOnly() && slices.Contains(public, a.GetPath()) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// aboutOneself are the reviews in which users ask about themselves.
var aboutOneself = map[string][]string{
	"authentication.k8s.io": {"selfsubjectreviews"},
	"authorization.k8s.io":  {"selfsubjectaccessreviews", "selfsubjectrulesreviews"},
}

// discovery are the paths that say what the API has, and below which everything does.
var discovery = []string{"/api", "/apis", "/openapi"}

func whoeverIsKnown(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetUser() == nil || !slices.Contains(a.GetUser().GetGroups(), user.AllAuthenticated) {
		return authorizer.DecisionNoOpinion, "", nil
	}
	if a.IsResourceRequest() {
		if a.GetVerb() == "create" && slices.Contains(aboutOneself[a.GetAPIGroup()], a.GetResource()) {
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
