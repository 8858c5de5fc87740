package kinds

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"
)

// none stands in tables where there is nothing.
const none = "<none>"

// column describes a column of a table.
func column(name, kind, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: kind, Description: description}
}

// wide describes a column that only wide output shows.
func wide(name, kind, description string) metav1.TableColumnDefinition {
	c := column(name, kind, description)
	c.Priority = 1
	return c
}

func orNone[S ~string](s S) string {
	if s == "" {
		return none
	}
	return string(s)
}

// containerCells are the names and the images of containers.
func containerCells(containers []corev1.Container) (names, images string) {
	var n, i []string
	for _, c := range containers {
		n, i = append(n, c.Name), append(i, c.Image)
	}
	return strings.Join(n, ","), strings.Join(i, ",")
}

func labelCell(m map[string]string) string { return labels.FormatLabels(m) }

func selectorCell(s *metav1.LabelSelector) string { return metav1.FormatLabelSelector(s) }

var createdAt = []metav1.TableColumnDefinition{
	nameColumn,
	{Name: "Created At", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]},
}

func createdRow(obj metav1.Object) []any {
	t := obj.GetCreationTimestamp()
	return []any{obj.GetName(), t.UTC().Format("2006-01-02T15:04:05Z")}
}

var (
	nameColumn = metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name",
		Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]}
	ageColumn = metav1.TableColumnDefinition{Name: "Age", Type: "string",
		Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]}
)

// age says how long ago something was, as kubectl does.
func age(t metav1.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(t.Time))
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func orUnset(s *string) string {
	if s == nil {
		return "<unset>"
	}
	return *s
}
