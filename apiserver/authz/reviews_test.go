package authz_test

import (
	"slices"
	"strings"
	"testing"

	"flyball.dev/controlplane/controlplanetest"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"flyball.dev/controlplane"
)

func TestReviews(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true, Tokens: map[string]*user.DefaultInfo{
		"secret": {Name: "guest", Groups: []string{"guests"}},
	}})
	admin := controlplanetest.ClientFor(t, plane.Config())
	guestConfig := plane.Config()
	guestConfig.BearerToken = "secret"
	guest := controlplanetest.ClientFor(t, guestConfig)
	ctx, pods := t.Context(), &authorizationv1.ResourceAttributes{Verb: "create", Resource: "pods", Namespace: "default"}

	t.Run("SelfSubjectReview", func(t *testing.T) {
		got, err := guest.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if u := got.Status.UserInfo; u.Username != "guest" || !slices.Equal(u.Groups, []string{"guests", user.AllAuthenticated}) {
			t.Errorf("the user is %v", u)
		}
	})
	t.Run("SelfSubjectAccessReview", func(t *testing.T) {
		for client, want := range map[*kubernetes.Clientset]bool{admin: true, guest: false} {
			got, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
				&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: pods}}, metav1.CreateOptions{})
			if err != nil || got.Status.Allowed != want {
				t.Errorf("allowed %v, %v; want %v", got.Status.Allowed, err, want)
			}
		}
	})
	t.Run("SubjectAccessReview", func(t *testing.T) {
		for group, want := range map[string]bool{user.SystemPrivilegedGroup: true, "guests": false} {
			spec := authorizationv1.SubjectAccessReviewSpec{Groups: []string{group}, ResourceAttributes: pods}
			got, err := admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
			if err != nil || got.Status.Allowed != want {
				t.Errorf("%s: allowed %v, %v; want %v", group, got.Status.Allowed, err, want)
			}
			_, err = admin.AuthorizationV1().LocalSubjectAccessReviews("kube-system").Create(ctx,
				&authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system"}, Spec: spec}, metav1.CreateOptions{})
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.resourceAttributes.namespace") {
				t.Errorf("another namespace: %v", err)
			}
		}
	})
	t.Run("empty spec", func(t *testing.T) {
		_, err := admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{}, metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "exactly one of") || !strings.Contains(err.Error(), "spec.user") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("selectors", func(t *testing.T) {
		requirement := metav1.FieldSelectorRequirement{Key: "spec.nodeName", Operator: metav1.FieldSelectorOpIn, Values: []string{"n"}}
		for _, tc := range []struct {
			name       string
			selector   authorizationv1.FieldSelectorAttributes
			labels     *authorizationv1.LabelSelectorAttributes
			metadata   metav1.ObjectMeta
			invalid    string
			evaluation string
		}{
			{name: "valid", selector: authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{requirement}}},
			{name: "raw", selector: authorizationv1.FieldSelectorAttributes{RawSelector: "a=b"}},
			{name: "bad raw", selector: authorizationv1.FieldSelectorAttributes{RawSelector: "a"},
				evaluation: "spec.resourceAttributes.fieldSelector ignored due to parse error"},
			{name: "unknown operator", selector: authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{
				requirement, {Key: "a", Operator: "Foo", Values: []string{"b"}}}},
				evaluation: "spec.resourceAttributes.fieldSelector partially ignored due to parse error"},
			{name: "both", selector: authorizationv1.FieldSelectorAttributes{RawSelector: "a=b", Requirements: []metav1.FieldSelectorRequirement{requirement}},
				invalid: `spec.resourceAttributes.fieldSelector.rawSelector: Invalid value: "a=b": may not specified at the same time as requirements`},
			{name: "neither", invalid: `spec.resourceAttributes.fieldSelector.requirements: Required value: ` +
				`when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required`},
			{name: "labels", selector: authorizationv1.FieldSelectorAttributes{RawSelector: "a=b"},
				labels: &authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{{Key: "x", Operator: "In"}}},
				invalid: `spec.resourceAttributes.labelSelector.requirements[0].values: Required value: ` +
					`must be specified when ` + "`operator`" + ` is 'In' or 'NotIn'`},
			{name: "metadata", selector: authorizationv1.FieldSelectorAttributes{RawSelector: "a=b"},
				metadata: metav1.ObjectMeta{Name: "x"}, invalid: `must be empty`},
		} {
			on := pods.DeepCopy()
			on.FieldSelector, on.LabelSelector = &tc.selector, tc.labels
			got, err := admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{ObjectMeta: tc.metadata,
				Spec: authorizationv1.SubjectAccessReviewSpec{User: "x", ResourceAttributes: on}}, metav1.CreateOptions{})
			switch {
			case tc.invalid != "":
				if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.invalid) {
					t.Errorf("%s: %v", tc.name, err)
				}
			case err != nil || got.Status.EvaluationError != tc.evaluation:
				t.Errorf("%s: %q, %v", tc.name, got.Status.EvaluationError, err)
			}
		}
	})
	t.Run("TokenReview", func(t *testing.T) {
		for token, want := range map[string]string{"secret": "guest", "unknown": ""} {
			got, err := admin.AuthenticationV1().TokenReviews().Create(ctx,
				&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
			if err != nil || got.Status.User.Username != want || got.Status.Authenticated != (want != "") {
				t.Errorf("%s: %+v, %v", token, got.Status, err)
			}
		}
	})
	t.Run("SelfSubjectRulesReview", func(t *testing.T) {
		for client, want := range map[*kubernetes.Clientset]bool{admin: true, guest: false} {
			got, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx,
				&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"}}, metav1.CreateOptions{})
			everything := slices.ContainsFunc(got.Status.ResourceRules, func(r authorizationv1.ResourceRule) bool {
				return slices.Contains(r.Verbs, "*") && slices.Contains(r.APIGroups, "*") && slices.Contains(r.Resources, "*")
			})
			if err != nil || everything != want || got.Status.Incomplete || len(got.Status.NonResourceRules) == 0 {
				t.Errorf("%+v, %v; want everything: %v", got.Status, err, want)
			}
		}
	})
	t.Run("impersonated", func(t *testing.T) {
		cfg := plane.Config()
		cfg.Impersonate = rest.ImpersonationConfig{UserName: "guest"}
		_, err := controlplanetest.ClientFor(t, cfg).CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "guest" cannot list resource "namespaces"`) {
			t.Errorf("got %v", err)
		}
	})
}
