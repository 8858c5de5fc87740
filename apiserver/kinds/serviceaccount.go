package kinds

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func serviceAccounts() Kind {
	return Of[*corev1.ServiceAccount]{
		Type: &corev1.ServiceAccount{}, List: &corev1.ServiceAccountList{},
		Plural: "serviceaccounts", ShortNames: []string{"sa"},
		ReturnsDeleted: true,
		Name:           subdomain,
		Columns:        []metav1.TableColumnDefinition{column("Secrets", "string", corev1.ServiceAccount{}.SwaggerDoc()["secrets"])},
		Row:            func(a *corev1.ServiceAccount) []any { return []any{int64(len(a.Secrets))} },
	}
}
