package resource

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
)

// ResourceSlices describes the kind ResourceSlice.
//
//upstream:pkg/registry/resource/resourceslice.resourceSliceStrategy
//upstream:pkg/registry/resource/resourceslice.toSelectableFields
//upstream:pkg/apis/resource/v1.addConversionFuncs
//upstream:pkg/apis/resource/validation.ValidateResourceSliceUpdate
//upstream:pkg/printers/internalversion.printResourceSlice
func ResourceSlices() kinds.Kind {
	return kinds.Of[*resourcev1.ResourceSlice]{
		Type: &resourcev1.ResourceSlice{}, List: &resourcev1.ResourceSliceList{},
		Plural: "resourceslices", ReturnsDeleted: true, Cluster: true, Generation: true,
		Unenforced: unenforced,
		Name:       fieldrules.NameIsSubdomain,
		Default: func(s *resourcev1.ResourceSlice) {
			for i := range s.Spec.Devices {
				for j := range s.Spec.Devices[i].Taints {
					defaultTaint(&s.Spec.Devices[i].Taints[j])
				}
			}
		},
		Validate: validateSlice,
		Warnings: func(s, _ *resourcev1.ResourceSlice) []string {
			if s.Spec.Driver == strings.ToLower(s.Spec.Driver) {
				return nil
			}
			return []string{fmt.Sprintf("spec.driver: driver names should be lowercase; %q contains uppercase characters", s.Spec.Driver)}
		},
		ValidateUpdate: func(s, old *resourcev1.ResourceSlice) field.ErrorList {
			at := fieldrules.Spec.Child("pool")
			errs := fieldrules.Immutable(s.Spec.Pool.Name, old.Spec.Pool.Name, &at, "name")
			errs = append(errs, fieldrules.Immutable(s.Spec.Driver, old.Spec.Driver, &fieldrules.Spec, "driver")...)
			return append(errs, fieldrules.Immutable(s.Spec.NodeName, old.Spec.NodeName, &fieldrules.Spec, "nodeName")...)
		},
		Fields: func(s *resourcev1.ResourceSlice) fields.Set {
			return fields.Set{"spec.nodeName": columns.OrEmpty(s.Spec.NodeName), "spec.driver": s.Spec.Driver,
				"spec.pool.name": s.Spec.Pool.Name}
		},
		Columns: []metav1.TableColumnDefinition{
			columns.Column("Node", "string", resourcev1.ResourceSliceSpec{}.SwaggerDoc()["nodeName"]),
			columns.Column("Driver", "string", resourcev1.ResourceSliceSpec{}.SwaggerDoc()["driver"]),
			columns.Column("Pool", "string", resourcev1.ResourcePool{}.SwaggerDoc()["name"]),
		},
		Row: func(s *resourcev1.ResourceSlice) []any {
			return []any{columns.OrEmpty(s.Spec.NodeName), s.Spec.Driver, s.Spec.Pool.Name}
		},
	}
}

//upstream:pkg/apis/resource/validation.validateResourceSliceSpec
//upstream:pkg/apis/resource/validation.validateResourcePool
func validateSlice(r *resourcev1.ResourceSlice) field.ErrorList {
	s := &r.Spec
	errs := fieldrules.DriverName(s.Driver, &fieldrules.Spec, "driver")
	pool := fieldrules.Spec.Child("pool")
	errs = append(errs, poolName(s.Pool.Name, &pool, "name")...)
	if s.Pool.ResourceSliceCount <= 0 {
		errs = append(errs, field.Invalid(pool.ChildField("resourceSliceCount"), s.Pool.ResourceSliceCount, "must be greater than zero"))
	}
	if s.Pool.Generation < 0 {
		errs = append(errs, field.Invalid(pool.ChildField("generation"), s.Pool.Generation, "must be greater than or equal to zero"))
	}
	errs = append(errs, sliceNodes(s)...)
	if s.SharedCounters != nil && s.Devices != nil {
		errs = append(errs, field.Invalid(fieldrules.Spec.Field(), "", "only one of `sharedCounters` or `devices` is allowed"))
	}
	most := resourcev1.ResourceSliceMaxDevices
	if slices.ContainsFunc(s.Devices, advanced) {
		most = resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures
	}
	devices := fieldrules.Spec.Child("devices")
	perDevice := s.PerDeviceNodeSelection != nil && *s.PerDeviceNodeSelection
	errs = append(errs, keyed(s.Devices, most, &devices,
		func(d *resourcev1.Device, w *fieldrules.Path) field.ErrorList { return device(d, perDevice, w) },
		func(d *resourcev1.Device) string { return d.Name })...)
	shared := fieldrules.Spec.Child("sharedCounters")
	return append(errs, set(s.SharedCounters, resourcev1.ResourceSliceMaxCounterSets, &shared,
		func(c *resourcev1.CounterSet, w *fieldrules.Path) field.ErrorList {
			return counters(c.Name, "name", c.Counters, resourcev1.ResourceSliceMaxCountersPerCounterSet, w)
		}, func(c *resourcev1.CounterSet) string { return c.Name })...)
}

