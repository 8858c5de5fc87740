package resource

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// Access authorizes the fields of claims that not every writer of a claim may set.
type Access struct {
	// Authorizer authorizes changes of an allocation and of the status of devices.
	Authorizer authorizer.UnconditionalAuthorizer
	// Namespace returns a namespace. Admin access needs a label of the claim's namespace.
	Namespace func(ctx context.Context, name string) (*corev1.Namespace, error)
}

// requests authorizes the requests of a new claim or template.
//
//upstream:pkg/registry/resource.AuthorizedForAdmin
func (a Access) requests(ctx context.Context, requests []resourcev1.DeviceRequest, namespace string) field.ErrorList {
	i := slices.IndexFunc(requests, func(r resourcev1.DeviceRequest) bool {
		return r.Exactly != nil && r.Exactly.AdminAccess != nil && *r.Exactly.AdminAccess
	})
	if i < 0 {
		return nil
	}
	return a.admin(ctx, namespace, fieldrules.Spec.ChildField("devices").Child("requests").Index(i).Child("adminAccess"))
}

// status authorizes an update of the status of a claim.
//
//upstream:pkg/registry/resource/resourceclaim.resourceclaimStatusStrategy.ValidateUpdate
func (a Access) status(ctx context.Context, c, old *resourcev1.ResourceClaim) field.ErrorList {
	errs := a.adminResults(ctx, c, old)
	errs = append(errs, a.binding(ctx, &c.Status, &old.Status)...)
	if c.Status.Allocation != nil {
		errs = append(errs, a.devices(ctx, &c.Status, &old.Status)...)
	}
	return errs
}

// adminResults authorizes admin access in a new allocation.
//
//upstream:pkg/registry/resource.AuthorizedForAdminStatus
func (a Access) adminResults(ctx context.Context, c, old *resourcev1.ResourceClaim) field.ErrorList {
	i := adminResult(c.Status.Allocation)
	if i < 0 || adminResult(old.Status.Allocation) >= 0 {
		return nil
	}
	return a.admin(ctx, c.Namespace,
		fieldrules.Status.ChildField("allocation").Child("devices", "results").Index(i).Child("adminAccess"))
}

// adminResult returns the index of the first device with admin access, or -1.
//
//upstream:pkg/registry/resource.adminRequested
func adminResult(a *resourcev1.AllocationResult) int {
	if a == nil {
		return -1
	}
	return slices.IndexFunc(a.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool {
		return r.AdminAccess != nil && *r.AdminAccess
	})
}

// admin checks that a namespace permits admin access.
func (a Access) admin(ctx context.Context, namespace string, at *field.Path) field.ErrorList {
	ns, err := a.Namespace(ctx, namespace)
	if err != nil {
		return field.ErrorList{field.InternalError(at, fmt.Errorf("could not retrieve namespace to verify admin access: %w", err))}
	}
	if ns.Labels[resourcev1.DRAAdminNamespaceLabelKey] != "true" {
		return field.ErrorList{field.Forbidden(at, fmt.Sprintf(
			"admin access to devices requires the `%s: true` label on the containing namespace", resourcev1.DRAAdminNamespaceLabelKey))}
	}
	return nil
}

// binding authorizes changes of allocation and reservedFor, by a permission in the whole cluster.
//
//upstream:pkg/registry/resource.AuthorizedForBinding
func (a Access) binding(ctx context.Context, s, old *resourcev1.ResourceClaimStatus) field.ErrorList {
	if equality.Semantic(s.Allocation, old.Allocation) && equality.Semantic(s.ReservedFor, old.ReservedFor) {
		return nil
	}
	at := fieldrules.Status.ChildField("allocation")
	request, err := filters.GetAuthorizerAttributes(ctx)
	if err != nil {
		return field.ErrorList{field.InternalError(at, fmt.Errorf("cannot build authorizer attributes: %w", err))}
	}
	verb := request.GetVerb()
	if err := a.authorize(ctx, &subresource{Attributes: request, verb: verb, name: resourcev1.SubresourceBinding}); err != nil {
		return field.ErrorList{field.Forbidden(at, fmt.Sprintf(
			`changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="%s" permission: %s`, verb, err))}
	}
	return nil
}

