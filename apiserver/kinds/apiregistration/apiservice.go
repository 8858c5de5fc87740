// Package apiregistration describes the kinds of the apiregistration.k8s.io API group.
package apiregistration

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/resource"
)

// APIServices describes the kind APIService.
//
//upstream:k8s.io/kube-aggregator/pkg/registry/apiservice.apiServerStrategy
//upstream:k8s.io/kube-aggregator/pkg/registry/apiservice.apiServerStatusStrategy
//upstream:k8s.io/kube-aggregator/pkg/apis/apiregistration/v1.SetDefaults_ServiceReference
//upstream:k8s.io/kube-aggregator/pkg/registry/apiservice/etcd.REST.Categories
//upstream:k8s.io/kube-aggregator/pkg/apis/apiregistration/validation.ValidateAPIServiceStatusUpdate
func APIServices() kinds.Kind {
	return kinds.Of[*apiregistrationv1.APIService]{
		Type: &apiregistrationv1.APIService{}, List: &apiregistrationv1.APIServiceList{},
		Plural: "apiservices", Categories: []string{"api-extensions"}, Cluster: true, NoUnconditionalUpdate: true,
		AnyFinalizers: true,
		Name:          fieldrules.WholeNameIsPathSegment,
		Default: func(s *apiregistrationv1.APIService) {
			if r := s.Spec.Service; r != nil {
				fieldrules.DefaultPointer(&r.Port, defaultPort)
			}
		},
		Prepare:  prepareAPIService,
		Validate: validateAPIService,
		Status:   true,
		PrepareStatus: func(_ context.Context, s, old *apiregistrationv1.APIService) {
			s.Labels, s.Annotations, s.Finalizers, s.OwnerReferences = old.Labels, old.Annotations, old.Finalizers, old.OwnerReferences
		},
		StatusReset: []string{"metadata"},
		ValidateStatus: func(s, _ *apiregistrationv1.APIService) field.ErrorList {
			var errs field.ErrorList
			list := fieldrules.Status.Child("conditions")
			statuses := []apiregistrationv1.ConditionStatus{apiregistrationv1.ConditionTrue, apiregistrationv1.ConditionFalse, apiregistrationv1.ConditionUnknown}
			for i, c := range s.Status.Conditions {
				if at := list.Index(i); c.Status != statuses[0] && c.Status != statuses[1] && c.Status != statuses[2] {
					errs = append(errs, field.NotSupported(at.ChildField("status"), c.Status, statuses))
				}
			}
			return errs
		},
		Columns: []metav1.TableColumnDefinition{
			columns.Column("Service", "string", "The Service that serves the group version, or Local."),
			columns.Column("Available", "string", "Whether the group version is available."),
		},
		Row: apiServiceRow,
	}
}

const defaultPort int32 = 443

// prepareAPIService sets the condition Available of a new local APIService.
//
//upstream:k8s.io/kube-aggregator/pkg/registry/apiservice.apiServerStrategy.PrepareForCreate
//upstream:k8s.io/kube-aggregator/pkg/registry/apiservice.apiServerStrategy.PrepareForUpdate
func prepareAPIService(_ context.Context, s, old *apiregistrationv1.APIService) {
	if old == nil && s.Spec.Service == nil {
		s.Status.Conditions = []apiregistrationv1.APIServiceCondition{{
			Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue, LastTransitionTime: metav1.Now(),
			Reason: "Local", Message: "Local APIServices are always available",
		}}
	}
}

// Limits of the priorities.
const (
	maxGroupPriority   = 20000
	maxVersionPriority = 1000
)

