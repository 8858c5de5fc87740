package resource

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	celgo "github.com/google/cel-go/cel"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/environment"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// list checks the length and the items of a list. A negative limit means no limit.
//
//upstream:pkg/apis/resource/validation.validateSlice
func list[T any](items []T, limit int, w *fieldrules.Path, check func(item *T, w *fieldrules.Path) field.ErrorList) field.ErrorList {
	if limit >= 0 && len(items) > limit {
		return field.ErrorList{field.TooMany(w.Field(), len(items), limit)}
	}
	var errs field.ErrorList
	for i := range items {
		at := w.Index(i)
		errs = append(errs, check(&items[i], &at)...)
	}
	return errs
}

// set is list for items with distinct keys. The error for a repeated one quotes the item.
//
//upstream:pkg/apis/resource/validation.validateSet
func set[T any, K comparable](items []T, limit int, w *fieldrules.Path, check func(item *T, w *fieldrules.Path) field.ErrorList, key func(item *T) K) field.ErrorList {
	return distinct(items, limit, w, check, key, func(item *T, _ K) any { return *item })
}

// keyed is set for a list that kube-apiserver does not check by generated code. The error quotes the key.
func keyed[T any, K comparable](items []T, limit int, w *fieldrules.Path, check func(item *T, w *fieldrules.Path) field.ErrorList, key func(item *T) K) field.ErrorList {
	return distinct(items, limit, w, check, key, func(_ *T, k K) any { return k })
}

func distinct[T any, K comparable](items []T, limit int, w *fieldrules.Path, check func(item *T, w *fieldrules.Path) field.ErrorList, key func(item *T) K,
	quote func(item *T, k K) any) field.ErrorList {
	errs := list(items, limit, w, check)
	if limit >= 0 && len(items) > limit {
		return errs
	}
	seen := map[K]bool{}
	for i := range items {
		k := key(&items[i])
		if at := w.Index(i); seen[k] {
			errs = append(errs, field.Duplicate(at.Field(), quote(&items[i], k)))
		}
		seen[k] = true
	}
	return errs
}

// deviceName checks the name and the share of a device.
func deviceName(device string, share *string, w *fieldrules.Path) field.ErrorList {
	errs := fieldrules.Invalid(validation.IsDNS1123Label(device), device, w, "device")
	if share != nil {
		errs = append(errs, validate.UUID(context.Background(), operation.Operation{}, w.ChildField("shareID"), share, nil)...)
	}
	return errs
}

// poolName checks the name of a pool: DNS subdomains separated by slashes.
//
//upstream:pkg/apis/resource/validation.validatePoolName
func poolName(name string, w *fieldrules.Path, in string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(w.ChildField(in), "")}
	}
	var errs field.ErrorList
	if len(name) > resourcev1.PoolNameMaxLength {
		errs = append(errs, field.TooLong(w.ChildField(in), "", resourcev1.PoolNameMaxLength))
	}
	for part := range strings.SplitSeq(name, "/") {
		errs = append(errs, fieldrules.DNSName(part, w, in)...)
	}
	return errs
}

// configuration checks the opaque configuration of devices.
//
//upstream:pkg/apis/resource/validation.validateDeviceConfiguration
//upstream:pkg/apis/resource/validation.validateOpaqueConfiguration
func configuration(o *resourcev1.OpaqueDeviceConfiguration, w *fieldrules.Path) field.ErrorList {
	at := w.Child("opaque")
	if o == nil {
		return field.ErrorList{field.Required(at.Field(), "")}
	}
	return append(fieldrules.AttacherName(o.Driver, &at, "driver"), jsonObject(o.Parameters.Raw, resourcev1.OpaqueParametersMaxLength, &at, "parameters")...)
}

// jsonObject checks that a value is an object, and its size in bytes.
//
//upstream:pkg/apis/resource/validation.validateRawExtension
func jsonObject(raw []byte, limit int, w *fieldrules.Path, name string) field.ErrorList {
	if len(raw) == 0 {
		return field.ErrorList{field.Required(w.ChildField(name), "")}
	}
	if len(raw) > limit {
		return field.ErrorList{field.TooLong(w.ChildField(name), "", limit)}
	}
	const omitted = "<value omitted>"
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return field.ErrorList{field.Invalid(w.ChildField(name), omitted, fmt.Sprintf("error parsing data as JSON: %v", err))}
	}
	switch value.(type) {
	case nil:
		return field.ErrorList{field.Required(w.ChildField(name), "")}
	case map[string]any:
		return nil
	}
	return field.ErrorList{field.Invalid(w.ChildField(name), omitted, "must be a valid JSON object")}
}

// deviceEnvironment compiles the expressions that select devices. The type of device is dynamic, so only the syntax, the
// functions and the type of the result are checked.
var deviceEnvironment = sync.OnceValue(func() *celgo.Env {
	set, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(environment.VersionedOptions{
		IntroducedVersion: environment.DefaultCompatibilityVersion(),
		EnvOptions:        []celgo.EnvOption{celgo.Variable("device", celgo.DynType)},
	})
	if err != nil {
		panic(err) // it depends on constants only
	}
	env, err := set.Env(environment.NewExpressions)
	if err != nil {
		panic(err)
	}
	return env
})

