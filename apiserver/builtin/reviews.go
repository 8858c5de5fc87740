package builtin

import (
	"context"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// reviewer serves the reviews of authentication and authorization.
type reviewer struct {
	Authenticator authenticator.Request
	Audiences     authenticator.Audiences
	Authorizer    authorizer.UnconditionalAuthorizer
}

// Reviews returns the descriptions of the review kinds of authentication and authorization.
func Reviews(users authenticator.Request, audiences authenticator.Audiences,
	access authorizer.UnconditionalAuthorizer) []kinds.Kind {
	a := reviewer{users, audiences, access}
	return []kinds.Kind{
		kinds.Review[*authenticationv1.SelfSubjectReview]{Type: &authenticationv1.SelfSubjectReview{},
			Plural: "selfsubjectreviews", Answer: selfSubject},
		kinds.Review[*authenticationv1.TokenReview]{Type: &authenticationv1.TokenReview{}, Plural: "tokenreviews",
			Answer: a.token},
		kinds.Review[*authorizationv1.SelfSubjectAccessReview]{Type: &authorizationv1.SelfSubjectAccessReview{},
			Plural: "selfsubjectaccessreviews", Answer: a.selfSubjectAccess},
		kinds.Review[*authorizationv1.SubjectAccessReview]{Type: &authorizationv1.SubjectAccessReview{},
			Plural: "subjectaccessreviews", Answer: a.subjectAccess},
		kinds.Review[*authorizationv1.LocalSubjectAccessReview]{Type: &authorizationv1.LocalSubjectAccessReview{},
			Plural: "localsubjectaccessreviews", Namespaced: true, Answer: a.localSubjectAccess},
		kinds.Review[*authorizationv1.SelfSubjectRulesReview]{Type: &authorizationv1.SelfSubjectRulesReview{},
			Plural: "selfsubjectrulesreviews", Answer: a.selfSubjectRules},
	}
}

//upstream:pkg/registry/authentication/selfsubjectreview.REST.Create
func selfSubject(ctx context.Context, r *authenticationv1.SelfSubjectReview) error {
	r.ObjectMeta = metav1.ObjectMeta{CreationTimestamp: metav1.Now()}
	if u, ok := request.UserFrom(ctx); ok {
		r.Status.UserInfo = describeUser(u)
	}
	return nil
}

// token authenticates a request that has only the token.
//
//upstream:pkg/registry/authentication/tokenreview.REST.Create
func (a reviewer) token(_ context.Context, r *authenticationv1.TokenReview) error {
	if r.Spec.Token == "" {
		return errors.NewBadRequest("token is required for TokenReview in authentication")
	}
	audiences := a.Audiences
	if len(r.Spec.Audiences) > 0 {
		audiences = r.Spec.Audiences
	}
	// A new context: the context of the request may have the user of an in-process client.
	ctx := authenticator.WithAudiences(context.Background(), audiences)
	req := &http.Request{Header: http.Header{"Authorization": {"Bearer " + r.Spec.Token}}}
	response, ok, err := a.Authenticator.AuthenticateRequest(req.WithContext(ctx))
	if err != nil {
		r.Status.Error = err.Error()
		return nil
	}
	if !ok {
		return nil
	}
	r.Status.Authenticated = true
	r.Status.User = describeUser(response.User)
	r.Status.Audiences = response.Audiences
	return nil
}

func describeUser(u user.Info) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups()}
	for key, values := range u.GetExtra() {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[key] = values
	}
	return info
}

// reviewKind is the kind in the errors of access reviews. kube-apiserver names the group only.
var reviewKind = schema.GroupKind{Group: authorizationv1.GroupName}

