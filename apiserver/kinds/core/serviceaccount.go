package core

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// ServiceAccounts describes the kind ServiceAccount.
func ServiceAccounts() kinds.Kind {
	return kinds.Of[*corev1.ServiceAccount]{
		Type: &corev1.ServiceAccount{}, List: &corev1.ServiceAccountList{},
		Plural: "serviceaccounts", ShortNames: []string{"sa"},
		ReturnsDeleted: true,
		Name:           fieldrules.NameIsSubdomain,
		Columns: []metav1.TableColumnDefinition{columns.Column("Secrets", "string",
			corev1.ServiceAccount{}.SwaggerDoc()["secrets"])},
		Row: func(a *corev1.ServiceAccount) []any { return []any{int64(len(a.Secrets))} },
	}
}