// advanced reports whether a device uses a feature that lowers the limit of devices in a slice.
//
//upstream:pkg/apis/resource/validation.haveDeviceTaints
//upstream:pkg/apis/resource/validation.haveConsumesCounters
func advanced(d resourcev1.Device) bool {
	return len(d.Taints) > 0 || len(d.ConsumesCounters) > 0 || hasLists(d)
}

// sliceNodes checks that a slice has exactly one of the fields that select nodes.
//
//upstream:pkg/apis/resource/validation.validateResourceSliceSpec
func sliceNodes(s *resourcev1.ResourceSliceSpec) field.ErrorList {
	const one, isTrue = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required", "must be either unset or set to true"
	w := &fieldrules.Spec
	var errs field.ErrorList
	var present []string
	if n := s.NodeName; n != nil && *n == "" {
		errs = append(errs, field.Invalid(w.ChildField("nodeName"), *n, "must be either unset or set to a non-empty string"))
	} else if n != nil {
		present = append(present, "`nodeName`")
		errs = append(errs, fieldrules.DNSName(*n, w, "nodeName")...)
	}
	if s.NodeSelector != nil {
		present = append(present, "`nodeSelector`")
		at := w.Child("nodeSelector")
		errs = append(errs, podspec.NodeSelector(s.NodeSelector, false, &at)...)
		if terms := s.NodeSelector.NodeSelectorTerms; len(terms) != 1 {
			errs = append(errs, field.Invalid(at.ChildField("nodeSelectorTerms"), fieldrules.Internal(terms), "must have exactly one node selector term"))
		}
	}
	for _, flag := range [...]struct {
		value *bool
		name  string
	}{{s.AllNodes, "allNodes"}, {s.PerDeviceNodeSelection, "perDeviceNodeSelection"}} {
		switch {
		case flag.value == nil:
		case *flag.value:
			present = append(present, "`"+flag.name+"`")
		default:
			errs = append(errs, field.Invalid(w.ChildField(flag.name), false, isTrue))
		}
	}
	switch len(present) {
	case 0:
		errs = append(errs, field.Required(w.Field(), one))
	case 1:
	default:
		errs = append(errs, field.Invalid(w.Field(), "{"+strings.Join(present, ", ")+"}", one+", but multiple fields are set"))
	}
	return errs
}

