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

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
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
		ValidateCreate: func(s *resourcev1.ResourceSlice) field.ErrorList { return validateSlice(s, nil) },
		Warnings: func(s, _ *resourcev1.ResourceSlice) []string {
			if s.Spec.Driver == strings.ToLower(s.Spec.Driver) {
				return nil
			}
			return []string{fmt.Sprintf("spec.driver: driver names should be lowercase; %q contains uppercase characters", s.Spec.Driver)}
		},
		ValidateUpdate: func(s, old *resourcev1.ResourceSlice) field.ErrorList {
			at := fieldrules.Spec.Child("pool")
			errs := validateSlice(s, old)
			errs = append(errs, fieldrules.Immutable(s.Spec.Pool.Name, old.Spec.Pool.Name, &at, "name")...)
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

// validateSlice checks a slice. On an update, it compares each device with the one of this name in old.
//
//upstream:pkg/apis/resource/validation.validateResourceSliceSpec
//upstream:pkg/apis/resource/validation.validateResourcePool
func validateSlice(r, old *resourcev1.ResourceSlice) field.ErrorList {
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
		func(d *resourcev1.Device, w *fieldrules.Path) field.ErrorList {
			return device(d, deviceOf(old, d.Name), perDevice, w)
		},
		func(d *resourcev1.Device) string { return d.Name })...)
	shared := fieldrules.Spec.Child("sharedCounters")
	return append(errs, set(s.SharedCounters, resourcev1.ResourceSliceMaxCounterSets, &shared,
		func(c *resourcev1.CounterSet, w *fieldrules.Path) field.ErrorList {
			return counters(c.Name, "name", c.Counters, resourcev1.ResourceSliceMaxCountersPerCounterSet, w)
		}, func(c *resourcev1.CounterSet) string { return c.Name })...)
}

