// Package apiregistration describes the kinds of the apiregistration.k8s.io API group.
package apiregistration

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
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
		ValidateStatus: func(s, _ *apiregistrationv1.APIService) (errs field.ErrorList) {
			list := check.Object(&errs).Child("status").Child("conditions")
			for i := range s.Status.Conditions {
				check.Supported(list.Index(i).Child("status"), s.Status.Conditions[i].Status,
					apiregistrationv1.ConditionTrue, apiregistrationv1.ConditionFalse, apiregistrationv1.ConditionUnknown)
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
func validateAPIService(a *apiregistrationv1.APIService) (errs field.ErrorList) {
	object, s := check.Object(&errs), &a.Spec
	metadata, spec := object.Child("metadata"), object.Child("spec")
	insecure := spec.Child("insecureSkipTLSVerify")
	named(metadata.Child("name"), a.Name, s.Version+"."+s.Group)
	named(metadata.Child("generateName"), a.GenerateName, s.Version+"."+s.Group)
	if s.Group == "" && s.Version != "v1" {
		spec.Child("group").Required("only v1 may have an empty group and it better be legacy kube")
	}
	check.IfSet(spec.Child("group"), s.Group, check.DNSName)
	check.Valid(spec.Child("version"), s.Version, validation.IsDNS1035Label)
	if s.GroupPriorityMinimum <= 0 || s.GroupPriorityMinimum > maxGroupPriority {
		spec.Child("groupPriorityMinimum").Invalid(s.GroupPriorityMinimum, "must be positive and less than 20000")
	}
	if s.VersionPriority <= 0 || s.VersionPriority > maxVersionPriority {
		spec.Child("versionPriority").Invalid(s.VersionPriority, "must be positive and less than 1000")
	}
	if s.Service != nil {
		serviceReference(spec.Child("service"), s.Service)
		if s.InsecureSkipTLSVerify && len(s.CABundle) > 0 {
			insecure.Invalid(true, "may not be true if caBundle is present")
		}
		return errs
	}
	if n := len(s.CABundle); n > 0 {
		spec.Child("caBundle").Invalid(fmt.Sprintf("%d bytes", n), "local APIServices may not have a caBundle")
	}
	if s.InsecureSkipTLSVerify {
		insecure.Invalid(true, "local APIServices may not have insecureSkipTLSVerify")
	}
	return errs
}

// named checks that a name, if it is set and valid, is the one of the group version.
func named(at check.Field, name, must string) {
	if name != "" && name != must && len(content.IsPathSegmentName(name)) == 0 {
		at.Invalidf(name, "must be `spec.version+\".\"+spec.group`: %q", must)
	}
}

//upstream:k8s.io/kube-aggregator/pkg/apis/apiregistration/validation.ValidateAPIService
func serviceReference(at check.Field, s *apiregistrationv1.ServiceReference) {
	check.Required(at.Child("namespace"), s.Namespace)
	check.Required(at.Child("name"), s.Name)
	if s.Port == nil {
		return
	}
	if messages := validation.IsValidPortNum(int(*s.Port)); len(messages) > 0 {
		at.Child("port").Invalid(*s.Port, "port is not valid: "+strings.Join(messages, ", "))
	}
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
