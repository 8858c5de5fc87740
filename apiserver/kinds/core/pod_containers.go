package core

import (
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// containerStatuses checks the status of the containers of a pod.
//
//upstream:pkg/apis/core/validation.ValidatePodStatusUpdate
func containerStatuses(p, old *corev1.Pod) field.ErrorList {
	var errs field.ErrorList
	is, was := &p.Status, &old.Status
	anyRestart := restartsAll(&old.Spec)
	for _, list := range [...]struct {
		name       string
		now, was   []corev1.ContainerStatus
		spec       []corev1.Container // of the new pod
		before     []corev1.Container
		anyRestart bool
	}{
		{"containerStatuses", is.ContainerStatuses, was.ContainerStatuses, p.Spec.Containers, old.Spec.Containers, anyRestart},
		{"initContainerStatuses", is.InitContainerStatuses, was.InitContainerStatuses, p.Spec.InitContainers,
			old.Spec.InitContainers, anyRestart},
		{"ephemeralContainerStatuses", is.EphemeralContainerStatuses, was.EphemeralContainerStatuses, nil, nil, false},
	} {
		at := fieldrules.Status.Child(list.name)
		if !list.anyRestart {
			errs = append(errs, stayTerminated(list.now, list.was, list.before, old.Spec.RestartPolicy, &at)...)
		}
		errs = append(errs, containerUsers(list.now, p.Spec.OS, &at)...)
		if list.name == "ephemeralContainerStatuses" {
			errs = append(errs, noDevices(list.now, &at)...)
		} else {
			errs = append(errs, containerDevices(list.now, list.spec, is.ExtendedResourceClaimStatus, &at)...)
		}
	}
	return errs
}

// restartsAll reports whether the exit of a container may restart all containers of its pod.
//
//upstream:pkg/api/v1/pod.AllContainersCouldRestart
func restartsAll(s *corev1.PodSpec) bool {
	for _, list := range [...][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			for _, rule := range list[i].RestartPolicyRules {
				if rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers {
					return true
				}
			}
		}
	}
	return false
}

// stayTerminated checks that containers stay terminated that do not restart. An ephemeral container, which is not in the
// spec, does not.
//
//upstream:pkg/apis/core/validation.ValidateContainerStateTransition
//upstream:pkg/apis/core/validation.ValidateInitContainerStateTransition
//upstream:pkg/apis/core/validation.ValidateEphemeralContainerStateTransition
func stayTerminated(now, was []corev1.ContainerStatus, spec []corev1.Container, policy corev1.RestartPolicy,
	fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range was {
		name, end := was[i].Name, was[i].State.Terminated
		if end == nil || !slices.ContainsFunc(now, func(s corev1.ContainerStatus) bool {
			return s.Name == name && s.State.Terminated == nil
		}) {
			continue
		}
		j := slices.IndexFunc(spec, func(c corev1.Container) bool { return c.Name == name })
		if j < 0 || !restarts(&spec[j], policy, end.ExitCode) {
			at := fldPath.Index(i)
			errs = append(errs, field.Forbidden(at.ChildField("state"), "may not be transitioned to non-terminated state"))
		}
	}
	return errs
}

// restarts reports whether a container restarts after it has ended with an exit code, in a pod with this policy.
//
//upstream:pkg/api/v1/pod.ContainerShouldRestart
//upstream:pkg/api/v1/pod.FindMatchingContainerRestartRule
func restarts(c *corev1.Container, pod corev1.RestartPolicy, code int32) bool {
	policy := string(pod)
	if c.RestartPolicy != nil {
		for _, rule := range c.RestartPolicyRules {
			if rule.ExitCodes != nil && matchesExit(rule.ExitCodes, code) {
				return true
			}
		}
		switch *c.RestartPolicy {
		case corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyOnFailure, corev1.ContainerRestartPolicyNever:
			policy = string(*c.RestartPolicy)
		}
	}
	switch policy {
	case string(corev1.RestartPolicyNever):
		return false
	case string(corev1.RestartPolicyOnFailure):
		return code != 0
	}
	return true
}

func matchesExit(r *corev1.ContainerRestartRuleOnExitCodes, code int32) bool {
	switch r.Operator {
	case corev1.ContainerRestartRuleOnExitCodesOpIn:
		return slices.Contains(r.Values, code)
	case corev1.ContainerRestartRuleOnExitCodesOpNotIn:
		return !slices.Contains(r.Values, code)
	}
	return false
}

// containerUsers checks the users that run containers.
//
//upstream:pkg/apis/core/validation.validateContainerStatusUsers
func containerUsers(list []corev1.ContainerStatus, os *corev1.PodOS, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range list {
		if list[i].User == nil || list[i].User.Linux == nil {
			continue
		}
		user, item := list[i].User.Linux, fldPath.Index(i)
		at := item.ChildField("user").Child("linux")
		switch {
		case os == nil, os.Name == corev1.Linux:
		case os.Name == corev1.Windows:
			errs = append(errs, field.Forbidden(at, "cannot be set for a windows pod"))
			continue
		default:
			continue
		}
		if user.UID < 0 || user.UID > math.MaxUint32 {
			errs = append(errs, field.Invalid(at.Child("uid"), user.UID,
				fmt.Sprintf("must be between 0 and %d, inclusive", int64(math.MaxUint32))))
		}
		for _, m := range validation.IsValidGroupID(user.GID) {
			errs = append(errs, field.Invalid(at.Child("gid"), user.GID, m))
		}
		for j, g := range user.SupplementalGroups {
			for _, m := range validation.IsValidGroupID(g) {
				errs = append(errs, field.Invalid(at.Child("supplementalGroups").Index(j), g, m))
			}
		}
	}
	return errs
}

