package kinds

import (
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func runtimeClasses() Kind {
	return Of[*nodev1.RuntimeClass]{
		Type: &nodev1.RuntimeClass{}, List: &nodev1.RuntimeClassList{},
		Plural: "runtimeclasses", Cluster: true,
		Name: subdomain,
		Validate: func(r *nodev1.RuntimeClass) field.ErrorList {
			errs := invalid(label(r.Handler, false), r.Handler, &root, "handler")
			if r.Overhead != nil {
				overhead := root.at("overhead")
				at := overhead.at("podFixed")
				errs = append(errs, amounts(r.Overhead.PodFixed, &at)...)
			}
			if r.Scheduling != nil {
				at := root.at("scheduling")
				errs = append(errs, labelMap(r.Scheduling.NodeSelector, &at, "nodeSelector")...)
				errs = append(errs, tolerations(r.Scheduling.Tolerations, &at)...)
			}
			return errs
		},
		ValidateUpdate: func(r, old *nodev1.RuntimeClass) field.ErrorList {
			return unchanged(r.Handler, old.Handler, &root, "handler")
		},
		Columns: []metav1.TableColumnDefinition{column("Handler", "string", nodev1.RuntimeClass{}.SwaggerDoc()["handler"])},
		Row:     func(r *nodev1.RuntimeClass) []any { return []any{r.Handler} },
	}
}