//upstream:pkg/apis/resource/validation.validateDevice
//upstream:pkg/apis/resource/validation.validateMultiAllocatableDeviceCapacity
//upstream:pkg/apis/resource/validation.validateSingleAllocatableDeviceCapacity
//upstream:pkg/apis/resource/validation.validateDeviceCounterConsumption
//upstream:pkg/apis/resource/validation.numEntriesDeviceAttribute
func device(d *resourcev1.Device, perDevice bool, w *fieldrules.Path) field.ErrorList {
	errs := fieldrules.Invalid(validation.IsDNS1123Label(d.Name), d.Name, w, "name")
	if n := len(d.Attributes) + len(d.Capacity); n > resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		errs = append(errs, field.Invalid(w.Field(), n, fmt.Sprintf("the total number of attributes and capacities must not exceed %d", resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice)))
	}
	values := 0
	for _, a := range d.Attributes {
		values += max(1, len(a.BoolValues)+len(a.IntValues)+len(a.StringValues)+len(a.VersionValues))
	}
	if values > resourcev1.ResourceSliceMaxAttributeValuesPerDevice {
		errs = append(errs, field.Invalid(w.Field(), values, fmt.Sprintf("the total number of attribute values must not exceed %d", resourcev1.ResourceSliceMaxAttributeValuesPerDevice)))
	}
	attributes := w.Child("attributes")
	for _, name := range fieldrules.SortedKeys(d.Attributes) {
		at := attributes.Key(string(name))
		errs = append(errs, attributeName(string(name), &attributes)...)
		errs = append(errs, attribute(d.Attributes[name], &at)...)
	}
	capacities := w.Child("capacity")
	for _, name := range fieldrules.SortedKeys(d.Capacity) {
		at := capacities.Key(string(name))
		errs = append(errs, attributeName(string(name), &capacities)...)
		c := d.Capacity[name]
		switch shared := d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations; {
		case c.RequestPolicy == nil:
		case shared:
			in := at.Child("requestPolicy")
			errs = append(errs, requestPolicy(c.Value, c.RequestPolicy, &in)...)
		default:
			errs = append(errs, field.Forbidden(at.ChildField("requestPolicy"), "allowMultipleAllocations must be true"))
		}
	}
	taints, consumes := w.Child("taints"), w.Child("consumesCounters")
	errs = append(errs, list(d.Taints, resourcev1.DeviceTaintsMaxLength, &taints, deviceTaint)...)
	errs = append(errs, set(d.ConsumesCounters, resourcev1.ResourceSliceMaxDeviceCounterConsumptionsPerDevice, &consumes,
		func(c *resourcev1.DeviceCounterConsumption, w *fieldrules.Path) field.ErrorList {
			return counters(c.CounterSet, "counterSet", c.Counters, resourcev1.ResourceSliceMaxCountersPerDeviceCounterConsumption, w)
		}, func(c *resourcev1.DeviceCounterConsumption) string { return c.CounterSet })...)
	errs = append(errs, deviceNodes(d, perDevice, w)...)
	return append(errs, bindings(d.BindingConditions, d.BindingFailureConditions, w)...)
}

// deviceNodes checks the fields that select the nodes of a device. They require perDeviceNodeSelection.
//
//upstream:pkg/apis/resource/validation.validateDevice
func deviceNodes(d *resourcev1.Device, perDevice bool, w *fieldrules.Path) field.ErrorList {
	if !perDevice {
		if d.NodeName == nil && d.NodeSelector == nil && d.AllNodes == nil {
			return nil
		}
		return field.ErrorList{field.Invalid(w.Field(), nil, "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec")}
	}
	const one = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
	var errs field.ErrorList
	var present []string
	if n := d.NodeName; n != nil && *n == "" {
		errs = append(errs, field.Invalid(w.ChildField("nodeName"), *n, "must not be empty"))
	} else if n != nil {
		present = append(present, "`nodeName`")
		errs = append(errs, fieldrules.DNSName(*n, w, "nodeName")...)
	}
	if d.NodeSelector != nil {
		present = append(present, "`nodeSelector`")
		at := w.Child("nodeSelector")
		errs = append(errs, podspec.NodeSelector(d.NodeSelector, false, &at)...)
	}
	switch {
	case d.AllNodes == nil:
	case *d.AllNodes:
		present = append(present, "`allNodes`")
	default:
		errs = append(errs, field.Invalid(w.ChildField("allNodes"), false, "must be either unset or set to true"))
	}
	switch len(present) {
	case 0:
		errs = append(errs, field.Required(w.Field(), one))
	case 1:
	default:
		errs = append(errs, field.Invalid(w.Field(), "{"+strings.Join(present, ", ")+"}", one))
	}
	return errs
}

