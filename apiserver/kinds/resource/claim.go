// Package resource describes the kinds of the resource.k8s.io API group.
package resource

import (
	"context"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
)

// unenforced is the reason in the warning for these kinds.
const unenforced = "no device is allocated"

// ResourceClaims describes the kind ResourceClaim.
//
//upstream:pkg/registry/resource/resourceclaim.resourceclaimStrategy
//upstream:pkg/registry/resource/resourceclaim.resourceclaimStatusStrategy
//upstream:pkg/apis/resource/validation.ValidateResourceClaim
//upstream:pkg/apis/resource/validation.ValidateResourceClaimUpdate
//upstream:pkg/printers/internalversion.printResourceClaim
func ResourceClaims(access Access) kinds.Kind {
	return kinds.Of[*resourcev1.ResourceClaim]{
		Type: &resourcev1.ResourceClaim{}, List: &resourcev1.ResourceClaimList{},
		Plural: "resourceclaims", ReturnsDeleted: true,
		Unenforced: unenforced,
		Name:       fieldrules.NameIsSubdomain,
		Default: func(c *resourcev1.ResourceClaim) {
			defaultClaim(&c.Spec)
			if a := c.Status.Allocation; a != nil {
				for i := range a.Devices.Results {
					defaultTolerations(a.Devices.Results[i].Tolerations)
				}
			}
		},
		Authorize: func(ctx context.Context, c *resourcev1.ResourceClaim) field.ErrorList {
			return access.requests(ctx, c.Spec.Devices.Requests, c.Namespace)
		},
		AuthorizeStatus: access.status,
		ValidateCreate: func(c *resourcev1.ResourceClaim) (errs field.ErrorList) {
			deviceClaim(check.Object(&errs).Child("spec").Child("devices"), &c.Spec.Devices)
			return errs
		},
		ValidateUpdate: func(c, old *resourcev1.ResourceClaim) (errs field.ErrorList) {
			check.ImmutableWithoutValue(check.Object(&errs).Child("spec"), c.Spec, old.Spec)
			return errs
		},
		Status:         true,
		PrepareStatus:  prepareClaimStatus,
		StatusReset:    []string{"metadata"},
		ValidateStatus: validateClaimStatus,
		Columns: []metav1.TableColumnDefinition{
			columns.Column("State", "string", "The states of the claim: pending, allocated, reserved or deleted."),
		},
		Row: func(c *resourcev1.ResourceClaim) []any { return []any{claimCell(c)} },
	}
}

// prepareClaimStatus keeps the metadata, and removes the status of deallocated devices.
//
//upstream:pkg/registry/resource/resourceclaim.resourceclaimStatusStrategy.PrepareForUpdate
//upstream:pkg/registry/resource/resourceclaim.dropDeallocatedStatusDevices
func prepareClaimStatus(ctx context.Context, c, old *resourcev1.ResourceClaim) {
	kinds.KeepMetadata(ctx, c, old)
	gone := allocatedDevices(old)
	for d := range allocatedDevices(c) {
		delete(gone, d)
	}
	c.Status.Devices = slices.DeleteFunc(c.Status.Devices, func(d resourcev1.AllocatedDeviceStatus) bool {
		return gone[idOf(d.Driver, d.Pool, d.Device, d.ShareID)]
	})
	if len(c.Status.Devices) == 0 {
		c.Status.Devices = nil
	}
}

//upstream:pkg/apis/resource/validation.gatherAllocatedDevices
func allocatedDevices(c *resourcev1.ResourceClaim) map[deviceID]bool {
	allocated := map[deviceID]bool{}
	if c.Status.Allocation != nil {
		for _, r := range c.Status.Allocation.Devices.Results {
			allocated[idOf(r.Driver, r.Pool, r.Device, (*string)(r.ShareID))] = true
		}
	}
	return allocated
}

