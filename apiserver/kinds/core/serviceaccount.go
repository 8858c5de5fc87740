package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// ServiceAccounts describes the kind ServiceAccount.
//
//upstream:pkg/registry/core/serviceaccount.strategy
//upstream:pkg/registry/core/serviceaccount.cleanSecretReferences
//upstream:pkg/registry/core/serviceaccount/storage.REST.ShortNames
//upstream:pkg/apis/core/validation.ValidateServiceAccount
func ServiceAccounts() kinds.Kind {
	return kinds.Of[*corev1.ServiceAccount]{
		Type: &corev1.ServiceAccount{}, List: &corev1.ServiceAccountList{},
		Plural: "serviceaccounts", ShortNames: []string{"sa"},
		ReturnsDeleted: true,
		Name:           fieldrules.NameIsSubdomain,
		Prepare: func(_ context.Context, a, _ *corev1.ServiceAccount) {
			for i, secret := range a.Secrets {
				a.Secrets[i] = corev1.ObjectReference{Name: secret.Name}
			}
		},
	}
}
