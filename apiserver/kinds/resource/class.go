package resource

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// DeviceClasses describes the kind DeviceClass.
//
//upstream:pkg/registry/resource/deviceclass.deviceClassStrategy
//upstream:pkg/apis/resource/validation.validateDeviceClassSpec
//upstream:pkg/apis/resource/validation.validateDeviceClassConfiguration
//upstream:pkg/printers/internalversion.printDeviceClass
func DeviceClasses() kinds.Kind {
	return kinds.Of[*resourcev1.DeviceClass]{
		Type: &resourcev1.DeviceClass{}, List: &resourcev1.DeviceClassList{},
		Plural: "deviceclasses", ReturnsDeleted: true, Cluster: true, Generation: true,
		Unenforced: unenforced,
		Name: func(name string, prefix bool) []string {
			if prefix {
				return nil
			}
			return content.IsDNS1123Subdomain(name)
		},
		Validate: func(c *resourcev1.DeviceClass) (errs field.ErrorList) {
			spec := check.Object(&errs).Child("spec")
			name := spec.Child("extendedResourceName")
			deviceSelectors(spec.Child("selectors"), c.Spec.Selectors)
			list(spec.Child("config"), c.Spec.Config, resourcev1.DeviceConfigMaxSize, func(at check.Field, k *resourcev1.DeviceClassConfiguration) {
				configuration(at.Child("opaque"), k.Opaque)
			})
			name.Report(validate.ExtendedResourceName(context.Background(), operation.Operation{}, name.Path.Field(), c.Spec.ExtendedResourceName, nil)...)
			return errs
		},
	}
}

// DeviceTaintRules describes the kind DeviceTaintRule.
//
//upstream:pkg/registry/resource/devicetaintrule.deviceTaintRuleStrategy
//upstream:pkg/registry/resource/devicetaintrule.deviceTaintRuleStatusStrategy
//upstream:pkg/apis/resource/validation.validateDeviceTaintRuleSpec
//upstream:pkg/apis/resource/validation.ValidateDeviceTaintRuleStatusUpdate
//upstream:pkg/printers/internalversion.printDeviceTaint
func DeviceTaintRules() kinds.Kind {
	return kinds.Of[*resourcev1.DeviceTaintRule]{
		Type: &resourcev1.DeviceTaintRule{}, List: &resourcev1.DeviceTaintRuleList{},
		Plural: "devicetaintrules", ReturnsDeleted: true, Cluster: true, Generation: true, NoUnconditionalUpdate: true,
		Unenforced: "no device is tainted",
		Name:       fieldrules.NameIsSubdomain,
		Default:    func(r *resourcev1.DeviceTaintRule) { defaultTaint(&r.Spec.Taint) },
		Prepare: func(_ context.Context, r, old *resourcev1.DeviceTaintRule) {
			if old == nil {
				return
			}
			now, was := &r.Spec.Taint, &old.Spec.Taint
			if now.Effect != was.Effect && now.TimeAdded.Equal(was.TimeAdded) {
				now.TimeAdded = nil
				defaultTaint(now)
			}
		},
		Validate: func(r *resourcev1.DeviceTaintRule) (errs field.ErrorList) {
			spec := check.Object(&errs).Child("spec")
			check.Optional(spec.Child("deviceSelector"), r.Spec.DeviceSelector, taintSelector)
			deviceTaint(spec.Child("taint"), &r.Spec.Taint)
			return errs
		},
		Status:        true,
		PrepareStatus: kinds.KeepMetadata[*resourcev1.DeviceTaintRule],
		StatusReset:   []string{"metadata"},
		ValidateStatus: func(r, _ *resourcev1.DeviceTaintRule) (errs field.ErrorList) {
			at := check.Object(&errs).Child("status").Child("conditions")
			at.Report(metav1validation.ValidateConditions(r.Status.Conditions, at.Path.Field())...)
			if n := len(r.Status.Conditions); n > resourcev1.DeviceTaintRuleStatusMaxConditions {
				at.TooMany(n, resourcev1.DeviceTaintRuleStatusMaxConditions)
			}
			return errs
		},
		Columns: []metav1.TableColumnDefinition{
			columns.Column("Key", "string", resourcev1.DeviceTaint{}.SwaggerDoc()["key"]),
			columns.Column("Value", "string", resourcev1.DeviceTaint{}.SwaggerDoc()["value"]),
			columns.Column("Effect", "string", resourcev1.DeviceTaint{}.SwaggerDoc()["effect"]),
			columns.Column("TimeAdded", "string", resourcev1.DeviceTaint{}.SwaggerDoc()["timeAdded"]),
		},
		Row: func(r *resourcev1.DeviceTaintRule) []any {
			return []any{r.Spec.Taint.Key, r.Spec.Taint.Value, string(r.Spec.Taint.Effect), timeAdded(r.Spec.Taint.TimeAdded)}
		},
	}
}

//upstream:pkg/apis/resource/validation.validateDeviceTaintSelector
func taintSelector(at check.Field, s resourcev1.DeviceTaintSelector) {
	check.Optional(at.Child("driver"), s.Driver, check.DriverName)
	check.Optional(at.Child("pool"), s.Pool, poolName)
	if s.Device != nil {
		check.Valid(at.Child("device"), *s.Device, validation.IsDNS1123Label)
	}
}

// timeAdded returns the cell for the time of a taint.
func timeAdded(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return columns.Age(*t)
}