// ResourceClaimTemplates describes the kind ResourceClaimTemplate.
//
//upstream:pkg/registry/resource/resourceclaimtemplate.resourceClaimTemplateStrategy
//upstream:pkg/apis/resource/validation.ValidateResourceClaimTemplate
//upstream:pkg/apis/resource/validation.ValidateResourceClaimTemplateUpdate
//upstream:pkg/apis/resource/validation.validateResourceClaimTemplateSpec
//upstream:pkg/printers/internalversion.printResourceClaimTemplate
func ResourceClaimTemplates(access Access) kinds.Kind {
	return kinds.Of[*resourcev1.ResourceClaimTemplate]{
		Type: &resourcev1.ResourceClaimTemplate{}, List: &resourcev1.ResourceClaimTemplateList{},
		Plural: "resourceclaimtemplates", ReturnsDeleted: true,
		Unenforced: unenforced,
		Name:       fieldrules.NameIsSubdomain,
		Default:    func(t *resourcev1.ResourceClaimTemplate) { defaultClaim(&t.Spec.Spec) },
		Authorize: func(ctx context.Context, t *resourcev1.ResourceClaimTemplate) field.ErrorList {
			return access.requests(ctx, t.Spec.Spec.Devices.Requests, t.Namespace)
		},
		Validate: func(t *resourcev1.ResourceClaimTemplate) (errs field.ErrorList) {
			spec := check.Object(&errs).Child("spec")
			check.TemplateMetadata(spec.Child("metadata"), t.Spec.ObjectMeta)
			deviceClaim(spec.Child("spec").Child("devices"), &t.Spec.Spec.Devices)
			return errs
		},
		ValidateUpdate: func(t, old *resourcev1.ResourceClaimTemplate) (errs field.ErrorList) {
			check.ImmutableStruct(check.Object(&errs).Child("spec"), t.Spec, old.Spec)
			return errs
		},
	}
}

func defaultClaim(s *resourcev1.ResourceClaimSpec) {
	for i := range s.Devices.Requests {
		r := &s.Devices.Requests[i]
		if e := r.Exactly; e != nil {
			defaultAllocation(&e.AllocationMode, &e.Count)
			defaultTolerations(e.Tolerations)
		}
		for j := range r.FirstAvailable {
			f := &r.FirstAvailable[j]
			defaultAllocation(&f.AllocationMode, &f.Count)
			defaultTolerations(f.Tolerations)
		}
	}
}

//upstream:pkg/apis/resource/v1.SetDefaults_ExactDeviceRequest
//upstream:pkg/apis/resource/v1.SetDefaults_DeviceSubRequest
func defaultAllocation(mode *resourcev1.DeviceAllocationMode, count *int64) {
	fieldrules.DefaultValue(mode, resourcev1.DeviceAllocationModeExactCount)
	if *mode == resourcev1.DeviceAllocationModeExactCount {
		fieldrules.DefaultValue(count, 1)
	}
}

func defaultTolerations(list []resourcev1.DeviceToleration) {
	for i := range list {
		fieldrules.DefaultValue(&list[i].Operator, resourcev1.DeviceTolerationOpEqual)
	}
}

// deviceClaim checks the field devices of a claim.
//
//upstream:pkg/apis/resource/validation.validateDeviceClaim
//upstream:pkg/apis/resource/validation.validateDeviceConstraint
//upstream:pkg/apis/resource/validation.validateDeviceClaimConfiguration
func deviceClaim(at check.Field, c *resourcev1.DeviceClaim) {
	names := requestNames(c)
	set(at.Child("requests"), c.Requests, resourcev1.DeviceRequestsMaxSize, deviceRequest,
		func(r *resourcev1.DeviceRequest) string { return r.Name })
	list(at.Child("constraints"), c.Constraints, resourcev1.DeviceConstraintsMaxSize, func(at check.Field, k *resourcev1.DeviceConstraint) {
		references(at.Child("requests"), k.Requests, names)
		check.Optional(at.Child("matchAttribute"), k.MatchAttribute, qualifiedAttribute)
		check.Optional(at.Child("distinctAttribute"), k.DistinctAttribute, qualifiedAttribute)
		if k.MatchAttribute == nil && k.DistinctAttribute == nil {
			at.Required(`exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set`)
		}
	})
	list(at.Child("config"), c.Config, resourcev1.DeviceConfigMaxSize, func(at check.Field, k *resourcev1.DeviceClaimConfiguration) {
		references(at.Child("requests"), k.Requests, names)
		configuration(at.Child("opaque"), k.Opaque)
	})
}

// requestNames returns the names of requests, and of subrequests as request/subrequest.
//
//upstream:pkg/apis/resource/validation.requestNames
//upstream:pkg/apis/resource/validation.gatherRequestNames
func requestNames(c *resourcev1.DeviceClaim) map[string]bool {
	names := map[string]bool{}
	for i := range c.Requests {
		names[c.Requests[i].Name] = true
		for j := range c.Requests[i].FirstAvailable {
			names[c.Requests[i].Name+"/"+c.Requests[i].FirstAvailable[j].Name] = true
		}
	}
	return names
}

// references checks the field requests, a list of names of requests.
func references(at check.Field, refs []string, names map[string]bool) {
	set(at, refs, resourcev1.DeviceRequestsMaxSize, func(at check.Field, name *string) { reference(at, *name, names) },
		func(name *string) string { return *name })
}