// counters checks the name of a set of counters, and the names of the counters.
//
//upstream:pkg/apis/resource/validation.validateCounterSet
//upstream:pkg/apis/resource/validation.validateDeviceCounterConsumption
func counters(name, in string, m map[string]resourcev1.Counter, limit int, w *fieldrules.Path) field.ErrorList {
	errs := fieldrules.Required(name, w, in)
	if name != "" {
		errs = fieldrules.Invalid(content.IsDNS1123Label(name), name, w, in)
	}
	at := w.Child("counters")
	switch n := len(m); {
	case n == 0:
		return append(errs, field.Required(at.Field(), ""))
	case n > limit:
		return append(errs, field.TooMany(at.Field(), n, limit))
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		errs = append(errs, fieldrules.Invalid(content.IsDNS1123Label(k), k, &at, "")...)
	}
	return errs
}

// semantic matches a version by semver.org 2.0.0.
//
//upstream:pkg/apis/resource/validation.semverRe
var semantic = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
	`(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?` +
	`(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$`)

// attribute checks that an attribute has one value, or one list of values, of one type.
//
//upstream:pkg/apis/resource/validation.validateDeviceAttribute
//upstream:pkg/apis/resource/validation.validateDeviceAttributeStringValue
//upstream:pkg/apis/resource/validation.validateDeviceAttributeVersionValue
func attribute(a resourcev1.DeviceAttribute, w *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	text := func(s string, version bool, w *fieldrules.Path) {
		if version && !semantic.MatchString(s) {
			errs = append(errs, field.Invalid(w.Field(), s, "must be a string compatible with semver.org spec 2.0.0"))
		}
		if len(s) > resourcev1.DeviceAttributeMaxValueLength {
			errs = append(errs, field.TooLong(w.Field(), "", resourcev1.DeviceAttributeMaxValueLength))
		}
	}
	var present []string
	for _, one := range [...]struct {
		set, empty bool
		name       string
		value      any
	}{
		{a.IntValue != nil, false, "int", nil}, {a.BoolValue != nil, false, "bool", nil},
		{a.StringValue != nil, false, "string", nil}, {a.VersionValue != nil, false, "version", nil},
		{a.IntValues != nil, len(a.IntValues) == 0, "ints", a.IntValues}, {a.BoolValues != nil, len(a.BoolValues) == 0, "bools", a.BoolValues},
		{a.StringValues != nil, len(a.StringValues) == 0, "strings", a.StringValues}, {a.VersionValues != nil, len(a.VersionValues) == 0, "versions", a.VersionValues},
	} {
		if !one.set {
			continue
		}
		if present = append(present, one.name); one.empty && one.value != nil {
			errs = append(errs, field.Invalid(w.ChildField(one.name), one.value, "must not be empty if specified"))
		}
	}
	if a.StringValue != nil {
		at := w.Child("string")
		text(*a.StringValue, false, &at)
	}
	if a.VersionValue != nil {
		at := w.Child("version")
		text(*a.VersionValue, true, &at)
	}
	texts, versions := w.Child("strings"), w.Child("versions")
	for i, s := range a.StringValues {
		at := texts.Index(i)
		text(s, false, &at)
	}
	for i, s := range a.VersionValues {
		at := versions.Index(i)
		text(s, true, &at)
	}
	const names = "one of: `int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`"
	switch len(present) {
	case 0:
		errs = append(errs, field.Invalid(w.Field(), "", "must specify "+names))
	case 1:
	default:
		errs = append(errs, field.Invalid(w.Field(), "{"+strings.Join(present, ", ")+"}", "must specify exactly "+names))
	}
	return errs
}

// hasLists reports whether a device has an attribute with a list of values.
//
//upstream:pkg/apis/resource/validation.haveListAttributes
//upstream:pkg/registry/resource/resourceslice.draListTypeAttributesFeatureInUse
func hasLists(d resourcev1.Device) bool {
	for _, a := range d.Attributes {
		if a.BoolValues != nil || a.IntValues != nil || a.StringValues != nil || a.VersionValues != nil {
			return true
		}
	}
	return false
}
