package podspec

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// resourceClaims checks the resource claims of a pod.
//
//upstream:pkg/apis/core/validation.validatePodResourceClaims
func (r *rules) resourceClaims(claims []corev1.PodResourceClaim, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	list := fldPath.Child("resourceClaims")
	if r.pod != nil && len(claims) > 0 {
		if _, static := r.pod.Annotations[corev1.MirrorPodAnnotationKey]; static {
			return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods do not support resource claims")}
		}
	}
	var names fieldrules.Seen[string]
	for i := range claims {
		c, at := &claims[i], list.Index(i)
		if c.Name != "" && !names.Add(c.Name) {
			errs = append(errs, field.Duplicate(at.ChildField("name"), c.Name))
		} else {
			errs = append(errs, fieldrules.DNSLabel(c.Name, &at, "name")...)
		}
		switch claim, template := c.ResourceClaimName != nil, c.ResourceClaimTemplateName != nil; {
		case claim && template:
			errs = append(errs, field.Invalid(at.Field(), fieldrules.Internal(*c),
				"at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"))
		case !claim && !template:
			errs = append(errs, field.Invalid(at.Field(), fieldrules.Internal(*c),
				"must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"))
		}
		if c.ResourceClaimName != nil {
			errs = append(errs, fieldrules.DNSName(*c.ResourceClaimName, &at, "resourceClaimName")...)
		}
		if c.ResourceClaimTemplateName != nil {
			errs = append(errs, fieldrules.DNSName(*c.ResourceClaimTemplateName, &at, "resourceClaimTemplateName")...)
		}
	}
	return errs
}

// claimNames checks that containers and the pod only refer to resource claims of the pod, and to each once.
func claimNames(s *corev1.PodSpec, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	each(s, fldPath, func(c *corev1.Container, at *fieldrules.Path) {
		if claims := c.Resources.Claims; len(claims) > 0 {
			resources := at.Child("resources")
			errs = append(errs, containerClaims(claims, s.ResourceClaims, &resources)...)
		}
	})
	if r := s.Resources; r != nil && len(r.Claims) > 0 && (s.OS == nil || s.OS.Name != corev1.Windows) {
		at := fldPath.Child("resources")
		errs = append(errs, containerClaims(r.Claims, s.ResourceClaims, &at)...)
	}
	return errs
}

// maxListedClaims is how many claims of a pod the error for each unknown one lists.
const maxListedClaims = 100

// containerClaims checks the claims of a container, of those that its pod has.
//
//upstream:pkg/apis/core/validation.validateResourceClaimNames
func containerClaims(claims []corev1.ResourceClaim, pod []corev1.PodResourceClaim, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	list := fldPath.Child("claims")
	var known []string
	for i := range pod {
		if pod[i].Name != "" {
			known = append(known, pod[i].Name)
		}
	}
	slices.Sort(known)
	known = slices.Compact(known)
	var names fieldrules.Seen[string]
	var requests fieldrules.Seen[corev1.ResourceClaim]
	for i, c := range claims {
		at := list.Index(i)
		if c.Name == "" {
			errs = append(errs, field.Required(at.Field(), ""))
			continue
		}
		key := c.Name
		if c.Request != "" {
			key += "/" + c.Request
		}
		repeated := !names.Add(c.Name)
		switch {
		case requests.Has(corev1.ResourceClaim{Name: c.Name}):
			errs = append(errs, field.Duplicate(at.Field(), c.Name))
		case c.Request == "" && repeated, requests.Has(c):
			errs = append(errs, field.Duplicate(at.Field(), key))
		case c.Request != "":
			errs = append(errs, fieldrules.DNSLabel(c.Request, &at, "request")...)
		}
		requests.Add(c)
		if _, found := slices.BinarySearch(known, c.Name); !found {
			missing := field.NotFound(at.Field(), c.Name)
			missing.Detail = "must be one of the names in pod.spec.resourceClaims"
			if len(known) == 0 {
				missing.Detail += " which is empty"
			} else {
				missing.Detail += ": " + strings.Join(known[:min(len(known), maxListedClaims)], ", ")
			}
			if len(known) > maxListedClaims {
				missing.Detail += ", …"
			}
			errs = append(errs, missing)
		}
	}
	return errs
}