//upstream:pkg/apis/resource/validation.validateRequestNameRef
func reference(at check.Field, name string, names map[string]bool) {
	nested := strings.Count(name, "/") > 1
	if !nested {
		for part := range strings.SplitSeq(name, "/") {
			check.Valid(at, part, validation.IsDNS1123Label)
		}
	}
	if nested || !names[name] {
		at.Invalid(name, "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'")
	}
}

// deviceRequest checks that a request has either exactly or firstAvailable.
//
//upstream:pkg/apis/resource/validation.validateDeviceRequest
func deviceRequest(at check.Field, r *resourcev1.DeviceRequest) {
	const one = "exactly one of `exactly` or `firstAvailable` is required"
	check.Valid(at.Child("name"), r.Name, validation.IsDNS1123Label)
	switch e, exactly := r.Exactly, at.Child("exactly"); {
	case e == nil && len(r.FirstAvailable) == 0:
		at.Required(one)
	case e != nil && len(r.FirstAvailable) > 0:
		at.Invalid(nil, one+", but multiple fields are set")
		declaredRules(at, r)
	case e != nil:
		className(exactly.Child("deviceClassName"), e.DeviceClassName, validation.IsDNS1123Subdomain)
		deviceQuery(exactly, e.Selectors, e.AllocationMode, e.Count, e.Tolerations)
	default:
		set(at.Child("firstAvailable"), r.FirstAvailable, resourcev1.FirstAvailableDeviceRequestMaxSize, subRequest,
			func(s *resourcev1.DeviceSubRequest) string { return s.Name })
	}
}

//upstream:pkg/apis/resource/validation.validateDeviceSubRequest
func subRequest(at check.Field, s *resourcev1.DeviceSubRequest) {
	check.Valid(at.Child("name"), s.Name, validation.IsDNS1123Label)
	className(at.Child("deviceClassName"), s.DeviceClassName, content.IsDNS1123Subdomain)
	deviceQuery(at, s.Selectors, s.AllocationMode, s.Count, s.Tolerations)
}

// declaredRules checks what kube-apiserver checks by generated code, in requests with both exactly and firstAvailable too.
//
//upstream:pkg/apis/resource/v1.Validate_DeviceSubRequest
//upstream:pkg/apis/resource/v1.Validate_ExactDeviceRequest
func declaredRules(at check.Field, r *resourcev1.DeviceRequest) {
	exactly := at.Child("exactly")
	allocationMode(exactly.Child("allocationMode"), r.Exactly.AllocationMode)
	list(exactly.Child("tolerations"), r.Exactly.Tolerations, -1, declaredToleration)
	set(at.Child("firstAvailable"), r.FirstAvailable, resourcev1.FirstAvailableDeviceRequestMaxSize,
		func(at check.Field, s *resourcev1.DeviceSubRequest) {
			className(at.Child("deviceClassName"), s.DeviceClassName, content.IsDNS1123Subdomain)
			allocationMode(at.Child("allocationMode"), s.AllocationMode)
			list(at.Child("tolerations"), s.Tolerations, -1, declaredToleration)
		}, func(s *resourcev1.DeviceSubRequest) string { return s.Name })
}

//upstream:pkg/apis/resource/validation.validateDeviceClass
func className(at check.Field, name string, rule func(string) []string) {
	if name == "" {
		at.Required("")
	} else {
		check.Valid(at, name, rule)
	}
}

func allocationMode(at check.Field, mode resourcev1.DeviceAllocationMode) {
	check.Supported(at, mode, resourcev1.DeviceAllocationModeAll, resourcev1.DeviceAllocationModeExactCount)
}

// deviceQuery checks the fields that requests and subrequests share.
//
//upstream:pkg/apis/resource/validation.validateExactDeviceRequest
//upstream:pkg/apis/resource/validation.validateDeviceAllocationMode
func deviceQuery(at check.Field, selectors []resourcev1.DeviceSelector, mode resourcev1.DeviceAllocationMode, n int64,
	tolerations []resourcev1.DeviceToleration) {
	deviceSelectors(at.Child("selectors"), selectors)
	switch count := at.Child("count"); {
	case mode == resourcev1.DeviceAllocationModeAll && n != 0:
		count.Invalid(n, "must not be specified when allocationMode is 'All'")
	case mode == resourcev1.DeviceAllocationModeExactCount:
		check.Positive(count, n)
	}
	allocationMode(at.Child("allocationMode"), mode)
	list(at.Child("tolerations"), tolerations, -1, deviceToleration)
}