// deviceSelectors checks the expressions in the field selectors.
//
//upstream:pkg/apis/resource/validation.validateSelectorSlice
//upstream:pkg/apis/resource/validation.validateSelector
//upstream:pkg/apis/resource/validation.validateCELExpression
func deviceSelectors(selectors []resourcev1.DeviceSelector, w *fieldrules.Path) field.ErrorList {
	at := w.Child("selectors")
	return list(selectors, resourcev1.DeviceSelectorsMaxSize, &at, func(s *resourcev1.DeviceSelector, w *fieldrules.Path) field.ErrorList {
		at := w.Child("cel")
		switch {
		case s.CEL == nil:
			return field.ErrorList{field.Required(at.Field(), "")}
		case len(s.CEL.Expression) > resourcev1.CELSelectorExpressionMaxLength:
			return field.ErrorList{field.TooLong(at.ChildField("expression"), "", resourcev1.CELSelectorExpressionMaxLength)}
		}
		ast, issues := deviceEnvironment().Compile(s.CEL.Expression)
		if issues != nil {
			return field.ErrorList{field.Invalid(at.ChildField("expression"), s.CEL.Expression, "compilation failed: "+issues.String())}
		}
		if t := ast.OutputType(); t != celgo.BoolType && t != celgo.DynType && t != celgo.AnyType {
			return field.ErrorList{field.Invalid(at.ChildField("expression"), s.CEL.Expression, "must evaluate to bool or the unknown type, not "+t.String())}
		}
		return nil
	})
}

// qualifiedAttribute checks the name of an attribute with its domain.
//
//upstream:pkg/apis/resource/validation.validateFullyQualifiedName
func qualifiedAttribute(name resourcev1.FullyQualifiedName, w *fieldrules.Path, in string) field.ErrorList {
	return validate.ResourceFullyQualifiedName(context.Background(), operation.Operation{}, w.ChildField(in), &name, nil)
}

// attributeName checks the name of an attribute or a capacity, with or without a domain.
//
//upstream:pkg/apis/resource/validation.validateQualifiedName
func attributeName(name string, w *fieldrules.Path) field.ErrorList {
	parts := strings.Split(name, "/")
	switch len(parts) {
	case 1:
		return identifier(parts[0], w)
	case 2:
		var errs field.ErrorList
		if parts[0] == "" {
			errs = append(errs, field.Invalid(w.Field(), "", "the domain must not be empty"))
		} else {
			errs = append(errs, fieldrules.DriverName(parts[0], w, "")...)
		}
		if parts[1] == "" {
			return append(errs, field.Invalid(w.Field(), "", "the name must not be empty"))
		}
		return append(errs, identifier(parts[1], w)...)
	}
	return nil // kube-apiserver accepts more slashes
}

//upstream:pkg/apis/resource/validation.validateCIdentifier
func identifier(id string, w *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	if len(id) > resourcev1.DeviceMaxIDLength {
		errs = append(errs, field.TooLong(w.Field(), "", resourcev1.DeviceMaxIDLength))
	}
	return append(errs, fieldrules.Invalid(content.IsCIdentifier(id), id, w, "")...)
}

//upstream:pkg/apis/resource/v1.SetDefaults_DeviceTaint
func defaultTaint(t *resourcev1.DeviceTaint) {
	if t.TimeAdded == nil {
		t.TimeAdded = &metav1.Time{Time: time.Now().Truncate(time.Second)}
	}
}

//upstream:pkg/apis/resource/validation.validateDeviceTaint
func deviceTaint(t *resourcev1.DeviceTaint, w *fieldrules.Path) field.ErrorList {
	errs := fieldrules.LabelName(t.Key, w, "key")
	errs = append(errs, fieldrules.Invalid(validation.IsValidLabelValue(t.Value), t.Value, w, "value")...)
	return append(errs, fieldrules.OneOf(t.Effect, w, "effect", taintEffects...)...)
}

// bindings checks the conditions that a binding waits for, and the conditions that fail it. A device has both or neither.
//
//upstream:pkg/apis/resource/validation.validateDeviceBindingParameters
func bindings(conditions, failures []string, w *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	for _, part := range [...]struct {
		name string
		list []string
		max  int
	}{{"bindingConditions", conditions, resourcev1.BindingConditionsMaxSize}, {"bindingFailureConditions", failures, resourcev1.BindingFailureConditionsMaxSize}} {
		at := w.Child(part.name)
		errs = append(errs, set(part.list, part.max, &at,
			func(c *string, w *fieldrules.Path) field.ErrorList { return fieldrules.LabelName(*c, w, "") },
			func(c *string) string { return *c })...)
	}
	at := w.Child("bindingFailureConditions")
	for i, f := range failures {
		if item := at.Index(i); slices.Contains(conditions, f) {
			errs = append(errs, field.Invalid(item.Field(), f, "bindingFailureConditions must not overlap with bindingConditions"))
		}
	}
	switch {
	case len(conditions) == 0 && len(failures) > 0:
		errs = append(errs, field.Invalid(w.ChildField("bindingConditions"), conditions, "bindingConditions are required to use bindingFailureConditions"))
	case len(failures) == 0 && len(conditions) > 0:
		errs = append(errs, field.Invalid(at.Field(), failures, "bindingFailureConditions are required to use bindingConditions"))
	}
	return errs
}
