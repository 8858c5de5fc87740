package resource

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
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
		ValidateUpdate: validateSlice,
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
func validateSlice(r, old *resourcev1.ResourceSlice) (errs field.ErrorList) {
	spec, s := check.Object(&errs).Child("spec"), &r.Spec
	pool := spec.Child("pool")
	check.DriverName(spec.Child("driver"), s.Driver)
	poolName(pool.Child("name"), s.Pool.Name)
	check.Positive(pool.Child("resourceSliceCount"), s.Pool.ResourceSliceCount)
	if s.Pool.Generation < 0 {
		pool.Child("generation").Invalid(s.Pool.Generation, "must be greater than or equal to zero")
	}
	sliceNodes(spec, s)
	if s.SharedCounters != nil && s.Devices != nil {
		spec.Invalid("", "only one of `sharedCounters` or `devices` is allowed")
	}
	most := resourcev1.ResourceSliceMaxDevices
	if slices.ContainsFunc(s.Devices, advanced) {
		most = resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures
	}
	perDevice := s.PerDeviceNodeSelection != nil && *s.PerDeviceNodeSelection
	keyed(spec.Child("devices"), s.Devices, most,
		func(at check.Field, d *resourcev1.Device) { device(at, d, deviceOf(old, d.Name), perDevice) },
		func(d *resourcev1.Device) string { return d.Name })
	set(spec.Child("sharedCounters"), s.SharedCounters, resourcev1.ResourceSliceMaxCounterSets,
		func(at check.Field, c *resourcev1.CounterSet) {
			counters(at, "name", c.Name, c.Counters, resourcev1.ResourceSliceMaxCountersPerCounterSet)
		}, func(c *resourcev1.CounterSet) string { return c.Name })
	if old != nil {
		check.Immutable(pool.Child("name"), s.Pool.Name, old.Spec.Pool.Name)
		check.Immutable(spec.Child("driver"), s.Driver, old.Spec.Driver)
		check.Immutable(spec.Child("nodeName"), s.NodeName, old.Spec.NodeName)
	}
	return errs
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
func sliceNodes(spec check.Field, s *resourcev1.ResourceSliceSpec) {
	const one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
	present := selectedNodes(spec, s.NodeName, s.NodeSelector, "must be either unset or set to a non-empty string")
	if n := s.NodeSelector; n != nil && len(n.NodeSelectorTerms) != 1 {
		spec.Child("nodeSelector").Child("nodeSelectorTerms").Invalid(fieldrules.Internal(n.NodeSelectorTerms), "must have exactly one node selector term")
	}
	if isTrue(spec.Child("allNodes"), s.AllNodes) {
		present = append(present, "`allNodes`")
	}
	if isTrue(spec.Child("perDeviceNodeSelection"), s.PerDeviceNodeSelection) {
		present = append(present, "`perDeviceNodeSelection`")
	}
	only(spec, present, one, one+", but multiple fields are set")
}

// selectedNodes checks the fields nodeName and nodeSelector, and returns the present ones. empty is the error for an empty name.
func selectedNodes(in check.Field, name *string, s *corev1.NodeSelector, empty string) (present []string) {
	node, selector := in.Child("nodeName"), in.Child("nodeSelector")
	switch {
	case name == nil:
	case *name == "":
		node.Invalid("", empty)
	default:
		present = append(present, "`nodeName`")
		check.DNSName(node, *name)
	}
	if s != nil {
		present = append(present, "`nodeSelector`")
		podspec.NodeSelector(selector, s, false)
	}
	return present
}

// isTrue reports whether a flag is true, and checks that it is not false.
func isTrue(at check.Field, flag *bool) bool {
	if flag != nil && !*flag {
		at.Invalid(false, "must be either unset or set to true")
	}
	return flag != nil && *flag
}

// only checks that exactly one field in at is present.
func only(at check.Field, present []string, missing, several string) {
	switch len(present) {
	case 0:
		at.Required(missing)
	case 1:
	default:
		at.Invalid("{"+strings.Join(present, ", ")+"}", several)
	}
}

// device checks a device. The capacity and the taints are checked unless they equal the old ones.
//
//upstream:pkg/apis/resource/validation.validateDevice
//upstream:pkg/apis/resource/validation.validateDeviceCounterConsumption
func device(at check.Field, d, old *resourcev1.Device, perDevice bool) {
	check.Valid(at.Child("name"), d.Name, validation.IsDNS1123Label)
	deviceSize(at, d)
	attributes := at.Child("attributes")
	for _, name := range fieldrules.SortedKeys(d.Attributes) {
		a, key, short := d.Attributes[name], string(name), shortened(string(name))
		attributeName(attributes, key)
		oneValue(attributes.Key(key), a)
		attribute(attributes.Key(short), a)
		if len(short) < len(key) { // kube-apiserver takes these for two errors, for their paths differ
			exactlyOne(attributes.Key(short), a)
		}
	}
	if old == nil || !equality.Semantic(old.Capacity, d.Capacity) {
		capacity(at.Child("capacity"), d)
	}
	if old == nil || !equality.Semantic(old.Taints, d.Taints) {
		list(at.Child("taints"), d.Taints, resourcev1.DeviceTaintsMaxLength, deviceTaint)
	}
	set(at.Child("consumesCounters"), d.ConsumesCounters, resourcev1.ResourceSliceMaxDeviceCounterConsumptionsPerDevice,
		func(at check.Field, c *resourcev1.DeviceCounterConsumption) {
			counters(at, "counterSet", c.CounterSet, c.Counters, resourcev1.ResourceSliceMaxCountersPerDeviceCounterConsumption)
		}, func(c *resourcev1.DeviceCounterConsumption) string { return c.CounterSet })
	deviceNodes(at, d, perDevice)
	bindings(at, d.BindingConditions, d.BindingFailureConditions)
}

// deviceSize checks the number of attributes and capacities, and the number of values of the attributes.
//
//upstream:pkg/apis/resource/validation.validateDevice
//upstream:pkg/apis/resource/validation.numEntriesDeviceAttribute
func deviceSize(at check.Field, d *resourcev1.Device) {
	if n := len(d.Attributes) + len(d.Capacity); n > resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		at.Invalidf(n, "the total number of attributes and capacities must not exceed %d", resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice)
	}
	values := 0
	for _, a := range d.Attributes {
		values += max(1, len(a.BoolValues)+len(a.IntValues)+len(a.StringValues)+len(a.VersionValues))
	}
	if values > resourcev1.ResourceSliceMaxAttributeValuesPerDevice {
		at.Invalidf(values, "the total number of attribute values must not exceed %d", resourcev1.ResourceSliceMaxAttributeValuesPerDevice)
	}
}

