// Package columns has the columns and cells that the tables of several kinds share.
package columns

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"
)

// None is the cell of an absent value.
const None = "<none>"

// Column describes a column of a table.
func Column(name, kind, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: kind, Description: description}
}

// Wide describes a column that only wide output shows.
func Wide(name, kind, description string) metav1.TableColumnDefinition {
	c := Column(name, kind, description)
	c.Priority = 1
	return c
}

// OrNone returns s, or "<none>" if it is empty.
func OrNone[S ~string](s S) string {
	if s == "" {
		return None
	}
	return string(s)
}

// ContainerCells are the names and the images of containers.
//
//upstream:pkg/printers/internalversion.layoutContainerCells
func ContainerCells(containers []corev1.Container) (names, images string) {
	var n, i []string
	for _, c := range containers {
		n, i = append(n, c.Name), append(i, c.Image)
	}
	return strings.Join(n, ","), strings.Join(i, ",")
}

// LabelCell formats labels.
func LabelCell(m map[string]string) string { return labels.FormatLabels(m) }

// SelectorCell formats a label selector.
func SelectorCell(s *metav1.LabelSelector) string { return metav1.FormatLabelSelector(s) }

var CreatedAt = []metav1.TableColumnDefinition{
	NameColumn,
	{Name: "Created At", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]},
}

// CreatedRow returns the cells of [CreatedAt].
func CreatedRow(obj metav1.Object) []any {
	t := obj.GetCreationTimestamp()
	return []any{obj.GetName(), t.UTC().Format("2006-01-02T15:04:05Z")}
}

var (
	NameColumn = metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name",
		Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]}
	AgeColumn = metav1.TableColumnDefinition{Name: "Age", Type: "string",
		Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]}
)

// Age returns the time since a timestamp in the format of kubectl.
//
//upstream:pkg/printers/internalversion.translateTimestampSince
func Age(t metav1.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(t.Time))
}

// OrEmpty returns *s, or "" if s is nil.
func OrEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// OrUnset returns *s, or "<unset>" if s is nil.
func OrUnset(s *string) string {
	if s == nil {
		return "<unset>"
	}
	return *s
}
