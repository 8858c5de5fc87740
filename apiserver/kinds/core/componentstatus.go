//lint:file-ignore SA1019 Clients may still read the deprecated ComponentStatuses.

package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
)

// ComponentStatuses describes the kind ComponentStatus. The list is empty, since no component of this
// control plane is a process of its own.
//
//upstream:pkg/registry/core/componentstatus.REST
//upstream:pkg/printers/internalversion.printComponentStatus
func ComponentStatuses() kinds.Kind {
	return kinds.Computed[*corev1.ComponentStatus]{
		Type: &corev1.ComponentStatus{}, List: &corev1.ComponentStatusList{},
		Plural: "componentstatuses", ShortNames: []string{"cs"},
		Objects: func(context.Context, *metainternalversion.ListOptions) (runtime.Object, error) {
			return &corev1.ComponentStatusList{Items: []corev1.ComponentStatus{}}, nil
		},
		Find: func(_ context.Context, name string) (*corev1.ComponentStatus, error) {
			return nil, errors.NewNotFound(corev1.Resource("componentstatus"), name)
		},
		Bare: true,
		Columns: []metav1.TableColumnDefinition{
			columns.NameColumn,
			columns.Column("Status", "string", "Status of the component conditions"),
			columns.Column("Message", "string", "Message of the component conditions"),
			columns.Column("Error", "string", "Error of the component conditions"),
		},
		Row: componentRow,
	}
}

// componentRow returns the cells of a ComponentStatus in a table.
//
//upstream:pkg/printers/internalversion.printComponentStatus
func componentRow(c *corev1.ComponentStatus) []any {
	for _, condition := range c.Conditions {
		if condition.Type != corev1.ComponentHealthy {
			continue
		}
		status := "Unhealthy"
		if condition.Status == corev1.ConditionTrue {
			status = "Healthy"
		}
		return []any{c.Name, status, condition.Message, condition.Error}
	}
	return []any{c.Name, "Unknown", "", ""}
}
