// Package authz authorizes requests.
//
// An authorizer allows a request or has no opinion. A request that no authorizer allows is forbidden. Package rbac
// grants the permissions of roles and bindings, and package node the permissions that kubelets need.
package authz

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// The authorization modes, by kube-apiserver's names.
const (
	ModeRBAC        = "RBAC"
	ModeNode        = "Node"
	ModeAlwaysAllow = "AlwaysAllow"
)

// ParseModes parses a comma-separated list of authorization modes. An empty list means [ModeRBAC]. ParseModes fails for
// unknown or repeated modes.
//
//upstream:pkg/kubeapiserver/options.BuiltInAuthorizationOptions.Validate
func ParseModes(list string) ([]string, error) {
	if list == "" {
		return []string{ModeRBAC}, nil
	}
	modes := strings.Split(list, ",")
	for i, mode := range modes {
		switch {
		case mode != ModeAlwaysAllow && mode != ModeNode && mode != ModeRBAC:
			return nil, fmt.Errorf("authorization-mode %q is not a valid mode, valid modes are %s, %s and %s",
				mode, ModeAlwaysAllow, ModeNode, ModeRBAC)
		case slices.Contains(modes[:i], mode):
			return nil, fmt.Errorf("authorization-mode %q has mode specified more than once", modes)
		}
	}
	return modes, nil
}

// Authorizer decides about requests.
type Authorizer = authorizer.UnconditionalAuthorizer

// New returns an authorizer that allows all requests of members of system:masters, and every request that one of more
// allows. The result is also an [authorizer.RuleResolver]; it returns the rules of all members of more that implement
// the interface.
func New(more ...Authorizer) Authorizer {
	return chain(append([]Authorizer{authorizer.AuthorizerFunc(administrators)}, more...))
}

// AlwaysAllow allows every request.
//
//upstream:k8s.io/apiserver/pkg/authorization/authorizerfactory.alwaysAllowAuthorizer
type AlwaysAllow struct{}

// Authorize implements [Authorizer].
func (AlwaysAllow) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
}

// RulesFor implements [authorizer.RuleResolver].
func (AlwaysAllow) RulesFor(context.Context, user.Info, string) ([]authorizer.ResourceRuleInfo,
	[]authorizer.NonResourceRuleInfo, bool, error) {
	all := []string{"*"}
	return []authorizer.ResourceRuleInfo{&authorizer.DefaultResourceRuleInfo{Verbs: all, APIGroups: all, Resources: all}},
		[]authorizer.NonResourceRuleInfo{&authorizer.DefaultNonResourceRuleInfo{Verbs: all, NonResourceURLs: all}},
		false, nil
}

// chain allows a request if one of its members does. Otherwise it joins their reasons and errors.
//
//upstream:k8s.io/apiserver/pkg/authorization/union.unionAuthzHandler
//upstream:k8s.io/apiserver/pkg/authorization/union.unionAuthzRulesHandler
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

// RulesFor implements [authorizer.RuleResolver].
func (c chain) RulesFor(ctx context.Context, u user.Info, namespace string) (resources []authorizer.ResourceRuleInfo,
	paths []authorizer.NonResourceRuleInfo, incomplete bool, err error) {
	for _, member := range c {
		resolver, ok := member.(authorizer.RuleResolver)
		if !ok {
			continue
		}
		r, p, i, e := resolver.RulesFor(ctx, u, namespace)
		resources, paths = append(resources, r...), append(paths, p...)
		incomplete, err = incomplete || i, errors.Join(err, e)
	}
	return resources, paths, incomplete, err
}

// administrators allows all requests of members of system:masters.
//
//upstream:k8s.io/apiserver/pkg/authorization/authorizerfactory.privilegedGroupAuthorizer
func administrators(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetUser() != nil && slices.Contains(a.GetUser().GetGroups(), user.SystemPrivilegedGroup) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}