// devices authorizes changes of devices, by a permission for each driver.
//
//upstream:pkg/registry/resource.AuthorizedForDeviceStatus
//upstream:pkg/registry/resource.checkDriverAuthorization
func (a Access) devices(ctx context.Context, s, old *resourcev1.ResourceClaimStatus) field.ErrorList {
	drivers := changedDrivers(s.Devices, old.Devices)
	if len(drivers) == 0 {
		return nil
	}
	at := fieldrules.Status.ChildField("devices")
	request, err := filters.GetAuthorizerAttributes(ctx)
	if err != nil {
		return field.ErrorList{field.InternalError(at, fmt.Errorf("cannot build authorizer attributes: %w", err))}
	}
	verbs := []string{resourcev1.VerbPrefixArbitraryNode + request.GetVerb()}
	if onNode(request.GetUser(), allocatedNode(s.Allocation)) {
		verbs = slices.Insert(verbs, 0, resourcev1.VerbPrefixAssociatedNode+request.GetVerb())
	}
	var errs field.ErrorList
	for _, driver := range drivers {
		var denied error // by the first verb
		for _, verb := range verbs {
			err := a.authorize(ctx, &subresource{Attributes: request, verb: verb, name: resourcev1.SubresourceDriver,
				namespace: request.GetNamespace(), object: driver})
			if err == nil {
				denied = nil
				break
			}
			if denied == nil {
				denied = err
			}
		}
		if denied != nil {
			errs = append(errs, field.Forbidden(at, fmt.Sprintf(
				`changing status.devices requires resource="resourceclaims/driver", verb="%s" permission: %s`, verbs, denied)))
		}
	}
	return errs
}

// changedDrivers returns the drivers of the devices with a new, changed or removed status, in order.
//
//upstream:pkg/registry/resource.getModifiedDrivers
func changedDrivers(devices, old []resourcev1.AllocatedDeviceStatus) []string {
	drivers, was := map[string]bool{}, map[deviceID]resourcev1.AllocatedDeviceStatus{}
	for _, d := range old {
		was[idOf(d.Driver, d.Pool, d.Device, d.ShareID)] = d
	}
	for _, d := range devices {
		id := idOf(d.Driver, d.Pool, d.Device, d.ShareID)
		if before, ok := was[id]; !ok || !equality.Semantic(before, d) {
			drivers[d.Driver] = true
		}
		delete(was, id)
	}
	for id := range was {
		drivers[id.driver] = true
	}
	return slices.Sorted(maps.Keys(drivers))
}

// allocatedNode returns the name of the only node that an allocation selects, or "".
//
//upstream:pkg/registry/resource.nodeNameFromAllocation
func allocatedNode(a *resourcev1.AllocationResult) string {
	if a == nil || a.NodeSelector == nil || len(a.NodeSelector.NodeSelectorTerms) != 1 {
		return ""
	}
	term := a.NodeSelector.NodeSelectorTerms[0]
	if len(term.MatchExpressions) > 0 || len(term.MatchFields) != 1 {
		return ""
	}
	f := term.MatchFields[0]
	if f.Key != "metadata.name" || f.Operator != corev1.NodeSelectorOpIn || len(f.Values) != 1 {
		return ""
	}
	return f.Values[0]
}

// onNode reports whether a user is a service account with a token for a pod on a node.
//
//upstream:pkg/registry/resource.saAssociatedWithAllocatedNode
func onNode(u user.Info, node string) bool {
	if node == "" {
		return false
	}
	if _, _, err := serviceaccount.SplitUsername(u.GetName()); err != nil {
		return false
	}
	names := u.GetExtra()[serviceaccount.NodeNameKey]
	return len(names) == 1 && names[0] == node && len(apivalidation.NameIsDNSSubdomain(node, false)) == 0
}

// authorize returns an error if the authorizer does not allow a request.
//
//upstream:pkg/registry/resource.checkAuthorization
func (a Access) authorize(ctx context.Context, request authorizer.Attributes) error {
	decision, message, err := a.Authorizer.Authorize(ctx, request)
	switch {
	case decision == authorizer.DecisionAllow:
		return nil
	case err != nil && message != "":
		message = fmt.Sprintf("%v: %s", err, message)
	case err != nil:
		message = err.Error()
	}
	return responsewriters.ForbiddenStatusError(request, message)
}

// subresource is a request for a subresource of claims that only authorization knows.
//
//upstream:pkg/registry/resource.syntheticSubresourceAttrs
type subresource struct {
	authorizer.Attributes
	verb, name        string
	namespace, object string
}

func (s *subresource) GetVerb() string        { return s.verb }
func (s *subresource) GetSubresource() string { return s.name }
func (s *subresource) GetNamespace() string   { return s.namespace }
func (s *subresource) GetName() string        { return s.object }