// noDevices checks that containers have no status of devices.
//
//upstream:pkg/apis/core/validation.validateContainerStatusNoAllocatedResourcesStatus
func noDevices(list []corev1.ContainerStatus, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range list {
		if at := fldPath.Index(i); len(list[i].AllocatedResourcesStatus) > 0 {
			errs = append(errs, field.Forbidden(at.ChildField("allocatedResourcesStatus"), "must not be specified in container status"))
		}
	}
	return errs
}

// maxHealthMessage is the length of the longest message about the health of a device.
const maxHealthMessage = corev1.ResourceHealthMessageMaxLength

// containerDevices checks the status of the devices of containers.
//
//upstream:pkg/apis/core/validation.validateContainerStatusAllocatedResourcesStatus
func containerDevices(list []corev1.ContainerStatus, spec []corev1.Container, extended *corev1.PodExtendedResourceClaimStatus,
	fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range list {
		item := fldPath.Index(i)
		statuses := item.Child("allocatedResourcesStatus")
		for j := range list[i].AllocatedResourcesStatus {
			s, at := &list[i].AllocatedResourcesStatus[j], statuses.Index(j)
			if k := slices.IndexFunc(spec, func(c corev1.Container) bool { return c.Name == list[i].Name }); k >= 0 {
				errs = append(errs, deviceOf(&spec[k], s.Name, extended, &at)...)
			}
			errs = append(errs, deviceHealth(s.Resources, &at)...)
		}
	}
	return errs
}

// claimPrefix begins the name of a status of a device that comes from a resource claim.
const claimPrefix = "claim:"

// deviceOf checks that a container asks for a resource or a claim.
//
//upstream:pkg/apis/core/validation.validateContainerStatusAllocatedResourcesStatus
func deviceOf(c *corev1.Container, name corev1.ResourceName, extended *corev1.PodExtendedResourceClaimStatus,
	fldPath *fieldrules.Path) field.ErrorList {
	claim, claimed := strings.CutPrefix(string(name), claimPrefix)
	if !claimed {
		if _, ok := c.Resources.Requests[name]; ok {
			return nil
		}
		return field.ErrorList{field.Invalid(fldPath.ChildField("name"), name, "must match one of the container's resource requests")}
	}
	for _, own := range c.Resources.Claims {
		if claim == own.Name && own.Request == "" || own.Request != "" && claim == own.Name+"/"+own.Request {
			return nil
		}
	}
	if extendedDevice(claim, c, extended) {
		return nil
	}
	return field.ErrorList{field.Invalid(fldPath.ChildField("name"), name, "must match one of the container's resource claims as "+
		"'claim:<claimName>/<requestName>' when container.resources.claims[*].request is set or 'claim:<claimName>' when it is empty")}
}

// extendedDevice reports whether a claim is the one for the extended resources of a container.
//
//upstream:pkg/apis/core/validation.matchesExtendedResourceClaimStatus
//upstream:pkg/apis/core/validation.parseResourceStatusName
func extendedDevice(claim string, c *corev1.Container, s *corev1.PodExtendedResourceClaimStatus) bool {
	name, request, _ := strings.Cut(claim, "/")
	if s == nil || name == "" || request == "" || name != s.ResourceClaimName {
		return false
	}
	for _, m := range s.RequestMappings {
		if m.ContainerName != c.Name || m.RequestName != request {
			continue
		}
		if q, ok := c.Resources.Requests[corev1.ResourceName(m.ResourceName)]; ok && !q.IsZero() {
			return true
		}
	}
	return false
}

// deviceHealth checks the health of devices.
//
//upstream:pkg/apis/core/validation.validateContainerStatusAllocatedResourcesStatus
func deviceHealth(list []corev1.ResourceHealth, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	var ids fieldrules.Seen[corev1.ResourceID]
	all := fldPath.Child("resources")
	for i, r := range list {
		at := all.Index(i)
		errs = append(errs, fieldrules.Supported(r.Health, &at, "health", corev1.ResourceHealthStatusHealthy,
			corev1.ResourceHealthStatusUnhealthy, corev1.ResourceHealthStatusUnknown)...)
		if r.Message != nil && *r.Message == "" {
			errs = append(errs, field.Required(at.ChildField("message"), "must be non-empty if specified"))
		} else if r.Message != nil && len(*r.Message) > maxHealthMessage {
			errs = append(errs, field.TooLong(at.ChildField("message"), *r.Message, maxHealthMessage))
		}
		if !ids.Add(r.ResourceID) {
			errs = append(errs, field.Duplicate(at.ChildField("resourceID"), r.ResourceID))
		}
	}
	return errs
}