//upstream:pkg/apis/resource/validation.validDeviceTaintEffects
var taintEffects = []resourcev1.DeviceTaintEffect{resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNone}

//upstream:pkg/apis/resource/validation.validateDeviceToleration
func deviceToleration(at check.Field, t *resourcev1.DeviceToleration) {
	declaredToleration(at, t)
	switch value := at.Child("value"); {
	case t.Operator == resourcev1.DeviceTolerationOpExists && t.Value != "":
		value.Invalid(t.Value, "must be empty for operator `Exists`")
	case t.Operator == resourcev1.DeviceTolerationOpEqual:
		check.Valid(value, t.Value, validation.IsValidLabelValue)
	}
}

// declaredToleration checks all of a toleration but the value.
//
//upstream:pkg/apis/resource/v1.Validate_DeviceToleration
func declaredToleration(at check.Field, t *resourcev1.DeviceToleration) {
	check.IfSet(at.Child("key"), t.Key, check.LabelName)
	check.OneOf(at.Child("operator"), t.Operator, resourcev1.DeviceTolerationOpEqual, resourcev1.DeviceTolerationOpExists)
	if t.Effect != "" {
		check.OneOf(at.Child("effect"), t.Effect, taintEffects...)
	}
}

// validateClaimStatus checks the consumers of a claim, the status of its devices, and a new allocation. An existing allocation
// is immutable.
//
//upstream:pkg/apis/resource/validation.validateResourceClaimStatusUpdate
func validateClaimStatus(c, old *resourcev1.ResourceClaim) (errs field.ErrorList) {
	status, s := check.Object(&errs).Child("status"), &c.Status
	allocated := allocatedDevices(c)
	set(status.Child("reservedFor"), s.ReservedFor, resourcev1.ResourceClaimReservedForMaxSize, consumer,
		func(r *resourcev1.ResourceClaimConsumerReference) types.UID { return r.UID })
	set(status.Child("devices"), s.Devices, -1,
		func(at check.Field, d *resourcev1.AllocatedDeviceStatus) { deviceStatus(at, d, allocated) },
		func(d *resourcev1.AllocatedDeviceStatus) deviceID { return idOf(d.Driver, d.Pool, d.Device, d.ShareID) })
	reservations(status.Child("reservedFor"), c, old)
	switch at := status.Child("allocation"); {
	case s.Allocation == nil:
	case old.Status.Allocation == nil:
		allocation(at, s.Allocation, requestNames(&c.Spec.Devices))
	case !equality.Semantic(s.Allocation, old.Status.Allocation):
		at.Invalid(nil, "field cannot be modified once set")
	}
	return errs
}

//upstream:pkg/apis/resource/validation.validateResourceClaimUserReference
func consumer(at check.Field, r *resourcev1.ResourceClaimConsumerReference) {
	check.Required(at.Child("resource"), r.Resource)
	check.Required(at.Child("name"), r.Name)
	check.Required(at.Child("uid"), r.UID)
}

// reservations checks that only an allocated claim is reserved, and that a deleted one has no new reservations.
//
//upstream:pkg/apis/resource/validation.validateResourceClaimStatusUpdate
func reservations(at check.Field, c, old *resourcev1.ResourceClaim) {
	s := &c.Status
	check.Forbid(at, len(s.ReservedFor) > 0 && s.Allocation == nil, "may not be specified when `allocated` is not set")
	if len(s.ReservedFor) == 0 || s.Allocation == nil || c.DeletionTimestamp == nil {
		return
	}
	var was fieldrules.Seen[resourcev1.ResourceClaimConsumerReference]
	for _, r := range old.Status.ReservedFor {
		was.Add(r)
	}
	isNew := func(r resourcev1.ResourceClaimConsumerReference) bool { return !was.Has(r) }
	check.Forbid(at, slices.ContainsFunc(s.ReservedFor, isNew),
		"new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set")
}

// deviceID identifies a device, or the share of one.
type deviceID struct{ driver, pool, device, share string }

func (id deviceID) String() string {
	name := id.driver + "/" + id.pool + "/" + id.device
	if id.share != "" {
		name += "/" + id.share
	}
	return name
}

// internal returns the value that kube-apiserver quotes in errors.
func (id deviceID) internal() any {
	return struct{ Driver, Pool, Device, ShareID string }{id.driver, id.pool, id.device, id.share}
}

func idOf(driver, pool, device string, share *string) deviceID {
	return deviceID{driver, pool, device, columns.OrEmpty(share)}
}