// capacity checks the capacities of a device. A device that cannot be allocated several times has no request policy.
//
//upstream:pkg/apis/resource/validation.validateMultiAllocatableDeviceCapacity
//upstream:pkg/apis/resource/validation.validateSingleAllocatableDeviceCapacity
func capacity(at check.Field, d *resourcev1.Device) {
	shared := d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations
	for _, name := range fieldrules.SortedKeys(d.Capacity) {
		attributeName(at, string(name))
		switch c, policy := d.Capacity[name], at.Key(shortened(string(name))).Child("requestPolicy"); {
		case c.RequestPolicy == nil:
		case shared:
			requestPolicy(policy, c.Value, c.RequestPolicy)
		default:
			policy.Forbidden("allowMultipleAllocations must be true")
		}
	}
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
func deviceNodes(at check.Field, d *resourcev1.Device, perDevice bool) {
	if !perDevice {
		if d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil {
			at.Invalid(nil, "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec")
		}
		return
	}
	const one = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
	present := selectedNodes(at, d.NodeName, d.NodeSelector, "must not be empty")
	if isTrue(at.Child("allNodes"), d.AllNodes) {
		present = append(present, "`allNodes`")
	}
	only(at, present, one, one)
}

// counters checks the name of a set of counters, and the names of the counters.
//
//upstream:pkg/apis/resource/validation.validateCounterSet
//upstream:pkg/apis/resource/validation.validateDeviceCounterConsumption
func counters(in check.Field, nameField, name string, m map[string]resourcev1.Counter, limit int) {
	at := in.Child("counters")
	check.Required(in.Child(nameField), name)
	if name != "" {
		check.Valid(in.Child(nameField), name, content.IsDNS1123Label)
	}
	switch n := len(m); {
	case n == 0:
		at.Required("")
	case n > limit:
		at.TooMany(n, limit)
	default:
		for _, k := range fieldrules.SortedKeys(m) {
			check.Valid(at, k, content.IsDNS1123Label)
		}
	}
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
func attribute(at check.Field, a resourcev1.DeviceAttribute) {
	texts, versions := at.Child("strings"), at.Child("versions")
	check.Optional(at.Child("string"), a.StringValue, attributeText)
	check.Optional(at.Child("version"), a.VersionValue, attributeVersion)
	notEmpty(at.Child("bools"), a.BoolValues)
	notEmpty(at.Child("ints"), a.IntValues)
	notEmpty(texts, a.StringValues)
	notEmpty(versions, a.VersionValues)
	for i, s := range a.StringValues {
		attributeText(texts.Index(i), s)
	}
	for i, s := range a.VersionValues {
		attributeVersion(versions.Index(i), s)
	}
}

//upstream:pkg/apis/resource/validation.validateDeviceAttributeStringValue
func attributeText(at check.Field, s string) {
	if len(s) > resourcev1.DeviceAttributeMaxValueLength {
		at.TooLong(resourcev1.DeviceAttributeMaxValueLength)
	}
}

//upstream:pkg/apis/resource/validation.validateDeviceAttributeVersionValue
func attributeVersion(at check.Field, s string) {
	if !semantic.MatchString(s) {
		at.Invalid(s, "must be a string compatible with semver.org spec 2.0.0")
	}
	attributeText(at, s)
}

// notEmpty checks that a list of values has an element, unless it is absent.
func notEmpty[T any](at check.Field, values []T) {
	if values != nil && len(values) == 0 {
		at.Invalid(values, "must not be empty if specified")
	}
}

// oneValue checks that an attribute has one value, or one list of values, of one type.
//
//upstream:pkg/apis/resource/v1.Validate_DeviceAttribute
func oneValue(at check.Field, a resourcev1.DeviceAttribute) {
	const names = "one of: `int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`"
	switch present := valuesOf(a); len(present) {
	case 0:
		at.Invalid("", "must specify "+names)
	case 1:
	default:
		at.Invalid("{"+strings.Join(present, ", ")+"}", "must specify exactly "+names)
	}
}

// exactlyOne is the older form of oneValue.
//
//upstream:pkg/apis/resource/validation.validateDeviceAttribute
func exactlyOne(at check.Field, a resourcev1.DeviceAttribute) {
	switch len(valuesOf(a)) {
	case 0:
		at.Invalid("", "exactly one value must be specified")
	case 1:
	default:
		at.Invalid(fieldrules.Internal(a), "exactly one value must be specified")
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
