package podspec

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// resourceClaims checks the resource claims of a pod.
//
//upstream:pkg/apis/core/validation.validatePodResourceClaims
func (r *rules) resourceClaims(list check.Field, claims []corev1.PodResourceClaim) {
	if r.pod != nil && len(claims) > 0 {
		if _, static := r.pod.Annotations[corev1.MirrorPodAnnotationKey]; static {
			list.Report(field.Forbidden(field.NewPath(""), "static pods do not support resource claims"))
			return
		}
	}
	var names fieldrules.Seen[string]
	for i := range claims {
		at, c := list.Index(i), &claims[i]
		if c.Name != "" && !names.Add(c.Name) {
			at.Child("name").Duplicate(c.Name)
		} else {
			check.DNSLabel(at.Child("name"), c.Name)
		}
		switch claim, template := c.ResourceClaimName != nil, c.ResourceClaimTemplateName != nil; {
		case claim && template:
			at.Invalid(fieldrules.Internal(*c), "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
		case !claim && !template:
			at.Invalid(fieldrules.Internal(*c), "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
		}
		check.Optional(at.Child("resourceClaimName"), c.ResourceClaimName, check.DNSName)
		check.Optional(at.Child("resourceClaimTemplateName"), c.ResourceClaimTemplateName, check.DNSName)
	}
}

// claimNames checks that containers and the pod only refer to resource claims of the pod, and to each once.
func claimNames(spec check.Field, s *corev1.PodSpec) {
	for at, c := range each(s) {
		if claims := c.Resources.Claims; len(claims) > 0 {
			containerClaims(at.in(spec).Child("resources").Child("claims"), claims, s.ResourceClaims)
		}
	}
	if r := s.Resources; r != nil && len(r.Claims) > 0 && (s.OS == nil || s.OS.Name != corev1.Windows) {
		containerClaims(spec.Child("resources").Child("claims"), r.Claims, s.ResourceClaims)
	}
}

// maxListedClaims is how many claims of a pod the error for each unknown one lists.
const maxListedClaims = 100

// containerClaims checks the claims of a container, of those that its pod has.
//
//upstream:pkg/apis/core/validation.validateResourceClaimNames
func containerClaims(list check.Field, claims []corev1.ResourceClaim, pod []corev1.PodResourceClaim) {
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
			at.Required("")
			continue
		}
		key := c.Name
		if c.Request != "" {
			key += "/" + c.Request
		}
		repeated := !names.Add(c.Name)
		switch {
		case requests.Has(corev1.ResourceClaim{Name: c.Name}):
			at.Duplicate(c.Name)
		case c.Request == "" && repeated, requests.Has(c):
			at.Duplicate(key)
		case c.Request != "":
			check.DNSLabel(at.Child("request"), c.Request)
		}
		requests.Add(c)
		if _, found := slices.BinarySearch(known, c.Name); !found {
			missing := field.NotFound(at.Path.Field(), c.Name)
			missing.Detail = "must be one of the names in pod.spec.resourceClaims"
			if len(known) == 0 {
				missing.Detail += " which is empty"
			} else {
				missing.Detail += ": " + strings.Join(known[:min(len(known), maxListedClaims)], ", ")
			}
			if len(known) > maxListedClaims {
				missing.Detail += ", …"
			}
			at.Report(missing)
		}
	}
}