//upstream:pkg/apis/resource/validation.validateAllocationResult
//upstream:pkg/apis/resource/validation.validateDeviceAllocationResult
//upstream:pkg/apis/resource/validation.validateDeviceAllocationConfiguration
//upstream:pkg/apis/resource/validation.validateAllocationConfigSource
func allocation(at check.Field, a *resourcev1.AllocationResult, names map[string]bool) {
	devices, selector := at.Child("devices"), at.Child("nodeSelector")
	list(devices.Child("results"), a.Devices.Results, resourcev1.AllocationResultsMaxSize,
		func(at check.Field, r *resourcev1.DeviceRequestAllocationResult) { allocationResult(at, r, names) })
	list(devices.Child("config"), a.Devices.Config, 2*resourcev1.DeviceConfigMaxSize, func(at check.Field, k *resourcev1.DeviceAllocationConfiguration) {
		check.OneOf(at.Child("source"), k.Source, resourcev1.AllocationConfigSourceClaim, resourcev1.AllocationConfigSourceClass)
		references(at.Child("requests"), k.Requests, names)
		configuration(at.Child("opaque"), k.Opaque)
	})
	if a.NodeSelector != nil {
		podspec.NodeSelector(selector, a.NodeSelector, false)
	}
}

//upstream:pkg/apis/resource/validation.validateDeviceRequestAllocationResult
func allocationResult(at check.Field, r *resourcev1.DeviceRequestAllocationResult, names map[string]bool) {
	pool := at.Child("pool")
	reference(at.Child("request"), r.Request, names)
	check.AttacherName(at.Child("driver"), r.Driver)
	check.Required(pool, r.Pool)
	if r.Pool != "" {
		pool.Report(validate.ResourcePoolName(context.Background(), operation.Operation{}, pool.Path.Field(), &r.Pool, nil)...)
	}
	list(at.Child("tolerations"), r.Tolerations, -1, deviceToleration)
	deviceName(at, r.Device, (*string)(r.ShareID))
	bindings(at, r.BindingConditions, r.BindingFailureConditions)
}

//upstream:pkg/apis/resource/validation.validateDeviceStatus
func deviceStatus(at check.Field, d *resourcev1.AllocatedDeviceStatus, allocated map[deviceID]bool) {
	conditions := at.Child("conditions")
	check.DriverName(at.Child("driver"), d.Driver)
	poolName(at.Child("pool"), d.Pool)
	deviceName(at, d.Device, d.ShareID)
	if id := idOf(d.Driver, d.Pool, d.Device, d.ShareID); !allocated[id] {
		at.Invalid(id.internal(), "must be an allocated device in the claim")
	}
	if n := len(d.Conditions); n > resourcev1.AllocatedDeviceStatusMaxConditions {
		conditions.TooMany(n, resourcev1.AllocatedDeviceStatusMaxConditions)
	}
	conditions.Report(metav1validation.ValidateConditions(d.Conditions, conditions.Path.Field())...)
	if d.Data != nil && len(d.Data.Raw) > 0 {
		jsonObject(at.Child("data"), d.Data.Raw, resourcev1.AllocatedDeviceStatusDataMaxLength)
	}
	check.Optional(at.Child("networkData"), d.NetworkData, networkData)
}

//upstream:pkg/apis/resource/validation.validateNetworkDeviceData
func networkData(at check.Field, n resourcev1.NetworkDeviceData) {
	if len(n.InterfaceName) > resourcev1.NetworkDeviceDataInterfaceNameMaxLength {
		at.Child("interfaceName").TooLong(resourcev1.NetworkDeviceDataInterfaceNameMaxLength)
	}
	if len(n.HardwareAddress) > resourcev1.NetworkDeviceDataHardwareAddressMaxLength {
		at.Child("hardwareAddress").TooLong(resourcev1.NetworkDeviceDataHardwareAddressMaxLength)
	}
	set(at.Child("ips"), n.IPs, resourcev1.NetworkDeviceDataMaxIPs,
		func(at check.Field, ip *string) {
			at.Report(validation.IsValidInterfaceAddress(at.Path.Field(), *ip)...)
		},
		func(ip *string) string { return *ip })
}

//upstream:pkg/printers/internalversion.resourceClaimState
func claimCell(c *resourcev1.ResourceClaim) string {
	var states []string
	if c.DeletionTimestamp != nil {
		states = append(states, "deleted")
	}
	switch {
	case c.Status.Allocation != nil && len(c.Status.ReservedFor) > 0:
		states = append(states, "allocated", "reserved")
	case c.Status.Allocation != nil:
		states = append(states, "allocated")
	case c.DeletionTimestamp == nil:
		states = append(states, "pending")
	}
	return strings.Join(states, ",")
}