// deviceOf returns the device of a slice with a name, or nil.
//
//upstream:pkg/apis/resource/validation.lookupDevice
func deviceOf(s *resourcev1.ResourceSlice, name string) *resourcev1.Device {
	if s == nil {
		return nil
	}
	i := slices.IndexFunc(s.Spec.Devices, func(d resourcev1.Device) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Spec.Devices[i]
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
		podspec.NodeSelector(check.Field{Path: at}.Into(&errs), s.NodeSelector, false)
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

// device checks a device. The capacity and the taints are checked unless they equal the old ones.
//
//upstream:pkg/apis/resource/validation.validateDevice
//upstream:pkg/apis/resource/validation.validateDeviceCounterConsumption
func device(d, old *resourcev1.Device, perDevice bool, w *fieldrules.Path) field.ErrorList {
	errs := fieldrules.Invalid(validation.IsDNS1123Label(d.Name), d.Name, w, "name")
	errs = append(errs, deviceSize(d, w)...)
	attributes := w.Child("attributes")
	for _, name := range fieldrules.SortedKeys(d.Attributes) {
		at, short := attributes.Key(string(name)), attributes.Key(shortened(string(name)))
		errs = append(errs, attributeName(string(name), &attributes)...)
		errs = append(errs, oneValue(d.Attributes[name], &at)...)
		errs = append(errs, attribute(d.Attributes[name], &short)...)
		if len(shortened(string(name))) < len(name) { // kube-apiserver takes these for two errors, for their paths differ
			errs = append(errs, exactlyOne(d.Attributes[name], &short)...)
		}
	}
	if old == nil || !equality.Semantic(old.Capacity, d.Capacity) {
		errs = append(errs, capacity(d, w)...)
	}
	if taints := w.Child("taints"); old == nil || !equality.Semantic(old.Taints, d.Taints) {
		errs = append(errs, list(d.Taints, resourcev1.DeviceTaintsMaxLength, &taints, deviceTaint)...)
	}
	consumes := w.Child("consumesCounters")
	errs = append(errs, set(d.ConsumesCounters, resourcev1.ResourceSliceMaxDeviceCounterConsumptionsPerDevice, &consumes,
		func(c *resourcev1.DeviceCounterConsumption, w *fieldrules.Path) field.ErrorList {
			return counters(c.CounterSet, "counterSet", c.Counters, resourcev1.ResourceSliceMaxCountersPerDeviceCounterConsumption, w)
		}, func(c *resourcev1.DeviceCounterConsumption) string { return c.CounterSet })...)
	errs = append(errs, deviceNodes(d, perDevice, w)...)
	return append(errs, bindings(d.BindingConditions, d.BindingFailureConditions, w)...)
}

// deviceSize checks the number of attributes and capacities, and the number of values of the attributes.
//
//upstream:pkg/apis/resource/validation.validateDevice
//upstream:pkg/apis/resource/validation.numEntriesDeviceAttribute
func deviceSize(d *resourcev1.Device, w *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
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
	return errs
}

// capacity checks the capacities of a device. A device that cannot be allocated several times has no request policy.
//
//upstream:pkg/apis/resource/validation.validateMultiAllocatableDeviceCapacity
//upstream:pkg/apis/resource/validation.validateSingleAllocatableDeviceCapacity
func capacity(d *resourcev1.Device, w *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	capacities := w.Child("capacity")
	for _, name := range fieldrules.SortedKeys(d.Capacity) {
		at := capacities.Key(shortened(string(name)))
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
	return errs
}

// shortened returns the name of an attribute or a capacity as it stands in the path of an error: a name that is
// too long loses its middle.
//
//upstream:pkg/apis/resource/validation.truncateIfTooLong
//upstream:pkg/apis/resource/validation.attributeAndCapacityMaxKeyLength
func shortened(name string) string {
	const most, dots = resourcev1.DeviceMaxDomainLength + 1 + resourcev1.DeviceMaxIDLength, "..."
	if len(name) <= most {
		return name
	}
	left := most - len(dots)
	return name[:(left+1)/2] + dots + name[len(name)-left/2:]
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
		podspec.NodeSelector(check.Field{Path: w.Child("nodeSelector")}.Into(&errs), d.NodeSelector, false)
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

// attribute checks the values of an attribute.
//
//upstream:pkg/apis/resource/validation.validateDeviceAttribute
//upstream:pkg/apis/resource/validation.validateDeviceAttributeStringValue
//upstream:pkg/apis/resource/validation.validateDeviceAttributeVersionValue
func attribute(a resourcev1.DeviceAttribute, w *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	text := func(s string, version bool, at fieldrules.Path) {
		if version && !semantic.MatchString(s) {
			errs = append(errs, field.Invalid(at.Field(), s, "must be a string compatible with semver.org spec 2.0.0"))
		}
		if len(s) > resourcev1.DeviceAttributeMaxValueLength {
			errs = append(errs, field.TooLong(at.Field(), "", resourcev1.DeviceAttributeMaxValueLength))
		}
	}
	if a.StringValue != nil {
		text(*a.StringValue, false, w.Child("string"))
	}
	if a.VersionValue != nil {
		text(*a.VersionValue, true, w.Child("version"))
	}
	errs = append(errs, notEmpty(a.BoolValues, w, "bools")...)
	errs = append(errs, notEmpty(a.IntValues, w, "ints")...)
	errs = append(errs, notEmpty(a.StringValues, w, "strings")...)
	errs = append(errs, notEmpty(a.VersionValues, w, "versions")...)
	texts, versions := w.Child("strings"), w.Child("versions")
	for i, s := range a.StringValues {
		text(s, false, texts.Index(i))
	}
	for i, s := range a.VersionValues {
		text(s, true, versions.Index(i))
	}
	return errs
}

// notEmpty checks that a list of values has an element, unless it is absent.
func notEmpty[T any](values []T, w *fieldrules.Path, name string) field.ErrorList {
	if values == nil || len(values) > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(w.ChildField(name), values, "must not be empty if specified")}
}

// oneValue checks that an attribute has one value, or one list of values, of one type.
//
//upstream:pkg/apis/resource/v1.Validate_DeviceAttribute
func oneValue(a resourcev1.DeviceAttribute, w *fieldrules.Path) field.ErrorList {
	const names = "one of: `int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`"
	switch present := valuesOf(a); len(present) {
	case 0:
		return field.ErrorList{field.Invalid(w.Field(), "", "must specify "+names)}
	case 1:
		return nil
	default:
		return field.ErrorList{field.Invalid(w.Field(), "{"+strings.Join(present, ", ")+"}", "must specify exactly "+names)}
	}
}

// exactlyOne is the older form of oneValue.
//
//upstream:pkg/apis/resource/validation.validateDeviceAttribute
func exactlyOne(a resourcev1.DeviceAttribute, w *fieldrules.Path) field.ErrorList {
	const message = "exactly one value must be specified"
	switch len(valuesOf(a)) {
	case 0:
		return field.ErrorList{field.Invalid(w.Field(), "", message)}
	case 1:
		return nil
	default:
		return field.ErrorList{field.Invalid(w.Field(), fieldrules.Internal(a), message)}
	}
}

// valuesOf returns the names of the fields of an attribute that are set.
func valuesOf(a resourcev1.DeviceAttribute) []string {
	var present []string
	for _, one := range [...]struct {
		name string
		set  bool
	}{
		{"int", a.IntValue != nil}, {"bool", a.BoolValue != nil}, {"string", a.StringValue != nil}, {"version", a.VersionValue != nil},
		{"ints", a.IntValues != nil}, {"bools", a.BoolValues != nil}, {"strings", a.StringValues != nil}, {"versions", a.VersionValues != nil},
	} {
		if one.set {
			present = append(present, one.name)
		}
	}
	return present
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
