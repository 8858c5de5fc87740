package resource

import (
	"context"
	"encoding/json"
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
	"k8s.io/apiserver/pkg/cel/environment"

	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// list checks the length and the items of a list. A negative limit means no limit.
//
//upstream:pkg/apis/resource/validation.validateSlice
func list[T any](at check.Field, items []T, limit int, rule func(check.Field, *T)) (fits bool) {
	if limit >= 0 && len(items) > limit {
		at.TooMany(len(items), limit)
		return false
	}
	for i := range items {
		rule(at.Index(i), &items[i])
	}
	return true
}

// set is list for items with distinct keys. The error for a repeated one quotes the item.
//
//upstream:pkg/apis/resource/validation.validateSet
func set[T any, K comparable](at check.Field, items []T, limit int, rule func(check.Field, *T), key func(*T) K) {
	distinct(at, items, limit, rule, key, func(item *T, _ K) any { return *item })
}

// keyed is set for a list that kube-apiserver does not check by generated code. The error quotes the key.
func keyed[T any, K comparable](at check.Field, items []T, limit int, rule func(check.Field, *T), key func(*T) K) {
	distinct(at, items, limit, rule, key, func(_ *T, k K) any { return k })
}

func distinct[T any, K comparable](at check.Field, items []T, limit int, rule func(check.Field, *T), key func(*T) K, quote func(*T, K) any) {
	if !list(at, items, limit, rule) {
		return
	}
	var seen fieldrules.Seen[K]
	for i := range items {
		if k := key(&items[i]); !seen.Add(k) {
			at.Index(i).Duplicate(quote(&items[i], k))
		}
	}
}

// deviceName checks the fields device and shareID.
func deviceName(in check.Field, device string, share *string) {
	id := in.Child("shareID")
	check.Valid(in.Child("device"), device, validation.IsDNS1123Label)
	if share != nil {
		id.Report(validate.UUID(context.Background(), operation.Operation{}, id.Path.Field(), share, nil)...)
	}
}

// poolName checks the name of a pool: DNS subdomains separated by slashes.
//
//upstream:pkg/apis/resource/validation.validatePoolName
func poolName(at check.Field, name string) {
	if name == "" {
		at.Required("")
		return
	}
	if len(name) > resourcev1.PoolNameMaxLength {
		at.TooLong(resourcev1.PoolNameMaxLength)
	}
	for part := range strings.SplitSeq(name, "/") {
		check.DNSName(at, part)
	}
}

// configuration checks the opaque configuration of devices.
//
//upstream:pkg/apis/resource/validation.validateDeviceConfiguration
//upstream:pkg/apis/resource/validation.validateOpaqueConfiguration
func configuration(at check.Field, o *resourcev1.OpaqueDeviceConfiguration) {
	if o == nil {
		at.Required("")
		return
	}
	check.AttacherName(at.Child("driver"), o.Driver)
	jsonObject(at.Child("parameters"), o.Parameters.Raw, resourcev1.OpaqueParametersMaxLength)
}

// jsonObject checks that a value is an object, and its size in bytes.
//
//upstream:pkg/apis/resource/validation.validateRawExtension
func jsonObject(at check.Field, raw []byte, limit int) {
	switch {
	case len(raw) == 0:
		at.Required("")
		return
	case len(raw) > limit:
		at.TooLong(limit)
		return
	}
	const omitted = "<value omitted>"
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		at.Invalidf(omitted, "error parsing data as JSON: %v", err)
		return
	}
	switch value.(type) {
	case nil:
		at.Required("")
	case map[string]any:
	default:
		at.Invalid(omitted, "must be a valid JSON object")
	}
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
func deviceSelectors(at check.Field, selectors []resourcev1.DeviceSelector) {
	list(at, selectors, resourcev1.DeviceSelectorsMaxSize, func(at check.Field, s *resourcev1.DeviceSelector) {
		if cel := at.Child("cel"); s.CEL == nil {
			cel.Required("")
		} else {
			deviceExpression(cel.Child("expression"), s.CEL.Expression)
		}
	})
}

//upstream:pkg/apis/resource/validation.validateCELExpression
func deviceExpression(at check.Field, text string) {
	if len(text) > resourcev1.CELSelectorExpressionMaxLength {
		at.TooLong(resourcev1.CELSelectorExpressionMaxLength)
		return
	}
	ast, issues := deviceEnvironment().Compile(text)
	if issues != nil {
		at.Invalid(text, "compilation failed: "+issues.String())
		return
	}
	if t := ast.OutputType(); t != celgo.BoolType && t != celgo.DynType && t != celgo.AnyType {
		at.Invalid(text, "must evaluate to bool or the unknown type, not "+t.String())
	}
}

// qualifiedAttribute checks the name of an attribute with its domain.
//
//upstream:pkg/apis/resource/validation.validateFullyQualifiedName
func qualifiedAttribute(at check.Field, name resourcev1.FullyQualifiedName) {
	at.Report(validate.ResourceFullyQualifiedName(context.Background(), operation.Operation{}, at.Path.Field(), &name, nil)...)
}

// attributeName checks the name of an attribute or a capacity, with or without a domain.
//
//upstream:pkg/apis/resource/validation.validateQualifiedName
func attributeName(at check.Field, name string) {
	parts := strings.Split(name, "/")
	switch len(parts) { // kube-apiserver accepts more slashes
	case 1:
		identifier(at, parts[0])
	case 2:
		if parts[0] == "" {
			at.Invalid("", "the domain must not be empty")
		} else {
			check.DriverName(at, parts[0])
		}
		if parts[1] == "" {
			at.Invalid("", "the name must not be empty")
		} else {
			identifier(at, parts[1])
		}
	}
}

//upstream:pkg/apis/resource/validation.validateCIdentifier
func identifier(at check.Field, id string) {
	if len(id) > resourcev1.DeviceMaxIDLength {
		at.TooLong(resourcev1.DeviceMaxIDLength)
	}
	check.Valid(at, id, content.IsCIdentifier)
}

//upstream:pkg/apis/resource/v1.SetDefaults_DeviceTaint
func defaultTaint(t *resourcev1.DeviceTaint) {
	if t.TimeAdded == nil {
		t.TimeAdded = &metav1.Time{Time: time.Now().Truncate(time.Second)}
	}
}

//upstream:pkg/apis/resource/validation.validateDeviceTaint
func deviceTaint(at check.Field, t *resourcev1.DeviceTaint) {
	check.LabelName(at.Child("key"), t.Key)
	check.Valid(at.Child("value"), t.Value, validation.IsValidLabelValue)
	check.OneOf(at.Child("effect"), t.Effect, taintEffects...)
}

// bindings checks the conditions that a binding waits for, and the conditions that fail it. A device has both or neither.
//
//upstream:pkg/apis/resource/validation.validateDeviceBindingParameters
func bindings(in check.Field, conditions, failures []string) {
	success, failure := in.Child("bindingConditions"), in.Child("bindingFailureConditions")
	conditionTypes(success, conditions, resourcev1.BindingConditionsMaxSize)
	conditionTypes(failure, failures, resourcev1.BindingFailureConditionsMaxSize)
	for i, f := range failures {
		if slices.Contains(conditions, f) {
			failure.Index(i).Invalid(f, "bindingFailureConditions must not overlap with bindingConditions")
		}
	}
	switch {
	case len(conditions) == 0 && len(failures) > 0:
		success.Invalid(conditions, "bindingConditions are required to use bindingFailureConditions")
	case len(failures) == 0 && len(conditions) > 0:
		failure.Invalid(failures, "bindingFailureConditions are required to use bindingConditions")
	}
}

func conditionTypes(at check.Field, types []string, limit int) {
	set(at, types, limit, func(at check.Field, t *string) { check.LabelName(at, *t) }, func(t *string) string { return *t })
}