// validateAPIService checks the group version, its priorities, and the Service that serves it.
//
//upstream:k8s.io/kube-aggregator/pkg/apis/apiregistration/validation.ValidateAPIService
func validateAPIService(a *apiregistrationv1.APIService) field.ErrorList {
	s := &a.Spec
	var errs field.ErrorList
	if name := s.Version + "." + s.Group; a.Name != "" && a.Name != name && len(fieldrules.NameIsPathSegment(a.Name, false)) == 0 {
		errs = append(errs, field.Invalid(fieldrules.Metadata.ChildField("name"), a.Name, fmt.Sprintf("must be `spec.version+\".\"+spec.group`: %q", name)))
	}
	if name := s.Version + "." + s.Group; a.GenerateName != "" && a.GenerateName != name && len(fieldrules.NameIsPathSegment(a.GenerateName, false)) == 0 {
		errs = append(errs, field.Invalid(fieldrules.Metadata.ChildField("generateName"), a.GenerateName, fmt.Sprintf("must be `spec.version+\".\"+spec.group`: %q", name)))
	}
	if s.Group == "" && s.Version != "v1" {
		errs = append(errs, field.Required(fieldrules.Spec.ChildField("group"), "only v1 may have an empty group and it better be legacy kube"))
	}
	if s.Group != "" {
		errs = append(errs, fieldrules.DNSName(s.Group, &fieldrules.Spec, "group")...)
	}
	errs = append(errs, fieldrules.Invalid(validation.IsDNS1035Label(s.Version), s.Version, &fieldrules.Spec, "version")...)
	if s.GroupPriorityMinimum <= 0 || s.GroupPriorityMinimum > maxGroupPriority {
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("groupPriorityMinimum"), s.GroupPriorityMinimum, "must be positive and less than 20000"))
	}
	if s.VersionPriority <= 0 || s.VersionPriority > maxVersionPriority {
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("versionPriority"), s.VersionPriority, "must be positive and less than 1000"))
	}
	if s.Service == nil {
		if n := len(s.CABundle); n > 0 {
			errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("caBundle"), fmt.Sprintf("%d bytes", n), "local APIServices may not have a caBundle"))
		}
		if s.InsecureSkipTLSVerify {
			errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("insecureSkipTLSVerify"), true, "local APIServices may not have insecureSkipTLSVerify"))
		}
		return errs
	}
	at := fieldrules.Spec.Child("service")
	errs = append(errs, fieldrules.Required(s.Service.Namespace, &at, "namespace")...)
	errs = append(errs, fieldrules.Required(s.Service.Name, &at, "name")...)
	if p := s.Service.Port; p != nil {
		if messages := validation.IsValidPortNum(int(*p)); len(messages) > 0 {
			errs = append(errs, field.Invalid(at.ChildField("port"), *p, "port is not valid: "+strings.Join(messages, ", ")))
		}
	}
	if s.InsecureSkipTLSVerify && len(s.CABundle) > 0 {
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("insecureSkipTLSVerify"), true, "may not be true if caBundle is present"))
	}
	return errs
}

//upstream:k8s.io/kube-aggregator/pkg/registry/apiservice/etcd.REST.ConvertToTable
func apiServiceRow(s *apiregistrationv1.APIService) []any {
	service, available := "Local", string(apiregistrationv1.ConditionUnknown)
	if r := s.Spec.Service; r != nil {
		service = r.Namespace + "/" + r.Name
	}
	for _, c := range s.Status.Conditions {
		if c.Type != apiregistrationv1.Available {
			continue
		}
		if available = string(c.Status); c.Status != apiregistrationv1.ConditionTrue && c.Reason != "" {
			available += " (" + c.Reason + ")"
		}
	}
	return []any{service, available}
}

// ManagedLabel is on the APIServices that the server registers itself, with the value
// [ManagedOnStart] or, for custom resources, [Managed].
//
//upstream:k8s.io/kube-aggregator/pkg/controllers/autoregister.AutoRegisterManagedLabel
const (
	ManagedLabel   = "kube-aggregator.kubernetes.io/automanaged"
	Managed        = "true"
	ManagedOnStart = "onstart"
)

// Local returns the APIService of a group version that the server serves itself. The group of APIServices has none.
//
//upstream:pkg/controlplane/apiserver.makeAPIService
func Local(gv schema.GroupVersion) (*apiregistrationv1.APIService, bool) {
	if gv.Group == apiregistrationv1.GroupName {
		return nil, false
	}
	managed := ManagedOnStart
	p, builtin := resource.PriorityOf(gv)
	if !builtin {
		managed = Managed
	}
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: gv.Version + "." + gv.Group, Labels: map[string]string{ManagedLabel: managed}},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: p.Group, VersionPriority: p.Version,
		},
	}, true
}