//upstream:pkg/registry/authorization/selfsubjectaccessreview.REST.Create
//upstream:pkg/apis/authorization/validation.ValidateSelfSubjectAccessReviewSpec
func (a reviewer) selfSubjectAccess(ctx context.Context, r *authorizationv1.SelfSubjectAccessReview) error {
	u, _ := request.UserFrom(ctx)
	errs := append(validateAttributes(r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes), emptyMetadata(r.ObjectMeta, "must be empty")...)
	if len(errs) > 0 {
		return errors.NewInvalid(reviewKind, "", errs)
	}
	r.Status = a.decide(ctx, u, r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
	return nil
}

//upstream:pkg/registry/authorization/subjectaccessreview.REST.Create
func (a reviewer) subjectAccess(ctx context.Context, r *authorizationv1.SubjectAccessReview) error {
	errs := append(validateSubject(r.Spec), emptyMetadata(r.ObjectMeta, "must be empty")...)
	if len(errs) > 0 {
		return errors.NewInvalid(reviewKind, "", errs)
	}
	r.Status = a.decide(ctx, subject(r.Spec), r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
	return nil
}

//upstream:pkg/registry/authorization/localsubjectaccessreview.REST.Create
//upstream:pkg/apis/authorization/validation.ValidateLocalSubjectAccessReview
func (a reviewer) localSubjectAccess(ctx context.Context, r *authorizationv1.LocalSubjectAccessReview) error {
	named := r.ObjectMeta
	named.Namespace = ""
	errs := append(validateSubject(r.Spec), emptyMetadata(named, "must be empty except for namespace")...)
	if a := r.Spec.ResourceAttributes; a != nil && a.Namespace != r.Namespace {
		errs = append(errs, field.Invalid(field.NewPath("spec", "resourceAttributes", "namespace"), a.Namespace,
			"must match metadata.namespace"))
	}
	if r.Spec.NonResourceAttributes != nil {
		errs = append(errs, field.Invalid(field.NewPath("spec", "nonResourceAttributes"),
			fieldrules.Internal(*r.Spec.NonResourceAttributes), "disallowed on this kind of request"))
	}
	if len(errs) > 0 {
		return errors.NewInvalid(reviewKind, "", errs)
	}
	r.Status = a.decide(ctx, subject(r.Spec), r.Spec.ResourceAttributes, nil)
	return nil
}

// selfSubjectRules lists the rules of the authorizer for the user. The rules do not include the permissions of
// system:masters.
//
//upstream:pkg/registry/authorization/selfsubjectrulesreview.REST.Create
func (a reviewer) selfSubjectRules(ctx context.Context, r *authorizationv1.SelfSubjectRulesReview) error {
	if r.Spec.Namespace == "" {
		return errors.NewBadRequest("no namespace on request")
	}
	u, ok := request.UserFrom(ctx)
	if !ok {
		return errors.NewBadRequest("no user present on request")
	}
	r.Status.ResourceRules = []authorizationv1.ResourceRule{}
	r.Status.NonResourceRules = []authorizationv1.NonResourceRule{}
	resolver, ok := a.Authorizer.(authorizer.RuleResolver)
	if !ok {
		r.Status.Incomplete = true
		return nil
	}
	resources, paths, incomplete, err := resolver.RulesFor(ctx, u, r.Spec.Namespace)
	for _, rule := range resources {
		r.Status.ResourceRules = append(r.Status.ResourceRules, authorizationv1.ResourceRule{Verbs: rule.GetVerbs(),
			APIGroups: rule.GetAPIGroups(), Resources: rule.GetResources(), ResourceNames: rule.GetResourceNames()})
	}
	for _, rule := range paths {
		r.Status.NonResourceRules = append(r.Status.NonResourceRules, authorizationv1.NonResourceRule{
			Verbs: rule.GetVerbs(), NonResourceURLs: rule.GetNonResourceURLs()})
	}
	r.Status.Incomplete = incomplete
	if err != nil {
		r.Status.EvaluationError = err.Error()
	}
	return nil
}

// decide authorizes a request of a user for a resource or a path.
//
//upstream:pkg/registry/authorization/util.ResourceAttributesFrom
//upstream:pkg/registry/authorization/util.NonResourceAttributesFrom
func (a reviewer) decide(ctx context.Context, u user.Info, on *authorizationv1.ResourceAttributes,
	path *authorizationv1.NonResourceAttributes) authorizationv1.SubjectAccessReviewStatus {
	attributes := authorizer.AttributesRecord{User: u}
	if on != nil {
		attributes.ResourceRequest = true
		attributes.Verb, attributes.Namespace, attributes.Name = on.Verb, on.Namespace, on.Name
		attributes.APIGroup, attributes.APIVersion = on.Group, on.Version
		attributes.Resource, attributes.Subresource = on.Resource, on.Subresource
		if attributes.APIVersion == "" {
			attributes.APIVersion = "*"
		}
	} else {
		attributes.Verb, attributes.Path = path.Verb, path.Path
	}
	var ignored []string
	if on != nil {
		ignored = addSelectors(&attributes, on)
	}
	decision, reason, err := a.Authorizer.Authorize(ctx, attributes)
	status := authorizationv1.SubjectAccessReviewStatus{
		Allowed: decision == authorizer.DecisionAllow, Denied: decision == authorizer.DecisionDeny, Reason: reason,
	}
	if err != nil {
		ignored = append([]string{err.Error()}, ignored...)
	}
	status.EvaluationError = strings.Join(ignored, "; ")
	return status
}

//upstream:pkg/registry/authorization/util.AuthorizationAttributesFrom
func subject(spec authorizationv1.SubjectAccessReviewSpec) user.Info {
	u := &user.DefaultInfo{Name: spec.User, UID: spec.UID, Groups: slices.Clone(spec.Groups)}
	for key, values := range spec.Extra {
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[key] = values
	}
	return u
}

//upstream:pkg/apis/authorization/validation.ValidateSubjectAccessReviewSpec
func validateSubject(spec authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	errs := validateAttributes(spec.ResourceAttributes, spec.NonResourceAttributes)
	if spec.User == "" && len(spec.Groups) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "user"), spec.User,
			"at least one of user or group must be specified"))
	}
	return errs
}

const oneOfAttributes = "exactly one of nonResourceAttributes or resourceAttributes must be specified"

// validateAttributes checks that a review has either a resource, with valid selectors, or a path.
//
//upstream:pkg/apis/authorization/validation.validateResourceAttributes
func validateAttributes(on *authorizationv1.ResourceAttributes,
	path *authorizationv1.NonResourceAttributes) field.ErrorList {
	switch at := field.NewPath("spec"); {
	case on != nil && path != nil:
		return field.ErrorList{field.Invalid(at, fieldrules.Internal(*path), oneOfAttributes)}
	case on == nil && path == nil:
		return field.ErrorList{field.Invalid(at, path, oneOfAttributes)}
	}
	return validateSelectors(on)
}
