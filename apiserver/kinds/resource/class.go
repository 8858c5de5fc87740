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
		Validate: func(c *resourcev1.DeviceClass) field.ErrorList {
			errs := deviceSelectors(c.Spec.Selectors, &fieldrules.Spec)
			at := fieldrules.Spec.Child("config")
			errs = append(errs, list(c.Spec.Config, resourcev1.DeviceConfigMaxSize, &at, func(k *resourcev1.DeviceClassConfiguration, w *fieldrules.Path) field.ErrorList {
				return configuration(k.Opaque, w)
			})...)
			return append(errs, validate.ExtendedResourceName(context.Background(), operation.Operation{},
				fieldrules.Spec.ChildField("extendedResourceName"), c.Spec.ExtendedResourceName, nil)...)
		},
	}
}

// DeviceTaintRules describes the kind DeviceTaintRule.
//
//upstream:pkg/registry/resource/devicetaintrule.deviceTaintRuleStrategy
//upstream:pkg/registry/resource/devicetaintrule.deviceTaintRuleStatusStrategy
//upstream:pkg/apis/resource/validation.validateDeviceTaintRuleSpec
//upstream:pkg/apis/resource/validation.validateDeviceTaintSelector
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
		Validate: func(r *resourcev1.DeviceTaintRule) field.ErrorList {
			var errs field.ErrorList
			if s := r.Spec.DeviceSelector; s != nil {
				at := fieldrules.Spec.Child("deviceSelector")
				if s.Driver != nil {
					errs = append(errs, fieldrules.DriverName(*s.Driver, &at, "driver")...)
				}
				if s.Pool != nil {
					errs = append(errs, poolName(*s.Pool, &at, "pool")...)
				}
				if s.Device != nil {
					errs = append(errs, fieldrules.Invalid(validation.IsDNS1123Label(*s.Device), *s.Device, &at, "device")...)
				}
			}
			at := fieldrules.Spec.Child("taint")
			return append(errs, deviceTaint(&r.Spec.Taint, &at)...)
		},
		Status:        true,
		PrepareStatus: kinds.KeepMetadata[*resourcev1.DeviceTaintRule],
		StatusReset:   []string{"metadata"},
		ValidateStatus: func(r, _ *resourcev1.DeviceTaintRule) field.ErrorList {
			at := fieldrules.Status.ChildField("conditions")
			errs := metav1validation.ValidateConditions(r.Status.Conditions, at)
			if n := len(r.Status.Conditions); n > resourcev1.DeviceTaintRuleStatusMaxConditions {
				errs = append(errs, field.TooMany(at, n, resourcev1.DeviceTaintRuleStatusMaxConditions))
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

// timeAdded returns the cell for the time of a taint.
func timeAdded(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return columns.Age(*t)
}
