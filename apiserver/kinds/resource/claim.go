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
		ValidateCreate: func(c *resourcev1.ResourceClaim) field.ErrorList {
			return deviceClaim(&c.Spec.Devices, &fieldrules.Spec)
		},
		ValidateUpdate: func(c, old *resourcev1.ResourceClaim) field.ErrorList {
			return fieldrules.ImmutableUnquoted(c.Spec, old.Spec, &fieldrules.Root, "spec")
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
		Validate: func(t *resourcev1.ResourceClaimTemplate) field.ErrorList {
			at := fieldrules.Spec.Child("metadata")
			errs := fieldrules.TemplateMetadata(t.Spec.ObjectMeta, &at)
			in := fieldrules.Spec.Child("spec")
			return append(errs, deviceClaim(&t.Spec.Spec.Devices, &in)...)
		},
		ValidateUpdate: func(t, old *resourcev1.ResourceClaimTemplate) field.ErrorList {
			return fieldrules.ImmutableStruct(t.Spec, old.Spec, &fieldrules.Root, "spec")
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
func deviceClaim(c *resourcev1.DeviceClaim, w *fieldrules.Path) field.ErrorList {
	at := w.Child("devices")
	names := requestNames(c)
	requests, constraints, configs := at.Child("requests"), at.Child("constraints"), at.Child("config")
	errs := set(c.Requests, resourcev1.DeviceRequestsMaxSize, &requests, deviceRequest,
		func(r *resourcev1.DeviceRequest) string { return r.Name })
	errs = append(errs, list(c.Constraints, resourcev1.DeviceConstraintsMaxSize, &constraints, func(k *resourcev1.DeviceConstraint, w *fieldrules.Path) field.ErrorList {
		errs := references(k.Requests, names, w)
		if k.MatchAttribute != nil {
			errs = append(errs, qualifiedAttribute(*k.MatchAttribute, w, "matchAttribute")...)
		}
		if k.DistinctAttribute != nil {
			errs = append(errs, qualifiedAttribute(*k.DistinctAttribute, w, "distinctAttribute")...)
		}
		if k.MatchAttribute != nil || k.DistinctAttribute != nil {
			return errs
		}
		return append(errs, field.Required(w.Field(), `exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set`))
	})...)
	return append(errs, list(c.Config, resourcev1.DeviceConfigMaxSize, &configs, func(k *resourcev1.DeviceClaimConfiguration, w *fieldrules.Path) field.ErrorList {
		return append(references(k.Requests, names, w), configuration(k.Opaque, w)...)
	})...)
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
func references(refs []string, names map[string]bool, w *fieldrules.Path) field.ErrorList {
	at := w.Child("requests")
	return set(refs, resourcev1.DeviceRequestsMaxSize, &at,
		func(name *string, w *fieldrules.Path) field.ErrorList { return reference(*name, names, w, "") },
		func(name *string) string { return *name })
}

//upstream:pkg/apis/resource/validation.validateRequestNameRef
func reference(name string, names map[string]bool, w *fieldrules.Path, in string) field.ErrorList {
	unknown := field.Invalid(w.ChildField(in), name, "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'")
	if strings.Count(name, "/") > 1 {
		return field.ErrorList{unknown}
	}
	var errs field.ErrorList
	for part := range strings.SplitSeq(name, "/") {
		errs = append(errs, fieldrules.Invalid(validation.IsDNS1123Label(part), part, w, in)...)
	}
	if !names[name] {
		errs = append(errs, unknown)
	}
	return errs
}

// deviceRequest checks that a request has either exactly or firstAvailable.
//
//upstream:pkg/apis/resource/validation.validateDeviceRequest
//upstream:pkg/apis/resource/validation.validateDeviceSubRequest
func deviceRequest(r *resourcev1.DeviceRequest, w *fieldrules.Path) field.ErrorList {
	const one = "exactly one of `exactly` or `firstAvailable` is required"
	errs := fieldrules.Invalid(validation.IsDNS1123Label(r.Name), r.Name, w, "name")
	switch e := r.Exactly; {
	case e == nil && len(r.FirstAvailable) == 0:
		return append(errs, field.Required(w.Field(), one))
	case e != nil && len(r.FirstAvailable) > 0:
		errs = append(errs, field.Invalid(w.Field(), nil, one+", but multiple fields are set"))
		return append(errs, declaredRules(r, w)...)
	case e != nil:
		at := w.Child("exactly")
		errs = append(errs, className(e.DeviceClassName, validation.IsDNS1123Subdomain, &at)...)
		return append(errs, deviceQuery(e.Selectors, e.AllocationMode, e.Count, e.Tolerations, &at)...)
	}
	at := w.Child("firstAvailable")
	return append(errs, set(r.FirstAvailable, resourcev1.FirstAvailableDeviceRequestMaxSize, &at,
		func(s *resourcev1.DeviceSubRequest, w *fieldrules.Path) field.ErrorList {
			errs := fieldrules.Invalid(validation.IsDNS1123Label(s.Name), s.Name, w, "name")
			errs = append(errs, className(s.DeviceClassName, content.IsDNS1123Subdomain, w)...)
			return append(errs, deviceQuery(s.Selectors, s.AllocationMode, s.Count, s.Tolerations, w)...)
		}, func(s *resourcev1.DeviceSubRequest) string { return s.Name })...)
}

// declaredRules checks what kube-apiserver checks by generated code, in requests with both exactly and firstAvailable too.
//
//upstream:pkg/apis/resource/v1.Validate_DeviceSubRequest
//upstream:pkg/apis/resource/v1.Validate_ExactDeviceRequest
func declaredRules(r *resourcev1.DeviceRequest, w *fieldrules.Path) field.ErrorList {
	exactly, list := w.Child("exactly"), w.Child("firstAvailable")
	errs := append(allocationMode(r.Exactly.AllocationMode, &exactly), deviceTolerations(r.Exactly.Tolerations, &exactly, declaredToleration)...)
	return append(errs, set(r.FirstAvailable, resourcev1.FirstAvailableDeviceRequestMaxSize, &list,
		func(s *resourcev1.DeviceSubRequest, w *fieldrules.Path) field.ErrorList {
			errs := append(className(s.DeviceClassName, content.IsDNS1123Subdomain, w), allocationMode(s.AllocationMode, w)...)
			return append(errs, deviceTolerations(s.Tolerations, w, declaredToleration)...)
		}, func(s *resourcev1.DeviceSubRequest) string { return s.Name })...)
}

func deviceTolerations(tolerations []resourcev1.DeviceToleration, w *fieldrules.Path,
	check func(t *resourcev1.DeviceToleration, w *fieldrules.Path) field.ErrorList) field.ErrorList {
	var errs field.ErrorList
	at := w.Child("tolerations")
	for i := range tolerations {
		item := at.Index(i)
		errs = append(errs, check(&tolerations[i], &item)...)
	}
	return errs
}

//upstream:pkg/apis/resource/validation.validateDeviceClass
func className(name string, check func(string) []string, w *fieldrules.Path) field.ErrorList {
	if name == "" {
		return fieldrules.Required(name, w, "deviceClassName")
	}
	return fieldrules.Invalid(check(name), name, w, "deviceClassName")
}

func allocationMode(mode resourcev1.DeviceAllocationMode, w *fieldrules.Path) field.ErrorList {
	return fieldrules.Supported(mode, w, "allocationMode", resourcev1.DeviceAllocationModeAll, resourcev1.DeviceAllocationModeExactCount)
}

// deviceQuery checks the fields that requests and subrequests share.
//
//upstream:pkg/apis/resource/validation.validateExactDeviceRequest
//upstream:pkg/apis/resource/validation.validateDeviceAllocationMode
func deviceQuery(selectors []resourcev1.DeviceSelector, mode resourcev1.DeviceAllocationMode, count int64,
	tolerations []resourcev1.DeviceToleration, w *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, deviceSelectors(selectors, w)...)
	switch {
	case mode == resourcev1.DeviceAllocationModeAll && count != 0:
		errs = append(errs, field.Invalid(w.ChildField("count"), count, "must not be specified when allocationMode is 'All'"))
	case mode == resourcev1.DeviceAllocationModeExactCount && count <= 0:
		errs = append(errs, field.Invalid(w.ChildField("count"), count, "must be greater than zero"))
	}
	errs = append(errs, allocationMode(mode, w)...)
	return append(errs, deviceTolerations(tolerations, w, deviceToleration)...)
}

//upstream:pkg/apis/resource/validation.validDeviceTaintEffects
var taintEffects = []resourcev1.DeviceTaintEffect{resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNone}

//upstream:pkg/apis/resource/validation.validateDeviceToleration
func deviceToleration(t *resourcev1.DeviceToleration, w *fieldrules.Path) field.ErrorList {
	errs := declaredToleration(t, w)
	switch {
	case t.Operator == resourcev1.DeviceTolerationOpExists && t.Value != "":
		errs = append(errs, field.Invalid(w.ChildField("value"), t.Value, "must be empty for operator `Exists`"))
	case t.Operator == resourcev1.DeviceTolerationOpEqual:
		errs = append(errs, fieldrules.Invalid(validation.IsValidLabelValue(t.Value), t.Value, w, "value")...)
	}
	return errs
}

// declaredToleration checks all of a toleration but the value.
//
//upstream:pkg/apis/resource/v1.Validate_DeviceToleration
func declaredToleration(t *resourcev1.DeviceToleration, w *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = append(errs, fieldrules.LabelName(t.Key, w, "key")...)
	}
	errs = append(errs, fieldrules.OneOf(t.Operator, w, "operator", resourcev1.DeviceTolerationOpEqual, resourcev1.DeviceTolerationOpExists)...)
	if t.Effect != "" {
		errs = append(errs, fieldrules.OneOf(t.Effect, w, "effect", taintEffects...)...)
	}
	return errs
}

// validateClaimStatus checks the consumers of a claim, the status of its devices, and a new allocation. An existing allocation
// is immutable.
//
//upstream:pkg/apis/resource/validation.validateResourceClaimStatusUpdate
//upstream:pkg/apis/resource/validation.validateResourceClaimUserReference
func validateClaimStatus(c, old *resourcev1.ResourceClaim) field.ErrorList {
	s, at := &c.Status, fieldrules.Status.Child("reservedFor")
	errs := set(s.ReservedFor, resourcev1.ResourceClaimReservedForMaxSize, &at,
		func(r *resourcev1.ResourceClaimConsumerReference, w *fieldrules.Path) field.ErrorList {
			errs := append(fieldrules.Required(r.Resource, w, "resource"), fieldrules.Required(r.Name, w, "name")...)
			return append(errs, fieldrules.Required(r.UID, w, "uid")...)
		}, func(r *resourcev1.ResourceClaimConsumerReference) types.UID { return r.UID })
	allocated := allocatedDevices(c)
	devices := fieldrules.Status.Child("devices")
	errs = append(errs, set(s.Devices, -1, &devices,
		func(d *resourcev1.AllocatedDeviceStatus, w *fieldrules.Path) field.ErrorList {
			return deviceStatus(d, allocated, w)
		},
		func(d *resourcev1.AllocatedDeviceStatus) deviceID { return idOf(d.Driver, d.Pool, d.Device, d.ShareID) })...)
	switch {
	case len(s.ReservedFor) == 0:
	case s.Allocation == nil:
		errs = append(errs, field.Forbidden(at.Field(), "may not be specified when `allocated` is not set"))
	case c.DeletionTimestamp != nil:
		was := map[resourcev1.ResourceClaimConsumerReference]bool{}
		for _, r := range old.Status.ReservedFor {
			was[r] = true
		}
		for _, r := range s.ReservedFor {
			if !was[r] {
				errs = append(errs, field.Forbidden(at.Field(), "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"))
				break
			}
		}
	}
	switch {
	case s.Allocation == nil:
	case old.Status.Allocation != nil:
		errs = append(errs, onceSet(s.Allocation, old.Status.Allocation)...)
	default:
		errs = append(errs, allocation(s.Allocation, requestNames(&c.Spec.Devices))...)
	}
	return errs
}

// onceSet checks that an update keeps the allocation.
func onceSet(now, was *resourcev1.AllocationResult) field.ErrorList {
	if equality.Semantic(now, was) {
		return nil
	}
	return field.ErrorList{field.Invalid(fieldrules.Status.ChildField("allocation"), nil, "field cannot be modified once set")}
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
//upstream:pkg/apis/resource/validation.validateDeviceRequestAllocationResult
//upstream:pkg/apis/resource/validation.validateDeviceAllocationConfiguration
//upstream:pkg/apis/resource/validation.validateAllocationConfigSource
func allocation(a *resourcev1.AllocationResult, names map[string]bool) field.ErrorList {
	in := fieldrules.Status.Child("allocation")
	at := in.Child("devices")
	results, configs := at.Child("results"), at.Child("config")
	errs := list(a.Devices.Results, resourcev1.AllocationResultsMaxSize, &results, func(r *resourcev1.DeviceRequestAllocationResult, w *fieldrules.Path) field.ErrorList {
		errs := reference(r.Request, names, w, "request")
		errs = append(errs, fieldrules.AttacherName(r.Driver, w, "driver")...)
		errs = append(errs, fieldrules.Required(r.Pool, w, "pool")...)
		if r.Pool != "" {
			errs = append(errs, validate.ResourcePoolName(context.Background(), operation.Operation{}, w.ChildField("pool"), &r.Pool, nil)...)
		}
		errs = append(errs, deviceTolerations(r.Tolerations, w, deviceToleration)...)
		errs = append(errs, deviceName(r.Device, (*string)(r.ShareID), w)...)
		return append(errs, bindings(r.BindingConditions, r.BindingFailureConditions, w)...)
	})
	errs = append(errs, list(a.Devices.Config, 2*resourcev1.DeviceConfigMaxSize, &configs, func(k *resourcev1.DeviceAllocationConfiguration, w *fieldrules.Path) field.ErrorList {
		errs := fieldrules.OneOf(k.Source, w, "source", resourcev1.AllocationConfigSourceClaim, resourcev1.AllocationConfigSourceClass)
		errs = append(errs, references(k.Requests, names, w)...)
		return append(errs, configuration(k.Opaque, w)...)
	})...)
	if a.NodeSelector != nil {
		podspec.NodeSelector(check.Field{Path: in.Child("nodeSelector")}.Into(&errs), a.NodeSelector, false)
	}
	return errs
}

//upstream:pkg/apis/resource/validation.validateDeviceStatus
//upstream:pkg/apis/resource/validation.validateNetworkDeviceData
func deviceStatus(d *resourcev1.AllocatedDeviceStatus, allocated map[deviceID]bool, w *fieldrules.Path) field.ErrorList {
	errs := append(fieldrules.DriverName(d.Driver, w, "driver"), poolName(d.Pool, w, "pool")...)
	errs = append(errs, deviceName(d.Device, d.ShareID, w)...)
	if id := idOf(d.Driver, d.Pool, d.Device, d.ShareID); !allocated[id] {
		errs = append(errs, field.Invalid(w.Field(), id.internal(), "must be an allocated device in the claim"))
	}
	if n := len(d.Conditions); n > resourcev1.AllocatedDeviceStatusMaxConditions {
		errs = append(errs, field.TooMany(w.ChildField("conditions"), n, resourcev1.AllocatedDeviceStatusMaxConditions))
	}
	errs = append(errs, metav1validation.ValidateConditions(d.Conditions, w.ChildField("conditions"))...)
	if d.Data != nil && len(d.Data.Raw) > 0 {
		errs = append(errs, jsonObject(d.Data.Raw, resourcev1.AllocatedDeviceStatusDataMaxLength, w, "data")...)
	}
	n := d.NetworkData
	if n == nil {
		return errs
	}
	at := w.Child("networkData")
	if len(n.InterfaceName) > resourcev1.NetworkDeviceDataInterfaceNameMaxLength {
		errs = append(errs, field.TooLong(at.ChildField("interfaceName"), "", resourcev1.NetworkDeviceDataInterfaceNameMaxLength))
	}
	if len(n.HardwareAddress) > resourcev1.NetworkDeviceDataHardwareAddressMaxLength {
		errs = append(errs, field.TooLong(at.ChildField("hardwareAddress"), "", resourcev1.NetworkDeviceDataHardwareAddressMaxLength))
	}
	ips := at.Child("ips")
	return append(errs, set(n.IPs, resourcev1.NetworkDeviceDataMaxIPs, &ips,
		func(ip *string, w *fieldrules.Path) field.ErrorList {
			return validation.IsValidInterfaceAddress(w.Field(), *ip)
		},
		func(ip *string) string { return *ip })...)
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
